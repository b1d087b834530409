#include "frontend/files/checkpoint.h"

#include "frontend/files/archive_kind.h"
#include "frontend/files/number_text.h"
#include "frontend/files/torch_storages.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

using Kind = PickleValue::Kind;

// Says where the tensors of a stream will be, without their bytes, and remembers what was asked for.
class ExpectedStorages : public PickleStorages {
 public:
  struct Expected {
    DType dtype;
    uint64_t count;
  };
  Ref<Storage> find(std::string_view key, DType dtype, uint64_t count) override {
    Expected& e = expected.try_emplace(std::string(key), Expected{dtype, count}).first->second;
    e.count = std::max(e.count, count);
    return Storage::symbolic(count * itemSize(dtype));
  }
  std::map<std::string, Expected, std::less<>> expected;
};

// The storages behind the pickles of a stream: for each key a count of elements and the elements, the lowest byte
// first.
class StreamStorages : public PickleStorages {
 public:
  StreamStorages(std::string path, Diagnostics& diagnostics) : path_(std::move(path)), diagnostics_(diagnostics) {}
  Ref<Storage> find(std::string_view key, DType dtype, uint64_t count) override {
    auto at = storages.find(key);
    if (at != storages.end())
      return holdsElements(*at->second, key, dtype, count, path_, diagnostics_) ? at->second : nullptr;
    diagnostics_.fileError(path_, {}, fmt::format("the file has no storage '{}'", abbreviate(key, 200)));
    return nullptr;
  }
  std::map<std::string, Ref<Storage>, std::less<>> storages;

 private:
  std::string path_;
  Diagnostics& diagnostics_;
};

// Reads pickles one after the other.
struct PickleStream {
  FilePart rest;
  PickleOptions options;
  Diagnostics& diagnostics;

  std::shared_ptr<const PickleTree> next(PickleStorages* storages = nullptr) {
    options.offset = rest.offset;
    options.storages = storages;
    size_t used = 0;
    auto tree = readPickle(rest.bytes, options, diagnostics, &used);
    if (!tree) return nullptr;
    rest.bytes.remove_prefix(used);
    rest.offset += used;
    return *tree;
  }
  bool fail(std::string message) {
    diagnostics.fileError(rest.path, rest.offset, std::move(message));
    return false;
  }
};

bool readStorage(PickleStream& stream, const PickleValue& key, const RefCounted* owner, const ExpectedStorages& wanted,
                 StreamStorages& out) {
  constexpr size_t kCountBytes = 8;
  if (!key.is(Kind::String)) return stream.fail("the names of storages are not strings");
  auto expected = wanted.expected.find(key.text());
  if (expected == wanted.expected.end())
    return stream.fail(fmt::format("no tensor uses the storage '{}'", abbreviate(key.text(), 200)));
  std::string_view& b = stream.rest.bytes;
  if (b.size() < kCountBytes) return stream.fail("the file ends before its storages do");
  uint64_t count = 0;
  for (size_t i = kCountBytes; i-- > 0;) count = count << 8 | static_cast<unsigned char>(b[i]);
  uint64_t item = itemSize(expected->second.dtype);
  if (count > (b.size() - kCountBytes) / item) return stream.fail("the file ends before its storages do");
  FilePart part{b.substr(kCountBytes, count * item), stream.rest.path, stream.rest.offset + kCountBytes};
  Ref<Storage> storage = storageOf(part, owner, stream.diagnostics);
  if (!storage) return false;
  out.storages.emplace(key.text(), std::move(storage));
  b.remove_prefix(kCountBytes + count * item);
  stream.rest.offset += kCountBytes + count * item;
  return true;
}

bool isMagic(const PickleValue& value) {
  return value.is(Kind::Long) && value.text() == "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
}

// After the magic number: the version of the format, facts on the machine, the value, the names of the storages, the
// storages. Null after a report.
std::shared_ptr<const PickleTree> readLegacyStream(PickleStream& stream, const RefCounted* owner) {
  constexpr int64_t kProtocol = 1001;
  auto fail = [&](std::string message) {
    stream.fail(std::move(message));
    return nullptr;
  };
  auto protocol = stream.next();
  if (!protocol) return nullptr;
  if (!protocol->root().is(Kind::Int) || protocol->root().toInt() != kProtocol)
    return fail("the version of the checkpoint's format is not 1001");
  if (!stream.next()) return nullptr;
  FilePart value = stream.rest;
  ExpectedStorages expected;
  if (!stream.next(&expected)) return nullptr;
  auto keys = stream.next();
  if (!keys) return nullptr;
  if (!keys->root().is(Kind::List)) return fail("the names of storages are not a list");
  StreamStorages storages(stream.rest.path, stream.diagnostics);
  for (PickleRef key : keys->root().items())
    if (!readStorage(stream, *key, owner, expected, storages)) return nullptr;
  stream.rest = value;
  return stream.next(&storages);
}

// What pickle.dump() writes has no storages beside it: each is a stream of its own, as bytes.
class BytesOfStorages : public PickleStorages {
 public:
  BytesOfStorages(const FilePart& file, const PickleOptions& options, Diagnostics& diagnostics)
      : file_(file), options_(options), diagnostics_(diagnostics) {}
  Ref<Storage> find(std::string_view, DType, uint64_t) override {
    diagnostics_.fileError(file_.path, {}, "the pickle refers to storages that are not in the file");
    return nullptr;
  }
  const PickleStorage* ofBytes(std::string_view bytes) override {
    auto [known, isNew] = known_.try_emplace(bytes.data());
    if (isNew) {
      Diagnostics unheard;  // places in these bytes are none of the file
      PickleStream stream{{bytes, file_.path}, options_, unheard};
      auto magic = stream.next();
      auto tree = magic && isMagic(magic->root()) ? readLegacyStream(stream, nullptr) : nullptr;
      if (tree && tree->root().is(Kind::Storage)) known->second = tree->root().storage();
      known->second.key = bytes.substr(0, 0);  // unlike the tree's, it stays
    }
    if (known->second.storage) return &known->second;
    diagnostics_.fileError(file_.path, {}, "the bytes of a storage are not as torch.save writes them");
    return nullptr;
  }

 private:
  FilePart file_;
  PickleOptions options_;
  Diagnostics& diagnostics_;
  std::map<const char*, PickleStorage> known_;
};

std::string numberText(double value) {
  std::string out;
  appendNumber(value, out);
  return out;
}

// A key that is no container, as str() has it.
std::optional<std::string> plainKeyText(const PickleValue& key) {
  switch (key.kind()) {
    case Kind::String:
    case Kind::Bytes:  // strings of Python 2
    case Kind::Name:
    case Kind::Device:
      return std::string(key.text());
    case Kind::Int:
      return std::to_string(key.toInt());
    case Kind::Bool:
      return key.toBool() ? "True" : "False";
    case Kind::None:
      return "None";
    case Kind::Float:
      return numberText(key.toFloat());
    default:
      return std::nullopt;
  }
}

// What a key of a dict is called; of tuples "('a', 1)". Not much longer than `most` bytes, which is too long then.
std::optional<std::string> keyText(const PickleValue& key, size_t most) {
  if (!key.is(Kind::Tuple)) return plainKeyText(key);
  std::string out = "(";
  for (PickleRef item : key.items()) {
    const std::optional<std::string> text = plainKeyText(*item);
    if (!text) return std::nullopt;
    if (out.size() > most) break;
    if (out.size() > 1) out += ", ";
    out += item->is(Kind::String) ? "'" + *text + "'" : *text;
  }
  return out + (key.items().size() == 1 ? ",)" : ")");
}

// Containers that a walk may see for each tensor that it may find.
constexpr uint64_t kStepsForATensor = 4;

// Walks containers; each holds names for what is in it.
class TensorWalk {
 public:
  TensorWalk(const std::string& path, const Limits& limits, Diagnostics& diagnostics)
      : path_(path), limits_(limits), diagnostics_(diagnostics) {}

  bool run(const PickleValue& container, std::vector<NamedTensor>& out);
  std::vector<NamedObject> takeOthers() { return std::move(others_); }

 private:
  struct Step {
    std::string name;
    PickleRef value;
  };
  bool fail(PickleRef at, std::string message, ErrorKind kind) {
    diagnostics_.fileError(path_, at->offset(), std::move(message), kind);
    return false;
  }
  bool add(const std::string& prefix, std::string_view key, PickleRef value);
  bool open(const Step& step, bool isOutermost);
  bool openDict(const Step& step, PickleRef dict);
  bool openObject(const Step& step);
  bool checkNames(const std::vector<NamedTensor>& found);

  const std::string& path_;
  const Limits& limits_;
  Diagnostics& diagnostics_;
  std::vector<Step> todo_;  // the next last
  std::vector<NamedObject> others_;
  size_t firstNew_ = 0;
  uint64_t steps_ = 0, nameBytes_ = 0;
};

bool TensorWalk::run(const PickleValue& container, std::vector<NamedTensor>& out) {
  todo_.push_back({"", &container});
  bool isOutermost = true;
  while (!todo_.empty()) {
    Step step = std::move(todo_.back());
    todo_.pop_back();
    if (step.value->is(Kind::Tensor)) {
      if (out.size() == limits_.tensors)
        return diagnostics_.metLimit(
            "tensors",
            fail(step.value, fmt::format("the file has more than {} tensors", limits_.tensors), ErrorKind::Limit));
      out.push_back({std::move(step.name), &step.value->tensor()});
      continue;
    }
    firstNew_ = todo_.size();
    if (!open(step, isOutermost)) return false;
    std::reverse(todo_.begin() + static_cast<ptrdiff_t>(firstNew_), todo_.end());
    isOutermost = false;
  }
  return checkNames(out);
}

// Shared containers are walked for each of their names, so that a small file may have very many.
bool TensorWalk::add(const std::string& prefix, std::string_view key, PickleRef value) {
  bool isContainer =
      value->is(Kind::Dict) || value->is(Kind::List) || value->is(Kind::Tuple) || value->is(Kind::Object);
  if (!isContainer && !value->is(Kind::Tensor)) return true;
  std::string name = prefix.empty() ? std::string(key) : fmt::format("{}.{}", prefix, key);
  nameBytes_ += name.size();
  if (name.size() > limits_.identifierBytes)
    return diagnostics_.metLimit(
        "identifier",
        fail(value, fmt::format("a name has more than {} bytes", limits_.identifierBytes), ErrorKind::Limit));
  if (nameBytes_ > limits_.headerBytes || ++steps_ > kStepsForATensor * limits_.tensors)
    return fail(value, "the containers of the file hold each other too often", ErrorKind::Limit);
  todo_.push_back({std::move(name), value});
  return true;
}

bool TensorWalk::open(const Step& step, bool isOutermost) {
  const PickleValue& value = *step.value;
  if (value.is(Kind::Dict)) return (!isOutermost && isOptimizer(value)) || openDict(step, &value);
  if (value.is(Kind::Object)) return openObject(step);
  if (!value.is(Kind::List) && !value.is(Kind::Tuple)) return true;
  for (size_t i = 0; i < value.items().size(); ++i)
    if (!add(step.name, std::to_string(i), value.items()[i])) return false;
  return true;
}

bool TensorWalk::openDict(const Step& step, PickleRef dict) {
  for (const PickleValue::Entry& e : dict->entries()) {
    const std::optional<std::string> key = keyText(*e.key, limits_.identifierBytes);
    if (key && !add(step.name, *key, e.value)) return false;
  }
  return true;
}

// Modules of Python keep what has a name in three dicts, those of TorchScript in their attributes. Of other objects
// nothing is known.
bool TensorWalk::openObject(const Step& step) {
  const PickleObject& object = step.value->object();
  // Those of torch.fx are made of the dict that others are given afterwards.
  const bool isMade = !object.state && object.arguments && object.arguments->is(Kind::Tuple);
  PickleRef state = isMade && !object.arguments->items().empty() ? object.arguments->items()[0] : object.state;
  if (state && state->is(Kind::Dict)) {
    if (startsWith(object.name, "__torch__.")) return openDict(step, state);
    if (state->find("_parameters") && state->find("_modules")) {
      for (std::string_view part : {"_parameters", "_buffers", "_modules"}) {
        PickleRef dict = state->find(part);
        if (dict && dict->is(Kind::Dict) && !openDict(step, dict)) return false;
      }
      return true;
    }
  }
  others_.push_back({step.name, step.value});
  return true;
}

bool TensorWalk::checkNames(const std::vector<NamedTensor>& found) {
  std::vector<std::string_view> names;
  for (const auto& [name, tensor] : found) names.push_back(name);
  std::sort(names.begin(), names.end());
  auto twin = std::adjacent_find(names.begin(), names.end());
  if (twin == names.end()) return true;
  diagnostics_.fileError(path_, {}, fmt::format("the file has two of {}", tensorText(*twin)));
  return false;
}

}  // namespace

Result<std::vector<NamedTensor>> namedTensors(const PickleValue& container, const std::string& path,
                                              Diagnostics& diagnostics, const Limits& limits,
                                              std::vector<NamedObject>* others) {
  std::vector<NamedTensor> out;
  TensorWalk walk(path, limits, diagnostics);
  if (!walk.run(container, out)) return Failed{};
  if (others) *others = walk.takeOthers();
  return out;
}

bool isOptimizer(const PickleValue& value) { return value.find("state") && value.find("param_groups"); }

Result<std::shared_ptr<const Checkpoint>> Checkpoint::read(const FilePart& file, const RefCounted* owner,
                                                           bool foreignNames, Diagnostics& diagnostics,
                                                           const Limits& limits) {
  auto out = std::make_shared<Checkpoint>();
  out->limits_ = limits;
  out->path_ = file.path;
  PickleOptions options;
  options.path = file.path;
  options.foreignNames = foreignNames;
  options.limits = limits;
  if (owner) {
    owner->retain();
    options.owner = std::shared_ptr<const RefCounted>(owner, [](const RefCounted* p) { p->release(); });
  }
  bool good = startsWith(file.bytes, "PK") ? out->readZip(file, owner, options, diagnostics)
                                           : out->readStream(file, owner, options, diagnostics);
  if (!good) return Failed{};
  return std::shared_ptr<const Checkpoint>(std::move(out));
}

bool Checkpoint::readZip(const FilePart& file, const RefCounted* owner, const PickleOptions& base,
                         Diagnostics& diagnostics) {
  Result<std::shared_ptr<const ZipArchive>> zip = ZipArchive::read(file, owner, diagnostics, limits_);
  if (!zip) return false;
  std::string root(archiveRoot(**zip));
  const ZipMember* member = (*zip)->find(root + "data.pkl");
  if (!member) {
    reportFileKind(file.path, "a PyTorch checkpoint", archiveKind(**zip), diagnostics);
    return false;
  }
  if (const ZipMember* order = (*zip)->find(root + "byteorder")) {
    Result<ZipContents> text = (*zip)->contents(*order, 100, diagnostics);
    if (!text) return false;
    bigEndian_ = text->part.bytes == "big";
  }
  Result<ZipContents> contents = (*zip)->contents(*member, limits_.textBytes, diagnostics);
  if (!contents) return false;
  ZipStorages storages(*zip, root + "data/", bigEndian_, diagnostics);
  PickleOptions options = base;
  options.path = contents->part.path;
  options.offset = contents->part.offset;
  options.owner = contents->owner;
  options.storages = &storages;
  auto tree = readPickle(contents->part.bytes, options, diagnostics);
  if (tree) tree_ = *tree;
  return tree.ok();
}

bool Checkpoint::readStream(const FilePart& file, const RefCounted* owner, const PickleOptions& options,
                            Diagnostics& diagnostics) {
  BytesOfStorages storages(file, options, diagnostics);
  PickleStream stream{file, options, diagnostics};
  auto first = stream.next(&storages);
  if (!first) return false;
  tree_ = isMagic(first->root()) ? readLegacyStream(stream, owner) : std::move(first);
  return tree_ != nullptr;
}

Result<std::vector<NamedTensor>> Checkpoint::tensors(const PickleValue& container, Diagnostics& diagnostics,
                                                     std::vector<NamedObject>* others) const {
  return namedTensors(container, path_, diagnostics, limits_, others);
}

PickleRef Checkpoint::find(std::string_view path) const {
  PickleRef at = &root();
  while (at && !path.empty()) {
    // The longest key that fits, as keys of state dicts have dots themselves.
    size_t end = path.size();
    PickleRef next = at->find(path);
    while (!next && end > 0 && (end = path.rfind('.', end - 1)) != std::string_view::npos)
      next = at->find(path.substr(0, end));
    if (next) path.remove_prefix(std::min(path.size(), end + 1));
    at = next;
  }
  return at;
}

// The only entry of a dict that is a dict of tensors again; null if there is none. Tensors by themselves and in lists
// are of other things: the state of a generator, means.
const PickleValue::Entry* Checkpoint::onlyEntry(const PickleValue& dict) const {
  const PickleValue::Entry* only = nullptr;
  for (const PickleValue::Entry& e : dict.entries()) {
    if (!e.value->is(Kind::Dict) || !e.key->is(Kind::String) || isOptimizer(*e.value)) continue;
    Diagnostics ignored;
    Result<std::vector<NamedTensor>> inside = tensors(*e.value, ignored);
    if (!inside || inside->empty()) continue;
    if (only) return nullptr;
    only = &e;
  }
  return only;
}

std::string Checkpoint::onlyContainer() const {
  constexpr int kMostLevels = 4;
  std::string out;
  PickleRef at = &root();
  for (int level = 0; level < kMostLevels && at->is(Kind::Dict); ++level) {
    const PickleValue::Entry* only = onlyEntry(*at);
    if (!only) break;
    out += std::string(only->key->text()) + ".";
    at = only->value;
  }
  return out;
}

}  // namespace tscompile
