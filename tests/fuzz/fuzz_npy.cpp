// Any bytes as an .npy file, and as an .npz archive: as a whole, and each of its members.
#include "frontend/files/zip.h"

#include <algorithm>
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
  Result<std::shared_ptr<const ZipArchive>> archive = ZipArchive::read(file, nullptr, directory, {});
  if (archive.ok() == directory.hasErrors()) std::abort();
  if (!archive) return 0;
  constexpr uint64_t kMost = 1 << 20;
  Limits limits;
  limits.generatedBytes = kMost;
  Diagnostics whole;
  auto tensors = parseNpz(file, whole, limits);
  if (tensors.ok() == whole.hasErrors()) std::abort();
  for (const ZipMember& m : (*archive)->members()) {
    Diagnostics diagnostics;
    Result<ZipContents> contents = (*archive)->contents(m, kMost, diagnostics);
    if (contents) check(parseNpy(contents->part, diagnostics, {}), diagnostics, std::max<size_t>(size, m.bytes));
  }
  return 0;
}
