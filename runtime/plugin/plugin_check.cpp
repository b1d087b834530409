#include "runtime/plugin/plugin_check.h"

#include "frontend/text/parse.h"
#include "ir/graph/graph.h"
#include "ir/values/random.h"
#include "runtime/plugin/plugin_composite.h"
#include "runtime/plugin/plugin_operators.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <malloc.h>
#include <system_error>
#include <thread>

namespace tscompile {
namespace {

using Inputs = std::vector<PluginInstance::Input>;

// The same bits for a seed in every run.
class Bits {
 public:
  explicit Bits(uint64_t seed) : seed_(seed) {}
  uint64_t next() { return random::bits(seed_, index_++); }

 private:
  uint64_t seed_, index_ = 0;
};

// Values that any plugin can compute with: small integers, numbers around 0.
Tensor sampleTensor(const PluginInstance::Input& in, Bits& random) {
  Tensor t = Tensor::empty(static_cast<DType>(in.dtype), in.sizes);
  bool floating = kFloatingTypes.contains(t.dtype());
  for (int64_t i = 0; i < t.numel(); ++i) {
    uint64_t bits = random.next();
    double v = floating ? random::uniform(bits) * 2 - 1 : static_cast<double>(bits % 3);
    visitDType(t.dtype(), [&]<class T>(T) {
      if constexpr (requires { T(1.0f); }) t.data<T>()[i] = T(static_cast<float>(v));
    });
  }
  return t;
}

// One plugin on one example.
class Checker {
 public:
  Checker(PluginCreatorPtr creator, const OpRegistry& operators, PluginReport& report, const PluginCheckSteps& steps)
      : creator_(std::move(creator)), operators_(operators), report_(report), steps_(steps) {}

  void run() {
    ++report_.plugins;
    bool hasExample = creator_->table().example;
    if (hasExample)
      need("example", [&] { readExample(); });
    else if (!useDefaults())
      return;
    if (!failed_) need("create", [&] { create(); });
    if (!failed_ && !hasExample) need("sizes", [&] { findSizes(); });
    if (failed_) return;
    check("shapes", [&] { shapes(); });
    check("formats", [&] { formats(); });
    check("saved fields", [&] { savedFields(); });
    check("runs", [&] { runs(); });
    check("decomposition", [&] { decomposition(); });
    check("workspace", [&] { workspace(); });
    check("parts", [&] { parts(); });
    check("threads", [&] { threads(); });
    check("leaks", [&] { leaks(); });
  }

 private:
  struct Problem {
    std::string text;
  };
  [[noreturn]] static void fail(std::string text) { throw Problem{std::move(text)}; }

  // Makes a check unless it is one of those that are not wanted.
  template <class F>
  void check(const char* name, F&& body) {
    if (next_ >= steps_.from) make(name, body, false);
    ++next_;
  }
  // The same for one that others need.
  template <class F>
  void need(const char* name, F&& body) {
    size_t before = report_.findings.size();
    make(name, body, true);
    failed_ |= report_.findings.size() != before;
    if (next_++ >= steps_.from) return;
    report_.findings.resize(before);
    --report_.checks;
  }
  template <class F>
  void make(const char* name, F& body, bool isNeeded) {
    if (steps_.begin) steps_.begin(next_, name, isNeeded);
    ++report_.checks;
    try {
      body();
    } catch (const Problem& p) {
      report_.findings.push_back({creator_->key.text(), name, p.text});
    } catch (const std::exception& e) {
      report_.findings.push_back({creator_->key.text(), name, e.what()});
    } catch (...) {
      report_.findings.push_back({creator_->key.text(), name, "it throws"});
    }
  }

  // ---- what to try it on ----

  // Without an example: the fields as they are by default, all inputs alike, of the first ranks and sizes that the
  // shape function takes.
  bool useDefaults() {
    ParsedFields defaults = completeFields({}, *creator_);
    if (!defaults.problems.empty()) {
      report_.notes.push_back(creator_->key.text() + " has mandatory fields and no example: nothing was run");
      return false;
    }
    fields_ = std::move(defaults.fields);
    return true;
  }
  void findSizes() {
    std::string last;
    for (uint32_t rank : {2u, 3u, 1u, 4u})
      for (int64_t size : {4, 6, 8, 16}) {
        inputs_.clear();
        for (const tsc_port& p : creator_->inputs()) inputs_.push_back(inputFor(p, rank, size));
        try {
          plugin_->infer(inputs_);
          return;
        } catch (const ExecutionError& e) {
          last = e.message();
        }
      }
    fail("it takes none of the sizes that were tried, and has no example; the last time: " + last);
  }

  static PluginInstance::Input inputFor(const tsc_port& port, uint32_t rank, int64_t size) {
    if (port.flags & TSC_PORT_OPTIONAL) return {};
    int32_t dtype = TSC_F32;
    if (!(port.dtypes >> TSC_F32 & 1)) dtype = __builtin_ctz(port.dtypes);
    return {dtype, Dims(rank, size), {}, false};
  }

  void readExample() {
    std::string text(tsc::view(askPlugin([&] { return creator_->table().example(); })));
    Diagnostics diagnostics;
    Result<std::unique_ptr<Graph>> graph = parseGraph(text, diagnostics);
    if (!graph) fail("its text cannot be read: " + firstMessage(diagnostics));
    Node* node = nullptr;
    for (Node* n : (*graph)->block()->nodes())
      if (n->kind().name() == creator_->key.name) node = n;
    if (!node) fail("there is no node of it in the text");
    ParsedFields parsed = fieldsOf(*node, *creator_);
    std::string problem;
    std::vector<int> places = PluginOperators::inputsOf(*node, *creator_, problem);
    if (!problem.empty()) parsed.problems.push_back(problem);
    if (!parsed.problems.empty()) fail(problemText(*creator_, parsed.problems));
    fields_ = std::move(parsed.fields);
    for (int place : places) {
      PluginInstance::Input in;
      if (place >= 0) {
        TypePtr type = node->input(static_cast<size_t>(place))->type();
        if (type->isTensor() && type->tensor().hasRank) {
          in.dtype = static_cast<int32_t>(type->tensor().dtype);
          in.sizes = type->tensor().sizes;
        }
        if (in.dtype == TSC_NONE || !allKnown(in.sizes)) fail("the types of its inputs must tell dtype and sizes");
      }
      inputs_.push_back(std::move(in));
    }
  }

  static std::string firstMessage(const Diagnostics& diagnostics) {
    for (const Diagnostic& d : diagnostics.list())
      if (d.severity == Severity::Error) return d.message;
    return "";
  }

  // ---- checks ----

  void create() {
    OperatorProblem problem;
    plugin_ = PluginInstance::create(creator_, fields_, operators_, TSC_BUILDING, "check", problem);
    if (!plugin_) fail(problem.text);
  }

  // What is known of symbolic sizes must hold for the real ones.
  void shapes() {
    std::vector<TensorSpec> real = plugin_->infer(inputs_), again = plugin_->infer(inputs_);
    Inputs symbolic = inputs_;
    for (PluginInstance::Input& in : symbolic)
      for (int64_t& s : in.sizes) s = kUnknownSize;
    std::vector<TensorSpec> general = plugin_->infer(symbolic);
    for (size_t o = 0; o < real.size(); ++o) {
      std::string name(tsc::view(creator_->outputs()[o].name));
      if (real[o].sizes.size() != again[o].sizes.size() ||
          !std::equal(real[o].sizes.begin(), real[o].sizes.end(), again[o].sizes.begin()))
        fail("asked twice, it tells other sizes of the output " + name);
      if (real[o].dtype != general[o].dtype) fail("the type of the output " + name + " depends on sizes");
      if (real[o].sizes.size() != general[o].sizes.size()) fail("the rank of the output " + name + " depends on sizes");
      for (size_t d = 0; d < real[o].sizes.size(); ++d)
        if (differ(real[o].sizes[d], general[o].sizes[d]))
          fail(fmt::format("size {} of the output {} is {} whatever the inputs are, but {} for the example", d, name,
                           general[o].sizes[d], real[o].sizes[d]));
    }
  }

  // supports() must not look at what stands after the position that it is asked for.
  void formats() {
    const tsc_plugin& t = creator_->table();
    if (!t.supports) return;
    Inputs all = inputs_;
    for (const TensorSpec& s : plugin_->infer(inputs_))
      all.push_back({static_cast<int32_t>(s.dtype), s.sizes, {}, false});
    std::vector<tsc_tensor> tensors;
    for (const PluginInstance::Input& in : all)
      tensors.push_back({in.dtype, static_cast<uint32_t>(in.sizes.size()), in.sizes.data(), nullptr});
    void* self = selfForCalls();
    for (size_t position = 0; position < tensors.size(); ++position) {
      auto ask = [&](const std::vector<tsc_tensor>& given) {
        return askPlugin([&] {
          return t.supports(self, position, given.data(), inputs_.size(), given.size() - inputs_.size()) != 0;
        });
      };
      bool answer = ask(tensors);
      for (int32_t other : {TSC_F32, TSC_F16, TSC_I8, TSC_I64}) {
        std::vector<tsc_tensor> changed = tensors;
        for (size_t i = position + 1; i < changed.size(); ++i) changed[i].dtype = other;
        if (ask(changed) != answer) {
          t.destroy(self);
          fail(fmt::format("whether it takes the tensor {} depends on tensors after it", position));
        }
      }
    }
    t.destroy(self);
  }

  void savedFields() {
    std::vector<tsc::Field> saved = plugin_->saved();
    std::string bytes = encodeFields(*creator_, saved);
    ParsedFields read = decodeFields(*creator_, bytes);
    if (!read.problems.empty()) fail(problemText(*creator_, read.problems));
    OperatorProblem problem;
    auto second = PluginInstance::create(creator_, read.fields, operators_, TSC_RUNNING, "check", problem);
    if (!second) fail("what it saves does not make an instance: " + problem.text);
    if (encodeFields(*creator_, second->saved()) != bytes) fail("saved, loaded and saved again, its fields are others");
    // A wrong type, a wrong number of items and an unknown name must be refused by the table; the plugin is not asked.
    std::vector<tsc::Field> unknown = saved;
    unknown.push_back(tsc::Field::of("no_such_field", int64_t{1}));
    if (completeFields(std::move(unknown), *creator_).problems.size() != 1)
      fail("its table takes fields that it has not");
  }

  PluginTensors sample(uint64_t seed) const {
    Bits random(seed);
    PluginTensors out;
    for (const PluginInstance::Input& in : inputs_)
      out.push_back(in.dtype == TSC_NONE ? Tensor() : sampleTensor(in, random));
    return out;
  }
  PluginTensors room(const PluginTensors& inputs) const {
    PluginTensors out;
    std::vector<TensorSpec> specs = plugin_->infer(inputs_);
    for (size_t o = 0; o < specs.size(); ++o) {
      int32_t alias = plugin_->alias(o);
      bool over = alias >= 0 && inputs[static_cast<size_t>(alias)].defined();
      out.push_back(over ? inputs[static_cast<size_t>(alias)] : Tensor::empty(specs[o].dtype, specs[o].sizes));
    }
    return out;
  }
  std::vector<std::string> computed(uint64_t seed, int threads = 1) const {
    PluginTensors in = sample(seed), out = room(in);
    std::vector<int64_t> rows;
    plugin_->run(in, out, nullptr, threads, &rows);
    std::vector<std::string> bytes;
    for (size_t o = 0; o < out.size(); ++o) {
      auto size = static_cast<size_t>(out[o].numel()) * itemSize(out[o].dtype());
      if (rows[o] >= 0 && out[o].size(0))
        size = size / static_cast<size_t>(out[o].size(0)) * static_cast<size_t>(rows[o]);
      bytes.emplace_back(reinterpret_cast<const char*>(out[o].raw()), size);
    }
    return bytes;
  }

  void runs() {
    struct Verifying {
      bool before = PluginInstance::verifyRuns(true);
      ~Verifying() { PluginInstance::verifyRuns(before); }
    } verifying;
    for (uint64_t seed = 1; seed <= 3; ++seed) computed(seed);
  }

  // What stands for the plugin where it is unpacked must compute the same, but for rounding in other places.
  void decomposition() {
    if (!creator_->table().run) return;
    const std::string text = plugin_->decomposition(inputs_);
    if (text.empty()) return;
    std::string problem;
    std::shared_ptr<const PluginComposite> composite = PluginComposite::make(text, operators_, problem);
    if (!composite) fail(problem);
    if (!plugin_->isDeterministic()) return;
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      PluginTensors in = sample(seed), out = room(in), given = sample(seed), made = room(given), present;
      std::vector<int64_t> rows;
      plugin_->run(in, out, nullptr, 1, &rows);
      for (const Tensor& t : given)
        if (t.defined()) present.push_back(t);
      PluginRun run;
      run.rows.assign(made.size(), -1);
      composite->run(present, made, run);
      for (size_t o = 0; o < out.size(); ++o) {
        auto rowsOf = [&](const std::vector<int64_t>& told, const Tensor& t) {
          return told[o] < 0 && t.rank() ? t.size(0) : told[o];
        };
        const std::string_view name = tsc::view(creator_->outputs()[o].name);
        if (rowsOf(rows, out[o]) != rowsOf(run.rows, made[o]))
          fail(fmt::format("what it decomposes into gives the output {} another number of rows", name));
        compare(out[o], made[o], rowsOf(rows, out[o]), name);
      }
    }
  }

  // The first `rows` of two tensors of one shape. Sums of numbers of few bits are rounded at each step or once.
  static void compare(const Tensor& ours, const Tensor& theirs, int64_t rows, std::string_view name) {
    const int64_t count = ours.rank() && ours.size(0) ? ours.numel() / ours.size(0) * rows : ours.numel();
    double largest = 0;
    for (int64_t i = 0; i < count; ++i)
      if (const double size = std::abs(ours.complex(i)); std::isfinite(size)) largest = std::max(largest, size);
    const bool isFloating = kFloatingTypes.contains(ours.dtype());
    const double relative = itemSize(ours.dtype()) < sizeof(float) ? 3e-2 : 1e-3;
    const double allowed = isFloating ? relative * std::max(largest, 1e-3) : itemSize(ours.dtype()) == 1 ? 1 : 0;
    for (int64_t i = 0; i < count; ++i) {
      const std::complex<double> a = ours.complex(i), b = theirs.complex(i);
      if (a == b || (std::isnan(a.real()) && std::isnan(b.real())) || std::abs(a - b) <= allowed) continue;
      fail(
          fmt::format("what it decomposes into is another function: element {} of the output {} is {} of its run and "
                      "{} of the decomposition",
                      i, name, a.real(), b.real()));
    }
  }

  // Smaller tensors must not need more.
  void workspace() {
    const tsc_plugin& t = creator_->table();
    if (!t.workspace) return;
    auto bytesFor = [&](const Inputs& given) {
      std::vector<TensorSpec> specs = plugin_->infer(given);
      std::vector<tsc_tensor> tensors;
      for (const PluginInstance::Input& in : given)
        tensors.push_back({in.dtype, static_cast<uint32_t>(in.sizes.size()), in.sizes.data(), nullptr});
      for (const TensorSpec& s : specs)
        tensors.push_back(
            {static_cast<int32_t>(s.dtype), static_cast<uint32_t>(s.sizes.size()), s.sizes.data(), nullptr});
      void* self = selfForCalls();
      size_t bytes = askPlugin([&] { return t.workspace(self, tensors.data(), given.size(), specs.size()); });
      t.destroy(self);
      return bytes;
    };
    size_t most = bytesFor(inputs_);
    Bits random(7);
    for (int i = 0; i < 100; ++i) {
      Inputs smaller = inputs_;
      for (PluginInstance::Input& in : smaller)
        for (int64_t& s : in.sizes)
          if (s > 1) s = 1 + static_cast<int64_t>(random.next() % static_cast<uint64_t>(s));
      size_t bytes = 0;
      try {
        bytes = bytesFor(smaller);
      } catch (const ExecutionError&) {
        continue;  // sizes that do not go together
      }
      if (bytes > most) fail(fmt::format("smaller tensors need {} bytes of workspace, larger ones {}", bytes, most));
    }
  }

  // The parts of one parallel_for, which several threads run in any order, must not share what they write.
  void parts() {
    if (!plugin_->isDeterministic()) return;
    constexpr int kRuns = 40, kThreads = 4;
    std::vector<std::string> alone = computed(5);
    for (int run = 0; run < kRuns; ++run)
      if (computed(5, kThreads) != alone) fail("the parts of its parallel_for disturb each other");
    if (computed(5, kBackwards) != alone) fail("the parts of its parallel_for depend on each other");
  }

  // Clones at work at the same time must give what one gives alone.
  void threads() {
    if (!plugin_->isDeterministic()) return;
    constexpr size_t kThreads = 4, kRuns = 200;
    std::vector<std::vector<std::string>> alone;
    for (size_t i = 0; i < kThreads; ++i) alone.push_back(computed(100 + i));
    std::vector<std::string> problems(kThreads);
    auto work = [&](size_t i) {
      try {
        for (size_t run = 0; run < kRuns && problems[i].empty(); ++run)
          if (computed(100 + i) != alone[i])
            problems[i] = "runs at the same time on several threads disturb each other";
      } catch (const std::exception& e) {
        problems[i] = e.what();
      } catch (...) {
        problems[i] = "it throws";
      }
    };
    std::vector<std::thread> all;
    try {
      for (size_t i = 0; i < kThreads; ++i) all.emplace_back(work, i);
    } catch (const std::system_error&) {  // those that there are do
    }
    for (std::thread& t : all) t.join();
    for (const std::string& p : problems)
      if (!p.empty()) fail(p);
  }

  void leaks() {
    size_t resources = sharedResources();
    auto cycle = [&] {
      OperatorProblem problem;
      auto made = PluginInstance::create(creator_, fields_, operators_, TSC_BUILDING, "check", problem);
      if (!made) fail(problem.text);
      PluginTensors in = sample(1);
      made->run(in, room(in), nullptr, 1);
    };
    for (int i = 0; i < 20; ++i) cycle();
    constexpr int kCycles = 200;
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < kCycles; ++i) cycle();
    size_t after = mallinfo2().uordblks;
    if (after > before && (after - before) / kCycles >= 16)
      fail(fmt::format("each instance that is made, run and destroyed leaves about {} bytes behind",
                       (after - before) / kCycles));
    if (sharedResources() > resources) fail("instances that are destroyed leave a shared resource behind");
  }

  // An instance of its own, for callbacks that PluginInstance does not show.
  void* selfForCalls() {
    void* self = nullptr;
    RawPluginFields raw(fields_);
    std::string problem = callPlugin([&] {
      return creator_->table().create(&pluginHost(), tsc::text("check"), raw.data(), raw.size(), TSC_BUILDING, &self);
    });
    if (!self) fail(problem);
    return self;
  }

  PluginCreatorPtr creator_;
  const OpRegistry& operators_;
  PluginReport& report_;
  const PluginCheckSteps& steps_;
  size_t next_ = 0;      // number of the check
  bool failed_ = false;  // there is nothing to try further checks on
  std::vector<tsc::Field> fields_;
  Inputs inputs_;
  std::shared_ptr<PluginInstance> plugin_;
};

}  // namespace

void checkPlugin(const PluginCreatorPtr& creator, const OpRegistry& operators, PluginReport& report,
                 const PluginCheckSteps& steps) {
  Checker(creator, operators, report, steps).run();
}

PluginReport checkPluginLibrary(const std::string& path, const OpRegistry& operators) {
  PluginReport report;
  PluginRegistry registry;
  ++report.checks;
  if (PluginResult result = registry.load(path); !result) {
    report.findings.push_back({"", "library", result.message});
    return report;
  }
  for (const PluginCreatorPtr& creator : registry.list()) checkPlugin(creator, operators, report);
  return report;
}

}  // namespace tscompile
