#include "tools/session/process.h"

#include "frontend/files/file_io.h"
#include "ir/support/check.h"
#include "runtime/plugin/running_plugin.h"
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
std::atomic<bool> gTellsOfPlugins{true};
constexpr int kCrashes[] = {SIGSEGV, SIGFPE, SIGILL, SIGABRT, SIGBUS};
const char* volatile gAlarmMessage = nullptr;

std::atomic<int64_t> gGrace{0};  // microseconds

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
  arm(gGrace);
}

void onAlarm(int) {
  if (!gRunning.load()) return;
  if (const char* message = gAlarmMessage) say(message);
  leave(gExitAtAlarm);
}

// The name of what has ended a process that it is only a part of.
bool sayPlugin(const char* what) {
  const PluginKey* plugin = RunningPlugin::current();
  if (!plugin) return false;
  for (const char* part : {"tscompile: error: the plugin ", plugin->ns.c_str(), "::", plugin->name.c_str(), what, "\n"})
    say(part);
  return true;
}

void onCrash(int number) {
  const char* what = number == SIGSEGV   ? " has crashed: SIGSEGV"
                     : number == SIGFPE  ? " has crashed: SIGFPE"
                     : number == SIGILL  ? " has crashed: SIGILL"
                     : number == SIGABRT ? " has crashed: SIGABRT"
                                         : " has crashed: SIGBUS";
  if (sayPlugin(what)) leave(exitCode(ErrorKind::Model));
  if (number == SIGBUS) {
    say("tscompile: error: a file changed its size while it was read\n");
    leave(5);
  }
  signal(number, SIG_DFL);
  raise(number);
}

// Of a process that somebody else ends.
void onExit() {
  if (gTellsOfPlugins && sayPlugin(" has ended the process")) leave(exitCode(ErrorKind::Model));
}

void onInternalError(const char* what, const char* file, int line) {
  std::fprintf(stderr, "tscompile: internal error: %s (%s:%d)\ntscompile: note: this is a bug of tscompile\n", what,
               file, line);
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

void handle(int number, void (*handler)(int), int flags = 0) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  action.sa_flags |= flags;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

}  // namespace

bool isToolProcess() { return gIsTool; }

void leaveCrashesToOthers() {
  gTellsOfPlugins = false;
  for (int number : kCrashes) signal(number, SIG_DFL);
}

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
  // A plugin's stack may be what has run out.
  static char stack[1 << 16];
  stack_t other{};
  other.ss_sp = stack;
  other.ss_size = sizeof(stack);
  sigaltstack(&other, nullptr);
  handle(SIGBUS, onCrash, SA_ONSTACK);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which report crashes themselves
  for (int number : kCrashes) handle(number, onCrash, SA_ONSTACK);
#endif
  std::atexit(onExit);
  setInternalErrorHandler(onInternalError);
}

InterruptScope::InterruptScope(std::optional<std::chrono::nanoseconds> timeLimit, std::chrono::microseconds grace) {
  gGrace = grace.count();
  gInterrupted = false;
  gSignal = 0;
  if (timeLimit) {
    gExitAtAlarm = exitCode(ErrorKind::Limit);
    gAlarmMessage = "tscompile: error: the run took longer than its time limit\n";
    arm(timeLimit->count() / 1000 + kGrace.count());
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
