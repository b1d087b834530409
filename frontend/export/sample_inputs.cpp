#include "frontend/export/sample_inputs.h"

#include "frontend/files/archive_kind.h"
#include "frontend/files/checkpoint.h"
#include "frontend/files/file_io.h"
#include "frontend/files/zip.h"
#include "ir/support/text.h"

#include <string_view>

namespace tscompile {
namespace {

// Of PyTorch 2.1 to 2.7; since then each program has its own, NAME.pt in a folder.
constexpr std::string_view kOldSamples = "serialized_example_inputs.pt", kFolder = "/data/sample_inputs/";
constexpr int kDeepest = 20;

const ZipMember* samplesOf(const ZipArchive& zip, const std::string& method) {
  const ZipMember* only = nullptr;
  size_t count = 0;
  for (const ZipMember& m : zip.members()) {
    if (m.name == kOldSamples) return &m;
    if (m.name.find(kFolder) == std::string_view::npos) continue;
    if (endsWith(m.name, std::string(kFolder) + method + ".pt")) return &m;
    only = &m;
    ++count;
  }
  return count == 1 ? only : nullptr;
}

std::optional<IValue> valueOf(const PickleValue& v, int depth = 0);

std::optional<std::vector<IValue>> itemsOf(const PickleValue& v, int depth) {
  std::vector<IValue> items;
  for (PickleRef item : v.items()) {
    std::optional<IValue> value = valueOf(*item, depth + 1);
    if (!value) return std::nullopt;
    items.push_back(std::move(*value));
  }
  return items;
}

std::optional<IValue> dictOf(const PickleValue& v, int depth) {
  auto dict = Ref<DictValue>::make(types().string, types().any);
  for (const PickleValue::Entry& e : v.entries()) {
    std::optional<IValue> value = e.key->is(PickleValue::Kind::String) ? valueOf(*e.value, depth + 1) : std::nullopt;
    if (!value) return std::nullopt;
    dict->set(IValue(e.key->text()), std::move(*value));
  }
  return IValue(dict);
}

// Parts of a class of Python: named tuples are made with them, others have them as attributes, which programs take
// where they are not None.
std::optional<IValue> objectOf(const PickleObject& object, int depth) {
  if (!object.state) return object.arguments ? valueOf(*object.arguments, depth) : std::nullopt;
  std::optional<IValue> all = object.state->is(PickleValue::Kind::Dict) ? dictOf(*object.state, depth) : std::nullopt;
  if (!all) return std::nullopt;
  auto some = Ref<DictValue>::make(types().string, types().any);
  all->toDict().forEach([&](const IValue& key, const IValue& value) {
    if (!value.isNone()) some->set(key, value);
  });
  return IValue(some);
}

std::optional<IValue> valueOf(const PickleValue& v, int depth) {
  if (depth > kDeepest) return std::nullopt;
  switch (v.kind()) {
    case PickleValue::Kind::None:
      return IValue();
    case PickleValue::Kind::Bool:
      return IValue(v.toBool());
    case PickleValue::Kind::Int:
      return IValue(v.toInt());
    case PickleValue::Kind::Float:
      return IValue(v.toFloat());
    case PickleValue::Kind::String:
      return IValue(v.text());
    case PickleValue::Kind::Tensor:
      if (!v.tensor().tensor.defined() || v.tensor().quantization) return std::nullopt;
      return IValue(v.tensor().tensor);
    case PickleValue::Kind::List:
      if (auto items = itemsOf(v, depth)) return IValue(Ref<ListValue>::make(types().any, std::move(*items)));
      return std::nullopt;
    case PickleValue::Kind::Tuple:
      if (auto items = itemsOf(v, depth)) return IValue(Ref<TupleValue>::make(std::move(*items)));
      return std::nullopt;
    case PickleValue::Kind::Dict:
      return dictOf(v, depth);
    case PickleValue::Kind::Object:
      return objectOf(v.object(), depth);
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<SampleInputs> readSampleInputs(const std::string& path, const std::string& method, const Limits& limits) {
  Diagnostics unheard;
  auto zip = ZipArchive::open(path, unheard, limits);
  const ZipMember* member = zip ? samplesOf(**zip, method) : nullptr;
  if (!member) return std::nullopt;
  Result<ZipContents> bytes = (*zip)->contents(*member, limits.textBytes, unheard);
  if (!bytes) return std::nullopt;
  auto file = Checkpoint::read(bytes->part, nullptr, /*foreignNames=*/true, unheard, limits);
  if (!file) return std::nullopt;
  // (args, kwargs)
  const PickleValue& root = (*file)->root();
  if (!root.is(PickleValue::Kind::Tuple) || root.items().size() != 2) return std::nullopt;
  std::optional<IValue> args = valueOf(*root.items()[0]), kwargs = valueOf(*root.items()[1]);
  if (!args || !args->isTuple() || !kwargs || !kwargs->isDict()) return std::nullopt;
  SampleInputs out{args->toTuple().items, {}};
  kwargs->toDict().forEach(
      [&](const IValue& key, const IValue& value) { out.kwargs.emplace_back(key.toString(), value); });
  return out;
}

std::optional<IValue> readSavedValue(const std::string& path, const Limits& limits) {
  Diagnostics unheard;
  Ref<FileMapping> file = FileMapping::open(path, unheard);
  if (!file || !isCheckpoint(detectWholeFileKind(file->bytes(), limits))) return std::nullopt;
  auto saved = Checkpoint::read({file->bytes(), path}, file.get(), /*foreignNames=*/true, unheard, limits);
  return saved ? valueOf((*saved)->root()) : std::nullopt;
}

}  // namespace tscompile
