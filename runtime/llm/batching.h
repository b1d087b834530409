// In-flight batching: many requests share the steps of one model, joining and leaving between steps.
//
// Every step takes the tokens of requests that generate (one for each beam) and fills up with pieces of prompts. Blocks
// of the KV cache go to requests in the order of their arrival: if one that generates finds none, the latest to arrive
// among the others gives its blocks back and waits; its tokens are computed anew later (a beam search starts anew). So
// the first to arrive always goes on, and nothing can wait for ever. A request that could not be finished even alone is
// refused when it is added.
//
// Requests do not hurt each other: after a step that fails, each of its requests starts anew and runs alone until it is
// past that step; one that fails alone ends, and the others go on together.
//
// Which requests share a step never changes what the model is shown of one of them, nor what is drawn for it.
#pragma once

#include "runtime/llm/beam_search.h"
#include "runtime/llm/kv_blocks.h"
#include "runtime/llm/sampling.h"

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace tscompile {

// What GPTAttention's host_request_types holds.
enum class RequestType : int32_t { Context = 0, Generation = 1 };

// What one step computes: S rows, each a run of tokens that follow each other in one sequence; those of context
// requests come first, then those of generation requests, whose beams are rows beside each other. T is the number of
// tokens. A row sees what its block table has of its first pastLengths tokens, and its own tokens up to each.
struct StepBatch {
  // Made in this order before anything else is read or written; see copyBlocks.
  std::vector<BlockCopy> copies;
  std::vector<int64_t> tokens;     // [T], packed row by row
  std::vector<int64_t> positions;  // [T], of the tokens in their sequences, from 0

  std::vector<int32_t> requestTypes;     // [S], RequestType
  std::vector<int32_t> pastLengths;      // [S], tokens in the cache before this step
  std::vector<int32_t> contextLengths;   // [S], context rows: tokens of this step; generation rows: of the prompt
  std::vector<int32_t> sequenceLengths;  // [S], tokens in the cache after this step
  std::vector<int32_t> lastTokenIds;     // [S], packed number of the row's last token + 1 (inclusive prefix sums)
  std::vector<int32_t> blockTable;       // [S, 2, maxBlocks], see KvBlocks::exportTable
  int64_t maxBlocks = 0;
  // [S], all tokens of each row's sequence up to its last one, for models that keep nothing between steps. Valid while
  // the model's step() runs.
  std::vector<TokenSpan> texts;

  int64_t rows() const { return static_cast<int64_t>(requestTypes.size()); }
};

// The model as the batcher sees it; it owns the pool of blocks.
class StepModel {
 public:
  virtual ~StepModel() = default;
  virtual int64_t vocabularySize() const = 0;
  // Logits f32 [S, vocabulary], row i after its last token. The keys and values of all tokens are in the cache then. A
  // row must get the same logits whatever other rows there are, and whether its tokens come in one step or in several:
  // with a window too, where later tokens of a row overwrite places that earlier ones of it still read. Does not throw.
  virtual Result<Tensor> step(const StepBatch& batch, Diagnostics& diagnostics) = 0;
};

struct BatchLimits {
  int64_t maxBatchSize = 8;          // rows of a step
  int64_t maxNumTokens = 512;        // tokens of a step; prompts come in pieces if need be
  int64_t maxSequenceLength = 1024;  // prompt and generated tokens of a request
  int64_t maxWaiting = 1 << 16;      // requests
  int64_t maxPromptLength = 0;       // 0: as long as leaves a token to generate
  int64_t maxBeamWidth = 0;          // 0: as many as a step has rows
};

using RequestId = int64_t;

enum class FinishReason : uint8_t {
  None,       // not finished
  EndToken,   // an end token or a stop word
  Length,     // maxNewTokens or maxSequenceLength
  Cancelled,  // by cancel() or by onToken
  Failed,     // the model's step failed, onToken threw, or no token was possible
};
std::string_view finishReasonName(FinishReason reason);

struct TokenEvent {
  RequestId request = 0;
  TokenId token = 0;
  double logProb = 0;  // see SamplingConfig::logProbs
  int64_t index = 0;   // 0: the first generated token
};

struct Request {
  std::vector<TokenId> prompt;
  SamplingConfig sampling;
  int64_t maxNewTokens = 64;
  // Called once for each token, in order, after the step that made it; false cancels the request, and so does an
  // exception, as a failure. Not called for beam search, whose texts are known at its end. May call add() and cancel().
  std::function<bool(const TokenEvent&)> onToken;
};

struct RequestResult {
  FinishReason reason = FinishReason::None;
  std::vector<TokenId> tokens;         // generated; of beam search the best text
  std::vector<double> logProbs;        // of the tokens, if asked for
  std::vector<Hypothesis> hypotheses;  // of beam search, best first
  int64_t reusedTokens = 0;            // of the prompt, found in the cache
  int64_t restarts = 0;                // how often it gave its blocks back
  std::optional<Diagnostic> failure;   // of a failed request: what was reported
};

struct BatchCounters {
  int64_t steps = 0, contextTokens = 0, generationTokens = 0, restarts = 0;
  int64_t mostRows = 0;
};

// Not for several threads at once.
class Batcher {
 public:
  // Null after a report of all that is wrong with the limits or the cache. The model must outlive the batcher.
  static std::unique_ptr<Batcher> make(StepModel& model, const KvCacheConfig& cache, const BatchLimits& limits,
                                       Diagnostics& diagnostics);

  ~Batcher();

  // Reports everything that is wrong with a request. maxNewTokens is cut where the sequence would be too long.
  Result<RequestId> add(Request request, Diagnostics& diagnostics);
  // A request that waits or runs ends with what it has. False if there is none.
  bool cancel(RequestId id);
  // Runs the model once. False if there is nothing to do. A failure ends the request that it is of: it is reported, and
  // the batcher goes on with the others. Only an interrupted step ends all of its requests.
  bool step(Diagnostics& diagnostics);
  // Steps until there is nothing to do; false if something was reported.
  bool run(Diagnostics& diagnostics);

  bool idle() const { return waiting_.empty() && running_.empty(); }
  size_t waiting() const { return waiting_.size(); }
  size_t running() const { return running_.size(); }
  // What a request has so far; null if it is not known. Kept until taken.
  const RequestResult* result(RequestId id) const;
  // The result of a finished request, which is forgotten; none of others.
  std::optional<RequestResult> take(RequestId id);
  // Those to take, in the order of their arrival.
  const std::set<RequestId>& finished() const { return finished_; }

  const KvBlocks& cache() const { return cache_; }
  const BatchCounters& counters() const { return counters_; }

 private:
  struct State;
  struct Row;

  Batcher(StepModel& model, const KvCacheConfig& cache, const BatchLimits& limits);
  bool checkRequest(const Request& request, Diagnostics& diagnostics) const;
  int64_t mostBlocks(const Request& request, int64_t newTokens) const;
  State& state(RequestId id) const;
  bool prepare(State& s, int64_t count, std::vector<BlockCopy>& copies);
  void suspend(RequestId id);
  void scheduleGeneration(std::vector<Row>& rows, StepBatch& batch);
  void scheduleContext(std::vector<Row>& rows, StepBatch& batch, int64_t budget, int64_t restarts);
  bool admit(State& s);
  int64_t reservedRows() const;
  void fill(const std::vector<Row>& rows, StepBatch& batch) const;
  void appendRow(const State& s, const Row& row, int64_t beam, StepBatch& batch) const;
  void takeLogits(State& s, std::span<const float> logits, Diagnostics& diagnostics);
  void takeToken(State& s, std::span<const float> logits, Diagnostics& diagnostics);
  void takeBeams(State& s, std::span<const float> logits, Diagnostics& diagnostics);
  void finish(State& s, FinishReason reason);
  void fail(State& s, const Diagnostics& failure, Diagnostics& diagnostics);
  void takeFailure(const std::vector<Row>& rows, const Diagnostics& failure, Diagnostics& diagnostics);
  std::vector<Row> schedule(StepBatch& batch);
  void scheduleAlone(State& s, std::vector<Row>& rows, StepBatch& batch);
  bool isReading(const State& s) const;
  void forgetSuspect(const State& s);
  void deliver(Diagnostics& diagnostics);
  void deliver(const TokenEvent& event, Diagnostics& diagnostics);

  StepModel& model_;
  BatchLimits limits_;
  KvBlocks cache_;
  Sampler sampler_;
  RequestId lastId_ = 0;
  std::map<RequestId, std::unique_ptr<State>> requests_;
  std::set<RequestId> waiting_, running_, finished_;  // in the order of arrival
  // Requests of a step that failed, and how many tokens each has in the cache when it is past that step.
  std::map<RequestId, int64_t> suspects_;
  std::vector<TokenEvent> events_;
  BatchCounters counters_;
};

}  // namespace tscompile
