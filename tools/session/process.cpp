#include "tools/session/process.h"

#include "frontend/files/file_io.h"
#include "ir/support/check.h"
#include "tools/session/session.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <new>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

namespace tscompile {
namespace {

// All of this is touched by signal handlers.
std::atomic<bool> gInterrupted{false};
std::atomic<bool> gRunning{false};  // an InterruptScope lives
std::atomic<int> gSignal{0};
std::atomic<int> gExitAtAlarm{0};
bool gIsTool = false;  // set before there are threads
const char* volatile gAlarmMessage = nullptr;
CrashWriter gCrashWriter = nullptr;

constexpr long kGraceMicroseconds = 80'000;

void say(const char* text) {
  ssize_t ignored = write(STDERR_FILENO, text, std::strlen(text));
  static_cast<void>(ignored);
}

[[noreturn]] void leave(int code) {
  removeUnfinishedFiles();
  _exit(code);
}

void arm(int64_t microseconds) {
  if (microseconds <= 0) microseconds = 1;
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(microseconds / 1'000'000);
  timer.it_value.tv_usec = static_cast<suseconds_t>(microseconds % 1'000'000);
  setitimer(ITIMER_REAL, &timer, nullptr);
}

void onInterrupt(int number) {
  int before = gSignal.exchange(number);
  if (!gRunning.load() || before != 0) leave(128 + number);
  gExitAtAlarm = 128 + number;
  gAlarmMessage = "tscompile: error: the run was interrupted\n";
  gInterrupted = true;
  arm(kGraceMicroseconds);
}

void onAlarm(int) {
  if (!gRunning.load()) return;
  if (const char* message = gAlarmMessage) say(message);
  leave(gExitAtAlarm);
}

void onBusError(int) {
  say("tscompile: error: a file changed its size while it was read\n");
  leave(5);
}

void onInternalError(const char* what, const char* file, int line) {
  std::fprintf(stderr, "tscompile: internal error: %s (%s:%d)\ntscompile: note: this is a bug of tscompile\n", what,
               file, line);
  if (!gCrashWriter) leave(kExitInternal);
  const std::string path = gCrashWriter(std::string(what) + " (" + file + ":" + std::to_string(line) + ")");
  if (!path.empty())
    std::fprintf(stderr, "tscompile: note: %s has what is needed to repeat it, without weights\n", path.c_str());
  leave(kExitInternal);
}

// Exceptions that nobody can catch, as they come from where none may leave. Lack of memory is not a mistake of ours.
void onTerminate() {
  try {
    if (std::exception_ptr e = std::current_exception()) std::rethrow_exception(e);
  } catch (const std::bad_alloc&) {
    say("tscompile: error: out of memory\n");
    leave(exitCode(ErrorKind::Limit));
  } catch (...) {
  }
  std::abort();
}

// Before anything that allocates.
[[gnu::constructor(101)]] void catchFromTheStart() { std::set_terminate(onTerminate); }

void handle(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

}  // namespace

bool isToolProcess() { return gIsTool; }

void reportCrashesWith(CrashWriter writer) { gCrashWriter = writer; }

void prepareProcess() {
  gIsTool = true;
  // A file opened later must not become standard output.
  for (int fd = 0; fd <= 2; ++fd)
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
  // Whoever started this process may have blocked them.
  sigset_t needed;
  sigemptyset(&needed);
  for (int number : {SIGINT, SIGTERM, SIGALRM, SIGBUS}) sigaddset(&needed, number);
  sigprocmask(SIG_UNBLOCK, &needed, nullptr);
  handle(SIGINT, onInterrupt);
  handle(SIGTERM, onInterrupt);
  handle(SIGALRM, onAlarm);
  handle(SIGBUS, onBusError);
  setInternalErrorHandler(onInternalError);
}

InterruptScope::InterruptScope(std::optional<std::chrono::nanoseconds> timeLimit) {
  gInterrupted = false;
  gSignal = 0;
  if (timeLimit) {
    gExitAtAlarm = exitCode(ErrorKind::Limit);
    gAlarmMessage = "tscompile: error: the run took longer than its time limit\n";
    arm(timeLimit->count() / 1000 + kGraceMicroseconds);
  }
  gRunning = true;
}

InterruptScope::~InterruptScope() {
  gRunning = false;
  itimerval off{};
  setitimer(ITIMER_REAL, &off, nullptr);
}

const std::atomic<bool>& InterruptScope::interrupted() const { return gInterrupted; }
int InterruptScope::signal() const { return gSignal; }

}  // namespace tscompile
