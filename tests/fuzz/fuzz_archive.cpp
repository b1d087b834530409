// Any bytes as a zip archive, as a TorchScript archive, as a checkpoint and as a pickle.
#include "frontend/archive/torch_archive.h"
#include "frontend/files/archive_kind.h"
#include "frontend/files/checkpoint.h"

#include <cstdlib>

using namespace tscompile;

namespace {

// Small enough that no input is slow.
Limits limits() {
  Limits out;
  out.values = 100'000;
  out.tensors = 1000;
  out.textBytes = out.generatedBytes = 1 << 20;
  return out;
}

void check(bool ok, const Diagnostics& diagnostics) {
  if (ok == diagnostics.hasErrors()) std::abort();
  for (const Diagnostic& d : diagnostics.list())
    if (d.message.empty()) std::abort();
}

void touch(const PickleValue& root, Diagnostics& diagnostics) {
  auto tensors = namedTensors(root, "fuzz", diagnostics, limits());
  if (!tensors) return;
  uint64_t sum = 0;
  constexpr int64_t kMost = 10'000;
  for (const auto& [name, t] : *tensors)
    if (t->tensor.defined() && t->tensor.numel() <= kMost)
      forEachElement(t->tensor, [&](const std::byte* element) { sum += static_cast<uint64_t>(*element); });
  volatile uint64_t sink = sum;
  (void)sink;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FilePart file{{reinterpret_cast<const char*>(data), size}, "fuzz"};
  (void)detectWholeFileKind(file.bytes, limits());
  for (bool foreign : {false, true}) {
    Diagnostics diagnostics;
    auto checkpoint = Checkpoint::read(file, nullptr, foreign, diagnostics, limits());
    check(checkpoint.ok(), diagnostics);
    if (checkpoint) touch((*checkpoint)->root(), diagnostics);
    if (checkpoint) (void)(*checkpoint)->onlyContainer();
  }
  Diagnostics script, plain;
  auto archive = TorchArchive::read(file, nullptr, script, limits());
  check(archive.ok(), script);
  if (archive) {
    touch((*archive)->data(), script);
    for (const std::string& name : (*archive)->codeFiles()) (void)(*archive)->code(name, script);
  }
  PickleOptions options;
  options.path = "fuzz";
  options.limits = limits();
  check(readPickle(file.bytes, options, plain).ok(), plain);
  return 0;
}
