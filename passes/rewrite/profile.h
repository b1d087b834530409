// What rewriting cost and did: filled by the drivers, printed as the Rewriter Profile, or written as JSON.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tscompile {

class JsonWriter;

// Adds the seconds of its life to a number.
class TimedScope {
 public:
  explicit TimedScope(double& seconds) : seconds_(seconds), start_(std::chrono::steady_clock::now()) {}
  ~TimedScope() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  TimedScope(const TimedScope&) = delete;
  TimedScope& operator=(const TimedScope&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_;
};

// One rewriter and those inside it. All times are seconds.
class Profile {
 public:
  // What one rewrite did in all passes. Tried but never applied: `applied` is 0.
  struct Rewrite {
    std::string name;
    double seconds = 0;
    uint64_t applied = 0;
    uint64_t created = 0;  // nodes
  };

  struct Sequence {
    double callback = 0;                 // telling observers
    uint64_t before = 0, after = 0;      // nodes
    std::vector<Profile> children = {};  // in the order of execution

    // The next child.
    Profile& add(std::string name);
  };

  struct Pass {
    double seconds = 0;
    double inGlobalRewrites = 0;
    double toposort = 0;
    uint64_t nodes = 0;
    std::vector<std::pair<std::string, uint64_t>> applied = {};  // how often each rewrite was, in order of first use

    void count(std::string_view rewrite, uint64_t times = 1);
  };
  struct Equilibrium {
    double seconds = 0;  // without what starting and ending it costs
    double toposort = 0;
    double inNodeRewriters = 0;
    double inGraphRewriters = 0;
    uint64_t start = 0, end = 0, most = 0;  // nodes
    std::vector<Pass> passes = {};
    std::vector<Rewrite> rewrites = {};

    // The entry of this name, made if there is none. Valid until the next call.
    Rewrite& rewrite(std::string_view name);
  };

  struct Walking {
    uint64_t start = 0, end = 0, changed = 0;  // nodes
    double toposort = 0, loop = 0, callback = 0;
  };

  struct Merge {
    uint64_t failed = 0, merged = 0, constants = 0;
    double replace = 0, validate = 0, callback = 0;
  };

  struct Fusion {
    uint64_t iterations = 0, replacements = 0, inconsistent = 0;
    double validate = 0, callback = 0, toposort = 0;
  };

  struct Gemm {
    uint64_t iterations = 0, replacements = 0, notRemoved = 0, inconsistentMake = 0, inconsistentReplace = 0;
    double canonicalize = 0, factorCan = 0, factorList = 0, toposort = 0, validate = 0, callback = 0;
  };

  struct InPlace {
    uint64_t nodesBefore = 0, replaceCalls = 0, validateCalls = 0, inconsistent = 0;
    std::vector<std::pair<uint64_t, uint64_t>> byRank = {};  // rank, how many; by rank
  };

  // A function that changes a graph, of which no more is known.
  struct Function {};

  using Detail = std::variant<Function, Sequence, Equilibrium, Walking, Merge, Fusion, Gemm, InPlace>;

  std::string name;
  size_t index = 0;  // among the children of its sequence, in order of execution
  double seconds = 0;
  double validate = 0;
  Detail detail = Function();

  // Makes it one of this kind and returns what is to be filled.
  template <class T>
  T& become() {
    return detail.emplace<T>();
  }

  // "EquilibriumGraphRewriter".
  std::string_view className() const;
  // The block that begins with "Rewriter Profile".
  std::string text() const;
  void writeJson(JsonWriter& json) const;
  std::string json() const;
  // Adds what another run did: times, counts and nodes of what has the same name; the rest is appended. Profiles of
  // other kinds add their times only.
  void merge(const Profile& other);
};

// The block above it: what one compilation cost. A part lies inside the one that it is indented below.
struct CompileProfile {
  std::string message;               // which compilation
  std::string system = "tscompile";  // in front of "rewriter time"
  std::string call = "forward";      // what the calls call
  std::string linkerDoes = "code generation, building";
  uint64_t calls = 0;
  double inCalls = 0;
  double total = 0;
  uint64_t nodes = 0;
  double rewriter = 0, validate = 0, linker = 0, import = 0;
  std::optional<std::pair<std::string, double>> gradient;  // what computes it, and the time in all its calls

  std::string text() const;
  void writeJson(JsonWriter& json) const;
};

}  // namespace tscompile
