#include "frontend/export/program.h"

#include "frontend/export/arguments.h"
#include "frontend/export/graph_reader.h"
#include "frontend/export/output_tree.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <limits>

namespace tscompile {
namespace exported {
namespace {

constexpr int64_t kNewestVersion = 8;  // of the schema of programs that is known: its major number

class ProgramReader {
 public:
  ProgramReader(const JsonTree& json, const OpRegistry& registry, Diagnostics& diagnostics)
      : root_(json.root()),
        module_(root_.find("graph_module")),
        graph_(module_.find("graph")),
        b_(registry, diagnostics) {}

  bool read(ExportedProgram& out);

 private:
  bool checkVersion();
  bool readInputs(ExportedProgram& out);
  bool readInput(Json spec, ExportedProgram& out);
  bool readUserInput(Json argument, ExportedProgram& out);
  void addSizes(std::string_view name, const Value* input, ExportedProgram& out);
  ExportedSize sizeOf(Json size);
  bool readOutputs();
  bool write(Json target, Json name, Value* value);
  bool finish(std::span<Value* const> results);

  Json root_, module_, graph_;
  ExportBuilder b_;
  std::unordered_map<std::string_view, Json> attributes_;  // by path: the argument that stands for it
  std::unordered_map<const Value*, Value*> written_;       // values that were copied, and where they are now
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
  out.graph = b_.take();
  return true;
}

bool ProgramReader::readInputs(ExportedProgram& out) {
  Json specs = module_.find("signature").find("input_specs");
  if (!specs.is(JsonTree::Kind::Array)) return b_.fail(module_, "the program has no signature");
  for (Json spec : items(specs))
    if (!readInput(spec, out)) return false;
  return true;
}

// How the paths of attributes are called in the specifications of inputs and of writes.
std::string_view pathKey(std::string_view kind) {
  if (startsWith(kind, "parameter")) return "parameter_name";
  if (startsWith(kind, "buffer")) return "buffer_name";
  return kind == "tensor_constant" ? "tensor_constant_name" : "";
}

bool ProgramReader::readInput(Json spec, ExportedProgram& out) {
  Json s = alternative(spec);
  if (!s) return b_.fail(spec, "the input is none of those that programs have");
  if (s.key() == "user_input") return readUserInput(s.find("arg"), out);
  if (s.key() == "constant_input") return true;
  std::string_view key = pathKey(s.key());
  if (key.empty())
    return b_.fail(s, fmt::format("inputs of the kind '{}' are not supported", abbreviate(s.key(), 40)),
                   ErrorKind::Unsupported);
  std::string_view path = textOf(s.find(key)), name = textOf(s.find("arg").find("name"));
  if (path.empty() || name.empty()) return b_.fail(s, "the input has no name");
  b_.bindAttribute(name, path);
  attributes_[path] = s.find("arg").find("name");
  return true;
}

// Constants that the program was exported for are no inputs.
bool ProgramReader::readUserInput(Json argument, ExportedProgram& out) {
  std::vector<Json> names = namesOf(argument);
  if (names.empty()) return true;
  if (names.size() != 1) return b_.fail(argument, "the input has several names");
  std::string_view name = textOf(names[0]), kind = alternative(argument).key();
  TypePtr type = kind == "as_sym_int"     ? types().integer
                 : kind == "as_sym_float" ? types().floating
                 : kind == "as_sym_bool"  ? types().boolean
                                          : b_.tensorTypeOf(name);
  Value* input = b_.graph().addInput(type);
  ExportBuilder::name(input, name);
  b_.bind(name, input);
  if (type->isTensor()) addSizes(name, input, out);
  return true;
}

void ProgramReader::addSizes(std::string_view name, const Value* input, ExportedProgram& out) {
  if (!input->type()->tensor().hasRank) return;
  ExportedInput& sizes = out.inputs.emplace_back();
  sizes.name = input->name();
  for (Json size : items(graph_.find("tensor_values").find(name).find("sizes"))) sizes.sizes.push_back(sizeOf(size));
}

ExportedSize ProgramReader::sizeOf(Json size) {
  int64_t known = exported::sizeOf(size);
  if (known != kUnknownSize) return {known, known, {}};
  ExportedSize out{0, std::numeric_limits<int64_t>::max(), std::string(symbolOf(size))};
  if (out.symbol.empty()) return out;
  Json range = root_.find("range_constraints").find(out.symbol);
  Json least = range.find("min_val"), most = range.find("max_val");
  // PyTorch does not hold callers to bounds of 2 and less: they come from how programs are traced.
  constexpr int64_t kTraced = 2;
  if (least)
    if (std::optional<int64_t> n = least.integer(); n && *n > kTraced) out.least = *n;
  if (most)
    if (std::optional<int64_t> n = most.integer(); n && *n >= out.least) out.most = *n;
  return out;
}

bool ProgramReader::readOutputs() {
  std::vector<Json> specs = items(module_.find("signature").find("output_specs"));
  std::vector<Json> outputs = items(graph_.find("outputs"));
  if (specs.size() != outputs.size()) return b_.fail(graph_, "the graph has not as many outputs as the signature");
  std::vector<Value*> results;
  for (size_t i = 0; i < specs.size(); ++i) {
    Json s = alternative(specs[i]);
    if (!s) return b_.fail(specs[i], "the output is none of those that programs have");
    Value* v = readFreeArgument(b_, outputs[i]);
    if (!v) return false;
    if (s.key() == "user_output") {
      results.push_back(v);
    } else if (s.key() == "user_input_mutation") {
      if (!write(s, s.find("user_input_name"), v)) return false;
    } else if (std::string_view key = pathKey(s.key()); !key.empty() && endsWith(s.key(), "_mutation")) {
      auto at = attributes_.find(textOf(s.find(key)));
      if (at == attributes_.end()) return b_.fail(s, "the program has no such buffer");
      if (!write(s, at->second, v)) return false;
    } else {
      return b_.fail(s, fmt::format("outputs of the kind '{}' are not supported", abbreviate(s.key(), 40)),
                     ErrorKind::Unsupported);
    }
  }
  for (Value*& r : results)
    if (auto at = written_.find(r); at != written_.end()) r = at->second;
  return finish(results);
}

// The new value of a buffer or input. A result that is this value is the tensor that was written.
bool ProgramReader::write(Json spec, Json name, Value* value) {
  Value* target = b_.find(name);
  if (!target) return b_.fail(spec, "what is written is not there");
  if (target == value) return true;
  Value* copied = b_.call("aten::copy_", {target, value, b_.constant(IValue(false))}, spec);
  if (!copied) return false;
  written_.emplace(value, copied);
  return true;
}

bool ProgramReader::finish(std::span<Value* const> results) {
  std::vector<Json> calls = items(module_.find("module_call_graph"));
  Json spec = calls.empty() ? Json() : calls[0].find("signature").find("out_spec");
  if (!spec.is(JsonTree::Kind::String)) {
    for (Value* v : results) b_.graph().addOutput(v);
    return true;
  }
  Value* root = buildOutput(b_, spec, module_.find("treespec_namedtuple_fields"), results);
  if (root) b_.graph().addOutput(root);
  return root != nullptr;
}

}  // namespace
}  // namespace exported

Result<ExportedProgram> readProgram(const JsonTree& json, const OpRegistry& registry, Diagnostics& diagnostics) {
  ExportedProgram program;
  if (!exported::ProgramReader(json, registry, diagnostics).read(program)) return Failed{};
  return program;
}

}  // namespace tscompile
