#include "frontend/export/export_file.h"

#include "frontend/export/program_json.h"
#include "frontend/files/file_io.h"
#include "frontend/files/zip.h"
#include "ir/support/text.h"
#include "ir/values/error.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace exported {
namespace {

constexpr std::string_view kOldProgram = "serialized_exported_program.json";
constexpr std::string_view kModels = "/models/", kCompiled = "/data/aotinductor/", kJson = ".json";

bool isProgram(std::string_view name) {
  return name == kOldProgram || (endsWith(name, kJson) && name.find(kModels) == name.find('/'));
}
bool isCompiled(std::string_view name) { return name.find(kCompiled) != std::string_view::npos; }

// The members of the archive.
class Package {
 public:
  Package(std::string path, Diagnostics& diagnostics, const Limits& limits)
      : path_(std::move(path)), diagnostics_(diagnostics), limits_(limits) {}

  bool open() {
    mapping_ = FileMapping::open(path_, diagnostics_);
    if (!mapping_) return false;
    part_ = {mapping_->bytes(), path_};
    Result<std::vector<ZipMember>> members = readZipDirectory(part_, diagnostics_, limits_);
    if (members) members_ = std::move(*members);
    return members.ok();
  }
  bool fail(std::string message, ErrorKind kind = ErrorKind::Input) {
    diagnostics_.fileError(path_, {}, std::move(message), kind);
    return false;
  }

  const std::string& path() const { return path_; }
  const RefCounted* owner() const { return mapping_.get(); }
  const std::vector<ZipMember>& members() const { return members_; }
  const ZipMember* find(std::string_view name) const {
    auto at = std::find_if(members_.begin(), members_.end(), [&](const ZipMember& m) { return m.name == name; });
    return at == members_.end() ? nullptr : &*at;
  }
  Result<FilePart> bytes(const std::string& name) {
    const ZipMember* m = find(name);
    if (m) return readStoredMember(part_, *m, diagnostics_);
    fail(fmt::format("the archive has no member '{}'", abbreviate(name, 200)));
    return Failed{};
  }
  Result<JsonTree> json(const std::string& name) {
    Result<FilePart> part = bytes(name);
    if (!part) return Failed{};
    if (part->bytes.size() > limits_.textBytes) {
      fail(fmt::format("'{}' has more than {} bytes", abbreviate(name, 200), limits_.textBytes), ErrorKind::Limit);
      return Failed{};
    }
    return JsonTree::parse(SourceFile::make(path_ + ":" + name, quoteNonFinite(std::string(part->bytes))),
                           diagnostics_);
  }

 private:
  std::string path_;
  Diagnostics& diagnostics_;
  const Limits& limits_;
  Ref<FileMapping> mapping_;
  FilePart part_;
  std::vector<ZipMember> members_;
};

class FileReader {
 public:
  FileReader(Package& package, const OpRegistry& registry, Diagnostics& diagnostics)
      : package_(package), registry_(registry), diagnostics_(diagnostics) {}

  bool read(ExportFile& out);

 private:
  // The one program of the archive.
  const ZipMember* findProgram();
  bool readTensors(const std::string& folder, const std::string& config, ExportFile& out);
  bool readTensor(const std::string& folder, Json payload, ExportFile& out);
  Result<Tensor> tensorOf(Json meta, Json at, const FilePart& part);
  bool fail(Json at, std::string message, ErrorKind kind = ErrorKind::Input) {
    diagnostics_.error(at.range(), std::move(message), kind);
    return false;
  }

  Package& package_;
  const OpRegistry& registry_;
  Diagnostics& diagnostics_;
};

const ZipMember* FileReader::findProgram() {
  std::vector<const ZipMember*> programs;
  for (const ZipMember& m : package_.members())
    if (isProgram(m.name)) programs.push_back(&m);
  if (programs.size() == 1) return programs[0];
  if (programs.empty()) {
    package_.fail("expected a program of torch.export, found a package that AOTInductor compiled",
                  ErrorKind::Unsupported);
    return nullptr;
  }
  package_.fail("the package has several programs: " +
                    abbreviate(join(programs, ", ", [](const ZipMember* m) { return m->name; }), 200),
                ErrorKind::Unsupported);
  return nullptr;
}

bool FileReader::read(ExportFile& out) {
  const ZipMember* member = findProgram();
  if (!member) return false;
  std::string name = member->name;
  Result<JsonTree> json = package_.json(name);
  if (!json) return false;
  Result<ExportedProgram> program = readProgram(*json, registry_, diagnostics_);
  if (!program) return false;
  out.program = std::move(*program);
  if (name == kOldProgram) return package_.fail("TODO", ErrorKind::Unsupported);
  std::string root = name.substr(0, name.find('/'));
  std::string model =
      name.substr(root.size() + kModels.size(), name.size() - root.size() - kModels.size() - kJson.size());
  for (const char* folder : {"weights", "constants"}) {
    std::string path = root + "/data/" + folder + "/";
    if (!readTensors(path, path + model + "_" + folder + "_config.json", out)) return false;
  }
  return true;
}

bool FileReader::readTensors(const std::string& folder, const std::string& config, ExportFile& out) {
  if (!package_.find(config)) return true;
  Result<JsonTree> json = package_.json(config);
  if (!json) return false;
  for (Json payload : items(json->root().find("config")))
    if (!readTensor(folder, payload, out)) return false;
  return true;
}

bool FileReader::readTensor(const std::string& folder, Json payload, ExportFile& out) {
  std::string_view file = textOf(payload.find("path_name"));
  if (file.empty()) return fail(payload, "the entry does not say where its bytes are");
  Json pickled = payload.find("use_pickle");
  if (startsWith(file, "custom_obj_")) return true;  // refused where the program takes it
  if (pickled.is(JsonTree::Kind::Bool) && pickled.truth())
    return fail(payload, "tensors that are pickled are not supported here", ErrorKind::Unsupported);
  Result<FilePart> part = package_.bytes(folder + std::string(file));
  if (!part) return false;
  Result<Tensor> tensor = tensorOf(payload.find("tensor_meta"), payload, *part);
  if (!tensor) return false;
  out.tensors.emplace_back(payload.key(), std::move(*tensor));
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

// The same bytes at an address where their elements can be read.
Result<Ref<Storage>> storageOf(const FilePart& part, size_t item, const RefCounted* owner, Diagnostics& diagnostics) {
  auto* data = const_cast<char*>(part.bytes.data());
  if (reinterpret_cast<uintptr_t>(data) % item == 0) {
    owner->retain();
    auto release = [](void* p) { static_cast<const RefCounted*>(p)->release(); };
    return Storage::borrow(data, part.bytes.size(), release, const_cast<RefCounted*>(owner), /*readOnly=*/true);
  }
  try {
    Ref<Storage> copy = Storage::allocate(part.bytes.size());
    std::copy(part.bytes.begin(), part.bytes.end(), reinterpret_cast<char*>(copy->data()));
    copy->makeReadOnly();
    return copy;
  } catch (const ExecutionError& e) {
    diagnostics.fileError(part.path, {}, e.message(), e.kind());
    return Failed{};
  }
}

Result<Tensor> FileReader::tensorOf(Json meta, Json at, const FilePart& part) {
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
  if (!checkedNumel(*sizes) || !fitsStorage(dtype, *sizes, *strides, offset, part.bytes.size())) {
    fail(at, fmt::format("the tensor '{}' has more elements than its {}", abbreviate(at.key(), 80),
                         counted(part.bytes.size(), "byte")));
    return Failed{};
  }
  if (dtype == DType::Bool && findBadBool(part.bytes)) {
    fail(at, "a bool is neither 0 nor 1");
    return Failed{};
  }
  Result<Ref<Storage>> storage = storageOf(part, itemSize(dtype), package_.owner(), diagnostics_);
  if (!storage) return Failed{};
  return Tensor::view(dtype, std::move(*storage), *sizes, *strides, offset);
}

}  // namespace
}  // namespace exported

bool isExportFile(const std::string& path) {
  Diagnostics ignored;
  if (path == "-") return false;
  Result<std::string> start = readFileStart(path, 4, ignored);
  if (!start || *start != "PK\3\4") return false;
  Limits limits;
  exported::Package package(path, ignored, limits);
  if (!package.open()) return false;
  return std::any_of(package.members().begin(), package.members().end(),
                     [](const ZipMember& m) { return exported::isProgram(m.name) || exported::isCompiled(m.name); });
}

Result<ExportFile> readExportFile(const std::string& path, const OpRegistry& registry, Diagnostics& diagnostics,
                                  const Limits& limits) {
  exported::Package package(path, diagnostics, limits);
  ExportFile out;
  if (!package.open() || !exported::FileReader(package, registry, diagnostics).read(out)) return Failed{};
  return out;
}

}  // namespace tscompile
