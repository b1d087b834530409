// Packed forms of constants, made once for all plans of an engine.
#pragma once

#include "ir/values/tensor.h"
#include "runtime/call/function_ref.h"

#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace tscompile {

class WeightStore {
 public:
  // What `make` has made of `source` under this name; made now if it is not there yet. Two sources are the same if they
  // are the same view of the same memory. Of a source that shows a file, no pages stay in memory.
  Tensor get(const std::string& name, const Tensor& source, FunctionRef<Tensor()> make);
  // A name for what is made with the elements of another tensor, which may be gone and made anew by the next plan.
  static std::string nameWith(std::string_view what, const Tensor& contiguous);
  // Memory for what `make` packs: bytes without a meaning to others, aligned to 64. Small ones lie side by side, so
  // that they share the system's large pages.
  Tensor buffer(int64_t bytes);

 private:
  struct Entry {
    Tensor source;  // kept, so that its address stays its own
    Tensor made;
  };
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
  Tensor shared_;               // that small buffers are cut from
  int64_t made_ = 0, cut_ = 0;  // bytes: of all buffers, of the shared one
};

}  // namespace tscompile
