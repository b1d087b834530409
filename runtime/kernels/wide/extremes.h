// The greater and the lesser of two numbers, as PyTorch has them.
#pragma once

namespace tscompile {

// NaN is greater and lesser than everything.
template <class T>
T greater(T a, T b) {
  return a >= b || a != a ? a : b;
}
template <class T>
T lesser(T a, T b) {
  return a <= b || a != a ? a : b;
}

}  // namespace tscompile
