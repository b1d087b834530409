// Any bytes as an engine file: the container, what it says of itself, every tensor, and its graph as a module. Bytes
// that do not start as such a file become the sections of one, so that checksums are not in the way: three lengths of
// two bytes, then fields, tensors, graph, weights.
#include "api/engine_file.h"
#include "frontend/files/section_file.h"
#include "frontend/files/tensor_formats.h"
#include "frontend/text/parse.h"

#include <cstdlib>

using namespace tscompile;

namespace {

std::string withSections(std::string_view bytes) {
  size_t lengths[3] = {};
  for (size_t& length : lengths) {
    for (size_t i = 0; i < 2 && !bytes.empty(); ++i, bytes.remove_prefix(1))
      length |= size_t{static_cast<unsigned char>(bytes[0])} << 8 * i;
  }
  std::string_view parts[4];
  for (size_t i = 0; i < 3; ++i) {
    parts[i] = bytes.substr(0, lengths[i]);
    bytes.remove_prefix(parts[i].size());
  }
  parts[3] = bytes;
  std::string out;
  putSectionFile(kEngineFormat,
                 {{"fields", {parts[0]}}, {"graph", {parts[2]}}, {"tensors", {parts[1]}}, {"weights", {parts[3]}}},
                 [&](std::string_view piece) {
                   out += piece;
                   return true;
                 });
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  if (!bytes.starts_with(kSectionFileMagic)) bytes = withSections(bytes);
  Diagnostics diagnostics;
  Limits limits;
  limits.nodes = 10000;
  Result<EngineFile> file = parseEngineFile(bytes, nullptr, "fuzz", diagnostics, limits);
  if (file.ok() == diagnostics.hasErrors()) std::abort();
  for (const Diagnostic& d : diagnostics.list())
    if (d.message.empty() || (d.offset && *d.offset > bytes.size())) std::abort();
  if (!file) return 0;
  uint64_t sum = textOf(file->info.compileAgain("out.tse", false)).size();
  for (const auto& [name, t] : file->tensors)
    forEachElement(t, [&](const std::byte* element) { sum += static_cast<uint64_t>(*element); });
  ParseOptions options;
  options.limits = limits;
  Result<ParsedText> parsed = parseText(SourceFile::make("fuzz", std::move(file->graph)), diagnostics, options);
  if (parsed) sum += parsed->graphs.size();
  volatile uint64_t sink = sum;
  (void)sink;
  return 0;
}
