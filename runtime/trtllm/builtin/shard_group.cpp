#include "runtime/trtllm/builtin/shard_group.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>

namespace tscompile {
namespace {

constexpr size_t kMostMessages = 16;  // that wait in a channel
constexpr auto kSlice = std::chrono::milliseconds(20);
std::atomic<int64_t> gLongestWait{INT64_MAX};  // milliseconds

// False when the time is over.
template <class Condition>
bool waitUntil(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, const ShardWait& wait,
               Condition&& holds) {
  auto end = std::chrono::steady_clock::now() + wait.most();
  while (!changed.wait_for(lock, kSlice, holds)) {
    if (wait.run.cancelled()) throw tsc::Error(TSC_CANCELLED, "stopped while it waited for other shards");
    if (std::chrono::steady_clock::now() >= end) return holds();
  }
  return true;
}

}  // namespace

void limitShardWaits(std::chrono::milliseconds most) { gLongestWait = most.count(); }

std::chrono::milliseconds ShardWait::most() const {
  return std::min(asked, std::chrono::milliseconds(gLongestWait.load()));
}

std::string ShardGroup::missing() const {
  std::string out;
  for (size_t i = 0; i < slots_.size(); ++i)
    if (!slots_[i].present) out += (out.empty() ? "" : ", ") + std::to_string(ranks_[i]);
  return out;
}

std::string ShardGroup::mismatch() const {
  for (size_t i = 1; i < slots_.size(); ++i)
    if (slots_[i].part.what != slots_[0].part.what)
      return fmt::format("in the group '{}', rank {} brings {}, and rank {} {}", name_, ranks_[0], slots_[0].part.what,
                         ranks_[i], slots_[i].part.what);
  return "";
}

void ShardGroup::leave(std::unique_lock<std::mutex>& lock) {
  uint64_t mine = round_;
  if (++left_ == slots_.size()) {
    for (Slot& s : slots_) s = {};
    arrived_ = left_ = 0;
    reading_ = false;
    ++round_;
    changed_.notify_all();
  } else {
    changed_.wait(lock, [&] { return round_ != mine; });  // all are there: nobody can be late
  }
}

void ShardGroup::meet(size_t member, ShardPart mine, const ShardWait& wait,
                      const std::function<void(std::span<const ShardPart>)>& body) {
  if (slots_.size() == 1) return body({&mine, 1});
  std::unique_lock lock(mutex_);
  auto late = [&](const std::string& what) {
    throw tsc::Error(TSC_FAILED, fmt::format("in the group '{}', {} within {} ms", name_, what, wait.most().count()));
  };
  if (!waitUntil(lock, changed_, wait, [&] { return !slots_[member].present && !reading_; }))
    late(fmt::format("rank {} is at work already, and was not done", ranks_[member]));
  slots_[member] = {true, std::move(mine)};
  uint64_t round = round_;
  if (++arrived_ == slots_.size()) {
    reading_ = true;
    changed_.notify_all();
  } else {
    auto giveUp = [&] {
      slots_[member] = {};
      --arrived_;
      changed_.notify_all();
    };
    bool all = false;
    try {
      all = waitUntil(lock, changed_, wait, [&] { return reading_ && round_ == round; });
    } catch (...) {
      if (!reading_) giveUp();
      if (!reading_) throw;
      all = true;  // they came at the same moment
    }
    if (!all) {
      std::string who = missing();
      giveUp();
      late(fmt::format("rank {} did not come", who));
    }
  }
  // Whatever happens, the others wait until this one leaves.
  std::string problem;
  std::exception_ptr failure;
  try {
    problem = mismatch();
    std::vector<ShardPart> parts;
    if (problem.empty())
      for (const Slot& s : slots_) parts.push_back(s.part);
    lock.unlock();
    if (problem.empty()) body(parts);
  } catch (...) {
    failure = std::current_exception();
  }
  if (!lock.owns_lock()) lock.lock();
  leave(lock);
  if (!problem.empty()) tsc::invalid(problem);
  if (failure) std::rethrow_exception(failure);
}

void ShardChannel::send(std::string what, std::vector<std::byte> bytes, const ShardWait& wait) {
  std::unique_lock lock(mutex_);
  if (!waitUntil(lock, changed_, wait, [&] { return messages_.size() < kMostMessages; }))
    throw tsc::Error(TSC_FAILED, fmt::format("{}: nobody received any of {} tensors within {} ms", name_,
                                             messages_.size(), wait.most().count()));
  messages_.push_back({std::move(what), std::move(bytes)});
  changed_.notify_all();
}

std::vector<std::byte> ShardChannel::receive(const std::string& what, const ShardWait& wait) {
  std::unique_lock lock(mutex_);
  if (!waitUntil(lock, changed_, wait, [&] { return !messages_.empty(); }))
    throw tsc::Error(TSC_FAILED, fmt::format("{}: nothing was sent within {} ms", name_, wait.most().count()));
  Message m = std::move(messages_.front());
  messages_.pop_front();
  changed_.notify_all();
  if (m.what != what) tsc::invalid(fmt::format("{}: {} was sent, and {} is expected", name_, m.what, what));
  return std::move(m.bytes);
}

}  // namespace tscompile
