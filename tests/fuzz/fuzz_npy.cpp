// Any bytes as an .npy file, and as an .npz archive whose members are read.
#include "frontend/files/zip.h"

#include <cstdlib>

using namespace tscompile;

namespace {

void check(const Result<Tensor>& t, const Diagnostics& diagnostics, size_t size) {
  if (t.ok() == diagnostics.hasErrors()) std::abort();
  for (const Diagnostic& d : diagnostics.list())
    if (d.message.empty() || (d.offset && *d.offset > size)) std::abort();
  if (!t) return;
  uint64_t sum = 0;
  forEachElement(*t, [&](const std::byte* element) { sum += static_cast<uint64_t>(*element); });
  volatile uint64_t sink = sum;
  (void)sink;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FilePart file{{reinterpret_cast<const char*>(data), size}, "fuzz"};
  Diagnostics npy, directory;
  check(parseNpy(file, npy, {}), npy, size);
  Result<std::vector<ZipMember>> members = readZipDirectory(file, directory, {});
  if (members.ok() == directory.hasErrors()) std::abort();
  if (!members) return 0;
  // Few: members may overlap, and a directory may name one many times.
  for (size_t i = 0; i < members->size() && i < 8; ++i) {
    Diagnostics diagnostics;
    Result<FilePart> part = readStoredMember(file, (*members)[i], diagnostics);
    if (part) check(parseNpy(*part, diagnostics, {}), diagnostics, size);
  }
  return 0;
}
