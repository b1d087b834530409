#include "python/core/run_settings.h"

#include "ir/support/quantities.h"

#include <algorithm>
#include <csignal>
#include <nanobind/stl/string.h>
#include <pthread.h>
#include <string>

namespace nb = nanobind;

namespace tscompile::python {
namespace {

pthread_t mainThread;
std::atomic<bool> interrupted{false};
struct sigaction pythons;  // what Python does on SIGINT, while some run of the main thread listens

extern "C" void onInterrupt(int signal) {
  interrupted = true;
  pythons.sa_handler(signal);  // remembers it for when Python runs again
}

void listen(const struct sigaction& now) {
  pythons = now;
  interrupted = false;
  struct sigaction ours {};
  ours.sa_handler = onInterrupt;
  sigemptyset(&ours.sa_mask);
  sigaction(SIGINT, &ours, nullptr);
}

// What a limit is given as: a number, or a text as the command line takes it; throws TypeError and ValueError.
template <class Limit, class OfText>
std::optional<Limit> limitOfText(const char* name, const char* what, nb::handle given, OfText&& ofText) {
  PyErr_Clear();
  if (!nb::isinstance<nb::str>(given))
    throw nb::type_error(
        (std::string(name) + " takes " + what + ", not " + nb::cast<std::string>(given.type().attr("__name__")))
            .c_str());
  const std::string text = nb::cast<std::string>(given);
  std::optional<Limit> limit = ofText(text);
  if (!limit) throw nb::value_error((std::string(name) + " takes " + what + ", not '" + text + "'").c_str());
  return limit;
}

}  // namespace

void rememberMainThread() { mainThread = pthread_self(); }

InterruptScope::InterruptScope() {
  if (!pthread_equal(pthread_self(), mainThread)) return;
  struct sigaction now {};
  sigaction(SIGINT, nullptr, &now);
  if (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) return;
  listens_ = true;
  if (now.sa_handler == onInterrupt) return;
  installed_ = true;
  listen(now);
}

InterruptScope::~InterruptScope() {
  if (!installed_) return;
  struct sigaction now {};
  sigaction(SIGINT, nullptr, &now);
  if (now.sa_handler == onInterrupt) sigaction(SIGINT, &pythons, nullptr);  // else Python has set another since
}

const std::atomic<bool>* InterruptScope::flag() const { return listens_ ? &interrupted : nullptr; }

std::optional<std::chrono::nanoseconds> timeLimitOf(nb::handle given) {
  constexpr double kCentury = 100 * 365.25 * 24 * 3600;
  if (given.is_none()) return std::nullopt;
  const double seconds = nb::isinstance<nb::str>(given) ? -1 : PyFloat_AsDouble(given.ptr());
  if (nb::isinstance<nb::str>(given) || PyErr_Occurred())
    return limitOfText<std::chrono::nanoseconds>("time_limit", "seconds, or a text such as '500ms'", given,
                                                 parseDuration);
  if (!(seconds <= kCentury)) return std::nullopt;
  return std::chrono::nanoseconds(static_cast<int64_t>(std::max(seconds, 0.0) * 1e9));
}

std::optional<uint64_t> memoryLimitOf(nb::handle given) {
  if (given.is_none()) return std::nullopt;
  if (PyIndex_Check(given.ptr())) {
    nb::object number = nb::steal(PyNumber_Index(given.ptr()));
    const unsigned long long bytes = number.is_valid() ? PyLong_AsUnsignedLongLong(number.ptr()) : 0;
    if (!PyErr_Occurred()) return bytes;
    PyErr_Clear();
    throw nb::value_error("memory_limit takes bytes from 0 up to 2**64 - 1");
  }
  return limitOfText<uint64_t>("memory_limit", "bytes, or a text such as '512M'", given, parseSize);
}

int threadsOf(int given) {
  if (given >= 0) return given;
  throw nb::value_error(("threads takes a number from 1 up, or 0 for all, not " + std::to_string(given)).c_str());
}

}  // namespace tscompile::python
