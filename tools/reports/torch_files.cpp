#include "tools/reports/torch_files.h"

#include "frontend/archive/torch_archive.h"
#include "frontend/files/tensor_formats.h"
#include "frontend/source/listing.h"
#include "ir/support/diagnostic_printer.h"
#include "ir/support/quantities.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <map>
#include <unordered_set>

namespace tscompile {
namespace {

using PickleKind = PickleValue::Kind;

// "  version     3", and the field of the same meaning.
void line(const TorchListing& out, std::string_view what, const std::string& text) {
  if (out.text) *out.text += fmt::format("  {:<12}{}\n", what, printable(abbreviate(text, 400)));
}
template <class T>
void field(const TorchListing& out, std::string_view key, const T& value) {
  if (!out.text) out.json.field(key, value);
}

std::string_view byteOrder(bool isBig) { return isBig ? "big" : "little"; }

uint64_t bytesOf(const PickleTensor& t) {
  return t.tensor.defined() ? static_cast<uint64_t>(t.tensor.numel()) * itemSize(t.tensor.dtype()) : 0;
}

std::string quantizationText(const Quantization& q) {
  return q.scheme == Quantization::Scheme::PerTensorAffine
             ? fmt::format("scale {}, zero point {}", shortestNumber(q.scale), q.zeroPoint)
             : fmt::format("a scale for each index of dimension {}", q.axis);
}

// Of long lists text shows the first ones, unless all are asked for.
constexpr size_t kMostShown = 20;

size_t shownOf(size_t count, const TorchListing& out) {
  return !out.text || out.whole || count <= kMostShown ? count : kMostShown;
}

void tellRest(size_t count, const TorchListing& out) {
  if (const size_t shown = shownOf(count, out); shown < count)
    *out.text += fmt::format("    and {} more: -v shows all\n", count - shown);
}

class TensorList {
 public:
  TensorList(const TorchListing& out, const std::vector<NamedTensor>& tensors) : out_(out), tensors_(tensors) {}

  void write() {
    std::map<const Storage*, uint64_t> storages;
    for (const auto& [name, t] : tensors_)
      if (t->tensor.defined()) storages[t->tensor.storage().get()] = t->tensor.storage()->bytes();
    uint64_t bytes = 0;
    for (const auto& [storage, size] : storages) bytes += size;
    line(out_, "tensors",
         fmt::format("{}, {} in {}", tensors_.size(), sizeText(bytes), counted(storages.size(), "storage")));
    field(out_, "storages", storages.size());
    field(out_, "tensor_bytes", bytes);
    if (!out_.text) {
      out_.json.key("tensors");
      out_.json.beginArray();
    }
    for (size_t i = 0; i < shownOf(tensors_.size(), out_); ++i) out_.text ? text(tensors_[i]) : json(tensors_[i]);
    tellRest(tensors_.size(), out_);
    if (!out_.text) out_.json.endArray();
  }

 private:
  // The first tensor of the same storage, if that is another.
  const std::string* sharesWith(const NamedTensor& t) {
    if (!t.tensor->tensor.defined()) return nullptr;
    const std::string* first = firstOf_.try_emplace(t.tensor->tensor.storage().get(), &t.name).first->second;
    return first == &t.name ? nullptr : first;
  }

  void text(const NamedTensor& named) {
    const PickleTensor& t = *named.tensor;
    std::string more = t.isParameter ? ", a parameter" : "";
    if (t.quantization) more += ", " + quantizationText(*t.quantization);
    if (t.tensor.defined() && !t.tensor.isContiguous()) more += ", strides " + dimsText(t.tensor.strides());
    if (const std::string* first = sharesWith(named)) more += ", in the storage of " + printable(*first);
    *out_.text += fmt::format("    {} : {} {}, {}{}\n", printable(named.name), pythonName(t.dtype), dimsText(t.sizes),
                              sizeText(bytesOf(t)), more);
  }

  void json(const NamedTensor& named) {
    const PickleTensor& t = *named.tensor;
    JsonWriter& json = out_.json;
    auto list = [&](std::string_view key, DimSpan values) {
      json.key(key);
      json.beginArray();
      for (int64_t v : values) json.value(v);
      json.endArray();
    };
    json.newLine();
    json.beginObject();
    json.field("name", named.name);
    json.field("dtype", pythonName(t.dtype));
    list("shape", t.sizes);
    if (t.tensor.defined() && !t.tensor.isContiguous()) list("strides", t.tensor.strides());
    json.field("bytes", bytesOf(t));
    json.field("storage", t.storage);
    if (const std::string* first = sharesWith(named)) json.field("shares_with", *first);
    if (t.quantization) json.field("quantization", quantizationText(*t.quantization));
    json.endObject();
  }

  const TorchListing& out_;
  const std::vector<NamedTensor>& tensors_;
  std::map<const Storage*, const std::string*> firstOf_;
};

void listTensors(const PickleValue& container, const std::string& path, const TorchListing& out) {
  auto tensors = namedTensors(container, path, out.diagnostics, out.limits);
  if (tensors) TensorList(out, *tensors).write();
}

// What a value is, in a few words.
std::string valueText(const PickleValue& v) {
  switch (v.kind()) {
    case PickleKind::Bool:
      return v.toBool() ? "True" : "False";
    case PickleKind::Int:
      return std::to_string(v.toInt());
    case PickleKind::Float:
      return shortestNumber(v.toFloat());
    case PickleKind::String:
      return jsonQuote(abbreviate(v.text(), 60));
    case PickleKind::Device:
    case PickleKind::Name:
      return std::string(v.text());
    case PickleKind::Tensor:
      return fmt::format("{} {}", pythonName(v.tensor().dtype), dimsText(v.tensor().sizes));
    case PickleKind::List:
    case PickleKind::Tuple:
    case PickleKind::Set:
      return fmt::format("{} of {}", describe(v.kind()), counted(v.items().size(), "item"));
    case PickleKind::Dict:
      return fmt::format("{} of {}", isOptimizer(v) ? "an optimizer" : "a dict", counted(v.entries().size(), "key"));
    case PickleKind::Object:
      return fmt::format("an object of {}", v.object().name);
    default:
      return std::string(describe(v.kind()));
  }
}

// Names and texts: "values" of a dict, "constants", "submodules".
void listValues(std::string_view title, std::string_view key,
                const std::vector<std::pair<std::string, std::string>>& of, const TorchListing& out) {
  if (out.text) {
    if (!of.empty()) line(out, title, std::to_string(of.size()));
    for (size_t i = 0; i < shownOf(of.size(), out); ++i)
      *out.text += fmt::format("    {} : {}\n", printable(abbreviate(of[i].first, 200)),
                               printable(abbreviate(of[i].second, 400)));
    tellRest(of.size(), out);
    return;
  }
  out.json.key(key);
  out.json.beginObject();
  for (const auto& [name, text] : of) {
    out.json.newLine();
    out.json.field(name, text);
  }
  out.json.endObject();
}

// Objects below an object that have attributes (members of enums have none), by their paths, each once.
std::vector<std::pair<std::string, std::string>> submodulesOf(const PickleValue& root) {
  std::vector<std::pair<std::string, std::string>> out;
  std::unordered_set<PickleRef> seen{&root};
  std::vector<std::pair<std::string, PickleRef>> todo{{"", &root}};
  while (!todo.empty()) {
    auto [path, object] = std::move(todo.back());
    todo.pop_back();
    if (object != &root) out.emplace_back(path, object->object().name);
    PickleRef state = object->object().state;
    if (!state || !state->is(PickleKind::Dict)) continue;
    for (auto e = state->entries().rbegin(); e != state->entries().rend(); ++e)
      if (e->value->is(PickleKind::Object) && e->value->object().state && e->key->is(PickleKind::String) &&
          seen.insert(e->value).second)
        todo.emplace_back(path.empty() ? std::string(e->key->text()) : fmt::format("{}.{}", path, e->key->text()),
                          e->value);
  }
  return out;
}

// The classes of objects anywhere that are not of TorchScript, with the byte of the first.
std::vector<std::pair<std::string, std::string>> foreignObjectsOf(const PickleValue& root) {
  std::map<std::string, uint64_t> first;
  std::unordered_set<PickleRef> seen{&root};
  std::vector<PickleRef> todo{&root};
  while (!todo.empty()) {
    PickleRef value = todo.back();
    todo.pop_back();
    if (value->is(PickleKind::Object)) first.try_emplace(std::string(value->object().name), value->offset());
    value->forEachPart([&](const PickleValue& part) {
      if (seen.insert(&part).second) todo.push_back(&part);
    });
  }
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [name, offset] : first) out.emplace_back(name, fmt::format("at byte {}", offset));
  return out;
}

void listSources(const TorchArchive& archive, const TorchListing& out) {
  std::vector<std::pair<std::string, std::string>> sources, operators;
  const std::string_view root = archive.data().object().name;
  const std::string file = TorchArchive::codeFileOf(root);
  SourceListing listing;
  for (const std::string& name : archive.codeFiles()) {
    if (!endsWith(name, ".py")) continue;
    Result<SourcePtr> text = archive.code(name, out.diagnostics);
    if (!text) continue;
    sources.emplace_back(name, sizeText((*text)->text().size()));
    listSource(*text, name == file ? root.substr(root.rfind('.') + 1) : std::string_view(), out.limits, out.diagnostics,
               listing);
  }
  for (const auto& [name, count] : listing.operators) operators.emplace_back(name, counted(count, "call"));
  listValues("methods", "methods", listing.methods, out);
  listValues("sources", "sources", sources, out);
  listValues("operators", "operators", operators, out);
}

}  // namespace

void listTorchScript(const TorchArchive& archive, uint64_t bytes, const TorchListing& out) {
  line(out, "size", sizeText(bytes));
  line(out, "version", fmt::format("{}{}", archive.version(), archive.isMobile() ? ", with bytecode for mobile" : ""));
  line(out, "byte order", std::string(byteOrder(archive.isBigEndian())));
  line(out, "class", std::string(archive.data().object().name));
  field(out, "bytes", bytes);
  field(out, "version", archive.version());
  field(out, "mobile", archive.isMobile());
  field(out, "byte_order", byteOrder(archive.isBigEndian()));
  field(out, "class", archive.data().object().name);
  listSources(archive, out);
  listValues("submodules", "submodules", submodulesOf(archive.data()), out);
  std::vector<std::pair<std::string, std::string>> constants;
  for (PickleRef constant : archive.constants())
    constants.emplace_back(fmt::format("c{}", constants.size()), valueText(*constant));
  listValues("constants", "constants", constants, out);
  listTensors(archive.data(), archive.path(), out);
}

void listCheckpoint(const Checkpoint& checkpoint, const std::string& path, uint64_t bytes, const TorchListing& out) {
  line(out, "size", sizeText(bytes));
  line(out, "byte order", std::string(byteOrder(checkpoint.isBigEndian())));
  field(out, "bytes", bytes);
  field(out, "byte_order", byteOrder(checkpoint.isBigEndian()));
  std::vector<std::pair<std::string, std::string>> values;
  const PickleValue& root = checkpoint.root();
  if (!root.is(PickleKind::Dict)) values.emplace_back("", valueText(root));
  if (root.is(PickleKind::Dict))
    for (const PickleValue::Entry& e : root.entries())
      if (!e.value->is(PickleKind::Tensor))
        values.emplace_back(e.key->is(PickleKind::String) ? std::string(e.key->text()) : valueText(*e.key),
                            valueText(*e.value));
  listValues("values", "values", values, out);
  listValues("objects", "objects", foreignObjectsOf(root), out);
  listTensors(root, path, out);
}

void listWeightsIndex(const WeightsIndex& index, const TorchListing& out) {
  std::map<std::string, size_t> tensors;
  for (const auto& [name, file] : index.tensors) ++tensors[file];
  std::vector<std::pair<std::string, std::string>> files;
  for (const auto& [file, count] : tensors) files.emplace_back(file, counted(count, "tensor"));
  listValues("files", "files", files, out);
}

}  // namespace tscompile
