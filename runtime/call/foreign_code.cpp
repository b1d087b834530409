#include "runtime/call/foreign_code.h"

#include <atomic>

namespace tscompile {
namespace {

thread_local const ForeignCode* tRunning = nullptr;
std::atomic<const ForeignCode*> gRunning{nullptr};

}  // namespace

ForeignCode::ForeignCode(std::string_view what, std::string_view nameSpace, std::string_view name)
    : what(what), nameSpace(nameSpace), name(name), own_(tRunning), shared_(gRunning.exchange(this)) {
  tRunning = this;
}

ForeignCode::~ForeignCode() {
  tRunning = own_;
  gRunning = shared_;
}

const ForeignCode* ForeignCode::current() { return tRunning ? tRunning : gRunning.load(); }

}  // namespace tscompile
