// Schedules requests onto the steps of a model.
#include "runtime/llm/batching.h"

#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {

struct Batcher::State {
  RequestId id = 0;
  Request request;
  int64_t maxNewTokens = 0;      // as the limits have it
  std::vector<TokenId> history;  // prompt and generated tokens
  std::unique_ptr<BeamSearch> search;
  RequestResult result;

  size_t promptLength() const { return request.prompt.size(); }
  bool beams() const { return request.sampling.beamWidth > 1; }
  TokenSpan generated() const { return TokenSpan(history).subspan(promptLength()); }
};

// What one request computes in a step: `count` tokens from `past` on; for beams, one token of each.
struct Batcher::Row {
  RequestId id;
  RequestType type;
  int64_t past, count;
};

std::string_view finishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::None:
      return "none";
    case FinishReason::EndToken:
      return "end";
    case FinishReason::Length:
      return "length";
    case FinishReason::Cancelled:
      return "cancelled";
    case FinishReason::Failed:
      return "failed";
  }
  TS_UNREACHABLE();
}

std::unique_ptr<Batcher> Batcher::make(StepModel& model, const KvCacheConfig& cache, const BatchLimits& limits,
                                       Diagnostics& diagnostics) {
  bool good = validateKvCache(cache, diagnostics);
  auto atLeast = [&](const char* name, int64_t value, int64_t least) {
    if (value >= least && value <= std::numeric_limits<int32_t>::max()) return;
    diagnostics.error(
        fmt::format("{} is {}, expected {} to {}", name, value, least, std::numeric_limits<int32_t>::max()),
        ErrorKind::Input);
    good = false;
  };
  atLeast("max_batch_size", limits.maxBatchSize, 1);
  atLeast("max_num_tokens", limits.maxNumTokens, std::max<int64_t>(limits.maxBatchSize, 1));
  atLeast("max_seq_len", limits.maxSequenceLength, 2);
  if (!good) return nullptr;
  return std::unique_ptr<Batcher>(new Batcher(model, cache, limits));
}

Batcher::Batcher(StepModel& model, const KvCacheConfig& cache, const BatchLimits& limits)
    : model_(model), limits_(limits), cache_(cache) {}

Batcher::~Batcher() = default;

Batcher::State& Batcher::state(RequestId id) const {
  auto found = requests_.find(id);
  TS_CHECK(found != requests_.end());
  return *found->second;
}

// The blocks that a request may hold at a time. Beams share those that the prompt fills, as long as no ring comes round
// to them.
int64_t Batcher::mostBlocks(const Request& request, int64_t newTokens) const {
  const KvCacheConfig& c = cache_.config();
  int64_t prompt = static_cast<int64_t>(request.prompt.size()), beams = request.sampling.beamWidth;
  int64_t cached = prompt + newTokens - 1;  // the last token is never shown to the model
  int64_t all = c.blocksFor(cached);
  bool wraps = c.window > 0 && cached > c.sinks + c.ring();
  int64_t shared = wraps ? 0 : std::min(all, c.slot(prompt) / c.tokensPerBlock);
  return shared + beams * (all - shared);
}

bool Batcher::checkRequest(const Request& r, Diagnostics& diagnostics) const {
  int64_t vocabulary = model_.vocabularySize();
  bool good = validateSampling(r.sampling, vocabulary, diagnostics);
  auto fail = [&](std::string message, ErrorKind kind = ErrorKind::Input) {
    diagnostics.error(std::move(message), kind);
    good = false;
  };
  if (r.prompt.empty()) fail("the prompt has no tokens");
  for (TokenId t : r.prompt)
    if (t < 0 || t >= vocabulary) {
      fail(fmt::format("the prompt has {}, which is no token: the vocabulary has {}", t, vocabulary));
      break;
    }
  if (r.maxNewTokens < 1) fail(fmt::format("max_new_tokens is {}, expected at least 1", r.maxNewTokens));
  int64_t length = static_cast<int64_t>(r.prompt.size());
  if (length >= limits_.maxSequenceLength)
    fail(fmt::format("the prompt has {}, which leaves none to generate: max_seq_len is {}",
                     counted(r.prompt.size(), "token"), limits_.maxSequenceLength),
         ErrorKind::Limit);
  else if (limits_.maxPromptLength && length > limits_.maxPromptLength)
    fail(fmt::format("the prompt has {}, more than max_input_len {}", counted(r.prompt.size(), "token"),
                     limits_.maxPromptLength),
         ErrorKind::Limit);
  if (limits_.maxBeamWidth && r.sampling.beamWidth > limits_.maxBeamWidth)
    fail(fmt::format("beamWidth is {}, more than max_beam_width {}", r.sampling.beamWidth, limits_.maxBeamWidth),
         ErrorKind::Limit);
  else if (r.sampling.beamWidth > limits_.maxBatchSize)
    fail(fmt::format("beamWidth is {}, but a step has at most {}", r.sampling.beamWidth,
                     counted(static_cast<uint64_t>(limits_.maxBatchSize), "row")),
         ErrorKind::Limit);
  if (!good) return false;
  int64_t newTokens = std::min(r.maxNewTokens, limits_.maxSequenceLength - length);
  int64_t most = mostBlocks(r, newTokens), all = cache_.config().blocks;
  if (most > all)
    fail(fmt::format("can't allocate a new block for the KV cache: {} and {} may need {}, {} of {} free",
                     counted(r.prompt.size(), "prompt token"), counted(static_cast<uint64_t>(newTokens), "new one"),
                     most, all, all),
         ErrorKind::Limit);
  return good;
}

Result<RequestId> Batcher::add(Request request, Diagnostics& diagnostics) {
  if (!checkRequest(request, diagnostics)) return Failed{};
  if (static_cast<int64_t>(waiting_.size()) >= limits_.maxWaiting) {
    diagnostics.error(fmt::format("{} wait already", counted(waiting_.size(), "request")), ErrorKind::Limit);
    return Failed{};
  }
  auto s = std::make_unique<State>();
  s->id = ++lastId_;
  s->maxNewTokens =
      std::min(request.maxNewTokens, limits_.maxSequenceLength - static_cast<int64_t>(request.prompt.size()));
  s->history = request.prompt;
  s->request = std::move(request);
  waiting_.insert(s->id);
  requests_.emplace(s->id, std::move(s));
  return lastId_;
}

bool Batcher::cancel(RequestId id) {
  auto found = requests_.find(id);
  if (found == requests_.end() || found->second->result.reason != FinishReason::None) return false;
  finish(*found->second, FinishReason::Cancelled);
  return true;
}

const RequestResult* Batcher::result(RequestId id) const {
  auto found = requests_.find(id);
  return found == requests_.end() ? nullptr : &found->second->result;
}

std::optional<RequestResult> Batcher::take(RequestId id) {
  auto found = requests_.find(id);
  if (found == requests_.end() || found->second->result.reason == FinishReason::None) return std::nullopt;
  RequestResult result = std::move(found->second->result);
  requests_.erase(found);
  finished_.erase(id);
  return result;
}

void Batcher::finish(State& s, FinishReason reason) {
  s.result.reason = reason;
  if (s.search) {
    s.result.hypotheses = s.search->hypotheses();
    if (!s.result.hypotheses.empty()) s.result.tokens = s.result.hypotheses[0].tokens;
    s.search.reset();
  }
  if (cache_.has(s.id)) cache_.remove(s.id);
  running_.erase(s.id);
  waiting_.erase(s.id);
  suspects_.erase(s.id);
  finished_.insert(s.id);
}

void Batcher::fail(State& s, const Diagnostics& failure, Diagnostics& diagnostics) {
  for (const Diagnostic& d : failure.list()) {
    if (d.severity == Severity::Error && !s.result.failure) s.result.failure = d;
    diagnostics.add(d);
  }
  finish(s, FinishReason::Failed);
}

// Who is to blame is found out one by one. Nothing of what the step wrote is used again.
void Batcher::takeFailure(const std::vector<Row>& rows, const Diagnostics& failure, Diagnostics& diagnostics) {
  if (rows.size() == 1) return fail(state(rows[0].id), failure, diagnostics);
  bool isInterrupted = failure.firstErrorKind() == ErrorKind::Interrupted;
  for (const Row& r : rows) {
    if (isInterrupted) {
      Diagnostics said;
      fail(state(r.id), failure, r.id == rows[0].id ? diagnostics : said);
      continue;
    }
    suspects_[r.id] = r.past + r.count;
    suspend(r.id);
  }
}

void Batcher::suspend(RequestId id) {
  State& s = state(id);
  cache_.remove(id);
  running_.erase(id);
  waiting_.insert(id);
  ++s.result.restarts;
  ++counters_.restarts;
}

// Blocks for the next tokens; later arrivals give theirs back if there are too few. False if the request itself had to.
bool Batcher::prepare(State& s, int64_t count, std::vector<BlockCopy>& copies) {
  while (true) {
    Diagnostics unused;
    Result<std::vector<BlockCopy>> made = cache_.prepare(s.id, count, unused);
    if (made) {
      copies.insert(copies.end(), made->begin(), made->end());
      return true;
    }
    RequestId latest = *running_.rbegin();
    TS_CHECK(latest != s.id || running_.size() > 1);  // checkRequest: alone it fits
    suspend(latest);
    if (latest == s.id) return false;
  }
}

// Rows that running requests take, or will take once their prompt is read.
int64_t Batcher::reservedRows() const {
  int64_t rows = 0;
  for (RequestId id : running_) rows += state(id).request.sampling.beamWidth;
  return rows;
}

void Batcher::scheduleGeneration(std::vector<Row>& rows, StepBatch& batch) {
  std::vector<RequestId> order(running_.begin(), running_.end());
  for (RequestId id : order) {
    if (!running_.count(id)) continue;  // gave its blocks back
    State& s = state(id);
    if (isReading(s)) continue;
    int64_t past = cache_.length(id);
    if (prepare(s, 1, batch.copies)) rows.push_back({id, RequestType::Generation, past, 1});
  }
}

// Whether tokens are left that nothing is generated from.
bool Batcher::isReading(const State& s) const {
  int64_t past = cache_.length(s.id);
  return s.search ? past < static_cast<int64_t>(s.promptLength())
                  : past + 1 < static_cast<int64_t>(s.history.size()) || s.generated().empty();
}

// A step of one request; others give their blocks back if it needs them.
void Batcher::scheduleAlone(State& s, std::vector<Row>& rows, StepBatch& batch) {
  while (!running_.count(s.id) && !admit(s)) {
    TS_CHECK(!running_.empty());  // checkRequest: alone it fits
    suspend(*running_.rbegin());
  }
  bool reads = isReading(s);
  int64_t past = cache_.length(s.id);
  int64_t all = static_cast<int64_t>(s.beams() ? s.promptLength() : s.history.size());
  int64_t count = reads ? std::min(all - past, limits_.maxNumTokens) : 1;
  while (true) {
    Diagnostics unused;
    Result<std::vector<BlockCopy>> made = cache_.prepare(s.id, count, unused);
    if (made) {
      batch.copies = std::move(*made);
      break;
    }
    RequestId latest = *running_.rbegin();
    if (latest == s.id) latest = *std::next(running_.rbegin());
    suspend(latest);
  }
  rows.push_back({s.id, reads ? RequestType::Context : RequestType::Generation, past, count});
}

// It goes on with the others when it is past the step that failed.
void Batcher::forgetSuspect(const State& s) {
  auto found = suspects_.find(s.id);
  if (found != suspects_.end() && cache_.has(s.id) && cache_.length(s.id) >= found->second) suspects_.erase(found);
}

// Beside others a request is let in only if one block is left for each of their rows: they are to go on for a while.
bool Batcher::admit(State& s) {
  int64_t rows = reservedRows();
  if (rows + s.request.sampling.beamWidth > limits_.maxBatchSize) return false;
  TokenSpan tokens = s.beams() ? TokenSpan(s.request.prompt) : TokenSpan(s.history);
  if (!running_.empty() && cache_.blocksWanted(tokens) + rows > cache_.freeBlocks()) return false;
  Diagnostics unused;
  Result<int64_t> reused = cache_.addSequence(s.id, tokens, unused);
  if (!reused) return false;
  if (s.result.restarts == 0) s.result.reusedTokens = *reused;
  if (s.beams()) s.search = std::make_unique<BeamSearch>(s.request.sampling, s.request.prompt, s.maxNewTokens);
  waiting_.erase(s.id);
  running_.insert(s.id);
  return true;
}

// Nobody is let in after somebody had to leave.
void Batcher::scheduleContext(std::vector<Row>& rows, StepBatch& batch, int64_t budget, int64_t restarts) {
  auto schedule = [&](State& s) {
    int64_t past = cache_.length(s.id);
    int64_t all = static_cast<int64_t>(s.beams() ? s.promptLength() : s.history.size());
    int64_t count = std::min(all - past, budget);
    if (!prepare(s, count, batch.copies)) return;
    rows.push_back({s.id, RequestType::Context, past, count});
    budget -= count;
  };
  std::vector<RequestId> order(running_.begin(), running_.end());
  for (RequestId id : order) {
    bool generates = std::any_of(rows.begin(), rows.end(), [&](const Row& r) { return r.id == id; });
    if (budget > 0 && running_.count(id) && !generates) schedule(state(id));
  }
  while (budget > 0 && !waiting_.empty() && counters_.restarts == restarts) {
    State& s = state(*waiting_.begin());
    if (!admit(s)) break;
    schedule(s);
  }
}

void Batcher::appendRow(const State& s, const Row& row, int64_t beam, StepBatch& batch) const {
  TokenSpan history = s.search ? s.search->history(static_cast<size_t>(beam)) : TokenSpan(s.history);
  for (int64_t t = row.past; t < row.past + row.count; ++t) {
    batch.tokens.push_back(history[static_cast<size_t>(t)]);
    batch.positions.push_back(t);
  }
  bool context = row.type == RequestType::Context;
  batch.requestTypes.push_back(static_cast<int32_t>(row.type));
  batch.pastLengths.push_back(static_cast<int32_t>(row.past));
  batch.contextLengths.push_back(static_cast<int32_t>(context ? row.count : static_cast<int64_t>(s.promptLength())));
  batch.sequenceLengths.push_back(static_cast<int32_t>(row.past + row.count));
  batch.lastTokenIds.push_back(static_cast<int32_t>(batch.tokens.size()));
  batch.texts.push_back(history.first(static_cast<size_t>(row.past + row.count)));
  size_t size = static_cast<size_t>(2 * batch.maxBlocks), at = batch.blockTable.size();
  batch.blockTable.resize(at + size);
  cache_.exportTable(s.id, beam, std::span(batch.blockTable).subspan(at, size));
}

void Batcher::fill(const std::vector<Row>& rows, StepBatch& batch) const {
  for (const Row& row : rows)
    batch.maxBlocks = std::max(batch.maxBlocks, static_cast<int64_t>(cache_.table(row.id, 0).size()));
  for (const Row& row : rows)
    for (int64_t beam = 0; beam < cache_.beams(row.id); ++beam) appendRow(state(row.id), row, beam, batch);
}

std::vector<Batcher::Row> Batcher::schedule(StepBatch& batch) {
  std::vector<Row> rows;
  if (!suspects_.empty()) {
    scheduleAlone(state(suspects_.begin()->first), rows, batch);
    return rows;
  }
  int64_t restarts = counters_.restarts, generating = 0;
  scheduleGeneration(rows, batch);
  for (const Row& r : rows) generating += cache_.beams(r.id);
  scheduleContext(rows, batch, limits_.maxNumTokens - generating, restarts);
  // A request may have lost its blocks to an earlier one after it got its row.
  std::erase_if(rows, [&](const Row& r) { return !running_.count(r.id); });
  std::stable_partition(rows.begin(), rows.end(), [](const Row& r) { return r.type == RequestType::Context; });
  return rows;
}

bool Batcher::step(Diagnostics& diagnostics) {
  StepBatch batch;
  std::vector<Row> rows = schedule(batch);
  if (rows.empty()) return false;
  fill(rows, batch);
  ++counters_.steps;
  counters_.mostRows = std::max(counters_.mostRows, batch.rows());
  for (const Row& r : rows)
    (r.type == RequestType::Context ? counters_.contextTokens : counters_.generationTokens) += r.count;

  Diagnostics failure;
  Result<Tensor> logits = model_.step(batch, failure);
  if (!logits) {
    takeFailure(rows, failure, diagnostics);
    return true;
  }
  int64_t vocabulary = model_.vocabularySize();
  TS_CHECK(logits->dtype() == DType::Float32 && logits->isContiguous() && logits->numel() == batch.rows() * vocabulary);
  const float* row = logits->data<float>();
  for (const Row& r : rows) {
    State& s = state(r.id);
    size_t count = static_cast<size_t>(cache_.beams(r.id) * vocabulary);
    std::span<const float> own(row, count);
    row += count;
    if (cache_.beams(r.id) > 1)
      cache_.written(r.id, r.count);
    else
      cache_.written(r.id, TokenSpan(s.search ? s.search->history(0) : TokenSpan(s.history))
                               .subspan(static_cast<size_t>(r.past), static_cast<size_t>(r.count)));
    takeLogits(s, own, diagnostics);
    forgetSuspect(s);
  }
  deliver(diagnostics);
  return true;
}

void Batcher::takeLogits(State& s, std::span<const float> logits, Diagnostics& diagnostics) {
  int64_t length = cache_.length(s.id);
  if (s.beams()) {
    if (length >= static_cast<int64_t>(s.promptLength())) takeBeams(s, logits, diagnostics);
  } else if (length == static_cast<int64_t>(s.history.size())) {
    takeToken(s, logits, diagnostics);
  }
}

void Batcher::takeToken(State& s, std::span<const float> logits, Diagnostics& diagnostics) {
  Diagnostics failure;
  Result<Sampled> sampled = sampler_.sample(s.request.sampling, logits, s.history, s.promptLength(), failure);
  if (!sampled) return fail(s, failure, diagnostics);
  s.history.push_back(sampled->token);
  s.result.tokens.push_back(sampled->token);
  if (s.request.sampling.logProbs) s.result.logProbs.push_back(sampled->logProb);
  if (s.request.onToken)
    events_.push_back({s.id, sampled->token, sampled->logProb, static_cast<int64_t>(s.generated().size()) - 1});
  if (endsText(s.request.sampling, s.generated()))
    finish(s, FinishReason::EndToken);
  else if (static_cast<int64_t>(s.generated().size()) >= s.maxNewTokens)
    finish(s, FinishReason::Length);
}

void Batcher::takeBeams(State& s, std::span<const float> logits, Diagnostics& diagnostics) {
  Diagnostics failure;
  Result<BeamStep> step = s.search->step(logits, failure);
  if (!step) return fail(s, failure, diagnostics);
  if (!s.search->done()) return cache_.fork(s.id, step->parents);
  std::vector<Hypothesis> found = s.search->hypotheses();
  finish(s, !found.empty() && found[0].ended ? FinishReason::EndToken : FinishReason::Length);
}

// After the step, so that callbacks find everything in order, whatever they do. A request that callers ended meanwhile
// gets no more events.
void Batcher::deliver(Diagnostics& diagnostics) {
  std::vector<TokenEvent> events;
  events.swap(events_);
  for (const TokenEvent& e : events) deliver(e, diagnostics);
}

void Batcher::deliver(const TokenEvent& e, Diagnostics& diagnostics) {
  auto find = [&]() -> State* {
    auto found = requests_.find(e.request);
    return found == requests_.end() ? nullptr : found->second.get();
  };
  State* s = find();
  if (!s || s->result.reason == FinishReason::Cancelled || s->result.reason == FinishReason::Failed) return;
  std::function<bool(const TokenEvent&)> onToken = s->request.onToken;
  std::string thrown;
  try {
    if (onToken(e)) return;
    cancel(e.request);
    return;
  } catch (const std::exception& exception) {
    thrown = exception.what();
  } catch (...) {
    thrown = "something that is no std::exception";
  }
  Diagnostics failure;
  failure.error("onToken of a request has thrown: " + abbreviate(thrown, 200), ErrorKind::Model);
  if (State* left = find()) return fail(*left, failure, diagnostics);
  diagnostics.add(failure.list().front());
}

bool Batcher::run(Diagnostics& diagnostics) {
  size_t before = diagnostics.errorCount();
  while (step(diagnostics)) {
  }
  return diagnostics.errorCount() == before;
}

}  // namespace tscompile
