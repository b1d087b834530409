// Shards of a model as threads of one process: they meet by the name of their group, which is a shared resource of the
// host. What the original does between devices is done here through memory, in the order of ranks.
#pragma once

#ifndef TSC_VISIBILITY
#define TSC_VISIBILITY  // we are one library with it
#endif
#include "runtime/plugin/plugin_sdk.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace tscompile {

// How long to wait for other shards, and whether to stop.
struct ShardWait {
  const tsc::Run& run;
  std::chrono::milliseconds asked;  // by the node

  std::chrono::milliseconds most() const;
};
// For processes in which no other shard can come: nodes may ask for less than this, not for more.
void limitShardWaits(std::chrono::milliseconds most);

// What a shard brings: memory that the others may read until all have.
struct ShardPart {
  std::string what;  // "AllReduce of float32 [2, 3]": that of all must be equal
  const void* data = nullptr;
};

class ShardGroup {
 public:
  // `ranks`: who the members are, for messages.
  ShardGroup(std::string name, std::vector<int64_t> ranks)
      : name_(std::move(name)), ranks_(std::move(ranks)), slots_(ranks_.size()) {}

  // Waits for all members, then calls body with the parts of all in their order, and returns when all have done so.
  // Throws tsc::Error if some do not come in time or bring something else.
  void meet(size_t member, ShardPart mine, const ShardWait& wait,
            const std::function<void(std::span<const ShardPart>)>& body);

 private:
  struct Slot {
    bool present = false;
    ShardPart part;
  };
  std::string missing() const;
  void leave(std::unique_lock<std::mutex>& lock);
  std::string mismatch() const;

  const std::string name_;
  const std::vector<int64_t> ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  size_t arrived_ = 0, left_ = 0;
  bool reading_ = false;  // all are there, and some still read
  uint64_t round_ = 0;
};

// Tensors on their way from one shard to another, first in, first out.
class ShardChannel {
 public:
  explicit ShardChannel(std::string name) : name_(std::move(name)) {}
  void send(std::string what, std::vector<std::byte> bytes, const ShardWait& wait);
  std::vector<std::byte> receive(const std::string& what, const ShardWait& wait);

 private:
  struct Message {
    std::string what;
    std::vector<std::byte> bytes;
  };
  const std::string name_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Message> messages_;
};

// A shared object of the host; plugin instances and their clones hold it. Made with `make` by the first.
template <class T>
std::shared_ptr<T> sharedByName(const std::string& key, const std::function<T*()>& make) {
  auto* object = static_cast<T*>(tsc::host()->resource(
      tsc::text(key), [](void* user) -> void* { return (*static_cast<const std::function<T*()>*>(user))(); },
      [](void* made) { delete static_cast<T*>(made); }, const_cast<std::function<T*()>*>(&make)));
  if (!object) throw tsc::Error(TSC_NO_MEMORY, "the group of shards cannot be made");
  return std::shared_ptr<T>(object, [key](T*) { tsc::host()->resource_release(tsc::text(key)); });
}

}  // namespace tscompile
