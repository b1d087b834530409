// Memory for graph parts: a bump allocator whose freed pieces are reused by size.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

namespace tscompile {

class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  void* allocate(size_t bytes) {
    bytes = (bytes + 15) & ~size_t{15};
    if (size_t c = bytes / 16; c < free_.size() && free_[c]) {
      Free* piece = free_[c];
      free_[c] = piece->next;
      return piece;
    }
    if (bytes > left_) refill(bytes);
    void* p = at_;
    at_ += bytes;
    left_ -= bytes;
    return p;
  }
  // Pieces above the largest size class wait for the end of the arena.
  void release(void* p, size_t bytes) {
    size_t c = (bytes + 15) / 16;
    if (!p || c == 0 || c >= free_.size()) return;
    free_[c] = new (p) Free{free_[c]};
  }
  template <class T>
  T* allocateArray(size_t n) {
    return static_cast<T*>(allocate(n * sizeof(T)));
  }
  std::string_view copy(std::string_view text) {
    if (text.empty()) return {};
    if (text.size() > left_) refill(text.size());
    std::byte* p = at_;
    std::memcpy(p, text.data(), text.size());
    size_t used = std::min((text.size() + 7) & ~size_t{7}, left_);
    at_ += used;
    left_ -= used;
    // Pieces handed out by allocate() are aligned to 16.
    if (size_t slack = reinterpret_cast<size_t>(at_) & 15) {
      size_t skip = std::min(16 - slack, left_);
      at_ += skip;
      left_ -= skip;
    }
    return {reinterpret_cast<const char*>(p), text.size()};
  }
  // Forgets everything but keeps the last chunk, which is the largest.
  void clear() {
    if (chunks_.size() > 1) chunks_.erase(chunks_.begin(), chunks_.end() - 1);
    if (!chunks_.empty()) {
      at_ = chunks_[0].get();
      left_ = lastChunkBytes_;
    }
    free_.fill(nullptr);
  }

 private:
  struct Free {
    Free* next;
  };
  // From 1 KiB, as rules have many small graphs, to 256 KiB.
  void refill(size_t least) {
    size_t bytes = std::max(least, size_t{1} << std::min<size_t>(10 + 2 * chunks_.size(), 18));
    chunks_.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
    lastChunkBytes_ = left_ = bytes;
    at_ = chunks_.back().get();
  }

  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::byte* at_ = nullptr;
  size_t left_ = 0, lastChunkBytes_ = 0;
  std::array<Free*, 65> free_{};
};

// Objects of one type with stable addresses and small numbers; destroys the live ones at its end.
template <class T>
class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    for (auto& chunk : chunks_)
      for (size_t i = 0; i < chunk.used; ++i)
        if (chunk.slots[i].live) chunk.slots[i].object()->~T();
  }

  template <class... Args>
  T* make(Args&&... args) {
    Slot* slot = free_;
    if (slot) {
      free_ = slot->next();
    } else {
      if (chunks_.empty() || chunks_.back().used == chunks_.back().size) {
        size_t size = chunks_.empty() ? kFirst : std::min(chunks_.back().size * 2, kLargest);
        chunks_.push_back({std::make_unique_for_overwrite<Slot[]>(size), 0, size});
      }
      slot = &chunks_.back().slots[chunks_.back().used++];
      slot->id = idLimit_++;
    }
    T* object = new (slot->memory) T(std::forward<Args>(args)...);
    slot->live = true;
    ++count_;
    return object;
  }
  void destroy(T* object) {
    object->~T();
    Slot* slot = reinterpret_cast<Slot*>(object);
    slot->live = false;
    slot->next() = free_;
    free_ = slot;
    --count_;
  }
  size_t count() const { return count_; }
  // A number below idLimit() that no other live object of the pool has: an index for tables beside it.
  static uint32_t idOf(const T* object) { return reinterpret_cast<const Slot*>(object)->id; }
  uint32_t idLimit() const { return idLimit_; }
  // The object of a number, live or not.
  T* at(uint32_t id) const {
    size_t chunk = id < kGrowing ? static_cast<size_t>(std::bit_width(id / kFirst + 1)) - 1
                                 : kDoublings + (id - kGrowing) / kLargest;
    size_t start =
        chunk < kDoublings ? kFirst * ((size_t{1} << chunk) - 1) : kGrowing + (chunk - kDoublings) * kLargest;
    return chunks_[chunk].slots[id - start].object();
  }

 private:
  // Chunks double from the first size to the largest.
  static constexpr size_t kFirst = 16, kDoublings = 6, kLargest = kFirst << kDoublings;
  static constexpr size_t kGrowing = kFirst * ((1 << kDoublings) - 1);  // numbers below chunks of the largest size

  struct Slot {
    alignas(T) std::byte memory[sizeof(T)];
    uint32_t id;
    bool live;
    T* object() { return reinterpret_cast<T*>(memory); }
    Slot*& next() { return *reinterpret_cast<Slot**>(memory); }  // of a dead one
  };
  struct Chunk {
    std::unique_ptr<Slot[]> slots;
    size_t used, size;
  };
  std::vector<Chunk> chunks_;
  Slot* free_ = nullptr;
  size_t count_ = 0;
  uint32_t idLimit_ = 0;
};

}  // namespace tscompile
