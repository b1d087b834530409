// A frame of names that ends with the scope.
#pragma once

#include "frontend/source/emitter.h"

namespace tscompile::source {

class Emitter::Scope {
 public:
  explicit Scope(Emitter& emitter) : Scope(emitter, own_) {}
  // With names that outlive it.
  Scope(Emitter& emitter, Frame& frame) : emitter_(emitter), before_(emitter.frame_) {
    frame.parent = before_;
    emitter.frame_ = &frame;
  }
  ~Scope() { emitter_.frame_ = before_; }
  Scope(const Scope&) = delete;

 private:
  Frame own_;
  Emitter& emitter_;
  Frame* before_;
};

}  // namespace tscompile::source
