#include "tools/tasks/isolated_checks.h"

#include "runtime/registry.h"
#include "tools/session/session.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace tscompile {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr int kReportFile = 3;
constexpr size_t kLongestLine = 1 << 20;

std::string signalName(int number) {
  const char* name = sigabbrev_np(number);
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

// The tool, started anew. What it writes to standard output goes to standard error: only its report is wanted.
class Child {
 public:
  explicit Child(std::vector<std::string> words) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], kReportFile);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    if (posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv.data(), environ) != 0) pid_ = -1;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    file_ = ends[0];
  }
  Child(const Child&) = delete;
  ~Child() {
    if (file_ >= 0) close(file_);
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  // The next line of the report; nothing at its end, and if none comes before the limit.
  std::optional<std::string> line(std::chrono::nanoseconds limit) {
    Clock::time_point deadline = Clock::now() + limit;
    while (true) {
      if (size_t end = read_.find('\n'); end != std::string::npos) {
        std::string out = read_.substr(0, end);
        read_.erase(0, end + 1);
        return out;
      }
      auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
      pollfd wait{file_, POLLIN, 0};
      int ready = file_ < 0 ? 0 : poll(&wait, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30)));
      if (ready < 0 && errno == EINTR) continue;
      isLate_ = ready == 0;
      if (ready <= 0) return std::nullopt;
      char bytes[4096];
      ssize_t count = read(file_, bytes, sizeof(bytes));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0 || read_.size() > kLongestLine) return std::nullopt;
      read_.append(bytes, static_cast<size_t>(count));
    }
  }

  // Why there is no further line. Ends the process if it has not ended.
  std::string end(std::chrono::nanoseconds limit) {
    if (pid_ <= 0) return "the process that tries it cannot be started";
    if (isLate_) {
      auto seconds = std::chrono::duration<double>(limit).count();
      return fmt::format("it is not done after {:g} s", seconds);
    }
    int status = 0;
    Clock::time_point deadline = Clock::now() + limit;
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      if (Clock::now() > deadline) return "it closes the files of the process";
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    pid_ = -1;
    if (WIFSIGNALED(status)) return fmt::format("it crashes: {}", signalName(WTERMSIG(status)));
    return fmt::format("it ends the process, with exit code {}", WEXITSTATUS(status));
  }

 private:
  pid_t pid_ = -1;
  int file_ = -1;
  bool isLate_ = false;
  std::string read_;
};

// What the processes tell, line by line, put together.
class Collector {
 public:
  Collector(const std::string& path, std::chrono::nanoseconds limit) : path_(path), limit_(limit) {}

  PluginReport run() {
    if (!follow({})) report_.findings.push_back({"", "library", problem_});
    ++report_.checks;
    for (size_t i = 0; i < names_.size(); ++i) checkOne(i);
    return std::move(report_);
  }

 private:
  void checkOne(size_t plugin) {
    ++report_.plugins;
    size_t from = 0;
    while (true) {
      begin("library", 0, true);
      if (follow({std::to_string(plugin), std::to_string(from)})) return;
      report_.findings.push_back({names_[plugin], check_, problem_});
      // A check that was good before and now is not would fail again and again.
      if (isNeeded_ || number_ < from) return;
      from = number_ + 1;
    }
  }

  // False if the process does not end as it should.
  bool follow(const std::vector<std::string>& part) {
    std::vector<std::string> words{"tscompile", "plugins", "check-part", path_};
    words.insert(words.end(), part.begin(), part.end());
    Child child(std::move(words));
    while (std::optional<std::string> line = child.line(limit_)) {
      Json event = Json::parse(*line, nullptr, false);
      if (!event.is_object()) continue;
      if (event.contains("end")) return true;
      read(event);
    }
    problem_ = child.end(limit_);
    return false;
  }

  void begin(std::string check, size_t number, bool isNeeded) {
    check_ = std::move(check), number_ = number, isNeeded_ = isNeeded;
  }
  void read(const Json& event) {
    if (event.contains("plugin")) names_.push_back(textOf(event, "plugin"));
    if (event.contains("note")) report_.notes.push_back(textOf(event, "note"));
    if (event.contains("check")) {
      auto number = event.find("number");
      begin(textOf(event, "check"), number != event.end() && number->is_number_unsigned() ? number->get<size_t>() : 0,
            isTrue(event, "needed"));
      if (isTrue(event, "counts")) ++report_.checks;
    }
    if (event.contains("problem"))
      report_.findings.push_back({textOf(event, "of"), textOf(event, "at"), textOf(event, "problem")});
  }
  // The plugins that are checked can write there as well: nothing is taken to be as it should.
  static std::string textOf(const Json& event, const char* key) {
    auto at = event.find(key);
    return at != event.end() && at->is_string() ? at->get<std::string>() : "";
  }
  static bool isTrue(const Json& event, const char* key) {
    auto at = event.find(key);
    return at != event.end() && at->is_boolean() && at->get<bool>();
  }

  const std::string path_;
  const std::chrono::nanoseconds limit_;
  PluginReport report_;
  std::vector<std::string> names_;  // of plugins
  std::string check_, problem_;     // the check that was begun last
  size_t number_ = 0;
  bool isNeeded_ = true;
};

void tell(const Json& event) {
  std::string line = event.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  for (size_t done = 0; done < line.size();) {
    ssize_t count = write(kReportFile, line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) _exit(kExitInternal);  // the parent is gone
    done += static_cast<size_t>(count);
  }
}

}  // namespace

bool isCheckProcess() { return fcntl(kReportFile, F_GETFD) >= 0; }

PluginReport checkInProcesses(const std::string& path, std::chrono::nanoseconds limit) {
  return Collector(path, limit).run();
}

int runChecksForParent(const std::string& path, std::optional<size_t> plugin, size_t from) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGBUS, SIG_DFL);
  rlimit none{};
  setrlimit(RLIMIT_CORE, &none);
  PluginReport report;
  size_t told = 0;
  auto begin = [&](const char* check, size_t number, bool isNeeded, bool counts) {
    for (; told < report.findings.size(); ++told) {
      const PluginFinding& f = report.findings[told];
      tell({{"of", f.plugin}, {"at", f.check}, {"problem", f.problem}});
    }
    tell({{"check", check}, {"number", number}, {"needed", isNeeded}, {"counts", counts}});
  };
  {
    PluginRegistry registry;
    PluginResult loaded = registry.load(path);
    if (!loaded) report.findings.push_back({"", "library", loaded.message});
    std::vector<PluginCreatorPtr> all = registry.list();
    for (size_t i = 0; !plugin && i < all.size(); ++i) {
      const PluginKey& key = all[i]->key;
      tell({{"plugin", key.text()}});
      if (PluginCreatorPtr other = allPlugins().find(key.ns, key.name, key.version); other && other->key == key)
        report.findings.push_back({key.text(), "library", "a plugin that comes with tscompile has this name"});
    }
    if (plugin && *plugin < all.size())
      checkPlugin(all[*plugin], allOps(), report, {from, [&](size_t number, const char* check, bool isNeeded) {
                                                     begin(check, number, isNeeded, number >= from);
                                                   }});
    begin("closing", 0, true, false);
  }
  for (const std::string& note : report.notes) tell({{"note", note}});
  tell({{"end", true}});
  return kExitDone;
}

}  // namespace tscompile
