#include "runtime/call/run_observer.h"

#include <utility>

namespace tscompile {

thread_local RunObserver* RunObserver::current_ = nullptr;

RunObserver* RunObserver::current() { return current_; }

ObserverScope::ObserverScope(RunObserver& observer) : previous_(std::exchange(RunObserver::current_, &observer)) {}
ObserverScope::~ObserverScope() { RunObserver::current_ = previous_; }

}  // namespace tscompile
