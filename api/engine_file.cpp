#include "api/engine_file.h"

#include "api/compile_settings.h"
#include "api/exported_sizes.h"
#include "api/other_inputs.h"
#include "api/support/graph_parts.h"
#include "frontend/files/section_file.h"
#include "frontend/files/shared_parts.h"
#include "frontend/files/tensor_formats.h"
#include "ir/support/cpu_features.h"
#include "ir/support/json_fields.h"
#include "ir/support/number_of_text.h"
#include "ir/support/remedy.h"
#include "ir/support/text.h"
#include "runtime/engine/network/tactics.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <sstream>
#include <unordered_map>

namespace tscompile {
namespace {

// What the fields say, for people and programs that know JSON and not this format: a line of text near the start.
constexpr std::string_view kAbout = "about";
constexpr std::string_view kFields = "fields", kGraph = "graph", kTensors = "tensors", kWeights = "weights";
// Sections that only files have which can be refitted.
constexpr std::string_view kSource = "source", kSourceWeights = "source-weights";
constexpr std::string_view kAttribute = "attribute:";

// ---- records: numbers, and texts after their lengths ----

class RecordWriter {
 public:
  void number(uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> 8 * i);
  }
  void text(std::string_view value) {
    number(value.size(), 4);
    out_ += value;
  }
  const std::string& bytes() const { return out_; }

 private:
  std::string out_;
};

// After a read beyond the end everything is empty and good() is false.
class RecordReader {
 public:
  explicit RecordReader(std::string_view bytes) : bytes_(bytes) {}

  bool atEnd() const { return bytes_.empty(); }
  bool good() const { return good_; }
  uint64_t number(size_t bytes) {
    std::string_view taken = take(bytes);
    uint64_t value = 0;
    for (size_t i = taken.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(taken[i]);
    return value;
  }
  std::string_view text() { return take(number(4)); }

 private:
  std::string_view take(uint64_t count) {
    if (count > bytes_.size()) {
      good_ = false;
      bytes_ = {};
      return {};
    }
    std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }

  std::string_view bytes_;
  bool good_ = true;
};

// ---- processors ----

struct CpuFeature {
  std::string_view name;
  bool here;
};

// Whether this processor has a feature; features that nobody here knows it has not.
bool processorHas(std::string_view name) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const CpuFeature features[] = {
      {"sse4.2", __builtin_cpu_supports("sse4.2") != 0},
      {"avx", __builtin_cpu_supports("avx") != 0},
      {"avx2", __builtin_cpu_supports("avx2") != 0},
      {"fma", __builtin_cpu_supports("fma") != 0},
      {"f16c", hasF16c()},
      {"avx512f", __builtin_cpu_supports("avx512f") != 0},
      {"avx512bw", __builtin_cpu_supports("avx512bw") != 0},
      {"avx512vl", __builtin_cpu_supports("avx512vl") != 0},
  };
  for (const CpuFeature& f : features)
    if (f.name == name) return f.here;
#endif
  static_cast<void>(name);
  return false;
}

// ---- reading ----

class EngineReader {
 public:
  EngineReader(const RefCounted* owner, const std::string& path, Diagnostics& diagnostics, const Limits& limits)
      : owner_(owner), path_(path), diagnostics_(diagnostics), limits_(limits) {}

  Result<EngineFile> read(std::string_view bytes) {
    Result<SectionFile> file = parseSectionFile(bytes, path_, diagnostics_);
    if (!file) return Failed{};
    bool isKnown = file->version == kEngineFormat;
    const std::string_view* section = file->find(kFields);
    // Of a file of another format only the fields may be as they are here, and are wanted for the message.
    bool hasFields = section && fields(*section);
    if (!isKnown) return otherFormat(file->version);
    if (!hasFields) return fail("its fields are malformed");
    if (!suits()) return Failed{};
    const std::string_view* graph = file->find(kGraph);
    const std::string_view* table = file->find(kTensors);
    const std::string_view* weights = file->find(kWeights);
    const std::string_view* source = file->find(kSource);
    const std::string_view* sourceTable = file->find(kSourceWeights);
    if (!graph || !table || !weights || !source != !sourceTable ||
        file->sections.size() != size_t{source ? 6u : 4u} + (file->find(kAbout) ? 1 : 0))
      return fail("it has not the sections that belong to it");
    if (graph->size() > limits_.textBytes) return limit("text", limits_.textBytes, "bytes of graph text");
    out_.graph = *graph;
    if (!tensors(*table, *weights, out_.tensors)) return Failed{};
    if (source && !refit(*source, *sourceTable, *weights)) return Failed{};
    return std::move(out_);
  }

 private:
  Failed fail(std::string_view what) {
    diagnostics_.fileError(path_, {}, fmt::format("the engine file is malformed: {}", what));
    return {};
  }
  Failed limit(std::string_view name, uint64_t most, std::string_view what) {
    diagnostics_.fileError(path_, {}, fmt::format("the engine file has more than {} {}", most, what), ErrorKind::Limit)
        .note(textOf(Remedy(Remedy::Kind::RaiseLimit, {std::string(name)})));
    return {};
  }

  Failed otherFormat(uint32_t version) {
    Diagnostic& d =
        diagnostics_.fileError(path_, {},
                               fmt::format("the engine file has format {}, and this tscompile {} reads format {}",
                                           version, libraryVersion(), kEngineFormat),
                               ErrorKind::Incompatible);
    if (!out_.info.version.empty())
      d.note(fmt::format("it was made by tscompile {}", abbreviate(out_.info.version, 40)));
    d.note(textOf(out_.info.compileAgain(path_, false)));
    return {};
  }

  bool suits() {
    std::string missing;
    for (const std::string& feature : out_.info.cpu)
      if (!processorHas(feature)) missing += (missing.empty() ? "" : ", ") + abbreviate(feature, 40);
    if (missing.empty()) return true;
    diagnostics_
        .fileError(path_, {}, "the engine file is for another processor: this one lacks " + missing,
                   ErrorKind::Incompatible)
        .note(textOf(out_.info.compileAgain(path_, true)));
    return false;
  }

  bool fields(std::string_view section) {
    EngineInfo& info = out_.info;
    RecordReader in(section);
    while (!in.atEnd()) {
      std::string name(in.text()), value(in.text());
      if (!in.good()) return false;
      if (name == "tscompile") {
        info.version = value;
      } else if (name == "source") {
        info.source = value;
      } else if (name == "source-hash") {
        info.sourceHash = value;
      } else if (name == "weights") {
        info.weights.push_back(value);
      } else if (name == "option") {
        option(value);
      } else if (name == "cpu") {
        info.cpu.push_back(value);
      } else if (name == "plugin") {
        info.plugins.push_back(value);
      } else if (name == "tactics") {
        info.tactics = value;
      } else if (name == "precision") {
        std::optional<DType> precision = precisionFromName(value);
        if (!precision) return false;
        info.precision = *precision;
      } else if (name == "rows") {
        if (value != "f32") return false;
        info.roundsRows = false;
      } else if (name == "half-inputs") {
        info.takesHalf = true;
      } else if (name == "workspace-limit") {
        info.workspaceLimit = numberOfText<uint64_t>(value);
        if (!info.workspaceLimit) return false;
      } else if (name == "threads") {
        info.threads = numberOfText<decltype(info.threads)>(value).value_or(0);
        if (info.threads < 1) return false;
      } else if (name == "input") {
        std::optional<InputRange> range = parseInputRange(value);
        if (!range) return false;
        info.inputs.push_back(std::move(*range));
      } else if (name == "bound") {
        info.bound.push_back(value);
      } else if (name == "exported-input") {
        std::optional<ExportedInput> input = parseExportedInput(value);
        if (!input) return false;
        info.exported.tensors.push_back(std::move(*input));
      } else if (name == "exported-condition") {
        std::optional<InputCondition> condition = InputCondition::parse(value);
        if (!condition) return false;
        info.exported.conditions.push_back(std::move(*condition));
      } else if (name == kInputOrder || name.starts_with(kAttribute) || name.starts_with(kDefaultOf) ||
                 name.starts_with(kMemoryOf) || name.starts_with(kSameAs)) {
        if (!out_.metadata.emplace(name, value).second) return false;
      } else {
        return false;
      }
    }
    return true;
  }

  // "name=value". Older files have words of a command line, values in records of their own.
  void option(const std::string& text) {
    std::vector<std::string>& options = out_.info.options;
    const bool isWord = text.size() > 2 && text[0] == '-' && text[1] == '-';
    if (isWord || !hadWord_)
      options.push_back(text.substr(isWord ? 2 : 0));
    else
      options.back() += "=" + text;
    hadWord_ = isWord;
  }

  static bool isMetadata(std::string_view key) {
    return key.starts_with(kAttribute) || key.starts_with(kDefaultOf) || key.starts_with(kConstantOf);
  }

  bool refit(std::string_view source, std::string_view table, std::string_view weights) {
    auto out = std::make_shared<RefitSource>();
    RecordReader in(source);
    while (!in.atEnd()) {
      std::string name(in.text());
      std::string_view value = in.text();
      if (name == "name") {
        out->name = value;
      } else if (name == "text") {
        if (value.size() > limits_.textBytes) return limit("text", limits_.textBytes, "bytes of graph text"), false;
        out->text = value;
      } else if (name == "file") {
        out->files.emplace_back(value);
      } else if (name == "unread") {
        out->unread.emplace_back(value);
      } else if (name == "language-model") {
        out->isLanguageModel = true;
      } else if (!isMetadata(name) || !out->attributes.emplace(name, value).second) {
        return fail("what it was made from is malformed"), false;
      }
    }
    if (!in.good()) return fail("what it was made from is malformed"), false;
    if (!tensors(table, weights, out->weights)) return false;
    for (size_t i = 1; i < out->weights.size(); ++i)
      if (out->weights[i - 1].first >= out->weights[i].first)
        return fail("the weights that it was made from are not sorted"), false;
    out_.refit = std::move(out);
    return true;
  }

  using Named = std::vector<std::pair<std::string, Tensor>>;
  bool tensors(std::string_view table, std::string_view weights, Named& into) {
    RecordReader in(table);
    while (!in.atEnd()) {
      if (into.size() >= limits_.tensors) return limit("tensors", limits_.tensors, "tensors"), false;
      std::string name(in.text());
      std::optional<DType> dtype = dtypeFromSafetensors(in.text());
      size_t rank = in.number(1);
      Dims sizes;
      for (size_t i = 0; i < rank && in.good(); ++i) sizes.push_back(std::bit_cast<int64_t>(in.number(8)));
      uint64_t begin = in.number(8);
      if (!in.good() || !dtype || rank > static_cast<size_t>(kMaxRank))
        return fail("its list of tensors is malformed"), false;
      if (!tensor(std::move(name), *dtype, sizes, begin, weights, into)) return false;
    }
    return in.good();
  }

  bool tensor(std::string name, DType dtype, DimSpan sizes, uint64_t begin, std::string_view weights, Named& into) {
    std::optional<int64_t> count = checkedNumel(sizes);
    bool inside = count && *count >= 0 && std::all_of(sizes.begin(), sizes.end(), [](int64_t s) { return s >= 0; }) &&
                  begin % kSectionAlignment == 0 && begin <= weights.size() &&
                  static_cast<uint64_t>(*count) <= (weights.size() - begin) / itemSize(dtype);
    if (!inside) return fail(tensorText(abbreviate(name, 80)) + " is not inside of it"), false;
    std::string_view bytes = weights.substr(begin, static_cast<uint64_t>(*count) * itemSize(dtype));
    if (dtype == DType::Bool && findBadBool(bytes))
      return fail(tensorText(abbreviate(name, 80)) + " has elements that are neither 0 nor 1"), false;
    if (owner_) {
      into.emplace_back(std::move(name), readOnlyTensor(dtype, sizes, bytes, owner_));
      return true;
    }
    Result<Tensor> copy = allocateTensor(dtype, sizes, path_, diagnostics_);
    if (!copy) return false;
    if (!bytes.empty()) std::memcpy(copy->raw(), bytes.data(), bytes.size());
    into.emplace_back(std::move(name), asReadOnly(*copy));
    return true;
  }

  const RefCounted* owner_;
  const std::string& path_;
  Diagnostics& diagnostics_;
  const Limits& limits_;
  EngineFile out_;
  bool hadWord_ = false;  // the last option was the name alone
};

// ---- writing ----

// The bytes of all tensors, row by row, each after the next multiple of the alignment; like bytes once.
class WeightsWriter {
 public:
  WeightsWriter() = default;
  WeightsWriter(const WeightsWriter&) = delete;
  WeightsWriter& operator=(const WeightsWriter&) = delete;

  // Takes the bytes, and gives the list that tells where they are.
  std::string add(const std::vector<std::pair<std::string, Tensor>>& tensors) {
    RecordWriter table;
    for (const auto& [name, tensor] : tensors) {
      table.text(name);
      table.text(safetensorsName(tensor.dtype()));
      table.number(static_cast<uint64_t>(tensor.rank()), 1);
      for (int64_t size : tensor.sizes()) table.number(static_cast<uint64_t>(size), 8);
      table.number(place(tensor), 8);
    }
    return table.bytes();
  }

  std::vector<std::string_view> pieces;

 private:
  uint64_t place(const Tensor& tensor) {
    std::string_view bytes = bytesOf(tensor);
    uint64_t sum = checksumOf(bytes);
    for (auto [at, end] = known_.equal_range(sum); at != end; ++at)
      if (at->second.second == bytes) return at->second.first;
    static constexpr char kZeros[kSectionAlignment] = {};
    uint64_t begin = (size_ + kSectionAlignment - 1) / kSectionAlignment * kSectionAlignment;
    pieces.emplace_back(kZeros, begin - size_);
    pieces.push_back(bytes);
    size_ = begin + bytes.size();
    known_.emplace(sum, std::pair(begin, bytes));
    return begin;
  }

  std::string_view bytesOf(const Tensor& tensor) {
    size_t bytes = static_cast<size_t>(tensor.numel()) * itemSize(tensor.dtype());
    if (tensor.isContiguous()) return {reinterpret_cast<const char*>(tensor.raw()), bytes};
    std::string& copy = *copies_.emplace_back(std::make_unique<std::string>());
    copy.reserve(bytes);
    size_t item = itemSize(tensor.dtype());
    forEachElement(tensor,
                   [&](const std::byte* element) { copy.append(reinterpret_cast<const char*>(element), item); });
    return copy;
  }

  uint64_t size_ = 0;
  std::unordered_multimap<uint64_t, std::pair<uint64_t, std::string_view>> known_;  // by checksum
  std::vector<std::unique_ptr<std::string>> copies_;
};

std::string fieldsOf(const EngineInfo& info, const Metadata& metadata) {
  RecordWriter out;
  auto field = [&](std::string_view name, std::string_view value) {
    out.text(name);
    out.text(value);
  };
  field("tscompile", info.version);
  field("source", info.source);
  field("source-hash", info.sourceHash);
  for (const std::string& name : info.weights) field("weights", name);
  for (const std::string& word : info.options) field("option", word);
  for (const std::string& feature : info.cpu) field("cpu", feature);
  field("precision", precisionName(info.precision));
  if (!info.roundsRows) field("rows", "f32");
  for (const std::string& saved : info.plugins) field("plugin", saved);
  if (info.takesHalf) field("half-inputs", "as f32");
  if (info.workspaceLimit) field("workspace-limit", std::to_string(*info.workspaceLimit));
  if (info.threads > 0) field("threads", std::to_string(info.threads));
  if (!info.tactics.empty()) field("tactics", info.tactics);
  for (const InputRange& range : info.inputs) field("input", inputRangeText(range));
  for (const std::string& bound : info.bound) field("bound", bound);
  for (const ExportedInput& input : info.exported.tensors) field("exported-input", exportedInputJson(input));
  for (const InputCondition& condition : info.exported.conditions) field("exported-condition", condition.text());
  for (const auto& [key, value] : metadata) field(key, value);
  return out.bytes();
}

struct AboutFields {
  const EngineInfo& info;

  template <class Visit>
  void fields(Visit&& visit) const {
    std::vector<std::string> ranges;
    for (const InputRange& range : info.inputs) ranges.push_back(inputRangeText(range));
    visit("tscompile", info.version);
    visit("format", kEngineFormat);
    visit("source", info.source);
    visit("source_hash", info.sourceHash);
    visit("weights", info.weights);
    visit("options", info.options);
    visit("inputs", ranges);
    visit("precision", precisionName(info.precision));
    visit("cpu", info.cpu);
  }
};

std::string aboutOf(const EngineInfo& info) {
  std::ostringstream out;
  out << '\n';
  writeJson(out, AboutFields{info});
  return out.str();
}

std::string sourceOf(const RefitSource& source) {
  RecordWriter out;
  auto field = [&](std::string_view name, std::string_view value) {
    out.text(name);
    out.text(value);
  };
  field("name", source.name);
  field("text", source.text);
  for (const std::string& name : source.files) field("file", name);
  for (const std::string& name : source.unread) field("unread", name);
  if (source.isLanguageModel) field("language-model", "");
  for (const auto& [key, value] : source.attributes) field(key, value);
  return out.bytes();
}

}  // namespace

bool isEngineFile(const std::string& path) {
  if (path == "-") return false;
  Diagnostics ignored;  // who reads the file will say it
  Result<std::string> start = readFileStart(path, kSectionFileMagic.size(), ignored);
  return start && *start == kSectionFileMagic;
}

std::string_view libraryVersion() { return TSCOMPILE_VERSION; }

Result<EngineOptions> EngineInfo::engineOptions(const std::string& path, Diagnostics& diagnostics) const {
  EngineOptions options;
  options.precision = precision;
  options.roundsRows = roundsRows;
  options.threads = threads;
  if (tactics.empty() && !workspaceLimit) return options;
  options.tactics = std::make_shared<TacticCache>();
  if (workspaceLimit) options.tactics->workspaceLimit = *workspaceLimit;
  if (!tactics.empty() && !options.tactics->read(tactics, path, diagnostics)) return Failed{};
  return options;
}

Remedy EngineInfo::compileAgain(const std::string& output, bool here) const {
  Remedy out(Remedy::Kind::CompileAgain, {output, source}, {static_cast<int64_t>(weights.size()), here});
  out.names.insert(out.names.end(), weights.begin(), weights.end());
  out.names.insert(out.names.end(), options.begin(), options.end());
  return out;
}

Result<EngineFile> parseEngineFile(std::string_view bytes, const RefCounted* owner, const std::string& path,
                                   Diagnostics& diagnostics, const Limits& limits) {
  return EngineReader(owner, path, diagnostics, limits).read(bytes);
}

bool writeEngineFile(const std::string& path, const EngineInfo& info, const GraphParts& parts, Diagnostics& diagnostics,
                     const Limits& limits, const RefitSource* refit) {
  std::string text;
  // Places in the source are paths of the machine that traced the model.
  if (!printParts(
          parts, /*locations=*/false, limits, [&](std::string_view piece) { text += piece; }, diagnostics))
    return false;
  const std::string about = aboutOf(info);
  std::string fields = fieldsOf(info, parts.metadata);
  WeightsWriter weights;
  std::string table = weights.add(parts.tensors), source, sourceTable;
  std::vector<SectionPieces> sections = {{std::string(kAbout), {about}},
                                         {std::string(kFields), {fields}},
                                         {std::string(kGraph), {text}},
                                         {std::string(kTensors), {table}}};
  if (refit) {
    source = sourceOf(*refit);
    sourceTable = weights.add(refit->weights);
    sections.push_back({std::string(kSource), {source}});
    sections.push_back({std::string(kSourceWeights), {sourceTable}});
  }
  sections.push_back({std::string(kWeights), weights.pieces});
  FileWriter file(path, diagnostics);
  return putSectionFile(kEngineFormat, sections, [&](std::string_view bytes) { return file.write(bytes); }) &&
         file.commit();
}

}  // namespace tscompile
