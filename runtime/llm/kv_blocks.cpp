// Bookkeeping of the KV cache's blocks.
#include "runtime/llm/kv_blocks.h"

#include "ir/support/text.h"
#include "ir/values/error.h"
#include "ir/values/memory.h"
#include "ir/values/random.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace tscompile {
namespace {

// Bytes of an element as it lies in the cache; 0: not a dtype of caches.
int64_t cacheItemSize(DType dtype) {
  switch (dtype) {
    case DType::Float32:
      return 4;
    case DType::Float16:
    case DType::BFloat16:
      return 2;
    case DType::Int8:
    case DType::Float8E4M3FN:
      return 1;
    default:
      return 0;
  }
}

uint64_t chainedHash(uint64_t before, TokenSpan tokens) {
  uint64_t hash = before;
  for (TokenId t : tokens) hash = random::bits(hash, static_cast<uint32_t>(t));
  return hash;
}

}  // namespace

int64_t KvCacheConfig::blocksFor(int64_t tokens) const {
  if (tokens <= 0) return 0;
  int64_t last = window == 0 || tokens <= sinks ? tokens - 1 : sinks + bubble() + std::min(tokens - sinks, ring()) - 1;
  return last / tokensPerBlock + 1;
}

int64_t KvCacheConfig::bytesPerBlock() const {
  return 2 * layers * kvHeads * tokensPerBlock * headSize * cacheItemSize(dtype);
}

bool validateKvCache(const KvCacheConfig& c, Diagnostics& diagnostics) {
  bool good = true;
  auto fail = [&](std::string message, ErrorKind kind = ErrorKind::Input) {
    diagnostics.error(std::move(message), kind);
    good = false;
  };
  auto size = [&](const char* name, int64_t value, int64_t limit) {
    if (value < 1 || value > limit) fail(fmt::format("{} is {}, expected 1 to {}", name, value, limit));
  };
  size("layers", c.layers, 1 << 16);
  size("kvHeads", c.kvHeads, 1 << 16);
  size("headSize", c.headSize, 1 << 16);
  size("tokensPerBlock", c.tokensPerBlock, 1 << 16);
  size("blocks", c.blocks, int64_t{1} << 30);
  if (c.tokensPerBlock > 0 && !std::has_single_bit(static_cast<uint64_t>(c.tokensPerBlock)))
    fail(fmt::format("tokensPerBlock is {}, expected a power of two", c.tokensPerBlock));
  if (cacheItemSize(c.dtype) == 0)
    fail(fmt::format("the KV cache cannot hold {}", pythonName(c.dtype)), ErrorKind::Unsupported);
  if (c.window < 0) fail(fmt::format("window is {}, expected 0 or more", c.window));
  if (c.sinks < 0 || (c.sinks > 0 && c.sinks >= c.window))
    fail(fmt::format("sinks is {}, expected less than the window of {}", c.sinks, c.window));
  if (!good) return false;
  constexpr int64_t kMaxEntry = INT32_MAX;
  if (c.blocks > kMaxEntry / (2 * c.layers))
    fail(fmt::format("{} blocks of {} are more than block tables can name", c.blocks, counted(c.layers, "layer")),
         ErrorKind::Limit);
  int64_t elements = c.layers * c.kvHeads;
  if (elements > kMaxElements / (2 * c.tokensPerBlock * c.headSize) ||
      c.blocks > kMaxElements / (2 * c.tokensPerBlock * c.headSize * elements))
    fail("the KV cache has more than 2^48 elements", ErrorKind::Limit);
  return good;
}

namespace {

// Memory of the system that is zero until it is written, counted against the budget of who asked for it.
struct PoolMemory {
  void* memory;
  uint64_t bytes;
  MemoryBudget* budget;  // one reference, or null

  static void release(void* context) {
    auto* pool = static_cast<PoolMemory*>(context);
    std::free(pool->memory);
    if (pool->budget) {
      pool->budget->refund(pool->bytes);
      pool->budget->release();
    }
    delete pool;
  }
};

}  // namespace

Tensor makeKvPool(const KvCacheConfig& c) {
  DType dtype = cacheItemSize(c.dtype) == 1 ? DType::Int8 : c.dtype;
  constexpr size_t kAligned = 64;
  size_t bytes = static_cast<size_t>(c.blocks * c.bytesPerBlock()), room = bytes + kAligned;
  MemoryBudget* budget = BudgetScope::current();
  chargeBudget(budget, bytes);
  void* data = std::calloc(1, room);
  if (!data) {
    if (budget) budget->refund(bytes);
    throw ExecutionError(ErrorKind::Limit, "out of memory: a tensor of " + bytesText(bytes) + " cannot be allocated");
  }
  if (budget) budget->retain();
  auto* pool = new PoolMemory{data, bytes, budget};
  std::align(kAligned, bytes, data, room);
  return Tensor::borrow(dtype, Dims{c.blocks, c.layers, 2, c.kvHeads, c.tokensPerBlock, c.headSize}, data,
                        PoolMemory::release, pool);
}

void copyBlocks(const KvCacheConfig& config, const Tensor& pool, std::span<const BlockCopy> copies) {
  int64_t bytes = config.bytesPerBlock();
  for (BlockCopy c : copies)
    std::memcpy(pool.raw() + c.to * bytes, pool.raw() + c.from * bytes, static_cast<size_t>(bytes));
}

KvBlocks::KvBlocks(const KvCacheConfig& config) : config_(config), blocks_(static_cast<size_t>(config.blocks)) {
  if (config.window > 0 && config.bubble() != 0) config_.reuse = false;
  for (int32_t b = 0; b < config.blocks; ++b) append(b);
}

const KvBlocks::Sequence& KvBlocks::at(SequenceId id) const {
  auto found = sequences_.find(id);
  TS_CHECK(found != sequences_.end());
  return found->second;
}

// The stored block with these tokens after those of `before`: the hash only says where to look.
int32_t KvBlocks::find(uint64_t before, uint64_t hash, TokenSpan tokens) const {
  auto [begin, end] = stored_.equal_range(hash);
  for (auto i = begin; i != end; ++i) {
    const Block& b = block(i->second);
    if (b.before == before && std::equal(tokens.begin(), tokens.end(), b.tokens.begin(), b.tokens.end()))
      return i->second;
  }
  return kNone;
}

std::vector<int32_t> KvBlocks::matching(TokenSpan tokens) const {
  std::vector<int32_t> found;
  if (!config_.reuse || tokens.empty()) return found;
  size_t size = static_cast<size_t>(config_.tokensPerBlock);
  size_t usable = tokens.size() - 1;
  if (config_.window > 0) usable = std::min(usable, static_cast<size_t>(config_.sinks + config_.ring()));
  uint64_t before = 0, hash = 0;
  for (size_t i = 0; (i + 1) * size <= usable; ++i) {
    TokenSpan part = tokens.subspan(i * size, size);
    hash = chainedHash(hash, part);
    int32_t b = find(before, hash, part);
    if (b == kNone) break;
    found.push_back(b);
    before = block(b).serial;
  }
  return found;
}

bool KvBlocks::haveFree(int64_t wanted, Diagnostics& diagnostics) const {
  if (wanted <= free_) return true;
  diagnostics.error(fmt::format("can't allocate a new block for the KV cache: {} needed, {} of {} free", wanted, free_,
                                config_.blocks),
                    ErrorKind::Limit);
  return false;
}

int64_t KvBlocks::blocksWanted(TokenSpan tokens) const {
  int64_t wanted = config_.blocksFor(static_cast<int64_t>(tokens.size()));
  for (int32_t b : matching(tokens))
    if (block(b).holders > 0) --wanted;
  return wanted;
}

Result<int64_t> KvBlocks::addSequence(SequenceId id, TokenSpan tokens, Diagnostics& diagnostics) {
  TS_CHECK(!has(id) && !tokens.empty());
  if (!haveFree(blocksWanted(tokens), diagnostics)) return Failed{};
  std::vector<int32_t> table = matching(tokens);
  for (int32_t b : table) hold(b);
  Sequence s;
  s.sharing = config_.reuse;
  s.stored = static_cast<int64_t>(table.size());
  s.length = s.stored * config_.tokensPerBlock;
  if (!table.empty()) {
    s.serial = block(table.back()).serial;
    s.hash = block(table.back()).hash;
  }
  if (s.sharing) s.tokens.assign(tokens.begin(), tokens.begin() + s.length);
  counters_.reused += s.stored;
  size_t all = static_cast<size_t>(config_.blocksFor(static_cast<int64_t>(tokens.size())));
  while (table.size() < all) table.push_back(allocate());
  s.tables.push_back(std::move(table));
  return sequences_.emplace(id, std::move(s)).first->second.length;
}

// The table entries that the next tokens go to, each once.
std::vector<int64_t> KvBlocks::touched(const Sequence& s, int64_t count) const {
  std::vector<int64_t> entries;
  int64_t all = config_.window == 0 ? count : std::min(count, config_.sinks + config_.ring());
  for (int64_t t = s.length + count - all; t < s.length + count; ++t) {
    int64_t entry = config_.slot(t) / config_.tokensPerBlock;
    if (entries.empty() || entries.back() != entry) entries.push_back(entry);
  }
  if (s.length < config_.sinks)  // passed over where more than the ring is written
    for (int64_t e = s.length / config_.tokensPerBlock; e <= (config_.sinks - 1) / config_.tokensPerBlock; ++e)
      entries.push_back(e);
  std::sort(entries.begin(), entries.end());
  entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
  return entries;
}

int64_t KvBlocks::blocksToPrepare(const Sequence& s, std::span<const int64_t> touched) const {
  int64_t wanted = 0;
  std::map<int32_t, int32_t> here;  // beams of this sequence that will write to a block
  for (const std::vector<int32_t>& table : s.tables)
    for (int64_t entry : touched)
      if (entry < static_cast<int64_t>(table.size()))
        ++here[table[static_cast<size_t>(entry)]];
      else
        ++wanted;
  for (auto [b, writers] : here) wanted += block(b).holders > writers ? writers : writers - 1;
  return wanted;
}

Result<std::vector<BlockCopy>> KvBlocks::prepare(SequenceId id, int64_t count, Diagnostics& diagnostics) {
  Sequence& s = at(id);
  std::vector<int64_t> entries = touched(s, count);
  if (!haveFree(blocksToPrepare(s, entries), diagnostics)) return Failed{};
  std::vector<BlockCopy> copies;
  for (std::vector<int32_t>& table : s.tables)
    for (int64_t entry : entries) {
      if (entry >= static_cast<int64_t>(table.size())) {
        TS_CHECK(entry == static_cast<int64_t>(table.size()));
        table.push_back(allocate());
        continue;
      }
      int32_t& held = table[static_cast<size_t>(entry)];
      if (block(held).holders == 1) {
        forget(held);
        continue;
      }
      int32_t own = allocate();
      copies.push_back({held, own});
      release(held);
      held = own;
    }
  counters_.copied += static_cast<int64_t>(copies.size());
  return copies;
}

void KvBlocks::written(SequenceId id, TokenSpan tokens) {
  Sequence& s = at(id);
  s.length += static_cast<int64_t>(tokens.size());
  if (!s.sharing) return;
  TS_CHECK(s.tables.size() == 1);
  s.tokens.insert(s.tokens.end(), tokens.begin(), tokens.end());
  storeFullBlocks(s);
}

void KvBlocks::written(SequenceId id, int64_t count) {
  Sequence& s = at(id);
  s.length += count;
  s.sharing = false;
  s.tokens = {};
}

void KvBlocks::storeFullBlocks(Sequence& s) {
  if (config_.window > 0 && s.length > config_.sinks + config_.ring()) {  // blocks no longer hold what they began with
    s.sharing = false;
    s.tokens = {};
    return;
  }
  size_t size = static_cast<size_t>(config_.tokensPerBlock);
  while ((s.stored + 1) * config_.tokensPerBlock <= s.length) {
    TokenSpan part = TokenSpan(s.tokens).subspan(static_cast<size_t>(s.stored) * size, size);
    s.hash = chainedHash(s.hash, part);
    int32_t known = find(s.serial, s.hash, part);
    if (known == kNone) {
      known = s.tables[0][static_cast<size_t>(s.stored)];
      store(known, s.serial, s.hash, part);
    }
    s.serial = block(known).serial;
    ++s.stored;
  }
}

void KvBlocks::fork(SequenceId id, std::span<const int32_t> parents) {
  Sequence& s = at(id);
  std::vector<std::vector<int32_t>> tables;
  tables.reserve(parents.size());
  for (int32_t p : parents) {
    TS_CHECK(p >= 0 && static_cast<size_t>(p) < s.tables.size());
    tables.push_back(s.tables[static_cast<size_t>(p)]);
    for (int32_t b : tables.back()) hold(b);
  }
  for (const std::vector<int32_t>& table : s.tables)
    for (auto b = table.rbegin(); b != table.rend(); ++b) release(*b);
  s.tables = std::move(tables);
  if (s.tables.size() > 1) {
    s.sharing = false;
    s.tokens = {};
  }
}

// The last blocks go first into the free list, so beginnings, which others may want, stay longest.
void KvBlocks::remove(SequenceId id) {
  for (const std::vector<int32_t>& table : at(id).tables)
    for (auto b = table.rbegin(); b != table.rend(); ++b) release(*b);
  sequences_.erase(id);
}

int32_t KvBlocks::allocate() {
  TS_CHECK(firstFree_ != kNone);
  int32_t b = firstFree_;
  forget(b);
  hold(b);
  ++counters_.allocated;
  return b;
}

void KvBlocks::hold(int32_t b) {
  if (block(b).holders++ > 0) return;
  unlink(b);
  --free_;
  counters_.peakUsed = std::max(counters_.peakUsed, usedBlocks());
}

void KvBlocks::release(int32_t b) {
  TS_CHECK(block(b).holders > 0);
  if (--block(b).holders > 0) return;
  append(b);
  ++counters_.released;
}

void KvBlocks::unlink(int32_t b) {
  Block& at = block(b);
  (at.previous == kNone ? firstFree_ : block(at.previous).next) = at.next;
  (at.next == kNone ? lastFree_ : block(at.next).previous) = at.previous;
  at.previous = at.next = kNone;
}

void KvBlocks::append(int32_t b) {
  Block& at = block(b);
  at.previous = lastFree_;
  (lastFree_ == kNone ? firstFree_ : block(lastFree_).next) = b;
  lastFree_ = b;
  ++free_;
}

void KvBlocks::store(int32_t b, uint64_t before, uint64_t hash, TokenSpan tokens) {
  Block& at = block(b);
  at.serial = ++lastSerial_;
  at.before = before;
  at.hash = hash;
  at.tokens.assign(tokens.begin(), tokens.end());
  stored_.emplace(hash, b);
  ++counters_.stored;
}

void KvBlocks::forget(int32_t b) {
  Block& at = block(b);
  if (at.serial == 0) return;
  auto [begin, end] = stored_.equal_range(at.hash);
  stored_.erase(std::find_if(begin, end, [&](const auto& entry) { return entry.second == b; }));
  at.serial = 0;
  at.tokens = {};
  ++counters_.removed;
}

void KvBlocks::exportTable(SequenceId id, int64_t beam, std::span<int32_t> row) const {
  std::span<const int32_t> held = table(id, beam);
  size_t most = row.size() / 2;
  TS_CHECK(held.size() <= most);
  std::fill(row.begin(), row.end(), -1);
  for (size_t i = 0; i < held.size(); ++i) {
    row[i] = held[i] * static_cast<int32_t>(config_.layers) * 2;
    row[most + i] = row[i] + 1;
  }
}

std::string KvBlocks::inconsistency() const {
  std::vector<int32_t> holders(blocks_.size());
  for (const auto& [id, s] : sequences_)
    for (const std::vector<int32_t>& table : s.tables)
      for (int32_t b : table) ++holders[static_cast<size_t>(b)];
  int64_t waiting = 0, stored = 0;
  for (size_t b = 0; b < blocks_.size(); ++b) {
    if (holders[b] != blocks_[b].holders)
      return fmt::format("block {} counts {} holders, tables have {}", b, blocks_[b].holders, holders[b]);
    waiting += holders[b] == 0;
    stored += blocks_[b].serial != 0;
  }
  int32_t before = kNone;
  int64_t listed = 0;
  for (int32_t b = firstFree_; b != kNone && listed <= config_.blocks; b = block(b).next, ++listed) {
    if (block(b).holders != 0 || block(b).previous != before) return fmt::format("block {} is wrongly free", b);
    before = b;
  }
  if (before != lastFree_) return "the free list does not end at its last block";
  if (listed != waiting || free_ != waiting)
    return fmt::format("{} blocks wait, {} are in the free list, {} are counted", waiting, listed, free_);
  if (stored != static_cast<int64_t>(stored_.size()))
    return fmt::format("{} blocks are stored, {} can be found", stored, stored_.size());
  return "";
}

}  // namespace tscompile
