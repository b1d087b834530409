#include "frontend/export/program.h"

#include "frontend/export/arguments.h"
#include "frontend/export/graph_reader.h"
#include "frontend/export/tree.h"
#include "frontend/export/written_views.h"
#include "ir/support/text.h"
#include "ir/values/size_expression.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

namespace tscompile {
namespace exported {
namespace {

constexpr size_t kMostConditions = 10000;
constexpr int64_t kNewestVersion = 8;  // of the schema of programs that is known: its major number

class ProgramReader {
 public:
  ProgramReader(const JsonTree& json, const std::string& prefix, const OpRegistry& registry, Diagnostics& diagnostics,
                UnknownOperators unknown)
      : prefix_(prefix),
        root_(json.root()),
        module_(root_.find("graph_module")),
        graph_(module_.find("graph")),
        b_(registry, diagnostics, unknown) {}

  bool read(ExportedProgram& out);

 private:
  bool checkVersion();
  bool readInputs(ExportedProgram& out);
  bool readInput(Json spec);
  bool readOldInputs(Json signature);
  // Where the trees of arguments and results are: `in_spec`, `out_spec`.
  Json trees() const;
  Json tensorMeta(std::string_view name) const { return metaOf(graph_.find("tensor_values").find(name)); }
  bool addUserInputs();
  // One argument of the call with the leaves that are next.
  bool addArgument(const Tree& tree, std::string_view name);
  std::string nameByLeaves(const Tree& tree, size_t position) const;
  void addLeaf(Json argument);
  // The last input is a whole argument: gives it the name of that where it has none of its own.
  void nameArgument(std::string_view name);
  // The leaf is an input or a constant by itself: where it is in a container.
  void addParts(size_t leaf, const std::string& name);
  void bindLeaf(std::string_view name, Value* value, InputCondition::Source source);
  std::vector<InputCondition> readConditions();
  std::optional<InputCondition::Source> sourceAt(std::span<const std::string> place) const;
  std::vector<SizeExpression> sizesOf(const InputCondition& condition);
  void addSizes(ExportedProgram& out);
  void nameSizes(Value* input, const std::vector<ExportedSize>& sizes);
  ExportedSize sizeOf(Json size);
  SizeExpression symbolNamed(std::string_view name);
  bool readOutputs();
  bool readOldOutputs(Json written, std::span<const Json> outputs);
  bool write(Json target, Json name, Value* value);
  bool finish(std::vector<Value*> results);

  std::string prefix_;
  Json root_, module_, graph_;
  ExportBuilder b_;
  std::vector<Json> leaves_;  // of what the user gives: arguments of the file
  struct Constant {
    size_t index;  // among the leaves of all arguments
    ExportedConstant told;
  };
  std::vector<Constant> constants_;
  std::vector<ExportedPart> parts_;
  size_t nextLeaf_ = 0;
  // Where each leaf is in the arguments of the call: their name, then indices, keys or fields.
  std::vector<std::vector<std::vector<std::string>>> places_;
  // A tensor or number of the user's arguments.
  struct Leaf {
    Value* value;
    std::string_view name;          // of the file
    InputCondition::Source source;  // in the inputs of the graph
    size_t index;                   // among the leaves of all arguments
  };
  std::vector<Leaf> bound_;
  std::map<std::string, SizeRange, std::less<>> ranges_;  // of symbols, by what conditions say
  std::map<std::string, Json, std::less<>> attributes_;   // names of their values, by path
  std::unordered_map<const Value*, Value*> written_;      // values that were copied, and where they are now
};

bool ProgramReader::checkVersion() {
  Json version = root_.find("schema_version");
  Json major = version.is(JsonTree::Kind::Object) ? version.find("major") : version;
  std::optional<int64_t> number = major ? major.integer() : std::nullopt;
  if (!number) return b_.fail(root_, "the program does not say of which version it is");
  if (*number >= 1 && *number <= kNewestVersion) return true;
  return b_.fail(major,
                 fmt::format("programs of version {} are not known, only those up to {}", *number, kNewestVersion),
                 ErrorKind::Unsupported);
}

bool ProgramReader::read(ExportedProgram& out) {
  if (!checkVersion()) return false;
  if (!graph_.is(JsonTree::Kind::Object)) return b_.fail(root_, "the program has no graph");
  Value* self = b_.graph().addInput(classType("__torch__.torch.export.ExportedProgram"));
  ExportBuilder::name(self, "self");
  b_.enterScope(graph_);
  if (!readInputs(out) || !readNodes(b_, graph_) || !readOutputs()) return false;
  keepWrittenViews(b_.graph(), b_.registry(), b_.views());
  b_.dropUnused();
  out.graph = b_.take();
  return true;
}

bool ProgramReader::readInputs(ExportedProgram& out) {
  Json signature = module_.find("signature"), specs = signature.find("input_specs");
  if (signature.find("inputs_to_parameters").is(JsonTree::Kind::Object)) {
    if (!readOldInputs(signature)) return false;
  } else if (!specs.is(JsonTree::Kind::Array)) {
    return b_.fail(module_, "the program has no signature");
  }
  for (Json spec : items(specs))
    if (!readInput(spec)) return false;
  if (!addUserInputs()) return false;
  out.inputs.conditions = readConditions();
  for (Constant& c : constants_) out.inputs.constants.push_back(std::move(c.told));
  out.inputs.parts = std::move(parts_);
  addSizes(out);
  return true;
}

// How the paths of attributes are called in the specifications of inputs and of writes.
std::string_view pathKey(std::string_view kind) {
  if (startsWith(kind, "parameter")) return "parameter_name";
  if (startsWith(kind, "buffer")) return "buffer_name";
  return kind == "tensor_constant" ? "tensor_constant_name" : "";
}

// PyTorch 2.1 lists the names of parameters and buffers beside their paths; other inputs are the user's.
bool ProgramReader::readOldInputs(Json signature) {
  for (Json input : items(graph_.find("inputs"))) {
    const std::vector<Json> names = namesOf(input);
    if (names.size() != 1) return b_.fail(input, "the input has no name");
    Json path = signature.find("inputs_to_parameters").find(textOf(names[0]));
    if (!path) path = signature.find("inputs_to_buffers").find(textOf(names[0]));
    if (!path) {
      leaves_.push_back(input);
      continue;
    }
    attributes_.emplace(textOf(path), names[0]);
    b_.bindAttribute(textOf(names[0]), prefix_ + std::string(textOf(path)));
  }
  for (Json constant : items(graph_.find("constants")))
    b_.bindAttribute(constant.key(), prefix_ + std::string(constant.key()));
  return true;
}

bool ProgramReader::readInput(Json spec) {
  Json s = alternative(spec);
  if (!s) return b_.fail(spec, "the input is none of those that programs have");
  if (s.key() == "user_input" || s.key() == "constant_input") {
    leaves_.push_back(s.key() == "user_input" ? s.find("arg") : Json());
    if (Json value = alternative(s.find("value")); value && s.key() == "constant_input")
      constants_.push_back({leaves_.size() - 1,
                            {std::string(textOf(s.find("name"))),
                             value.key() == "as_none" ? "None" : std::string(value.range().text())}});
    return true;
  }
  if (s.key() == "token") {  // of an order of effects, which a graph has anyhow
    b_.bind(textOf(s.find("arg").find("name")), b_.constant(IValue()));
    return true;
  }
  std::string_view key = pathKey(s.key());
  if (key.empty())
    return b_.fail(s, fmt::format("inputs of the kind '{}' are not supported", abbreviate(s.key(), 40)),
                   ErrorKind::Unsupported);
  std::string path(textOf(s.find(key)));
  std::string_view name = textOf(s.find("arg").find("name"));
  if (path.empty() || name.empty()) return b_.fail(s, "the input has no name");
  attributes_.emplace(path, s.find("arg").find("name"));
  path.insert(0, prefix_);
  b_.bindAttribute(name, path);
  return true;
}

Json ProgramReader::trees() const {
  std::vector<Json> calls = items(module_.find("module_call_graph"));
  return calls.empty() ? module_.find("call_spec") : calls[0].find("signature");  // the former in files of PyTorch 2.1
}

bool ProgramReader::addUserInputs() {
  Json signature = trees();
  places_.resize(leaves_.size());
  std::optional<Tree> tree;
  if (Json spec = signature.find("in_spec"); spec.is(JsonTree::Kind::String)) {
    tree = readTree(b_, spec, module_.find("treespec_namedtuple_fields"));
    if (!tree) return false;
  }
  // (arguments, arguments by name); in files of PyTorch 2.1 the arguments alone if there are none by name.
  auto isPair = [](const Tree& t) {
    return t.parts.size() == 2 && t.parts[0].kind == Tree::Kind::Tuple && t.parts[1].kind == Tree::Kind::Dict;
  };
  if (tree && !isPair(*tree) && module_.find("call_spec")) {
    Tree none;
    none.kind = Tree::Kind::Dict;
    Tree both;
    both.kind = Tree::Kind::Tuple;
    both.parts = {std::move(*tree), std::move(none)};
    tree = std::move(both);
  }
  if (tree && tree->leafCount() == leaves_.size() && tree->parts.size() == 2) {
    std::vector<Json> names = items(signature.find("forward_arg_names"));
    const Tree &positional = tree->parts[0], &named = tree->parts[1];
    for (size_t i = 0; i < positional.parts.size(); ++i)
      if (!addArgument(positional.parts[i],
                       i < names.size() ? std::string(textOf(names[i])) : nameByLeaves(positional.parts[i], i)))
        return false;
    for (size_t i = 0; i < named.parts.size(); ++i)
      if (!addArgument(named.parts[i], i < named.keys.size() ? named.keys[i] : "")) return false;
  }
  while (nextLeaf_ < leaves_.size()) addLeaf(leaves_[nextLeaf_++]);
  return true;
}

// Files before PyTorch 2.6 do not tell how positional arguments are called, but often do by the names of their leaves:
// "batch_image" and "batch_label" are of "batch".
std::string ProgramReader::nameByLeaves(const Tree& tree, size_t position) const {
  if (tree.kind == Tree::Kind::Leaf) return {};
  const std::vector<std::vector<std::string>> paths = leafPaths(tree, false);
  std::string found;
  for (size_t i = 0; i < paths.size(); ++i) {
    const std::vector<Json> names = namesOf(leaves_[nextLeaf_ + i]);
    const std::string_view name = names.size() == 1 ? textOf(names[0]) : std::string_view();
    std::string end;
    for (const std::string& step : paths[i]) end += "_" + step;
    if (!endsWith(name, end)) return fmt::format("arg{}", position);
    const std::string_view start = name.substr(0, name.size() - end.size());
    if (start.empty() || (i > 0 && start != found)) return fmt::format("arg{}", position);
    found = start;
  }
  const bool isTaken = bool(graph_.find("tensor_values").find(found));
  return found.empty() || isTaken ? fmt::format("arg{}", position) : found;
}

// "arg3_1", as files of PyTorch 2.1 to 2.3 call the leaves.
bool isNumberedLeaf(std::string_view name) {
  constexpr std::string_view kStart = "arg", kEnd = "_1", kDigits = "0123456789";
  return startsWith(name, kStart) && endsWith(name, kEnd) && name.size() > kStart.size() + kEnd.size() &&
         name.substr(kStart.size(), name.size() - kStart.size() - kEnd.size()).find_first_not_of(kDigits) ==
             std::string_view::npos;
}

// Containers of tensors are one input where TorchScript has a type for them, else an input for each leaf.
bool ProgramReader::addArgument(const Tree& tree, std::string_view name) {
  for (bool byFields : {false, true}) {
    std::vector<std::vector<std::string>> paths = leafPaths(tree, byFields);
    for (size_t i = 0; i < paths.size(); ++i) {
      paths[i].insert(paths[i].begin(), std::string(name));
      places_[nextLeaf_ + i].push_back(std::move(paths[i]));
    }
  }
  size_t end = nextLeaf_ + tree.leafCount();
  bool allTensors = true;
  for (size_t i = nextLeaf_; i < end; ++i)
    allTensors &= alternative(leaves_[i]) && alternative(leaves_[i]).key() == "as_tensor";
  TypePtr type = tree.kind == Tree::Kind::Leaf || !allTensors || end == nextLeaf_ ? nullptr : inputType(tree);
  if (!type) {
    const size_t inputs = b_.graph().inputs().size();
    while (nextLeaf_ < end) addLeaf(leaves_[nextLeaf_++]);
    if (tree.kind == Tree::Kind::Leaf && b_.graph().inputs().size() > inputs) nameArgument(name);
    return true;
  }
  Value* input = b_.graph().addInput(type);
  ExportBuilder::name(input, name);
  std::vector<InputLeaf> parts;
  unpackInput(b_, tree, input, {}, parts);
  for (InputLeaf& part : parts)
    bindLeaf(textOf(namesOf(leaves_[nextLeaf_++])[0]), part.value, {input->name(), std::move(part.path)});
  return true;
}

void ProgramReader::nameArgument(std::string_view name) {
  Leaf& leaf = bound_.back();
  const bool isTaken = bool(graph_.find("tensor_values").find(name));
  // "kw_scale" is "scale" of **kw, before PyTorch 2.6.
  const bool isGathered = endsWith(leaf.value->name(), "_" + std::string(name));
  if (name.empty() || isTaken || !(isNumberedLeaf(leaf.value->name()) || isGathered)) return;
  ExportBuilder::name(leaf.value, name);
  leaf.source.input = leaf.value->name();
}

size_t userInputCount(const Graph& graph) {
  return static_cast<size_t>(
      std::ranges::count_if(graph.inputs(), [](const Value* v) { return !v->type()->is(TypeKind::Class); }));
}

void ProgramReader::addParts(size_t leaf, const std::string& name) {
  for (const std::vector<std::string>& place : places_[leaf])
    if (place.size() > 1) parts_.push_back({place[0], {place.begin() + 1, place.end()}, name});
}

// Constants that the program was exported for are no inputs.
void ProgramReader::addLeaf(Json argument) {
  std::vector<Json> names = namesOf(argument);
  const size_t leaf = nextLeaf_ - 1;
  if (names.size() != 1) {
    const auto constant = std::ranges::find(constants_, leaf, &Constant::index);
    if (constant == constants_.end()) return;
    constant->told.inputsBefore = userInputCount(b_.graph());
    return addParts(leaf, constant->told.name);
  }
  std::string_view name = textOf(names[0]), kind = alternative(argument).key();
  TypePtr type = kind == "as_sym_int"     ? types().integer
                 : kind == "as_sym_float" ? types().floating
                 : kind == "as_sym_bool"  ? types().boolean
                                          : b_.tensorTypeOf(name);
  Value* input = b_.graph().addInput(type);
  bindLeaf(name, input, {});
  addParts(leaf, input->name());
}

void ProgramReader::bindLeaf(std::string_view name, Value* value, InputCondition::Source source) {
  ExportBuilder::name(value, name);
  b_.bind(name, value);
  if (source.input.empty()) source.input = value->name();
  bound_.push_back({value, name, std::move(source), nextLeaf_ - 1});
}

void ProgramReader::addSizes(ExportedProgram& out) {
  for (const Leaf& leaf : bound_) {
    TypePtr type = b_.tensorTypeOf(leaf.name);
    if (!leaf.value->type()->isTensor() || !type->tensor().hasRank) continue;
    leaf.value->setType(type);
    ExportedInput& sizes = out.inputs.tensors.emplace_back();
    sizes.name = leaf.source.input;
    sizes.path = leaf.source.path;
    if (!sizes.path.empty()) sizes.dtype = type->tensor().dtype;
    for (Json size : items(tensorMeta(leaf.name).find("sizes"))) sizes.sizes.push_back(sizeOf(size));
    nameSizes(leaf.value, sizes.sizes);
  }
}

// Where conditions speak of arguments that Python gathers, graphs have one for each: `args[1]` is "args_1", `kw['k']`
// is "k". Leaves by their number are "flat_args".
std::optional<InputCondition::Source> ProgramReader::sourceAt(std::span<const std::string> place) const {
  auto find = [&](std::vector<std::string> wanted) -> std::optional<InputCondition::Source> {
    for (const Leaf& leaf : bound_)
      if (std::ranges::find(places_[leaf.index], wanted) != places_[leaf.index].end()) return leaf.source;
    return std::nullopt;
  };
  std::vector<std::string> whole(place.begin(), place.end());
  if (auto found = find(whole); found || place.size() < 2) return found;
  if (place[0] == "flat_args") {
    const auto leaf = std::ranges::find_if(bound_, [&](const Leaf& l) { return std::to_string(l.index) == place[1]; });
    return leaf == bound_.end() ? std::nullopt : std::optional(leaf->source);
  }
  std::vector<std::string> gathered(whole.begin() + 1, whole.end());
  if (auto found = find(gathered)) return found;
  gathered[0] = place[0] + "_" + place[1];
  return find(std::move(gathered));
}

std::vector<SizeExpression> ProgramReader::sizesOf(const InputCondition& condition) {
  std::vector<SizeExpression> out;
  for (const InputCondition::Source& s : condition.sources()) {
    out.push_back(SizeExpression::unknown());
    const auto leaf = std::ranges::find_if(
        bound_, [&](const Leaf& l) { return l.source.input == s.input && l.source.path == s.path; });
    if (leaf == bound_.end() || s.kind != InputCondition::Source::Kind::Size) continue;
    const std::vector<Json> sizes = items(tensorMeta(leaf->name).find("sizes"));
    if (static_cast<size_t>(s.dim) >= sizes.size()) continue;
    const Json size = sizes[static_cast<size_t>(s.dim)];
    if (const int64_t known = exported::sizeOf(size); known != kUnknownSize)
      out.back() = known;
    else if (auto told =
                 SizeExpression::parse(expressionOf(size), [&](std::string_view name) { return symbolNamed(name); }))
      out.back() = *told;
  }
  return out;
}

// Those that are bounds of a symbol are taken as such, so that all that knows sizes knows them.
std::vector<InputCondition> ProgramReader::readConditions() {
  std::vector<InputCondition> out;
  for (Json guard : items(root_.find("guards_code"))) {
    std::optional<InputCondition> condition =
        InputCondition::parse(textOf(guard), [&](std::span<const std::string> place) { return sourceAt(place); });
    if (!condition || out.size() == kMostConditions) {
      b_.remark(guard, fmt::format("the program asks of its inputs that {}, which is not checked",
                                   abbreviate(textOf(guard), 200)));
      continue;
    }
    if (const InputCondition::Meaning m = condition->meaningOf(sizesOf(*condition)); m.symbol) {
      SizeRange& known = ranges_[m.symbol->text()];
      const SizeRange both{std::max(known.least, m.range.least), std::min(known.most, m.range.most)};
      if (both.least <= both.most) known = both;
    }
    out.push_back(std::move(*condition));
  }
  std::erase_if(out, [&](const InputCondition& c) { return c.meaningOf(sizesOf(c)).isCertain; });
  return out;
}

// Symbols of the program are those of the types of its inputs, which are checked in each run.
void ProgramReader::nameSizes(Value* input, const std::vector<ExportedSize>& sizes) {
  TensorFacts facts = input->type()->tensor();
  if (!facts.hasRank || facts.sizes.size() != sizes.size()) return;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (auto named = SizeExpression::parse(sizes[d].symbol, [&](std::string_view name) { return symbolNamed(name); }))
      facts.sizes[d] = named->size();
  input->setType(tensorType(facts));
}

ExportedSize ProgramReader::sizeOf(Json size) {
  int64_t known = exported::sizeOf(size);
  if (known != kUnknownSize) return {known, known, {}, known};
  ExportedSize out{0, std::numeric_limits<int64_t>::max(), {}, hintOf(size)};
  const auto told = SizeExpression::parse(expressionOf(size), [&](std::string_view name) { return symbolNamed(name); });
  if (!told) return out;
  out.least = std::max<int64_t>(told->range().least, 0);
  out.most = std::max(told->range().most, out.least);
  if (!told->isNumber()) out.symbol = told->text();
  return out;
}

SizeExpression ProgramReader::symbolNamed(std::string_view name) {
  SizeRange range{0, std::numeric_limits<int64_t>::max()};
  Json bounds = root_.find("range_constraints").find(name);
  Json least = bounds.find("min_val"), most = bounds.find("max_val");
  // PyTorch does not hold callers to bounds of 2 and less: they come from how programs are traced.
  constexpr int64_t kTraced = 2;
  if (least)
    if (std::optional<int64_t> n = least.integer(); n && *n > kTraced) range.least = *n;
  if (most)
    if (std::optional<int64_t> n = most.integer(); n && *n >= range.least) range.most = *n;
  if (auto asked = ranges_.find(name); asked != ranges_.end()) {
    range.least = std::max(range.least, asked->second.least);
    range.most = std::max(std::min(range.most, asked->second.most), range.least);
  }
  return SizeExpression::symbol(name, range);
}

bool ProgramReader::readOutputs() {
  Json signature = module_.find("signature");
  std::vector<Json> specs = items(signature.find("output_specs"));
  std::vector<Json> outputs = items(graph_.find("outputs"));
  if (Json written = signature.find("buffers_to_mutate"); written && !signature.find("output_specs"))
    return readOldOutputs(written, outputs);
  if (specs.size() != outputs.size()) return b_.fail(graph_, "the graph has not as many outputs as the signature");
  std::vector<Value*> results;
  for (size_t i = 0; i < specs.size(); ++i) {
    Json s = alternative(specs[i]);
    if (!s) return b_.fail(specs[i], "the output is none of those that programs have");
    if (s.key() == "token") continue;
    Value* v = readFreeArgument(b_, outputs[i]);
    if (!v) return false;
    if (s.key() == "user_output") {
      results.push_back(v);
    } else if (s.key() == "user_input_mutation") {
      if (!write(s, s.find("user_input_name"), v)) return false;
    } else if (s.key() == "buffer_mutation" || s.key() == "parameter_mutation") {
      auto attribute = attributes_.find(textOf(s.find(pathKey(s.key()))));
      if (attribute == attributes_.end()) return b_.fail(s, "what is written is not there");
      if (!write(s, attribute->second, v)) return false;
    } else {
      return b_.fail(s, fmt::format("outputs of the kind '{}' are not supported", abbreviate(s.key(), 40)),
                     ErrorKind::Unsupported);
    }
  }
  return finish(results);
}

// Of PyTorch 2.1: new values of buffers have their paths by the names of outputs.
bool ProgramReader::readOldOutputs(Json written, std::span<const Json> outputs) {
  std::vector<Value*> results;
  for (Json output : outputs) {
    Value* v = readFreeArgument(b_, output);
    if (!v) return false;
    const std::vector<Json> names = namesOf(output);
    Json path = names.size() == 1 ? written.find(textOf(names[0])) : Json();
    if (!path) {
      results.push_back(v);
      continue;
    }
    auto attribute = attributes_.find(textOf(path));
    if (attribute == attributes_.end()) return b_.fail(path, "what is written is not there");
    if (!write(path, attribute->second, v)) return false;
  }
  return finish(results);
}

// The new value of a buffer or input. A result that is this value is the tensor that was written.
bool ProgramReader::write(Json spec, Json name, Value* value) {
  Value* target = b_.find(name);
  if (!target) return false;
  if (target == value) return true;
  Value* copied = b_.call("aten::copy_", {target, value, b_.constant(IValue(false))}, spec);
  if (!copied) return false;
  written_.emplace(value, copied);
  return true;
}

bool ProgramReader::finish(std::vector<Value*> results) {
  for (Value*& r : results)
    if (auto at = written_.find(r); at != written_.end()) r = at->second;
  Json spec = trees().find("out_spec");
  if (!spec.is(JsonTree::Kind::String)) {
    for (Value* v : results) b_.graph().addOutput(v);
    return true;
  }
  std::optional<Tree> tree = readTree(b_, spec, module_.find("treespec_namedtuple_fields"));
  if (!tree) return false;
  if (tree->leafCount() != results.size())
    return b_.fail(spec, fmt::format("the tree of outputs has {}, the program {}", counted(tree->leafCount(), "leaf"),
                                     counted(results.size(), "output")));
  b_.graph().addOutput(packOutput(b_, *tree, results));
  return true;
}

}  // namespace
}  // namespace exported

Result<ExportedProgram> readProgram(const JsonTree& json, const std::string& prefix, const OpRegistry& registry,
                                    Diagnostics& diagnostics, UnknownOperators unknown) {
  ExportedProgram program;
  if (!exported::ProgramReader(json, prefix, registry, diagnostics, unknown).read(program)) return Failed{};
  return program;
}

}  // namespace tscompile
