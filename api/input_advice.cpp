#include "api/input_advice.h"

#include "api/symbolic_ranges.h"
#include "ir/graph/clone.h"
#include "ir/support/text.h"
#include "partition/stitch.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace tscompile {
namespace {

constexpr int64_t kMostSize = int64_t{1} << 20;

// Sizes of the weights, each once.
std::vector<int64_t> sizesOfWeights(const Graph& graph) {
  constexpr size_t kMost = 24;
  std::vector<int64_t> out;
  forEachNode(graph, [&](const Node* n) {
    const IValue* v = n->kind() == sym::Constant ? n->attributeValue(sym::value) : nullptr;
    if (!v || !v->isTensor() || !v->tensorImpl()) return;
    for (int64_t size : v->toTensor().sizes())
      if (out.size() < kMost && std::ranges::count(out, size) == 0) out.push_back(size);
  });
  return out;
}

InputRange opened(InputRange range) {
  std::ranges::fill(range.least, 1);
  std::ranges::fill(range.most, kMostSize);
  return range;
}

}  // namespace

// Of a range of one size whose rank and dtype fit: sizes that fit, where its own do not and others are found among
// those of weights. `fitsAtAll` tells of ranges. False: the rank or the dtype does not fit. Of large models some sizes
// are tried, for nobody waits for a hint.
static bool settleSizes(InputRange& usual, const Graph& graph,
                        const std::function<bool(const InputRange&)>& fitsAtAll) {
  constexpr int64_t kImages[] = {32, 28, 64, 96, 128, 224, 256, 299};
  constexpr size_t kImageRank = 4;
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLongest{500};
  const Clock::time_point start = Clock::now();
  const auto fits = [&](const InputRange& range) { return Clock::now() - start < kLongest && fitsAtAll(range); };
  InputRange open = opened(usual);
  if (!fits(open)) return false;
  const std::vector<int64_t> known = sizesOfWeights(graph);
  const size_t rank = usual.most.size(), sides = rank >= kImageRank ? 2 : 0;
  // Some dimensions at a time, of one size: their own, or the first of others that fits; else they stay open.
  const auto settle = [&](size_t from, size_t count, std::span<const int64_t> others) {
    InputRange tried = open;
    for (size_t k = 0; k <= others.size(); ++k) {
      for (size_t d = from; d < from + count; ++d)
        tried.least[d] = tried.most[d] = k == 0 ? usual.most[d] : others[k - 1];
      if (!fits(tried)) continue;
      for (size_t d = from; d < from + count; ++d) usual.least[d] = usual.most[d] = tried.most[d];
      open = tried;
      return;
    }
  };
  // That of a batch comes last: weights settle the others.
  for (size_t d = 1; d + sides < rank; ++d) settle(d, 1, known);
  if (sides) settle(rank - sides, sides, kImages);
  if (rank > 0) settle(0, 1, known);
  return true;
}

std::string likelySizes(const Graph& graph, const OpRegistry& registry, const std::string& input) {
  constexpr const char* kUsual[] = {"2x3:f32",      "1x3x224x224:f32", "1x9:i64",
                                    "1x64x100:f32", "3:f32",           "1x3x8x64x64:f32"};
  const auto fits = [&](const InputRange& range) {
    return ShapePropagation(graph, registry, shapeOptions(graph, {range}, false)).conflicts().empty();
  };
  for (const char* sizes : kUsual) {
    std::optional<InputRange> usual = parseInputRange(input + "=" + sizes);
    if (!usual) return "";
    if (settleSizes(*usual, graph, fits)) return rangeSizesText(*usual) + ":" + std::string(shortName(usual->dtype));
  }
  return "";
}

namespace {

bool isTensorInput(const ValueInfo& wanted, const IValue& given) {
  return wanted.type->isTensor() && given.isTensor() && given.tensorImpl();
}

// "input %x is float64, and the model was made with float32": what may be why a run fails. What types say is no
// promise, so it is no error by itself.
std::string otherDTypes(std::span<const ValueInfo> wanted, std::span<const IValue> inputs) {
  std::vector<std::string> out;
  for (size_t i = 0; i < std::min(wanted.size(), inputs.size()); ++i) {
    if (!isTensorInput(wanted[i], inputs[i])) continue;
    const DType dtype = wanted[i].type->tensor().dtype, given = inputs[i].tensorImpl()->dtype();
    if (dtype != DType::Undefined && dtype != given)
      out.push_back(fmt::format("input %{} is {}, and the model was made with {}", wanted[i].name, pythonName(given),
                                pythonName(dtype)));
  }
  return join(out, "; ", [](const std::string& text) { return text; });
}

// "input %x is float64": where types say nothing, what arrays of NumPy and images are unless they are made to be
// others. It is told where a run finds two dtypes that do not go together.
std::string usualDTypes(std::span<const ValueInfo> wanted, std::span<const IValue> inputs, DType usual,
                        std::string_view ofWhat) {
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(wanted.size(), inputs.size()); ++i)
    if (isTensorInput(wanted[i], inputs[i]) && wanted[i].type->tensor().dtype != usual &&
        inputs[i].tensorImpl()->dtype() == usual)
      names.push_back("%" + wanted[i].name);
  if (names.empty()) return "";
  const bool isOne = names.size() == 1;
  return fmt::format(
      "{} {} {} {}, as {} are by themselves, and the model computes with another dtype: give {} as float32",
      isOne ? "input" : "inputs", join(names, ", ", [](const std::string& name) { return name; }), isOne ? "is" : "are",
      pythonName(usual), ofWhat, isOne ? "it" : "them");
}

std::vector<std::string> usualDTypes(const KnownInputs& known, std::span<const IValue> given) {
  std::vector<std::string> out;
  for (auto [usual, ofWhat] : {std::pair(DType::Float64, "arrays of NumPy"), std::pair(DType::UInt8, "images")})
    if (std::string text = usualDTypes(known.wanted, given, usual, ofWhat); !text.empty())
      out.push_back(std::move(text));
  return out;
}

// ---- inputs that would fit ----

// A tensor of which only the dtype and the sizes matter.
struct Facts {
  DType dtype = DType::Undefined;
  Dims sizes;

  std::string text() const {
    std::string out;
    for (int64_t size : sizes) out += (out.empty() ? "" : "x") + std::to_string(size);
    return (out.empty() ? "scalar" : out) + ":" + std::string(shortName(dtype));
  }
  // Without elements.
  Tensor tensor() const { return Tensor::view(dtype, Storage::symbolic(16), sizes, Dims(sizes.size(), 0), 0); }
  bool operator==(const Facts& other) const { return dtype == other.dtype && std::ranges::equal(sizes, other.sizes); }
};

// What people forget to do with arrays of images and of rows.
enum class Mend : uint8_t { None, ChannelsSecond, ChannelsLast, AddBatch, DropBatch, AddBatchChannelsSecond };
constexpr Mend kMends[] = {Mend::None,      Mend::ChannelsSecond,         Mend::AddBatch,
                           Mend::DropBatch, Mend::AddBatchChannelsSecond, Mend::ChannelsLast};

std::optional<Facts> mended(Facts facts, Mend mend, DType dtype) {
  Dims& sizes = facts.sizes;
  const size_t rank = sizes.size();
  switch (mend) {
    case Mend::None:
      break;
    case Mend::ChannelsSecond:
      if (rank < 3) return std::nullopt;
      std::rotate(sizes.begin() + 1, sizes.end() - 1, sizes.end());
      break;
    case Mend::ChannelsLast:
      if (rank < 3) return std::nullopt;
      std::rotate(sizes.begin() + 1, sizes.begin() + 2, sizes.end());
      break;
    case Mend::AddBatchChannelsSecond:
      if (rank < 3) return std::nullopt;
      [[fallthrough]];
    case Mend::AddBatch:
      sizes.insert(0, 1);
      return mended(std::move(facts), mend == Mend::AddBatch ? Mend::None : Mend::ChannelsSecond, dtype);
    case Mend::DropBatch:
      if (rank < 2 || sizes[0] != 1) return std::nullopt;
      sizes.erase(0);
      break;
  }
  facts.dtype = dtype;
  return facts;
}

std::string wordsOf(Mend mend, const Facts& given, DType dtype) {
  constexpr std::string_view kBatch = "add a dimension of 1 in front, for the batch",
                             kSecond = "move the last dimension to the second place";
  std::string out;
  if (mend == Mend::AddBatch || mend == Mend::AddBatchChannelsSecond) out = kBatch;
  if (mend == Mend::ChannelsSecond || mend == Mend::AddBatchChannelsSecond)
    out += (out.empty() ? "" : ", ") + std::string(kSecond);
  if (mend == Mend::ChannelsLast) out = "move the second dimension to the last place";
  if (mend == Mend::DropBatch) out = "leave out the first dimension, which is 1";
  if (dtype != given.dtype)
    out += (out.empty() ? "convert the elements to " : ", convert the elements to ") + std::string(pythonName(dtype));
  if (dtype == DType::Float32 && given.dtype == DType::UInt8) out += ", scaled as those that it was trained with";
  return out;
}

class Advice {
 public:
  Advice(KnownInputs known, std::span<const IValue> given)
      : known_(std::move(known)), given_(given.begin(), given.end()), graph_(cloneGraph(known_.graph)) {
    inlineEngines(*graph_);
    for (size_t i = 0; i < std::min(known_.wanted.size(), given_.size()); ++i)
      if (isTensorInput(known_.wanted[i], given_[i])) {
        const TensorImpl& t = *given_[i].tensorImpl();
        facts_.emplace_back(Facts{t.dtype(), Dims(t.sizes().begin(), t.sizes().end())});
        tensors_.push_back(i);
      } else {
        facts_.emplace_back();
      }
  }

  // Notes; none if there is nothing that could be said.
  std::vector<std::string> notes() {
    const bool isAccepted = known_.accepts(given_);
    if (tensors_.empty() || (isAccepted && takes(facts_))) return {};
    for (std::span<const size_t> inputs : choices())
      for (DType dtype : {DType::Undefined, DType::Float32, DType::Int64})
        for (Mend mend : kMends)
          if (std::optional<std::vector<Facts>> offer = mendedAt(inputs, mend, dtype); offer && fit(*offer))
            return textsOf(*offer, mend);
    if (isAccepted)
      for (size_t i : tensors_)
        if (std::vector<Facts> offer = facts_; settle(offer, i) && fit(offer)) return textsOf(offer, Mend::None);
    return isAccepted && tensors_.size() == 1 && !isLate() ? usual() : std::vector<std::string>();
  }

  bool changesSizes() const { return changesSizes_; }

 private:
  using Clock = std::chrono::steady_clock;

  // Nobody waits for a hint.
  bool isLate() const {
    constexpr std::chrono::milliseconds kLongest{500};
    return Clock::now() - start_ > kLongest;
  }

  // Each input alone, then all of them.
  std::vector<std::span<const size_t>> choices() const {
    std::vector<std::span<const size_t>> out;
    for (size_t k = 0; k < tensors_.size(); ++k) out.push_back(std::span(tensors_).subspan(k, 1));
    if (tensors_.size() > 1) out.emplace_back(tensors_);
    return out;
  }

  std::optional<std::vector<Facts>> mendedAt(std::span<const size_t> inputs, Mend mend, DType dtype) const {
    std::vector<Facts> out = facts_;
    for (size_t i : inputs) {
      std::optional<Facts> one = mended(facts_[i], mend, dtype == DType::Undefined ? facts_[i].dtype : dtype);
      if (!one) return std::nullopt;
      out[i] = std::move(*one);
    }
    return out == facts_ ? std::nullopt : std::optional(std::move(out));
  }

  bool fit(const std::vector<Facts>& offer) const {
    std::vector<IValue> values = given_;
    for (size_t i : tensors_) {
      if (offer[i] == facts_[i]) continue;
      values[i] = offer[i].tensor();
    }
    return known_.accepts(values) && takes(offer);
  }

  InputRange rangeOf(size_t input, const Facts& facts) const {
    return {known_.wanted[input].name, facts.dtype, facts.sizes, facts.sizes};
  }

  // Whether the graph can compute with these, `instead` for one of them.
  bool takes(const std::vector<Facts>& facts, const InputRange* instead = nullptr) const {
    if (isLate()) return false;
    std::vector<InputRange> ranges;
    for (size_t i : tensors_) ranges.push_back(rangeOf(i, facts[i]));
    if (instead) ranges.push_back(*instead);
    return ShapePropagation(*graph_, known_.registry, shapeOptions(*graph_, ranges, false)).conflicts().empty();
  }

  // Other sizes for one input.
  bool settle(std::vector<Facts>& offer, size_t input) const {
    InputRange sizes = rangeOf(input, offer[input]);
    if (!settleSizes(sizes, *graph_, [&](const InputRange& range) { return takes(facts_, &range); })) return false;
    offer[input].sizes = sizes.most;
    return true;
  }

  // Of an only input: what is nothing like it.
  std::vector<std::string> usual() const {
    const size_t i = tensors_.front();
    const std::string sizes = likelySizes(*graph_, known_.registry, known_.wanted[i].name);
    const auto rank = static_cast<size_t>(std::ranges::count(sizes, 'x')) + 1;
    return sizes.empty() || rank == facts_[i].sizes.size() ? std::vector<std::string>() : std::vector{textOf(i, sizes)};
  }

  std::string textOf(size_t input, const std::string& offer) const {
    return fmt::format("the model takes %{} as {}, not as {}", known_.wanted[input].name, offer, facts_[input].text());
  }

  std::vector<std::string> textsOf(const std::vector<Facts>& offer, Mend mend) {
    std::vector<std::string> out;
    for (size_t i : tensors_) {
      if (offer[i] == facts_[i]) continue;
      changesSizes_ |= !std::ranges::equal(offer[i].sizes, facts_[i].sizes);
      const std::string words = wordsOf(mend, facts_[i], offer[i].dtype);
      out.push_back(textOf(i, offer[i].text()) + (words.empty() ? "" : ": " + words));
    }
    return out;
  }

  const KnownInputs known_;
  std::vector<IValue> given_;
  std::unique_ptr<Graph> graph_;
  std::vector<Facts> facts_;     // by input
  std::vector<size_t> tensors_;  // those that are tensors
  Clock::time_point start_ = Clock::now();
  bool changesSizes_ = false;
};

void advise(const KnownInputs& known, std::span<const IValue> given, Diagnostic& error) {
  const auto isSaid = [&](const std::string& text) {
    return error.message.starts_with(text.substr(0, text.find(','))) ||
           std::ranges::any_of(error.notes, [&](const Diagnostic& note) { return note.message == text; });
  };
  constexpr std::string_view kOfDTypes[] = {"scalar type", "dtype", "float64"};
  const bool isOfDTypes = std::ranges::any_of(
      kOfDTypes, [&](std::string_view word) { return error.message.find(word) != std::string::npos; });
  std::vector<std::string> usual = usualDTypes(known, given), notes;
  if (std::string other = otherDTypes(known.wanted, given); !other.empty()) {
    // What has run inside may know less.
    std::erase_if(error.notes, [&](const Diagnostic& note) { return std::ranges::count(usual, note.message) > 0; });
    notes.push_back(std::move(other));
  } else if (isOfDTypes) {
    notes = std::move(usual);
  }
  if (known.isWhole) {
    Advice advice(known, given);
    std::vector<std::string> fits = advice.notes();
    // What is told of dtypes alone tells the reason as well.
    if (advice.changesSizes() || notes.empty()) notes = std::move(fits);
  }
  for (std::string& text : notes)
    if (!isSaid(text)) error.note(std::move(text));
}

thread_local bool areTrials = false;

}  // namespace

std::vector<std::string> fittingSizes(const Graph& graph, const OpRegistry& registry,
                                      std::span<const InputRange> asked) {
  std::vector<ValueInfo> infos;
  std::vector<IValue> given;
  for (const Value* v : graph.inputs()) {
    infos.push_back({v->name(), v->type()});
    const auto range = std::ranges::find(asked, v->name(), &InputRange::name);
    const bool isSaid = range != asked.end() && v->type()->isTensor() && std::ranges::all_of(range->most, isKnownSize);
    const DType dtype = !isSaid                                         ? DType::Undefined
                        : range->dtype != DType::Undefined              ? range->dtype
                        : v->type()->tensor().dtype != DType::Undefined ? v->type()->tensor().dtype
                                                                        : DType::Float32;
    given.push_back(isSaid ? IValue(Facts{dtype, range->most}.tensor()) : IValue());
  }
  if (areTrials) return {};
  return Advice({infos, graph, registry, true, [](std::span<const IValue>) { return true; }}, given).notes();
}

InputTrialsScope::InputTrialsScope() : before_(std::exchange(areTrials, true)) {}
InputTrialsScope::~InputTrialsScope() { areTrials = before_; }

Result<std::vector<IValue>> toldOfInputs(const KnownInputs& known, std::span<const IValue> given,
                                         Diagnostics& diagnostics,
                                         const std::function<Result<std::vector<IValue>>(Diagnostics&)>& run) {
  Diagnostics own(0);
  Result<std::vector<IValue>> out = run(own);
  bool isTold = out.ok() || areTrials;
  for (const Diagnostic& d : own.list()) {
    Diagnostic& kept = diagnostics.add(d);
    if (isTold || kept.severity != Severity::Error || kept.kind != ErrorKind::Model) continue;
    isTold = true;
    advise(known, given, kept);
  }
  return out;
}

}  // namespace tscompile
