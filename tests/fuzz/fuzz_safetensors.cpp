// Any bytes as a safetensors file: header, listings, every tensor.
#include "frontend/files/file_kind.h"
#include "frontend/files/tensor_formats.h"

#include <cstdlib>

using namespace tscompile;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (describe(detectFileKind(bytes.substr(0, kFileKindBytes))).empty()) std::abort();
  Diagnostics diagnostics;
  Result<SafetensorsHeader> header = parseSafetensorsHeader(bytes, bytes.size(), "fuzz", diagnostics, {});
  if (header.ok() == diagnostics.hasErrors()) std::abort();
  for (const Diagnostic& d : diagnostics.list())
    if (d.message.empty() || (d.offset && *d.offset > size)) std::abort();
  if (!header) return 0;
  uint64_t sum = 0;
  for (const TensorEntry& e : header->tensors) {
    Result<Tensor> t = loadSafetensor(bytes, *header, e, nullptr, "fuzz", diagnostics);
    if (!t) continue;
    forEachElement(*t, [&](const std::byte* element) { sum += static_cast<uint64_t>(*element); });
  }
  volatile uint64_t sink = sum;
  (void)sink;
  return 0;
}
