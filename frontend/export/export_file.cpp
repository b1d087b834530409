#include "frontend/export/export_file.h"

#include "frontend/export/program_json.h"
#include "frontend/files/archive_kind.h"
#include "frontend/files/base64.h"
#include "frontend/files/checkpoint.h"
#include "frontend/files/file_io.h"
#include "ir/graph/printer.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

namespace tscompile {
namespace exported {
namespace {

constexpr std::string_view kOldProgram = "serialized_exported_program.json";
constexpr std::string_view kModels = "/models/", kJson = ".json";

bool isProgram(std::string_view name) {
  size_t root = name.find('/');
  return name == kOldProgram || (root != std::string_view::npos && name.find(kModels) == root && endsWith(name, kJson));
}

// The archive's members.
class Package {
 public:
  Package(const std::string& path, Diagnostics& diagnostics, const Limits& limits)
      : path_(path), diagnostics_(diagnostics), limits_(limits) {}

  bool open() {
    mapping_ = FileMapping::open(path_, diagnostics_);
    if (!mapping_) return false;
    auto zip = ZipArchive::read({mapping_->bytes(), path_}, mapping_.get(), diagnostics_, limits_);
    if (zip) zip_ = std::move(*zip);
    return zip_ != nullptr;
  }
  bool fail(std::string message, ErrorKind kind = ErrorKind::Input) {
    diagnostics_.fileError(path_, {}, std::move(message), kind);
    return false;
  }
  const ZipArchive& zip() const { return *zip_; }
  const std::string& path() const { return path_; }
  const RefCounted* owner() const { return mapping_.get(); }
  // Null after a report.
  const ZipMember* member(const std::string& name) {
    const ZipMember* m = zip_->find(name);
    if (!m) fail(fmt::format("the archive has no member '{}'", abbreviate(name, 200)));
    return m;
  }
  Result<JsonTree> json(const std::string& name) {
    const ZipMember* m = member(name);
    if (!m) return Failed{};
    Result<ZipContents> text = zip_->contents(*m, limits_.textBytes, diagnostics_);
    if (!text) return Failed{};
    return JsonTree::parse(SourceFile::make(path_ + ":" + name, quoteNonFinite(std::string(text->part.bytes))),
                           diagnostics_);
  }

 private:
  std::string path_;
  Diagnostics& diagnostics_;
  const Limits& limits_;
  Ref<FileMapping> mapping_;
  std::shared_ptr<const ZipArchive> zip_;
};

class FileReader {
 public:
  FileReader(Package& package, const OpRegistry& registry, Diagnostics& diagnostics, const Limits& limits,
             UnknownOperators unknown)
      : package_(package), registry_(registry), diagnostics_(diagnostics), limits_(limits), unknown_(unknown) {}

  bool read(ExportFile& out);

 private:
  // The programs of the archive; none after a report.
  std::vector<const ZipMember*> findPrograms();
  bool readOne(const std::string& member, const std::string& name, ExportFile& out);
  bool readWeights(const std::string& member, const std::string& model, ExportFile& out);
  bool readPart(const std::string& member, const std::string& model, const std::string& kind,
                const std::string& oldName, ExportFile& out);
  bool readTensors(const std::string& folder, const std::string& config, ExportFile& out);
  bool readTensor(const std::string& folder, Json payload, ExportFile& out);
  Result<Tensor> tensorOf(Json meta, Json at, const ZipMember& member);
  // Entries of one member are views of one storage.
  Ref<Storage> storageOf(const ZipMember& member);
  // The tensors of a file of torch.save; `only` is what the one tensor in it is called, if it has no name.
  bool readCheckpoint(const std::string& name, std::string_view only, ExportFile& out);
  bool readCheckpoint(const FilePart& part, const RefCounted* owner, std::string_view only, ExportFile& out);
  // The tensors that a program of PyTorch 2.1 has in its JSON, as files of torch.save.
  bool readConstants(Json constants, ExportFile& out);
  bool fail(Json at, std::string message, ErrorKind kind = ErrorKind::Input) {
    diagnostics_.error(at.range(), std::move(message), kind);
    return false;
  }

  Package& package_;
  const OpRegistry& registry_;
  Diagnostics& diagnostics_;
  const Limits& limits_;
  const UnknownOperators unknown_;
  std::string prefix_;  // of the tensors of the program that is being read
  std::map<const ZipMember*, Ref<Storage>> storages_;
};

std::vector<const ZipMember*> FileReader::findPrograms() {
  std::vector<const ZipMember*> programs;
  for (const ZipMember& m : package_.zip().members())
    if (isProgram(m.name)) programs.push_back(&m);
  if (programs.empty()) {
    bool isCompiled = archiveKind(package_.zip()) == FileKind::CompiledTorchPackage;
    package_.fail(isCompiled ? "expected a program of torch.export, found a package that AOTInductor compiled"
                             : "the package has no program",
                  isCompiled ? ErrorKind::Unsupported : ErrorKind::Input);
  }
  std::sort(programs.begin(), programs.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  return programs;
}

// "encoder" of "package/models/encoder.json".
std::string modelOf(const std::string& member) {
  size_t start = member.find(kModels) + kModels.size();
  return member == kOldProgram ? "model" : member.substr(start, member.size() - start - kJson.size());
}

bool FileReader::read(ExportFile& out) {
  std::vector<const ZipMember*> members = findPrograms();
  for (const ZipMember* member : members) {
    std::string model = modelOf(member->name);
    prefix_ = members.size() > 1 ? model + "." : "";
    if (!readOne(member->name, model, out)) return false;
    out.programs.back().name = members.size() > 1 ? model : "forward";
  }
  return !members.empty();
}

bool FileReader::readOne(const std::string& member, const std::string& model, ExportFile& out) {
  Result<JsonTree> json = package_.json(member);
  if (!json) return false;
  Result<ExportedProgram> program = readProgram(*json, prefix_, registry_, diagnostics_, unknown_);
  if (!program) return false;
  out.programs.push_back({{}, std::move(*program)});
  return readWeights(member, model, out) &&
         readConstants(json->root().find("graph_module").find("graph").find("constants"), out);
}

bool FileReader::readWeights(const std::string& member, const std::string& model, ExportFile& out) {
  const size_t first = out.tensors.size();
  if (!readPart(member, model, "weights", "serialized_state_dict", out)) return false;
  for (size_t i = first; i < out.tensors.size(); ++i) out.stored.push_back(out.tensors[i].first);
  return readPart(member, model, "constants", "serialized_constants", out);
}

bool FileReader::readPart(const std::string& member, const std::string& model, const std::string& kind,
                          const std::string& oldName, ExportFile& out) {
  if (member == kOldProgram)  // its files of torch.save had the end of JSON texts until PyTorch 2.3
    return readCheckpoint(oldName + ".json", "", out) && readCheckpoint(oldName + ".pt", "", out);
  const std::string path = member.substr(0, member.find('/')) + "/data/" + kind + "/";
  return readCheckpoint(path + model + ".pt", "", out) &&  // of PyTorch 2.8
         readTensors(path, path + model + "_" + kind + "_config.json", out);
}

bool FileReader::readTensors(const std::string& folder, const std::string& config, ExportFile& out) {
  if (!package_.zip().find(config)) return true;
  Result<JsonTree> json = package_.json(config);
  if (!json) return false;
  for (Json payload : items(json->root().find("config")))
    if (!readTensor(folder, payload, out)) return false;
  return true;
}

// Lists of sizes or strides that are all numbers.
std::optional<Dims> dimsOf(Json list) {
  std::vector<Json> all = items(list);
  if (!list.is(JsonTree::Kind::Array) || all.size() > static_cast<size_t>(kMaxRank)) return std::nullopt;
  Dims dims;
  for (Json s : all) {
    dims.push_back(sizeOf(s));
    if (dims.back() < 0) return std::nullopt;
  }
  return dims;
}

// A tensor of a trace, which never had elements.
bool isFake(Json meta, const ZipMember& member) {
  std::optional<Dims> sizes = dimsOf(meta.find("sizes"));
  return sizes && member.bytes == 0 && checkedNumel(*sizes).value_or(0) > 0;
}

bool FileReader::readTensor(const std::string& folder, Json payload, ExportFile& out) {
  std::string_view file = textOf(payload.find("path_name"));
  if (file.empty()) return fail(payload, "the entry does not say where its bytes are");
  Json pickled = payload.find("use_pickle");
  if (startsWith(file, "custom_obj_")) return true;  // refused where the program takes it
  std::string name = folder + std::string(file);
  if (pickled.is(JsonTree::Kind::Bool) && pickled.truth()) return readCheckpoint(name, payload.key(), out);
  const ZipMember* member = package_.member(name);
  if (!member) return false;
  if (isFake(payload.find("tensor_meta"), *member)) return true;  // missing where the program takes it
  Result<Tensor> tensor = tensorOf(payload.find("tensor_meta"), payload, *member);
  if (!tensor) return false;
  out.tensors.emplace_back(prefix_ + std::string(payload.key()), std::move(*tensor));
  return true;
}

bool FileReader::readCheckpoint(const std::string& name, std::string_view only, ExportFile& out) {
  const ZipMember* member = package_.zip().find(name);
  if (!member || member->bytes == 0) return true;
  Result<ZipContents> contents = package_.zip().contents(*member, member->bytes, diagnostics_);
  if (!contents) return false;
  contents->part.path += ":" + name;
  const RefCounted* owner = contents->owner ? nullptr : package_.owner();
  return readCheckpoint(contents->part, owner, only, out);
}

bool FileReader::readCheckpoint(const FilePart& part, const RefCounted* owner, std::string_view only, ExportFile& out) {
  auto checkpoint = Checkpoint::read(part, owner, /*foreignNames=*/true, diagnostics_, limits_);
  if (!checkpoint) return false;
  auto add = [&](std::string_view tensorName, const PickleTensor& t) {
    if (!t.tensor.defined())
      return package_.fail(fmt::format("the tensor '{}' has a dtype that is not supported", abbreviate(tensorName, 80)),
                           ErrorKind::Unsupported);
    out.tensors.emplace_back(prefix_ + std::string(tensorName), t.tensor);
    return true;
  };
  const PickleValue& root = (*checkpoint)->root();
  if (root.is(PickleValue::Kind::Tensor)) return add(only, root.tensor());
  auto tensors = (*checkpoint)->tensors(root, diagnostics_);
  if (!tensors) return false;
  const std::string start = only.empty() ? "" : std::string(only) + ".";
  return std::all_of(tensors->begin(), tensors->end(), [&](const auto& t) { return add(start + t.name, *t.tensor); });
}

bool FileReader::readConstants(Json constants, ExportFile& out) {
  for (Json constant : items(constants)) {
    const std::optional<std::string> bytes =
        constant.is(JsonTree::Kind::String) ? bytesOfBase64(textOf(constant)) : std::nullopt;
    if (!bytes) return fail(constant, "the constant is no text in base64");
    const std::string name(constant.key());
    if (!readCheckpoint({*bytes, package_.path() + ":" + name}, nullptr, name, out)) return false;
  }
  return true;
}

Result<Tensor> FileReader::tensorOf(Json meta, Json at, const ZipMember& member) {
  std::optional<Dims> sizes = dimsOf(meta.find("sizes")), strides = dimsOf(meta.find("strides"));
  int64_t offset = sizeOf(meta.find("storage_offset"));
  if (!sizes || !strides || strides->size() != sizes->size() || offset < 0) {
    fail(at, "sizes, strides or offset of the tensor are malformed");
    return Failed{};
  }
  DType dtype = factsOf(meta).dtype;
  if (!isSupported(dtype)) {
    fail(at, fmt::format("the tensor '{}' has a dtype that is not supported", abbreviate(at.key(), 80)),
         ErrorKind::Unsupported);
    return Failed{};
  }
  if (!checkedNumel(*sizes) || !fitsStorage(dtype, *sizes, *strides, offset, member.bytes)) {
    fail(at, fmt::format("the tensor '{}' has more elements than its {}", abbreviate(at.key(), 80),
                         counted(member.bytes, "byte")));
    return Failed{};
  }
  Ref<Storage> storage = storageOf(member);
  if (!storage) return Failed{};
  if (dtype == DType::Bool && findBadBool({reinterpret_cast<const char*>(storage->data()), storage->bytes()})) {
    fail(at, "a bool is neither 0 nor 1");
    return Failed{};
  }
  return Tensor::view(dtype, std::move(storage), *sizes, *strides, offset);
}

Ref<Storage> FileReader::storageOf(const ZipMember& member) {
  Ref<Storage>& storage = storages_[&member];
  if (!storage) storage = package_.zip().storage(member, diagnostics_);
  return storage;
}

}  // namespace
}  // namespace exported

std::string ExportFile::text() const {
  std::string out;
  for (const Program& p : programs) out += (out.empty() ? "" : "\n") + graphText(*p.program.graph);
  return out;
}

bool isExportFile(const std::string& path) {
  Diagnostics ignored;
  if (path == "-") return false;
  Result<std::string> start = readFileStart(path, 4, ignored);
  if (!start || *start != "PK\3\4") return false;
  Ref<FileMapping> mapping = FileMapping::open(path, ignored);
  if (!mapping) return false;
  FileKind kind = detectWholeFileKind(mapping->bytes());
  return kind == FileKind::ExportedProgram || kind == FileKind::CompiledTorchPackage;
}

Result<ExportFile> readExportFile(const std::string& path, const OpRegistry& registry, Diagnostics& diagnostics,
                                  const Limits& limits, UnknownOperators unknown) {
  exported::Package package(path, diagnostics, limits);
  ExportFile out;
  if (!package.open() || !exported::FileReader(package, registry, diagnostics, limits, unknown).read(out))
    return Failed{};
  return out;
}

}  // namespace tscompile
