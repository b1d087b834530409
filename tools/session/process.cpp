#include "tools/session/process.h"

#include "frontend/files/file_io.h"
#include "ir/support/check.h"
#include "ir/support/file_pages.h"
#include "ir/values/heap_account.h"
#include "runtime/call/foreign_code.h"
#include "runtime/trtllm/builtin/shard_group.h"
#include "tools/session/session.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fcntl.h>
#include <new>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

namespace tscompile {
namespace {

using Clock = std::chrono::steady_clock;

// All of this is touched by signal handlers.
std::atomic<bool> gInterrupted{false};
std::atomic<bool> gRunning{false};  // an InterruptScope lives
std::atomic<int> gSignal{0};
std::atomic<bool> gJson{false};
bool gIsTool = false;  // set before there are threads
std::optional<Clock::time_point> gDeadline;
CrashWriter gCrashWriter = nullptr;
std::atomic<bool> gTellsOfPlugins{true};
constexpr int kCrashes[] = {SIGSEGV, SIGFPE, SIGILL, SIGABRT};

std::atomic<int64_t> gGrace{0};  // microseconds
// Of the time limit, so that a run says itself where it was: nobody but runs can.
std::chrono::microseconds gDeadlineGrace{0};

void say(std::string_view text) {
  ssize_t ignored = write(STDERR_FILENO, text.data(), text.size());
  static_cast<void>(ignored);
}

// Both forms of what a handler says, in which nothing is to be made or escaped.
struct LastWords {
  const char *text, *json;
};
#define TS_SCHEMA "\"schema\": \"tscompile.diagnostic/1\", "
#define TS_LAST_WORDS(kind, message)                                                                     \
  LastWords {                                                                                            \
    "tscompile: error: " message "\n",                                                                   \
        "{" TS_SCHEMA "\"severity\": \"error\", \"kind\": \"" kind "\", \"message\": \"" message "\"}\n" \
  }
constexpr LastWords kInterrupted = TS_LAST_WORDS("interrupted", "the run was interrupted");
#define TS_OUT_OF_TIME "the command took longer than its time limit (--limit-time)"
constexpr LastWords kOutOfTime = TS_LAST_WORDS("limit", TS_OUT_OF_TIME);
constexpr LastWords kOutOfMemory = TS_LAST_WORDS("limit", "out of memory");
constexpr LastWords kFileChanged = TS_LAST_WORDS("io", "a file became shorter while it was read");
constexpr LastWords kLibraryCut = TS_LAST_WORDS("io", "a library is shorter than it says, or its disk cannot be read");

void say(LastWords words) { say(gJson.load() ? words.json : words.text); }

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

void disarm() {
  itimerval off{};
  setitimer(ITIMER_REAL, &off, nullptr);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // crashes are reported by the sanitizer
#else
constexpr bool kSanitized = false;
#endif

void onInterrupt(int number) {
  int before = gSignal.exchange(number);
  if (!gRunning.load() || before != 0) leave(128 + number);
  gInterrupted = true;
  arm(gGrace);
}

// Which plugin, operator or library of others has ended a process of which it is only a part.
bool sayForeign(const char* what, const char* kind = "model") {
  const ForeignCode* code = ForeignCode::current();
  if (!code) return false;
  const bool json = gJson.load();
  for (std::string_view part :
       {std::string_view(json ? "{" TS_SCHEMA "\"severity\": \"error\", \"kind\": \"" : ""),
        std::string_view(json ? kind : ""), std::string_view(json ? "\", \"message\": \"" : "tscompile: error: "),
        code->what, code->nameSpace, std::string_view(code->nameSpace.empty() ? "" : "::"), code->name,
        std::string_view(what), std::string_view(json ? "\"}\n" : "\n")})
    say(part);
  return true;
}

void onAlarm(int) {
  if (int number = gSignal.load()) {
    if (!gRunning.load()) return;
    say(kInterrupted);
    leave(128 + number);
  }
  if (!sayForeign(" was running when the command reached its time limit", "limit")) say(kOutOfTime);
  leave(exitCode(ErrorKind::Limit));
}

void onCrash(int number) {
  const char* what = number == SIGSEGV  ? " has crashed: SIGSEGV"
                     : number == SIGFPE ? " has crashed: SIGFPE"
                     : number == SIGILL ? " has crashed: SIGILL"
                                        : " has crashed: SIGABRT";
  if (sayForeign(what)) leave(exitCode(ErrorKind::Model));
  signal(number, SIG_DFL);
  raise(number);
}

void onBusError(int, siginfo_t* info, void*) {
  if (sayForeign(" has crashed: SIGBUS")) leave(exitCode(ErrorKind::Model));
  say(mayShowFile(info->si_addr) ? kFileChanged : kLibraryCut);
  leave(exitCode(ErrorKind::Io));
}

// Of a process that somebody else ends.
void onExit() {
  if (gTellsOfPlugins && sayForeign(" has ended the process")) leave(exitCode(ErrorKind::Model));
}

// Signals that end a process: what it has not finished goes first.
void onEnd(int number) {
  removeUnfinishedFiles();
  signal(number, SIG_DFL);
  raise(number);
}

void armDeadline() {
  if (!gIsTool) return;
  if (gDeadline)
    arm(std::chrono::duration_cast<std::chrono::microseconds>(*gDeadline - Clock::now() + gDeadlineGrace).count());
  else
    disarm();
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

// Exceptions that nobody can catch, as they come from where none may leave: not always can they be looked at. Lack of
// memory is not a mistake of ours.
void onTerminate() {
  if (heapLacked()) {
    say(kOutOfMemory);
    leave(exitCode(ErrorKind::Limit));
  }
  try {
    if (std::exception_ptr e = std::current_exception()) std::rethrow_exception(e);
  } catch (const std::bad_alloc&) {
    say(kOutOfMemory);
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

bool isIgnored(int number) {
  struct sigaction action {};
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

void setHandlerForm(bool json) { gJson = json; }

LimitScope::LimitScope(uint64_t memory, std::optional<std::chrono::nanoseconds> time)
    : budget_(Ref<MemoryBudget>::make(memory)), charged_(budget_.get()) {
  // Operators, rules and what libraries make of themselves, whatever the input is.
  constexpr uint64_t kOwn = uint64_t{24} << 20;
  if (gIsTool) setHeapLimit(memory > UINT64_MAX / 2 ? UINT64_MAX : heapUsed() + memory + kOwn);
  if (time) gDeadline = Clock::now() + *time;
  gDeadlineGrace = {};
  armDeadline();
}

LimitScope::~LimitScope() {
  endTimeLimit();
  if (gIsTool) setHeapLimit(UINT64_MAX);
}

std::optional<std::chrono::nanoseconds> remainingTime() {
  if (!gDeadline) return std::nullopt;
  return std::max(std::chrono::nanoseconds(1), std::chrono::nanoseconds(*gDeadline - Clock::now()));
}

bool isOutOfTime() { return gDeadline && Clock::now() > *gDeadline; }

bool endTimeLimit() {
  const bool inTime = !isOutOfTime();
  gDeadline.reset();
  armDeadline();
  return inTime;
}

const char* timeLimitPassed() { return TS_OUT_OF_TIME; }

bool isToolProcess() { return gIsTool; }

void reportCrashesWith(CrashWriter writer) { gCrashWriter = writer; }

void leaveCrashesToOthers() {
  gTellsOfPlugins = false;
  for (int number : kCrashes) signal(number, SIG_DFL);
  signal(SIGBUS, SIG_DFL);
}

void prepareProcess() {
  gIsTool = true;
  // A file opened later must not become standard output. Where that is closed results are lost: writing them fails.
  for (int fd = 0; fd <= 2; ++fd)
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  // Whoever started this process may have blocked them.
  sigset_t needed;
  sigemptyset(&needed);
  for (int number : {SIGINT, SIGTERM, SIGALRM, SIGBUS, SIGHUP, SIGPIPE, SIGXCPU}) sigaddset(&needed, number);
  sigprocmask(SIG_UNBLOCK, &needed, nullptr);
  handle(SIGINT, onInterrupt);
  handle(SIGTERM, onInterrupt);
  handle(SIGALRM, onAlarm);
  // What was started with a signal ignored goes on doing so, as nohup asks.
  for (int number : {SIGHUP, SIGPIPE, SIGXCPU})
    if (!isIgnored(number)) handle(number, onEnd);
  // All files that belong together are open until they are all written.
  rlimit files{};
  constexpr rlim_t kMostFiles = 65536;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < kMostFiles) {
    files.rlim_cur = std::min(files.rlim_max, kMostFiles);
    setrlimit(RLIMIT_NOFILE, &files);
  }
  // A file that may not grow is an error of writing, which is reported.
  signal(SIGXFSZ, SIG_IGN);
  // Whoever ignores it hears nothing of how its children end.
  signal(SIGCHLD, SIG_DFL);
  // A plugin's stack may be what has run out.
  static char stack[1 << 16];
  stack_t other{};
  other.ss_sp = stack;
  other.ss_size = sizeof(stack);
  sigaltstack(&other, nullptr);
  struct sigaction bus {};
  bus.sa_sigaction = onBusError;
  bus.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGBUS, &bus, nullptr);
  if constexpr (!kSanitized)
    for (int number : kCrashes) handle(number, onCrash, SA_ONSTACK);
  std::atexit(onExit);
  // A command runs one shard, so whom it waits for does not come.
  constexpr std::chrono::seconds kLongestWait(3);
  limitShardWaits(kLongestWait);
  setInternalErrorHandler(onInternalError);
}

InterruptScope::InterruptScope(std::chrono::microseconds grace) {
  gGrace = grace.count();
  gInterrupted = false;
  gSignal = 0;
  gRunning = true;
  gDeadlineGrace = kGrace;
  if (gDeadline) armDeadline();
}

InterruptScope::~InterruptScope() {
  gRunning = false;
  if (gSignal.load() != 0) armDeadline();
}

const std::atomic<bool>& InterruptScope::interrupted() const { return gInterrupted; }
int InterruptScope::signal() const { return gSignal; }

}  // namespace tscompile
