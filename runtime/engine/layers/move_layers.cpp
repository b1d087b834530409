#include "runtime/engine/layers/move_layers.h"

#include "runtime/call/thread_pool.h"
#include "runtime/kernels/spaced.h"

#include <algorithm>
#include <cstring>

namespace tscompile {
namespace {

constexpr int64_t kColumns = 64;  // of lines that are copied together, at a time

template <class Item>
void copySpaced(const std::byte* from, int64_t fromStep, std::byte* to, int64_t toStep, int64_t count) {
  if (toStep == 1) return bringTogether<Item>(from, fromStep, count, to);
  const auto* source = reinterpret_cast<const Item*>(from);
  auto* target = reinterpret_cast<Item*>(to);
  for (int64_t i = 0; i < count; ++i) target[i * toStep] = source[i * fromStep];
}

}  // namespace

StridedCopy::StridedCopy(const NetTensor& from, const NetTensor& to)
    : bytes_(static_cast<int64_t>(itemSize(to.dtype))) {
  for (size_t d = 0; d < to.sizes.size(); ++d) {
    const Line line{to.sizes[d], from.strides[d], to.strides[d]};
    if (line.size == 1) continue;
    if (!outer_.empty() && outer_.back().from == line.size * line.from && outer_.back().to == line.size * line.to)
      outer_.back() = {outer_.back().size * line.size, line.from, line.to};
    else
      outer_.push_back(line);
  }
  if (outer_.empty()) return;
  inner_ = outer_.back();
  outer_.pop_back();
}

void StridedCopy::copyLine(const std::byte* from, std::byte* to, int64_t count) const {
  if (inner_.from == 1 && inner_.to == 1) {
    std::memcpy(to, from, static_cast<size_t>(count * bytes_));
    return;
  }
  switch (bytes_) {
    case 1:
      return copySpaced<uint8_t>(from, inner_.from, to, inner_.to, count);
    case 2:
      return copySpaced<uint16_t>(from, inner_.from, to, inner_.to, count);
    case 4:
      return copySpaced<uint32_t>(from, inner_.from, to, inner_.to, count);
    case 8:
      return copySpaced<uint64_t>(from, inner_.from, to, inner_.to, count);
    default:
      for (int64_t i = 0; i < count; ++i)
        std::memcpy(to + i * inner_.to * bytes_, from + i * inner_.from * bytes_, static_cast<size_t>(bytes_));
  }
}

// Lines of few elements: those beside each other in one loop.
void StridedCopy::copyShortLines(const std::byte* from, std::byte* to, const Line& beside, int64_t first,
                                 int64_t end) const {
  auto copy = [&](auto item) {
    using Item = decltype(item);
    const auto* source = reinterpret_cast<const Item*>(from);
    auto* target = reinterpret_cast<Item*>(to);
    for (int64_t line = first; line < end; ++line)
      for (int64_t x = 0; x < inner_.size; ++x)
        target[line * beside.to + x * inner_.to] = source[line * beside.from + x * inner_.from];
  };
  bytes_ == 8 ? copy(uint64_t()) : bytes_ == 4 ? copy(uint32_t()) : bytes_ == 2 ? copy(uint16_t()) : copy(uint8_t());
}

// As many as share lines of the cache.
int64_t StridedCopy::linesAtOnce() const {
  constexpr int64_t kCacheLine = 64;
  const bool isTransposed = !outer_.empty() && outer_.back().from == 1 && inner_.from * bytes_ >= kCacheLine;
  if (!isTransposed || inner_.size <= 2 * kColumns) return 1;
  return std::min(std::max<int64_t>(kCacheLine / bytes_, 4), outer_.back().size);
}

void StridedCopy::run(const std::byte* from, std::byte* to, int threads) const {
  int64_t lines = 1;
  for (const Line& l : outer_) lines *= l.size;
  const Line beside = outer_.empty() ? Line{1, 0, 0} : outer_.back();
  const int64_t atOnce = linesAtOnce(), groups = (beside.size + atOnce - 1) / atOnce;
  const bool isShort = inner_.size <= kShort && bytes_ <= 8;
  const int64_t all = isShort ? lines : lines / beside.size * groups, columns = atOnce > 1 ? kColumns : inner_.size;
  const bool isLarge = lines * inner_.size * bytes_ >= kShared;
  const int64_t pieces = isLarge ? std::min<int64_t>(all, 64) : 1;
  parallelFor(pieces, isLarge ? threads : 1, [&](int64_t p) {
    const Piece piece = pieceOf(all, pieces, p);
    for (int64_t group = piece.begin; group < piece.end;) {
      const int64_t first = isShort ? group % beside.size : group % groups * atOnce;
      const int64_t end = std::min(first + (isShort ? piece.end - group : atOnce), beside.size);
      int64_t fromAt = 0, toAt = 0, rest = group / (isShort ? beside.size : groups);
      group += isShort ? end - first : 1;
      for (size_t d = outer_.empty() ? 0 : outer_.size() - 1; d-- > 0; rest /= outer_[d].size) {
        fromAt += rest % outer_[d].size * outer_[d].from;
        toAt += rest % outer_[d].size * outer_[d].to;
      }
      if (isShort) {
        copyShortLines(from + fromAt * bytes_, to + toAt * bytes_, beside, first, end);
        continue;
      }
      for (int64_t x = 0; x < inner_.size; x += columns)
        for (int64_t line = first; line < end; ++line)
          copyLine(from + (fromAt + line * beside.from + x * inner_.from) * bytes_,
                   to + (toAt + line * beside.to + x * inner_.to) * bytes_, std::min(columns, inner_.size - x));
    }
  });
}

MoveLayer::MoveLayer(const Node* node, const Network& network, TensorId self, TensorId out)
    : Layer(node), all_(network[self], network[out]) {
  inputs = {self};
  outputs = {out};
}

void MoveLayer::run(Frame& frame) const { all_.run(frame.raw(inputs[0]), frame.raw(outputs[0]), frame.threads()); }

ConvertLayer::ConvertLayer(const Node* node, ElementConversion convert, TensorId self, TensorId out)
    : Layer(node), convert_(convert) {
  inputs = {self};
  outputs = {out};
}

void ConvertLayer::run(Frame& frame) const {
  const NetTensor &from = frame.network()[inputs[0]], &to = frame.network()[outputs[0]];
  const auto fromItem = static_cast<int64_t>(itemSize(from.dtype)), toItem = static_cast<int64_t>(itemSize(to.dtype));
  constexpr int64_t kPiece = 16 << 10;  // elements
  const int64_t pieces = std::clamp<int64_t>(to.numel / kPiece, 1, 64);
  parallelFor(pieces, frame.threads(), [&](int64_t p) {
    const Piece piece = pieceOf(to.numel, pieces, p);
    convert_(frame.raw(inputs[0]) + piece.begin * fromItem, frame.raw(outputs[0]) + piece.begin * toItem,
             piece.end - piece.begin);
  });
}

void FillLayer::run(Frame& frame) const {
  const NetTensor& out = frame.network()[outputs[0]];
  std::byte* to = frame.raw(outputs[0]);
  const std::byte* element = element_.raw();
  const auto item = static_cast<int64_t>(itemSize(out.dtype)), bytes = out.numel * item;
  const int64_t pieces = std::clamp<int64_t>(bytes >> 16, 1, 64);
  const bool isZero = std::all_of(element, element + item, [](std::byte b) { return b == std::byte{}; });
  parallelFor(pieces, frame.threads(), [&](int64_t p) {
    const Piece piece = pieceOf(out.numel, pieces, p);
    std::byte *at = to + piece.begin * item, *end = to + piece.end * item;
    if (isZero || item == 1) {
      std::memset(at, std::to_integer<int>(*element), static_cast<size_t>(end - at));
      return;
    }
    if (at == end) return;
    // Twice as many each time, at most as many as caches keep.
    std::memcpy(at, element, static_cast<size_t>(item));
    for (int64_t have = item; at + have < end;) {
      const int64_t more = std::min({have, end - at - have, int64_t{4096}});
      std::memcpy(at + have, at, static_cast<size_t>(more));
      have += more;
    }
  });
}

void addFill(ConvertCall& call, Tensor element) {
  const TensorId out = call.makeResult();
  call.add<FillLayer>(std::move(element)).outputs = {out};
}

WritePartLayer::WritePartLayer(const Node* node, const Network& network, TensorId self, TensorId source, TensorId out,
                               TensorId part)
    : Layer(node), whole_(network[self], network[out]), part_(network[source], network[part]) {
  inputs = {self, source};
  outputs = {out, part};
}

void WritePartLayer::run(Frame& frame) const {
  if (frame.raw(inputs[0]) != frame.raw(outputs[0]))
    whole_.run(frame.raw(inputs[0]), frame.raw(outputs[0]), frame.threads());
  part_.run(frame.raw(inputs[1]), frame.raw(outputs[1]), frame.threads());
}

void addWritePart(ConvertCall& call, const Tensor& out, const Tensor& part) {
  Network& n = call.network();
  const TensorId self = call.operand(0), source = call.operand(1);
  call.add<WritePartLayer>(n, self, source, call.idOf(out), call.idOf(part));
  call.setResult(out);
}

}  // namespace tscompile
