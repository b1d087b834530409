// Makes the folder of a language model.
#include "api/built_model.h"
#include "api/compile.h"
#include "api/exported_sizes.h"
#include "api/input_advice.h"
#include "api/language_model.h"
#include "api/lower.h"
#include "api/module_state.h"
#include "api/serving/held_weights.h"
#include "api/serving/input_trials.h"
#include "api/serving/kept_texts.h"
#include "api/serving/longest_text.h"
#include "api/serving/one_by_one.h"
#include "api/serving/own_loop.h"
#include "api/serving_proof.h"
#include "api/support/generation_files.h"
#include "frontend/files/file_io.h"
#include "frontend/files/made_folder.h"
#include "ir/graph/clone.h"
#include "ir/support/text.h"
#include "passes/lowering/clean_up.h"
#include "passes/serving/attention_node.h"
#include "passes/serving/drop_caches.h"
#include "passes/serving/entrance.h"
#include "passes/serving/forms/example_sizes.h"
#include "passes/serving/forms/pair_mask.h"
#include "passes/serving/forms/returned_logits.h"
#include "passes/serving/forms/stacks.h"
#include "passes/serving/forms/text_calls.h"
#include "passes/serving/forms/text_dimension.h"
#include "passes/serving/hide_later.h"
#include "passes/serving/incremental.h"
#include "passes/serving/input_roles.h"
#include "passes/serving/layer_offers.h"
#include "passes/serving/marked_ids.h"
#include "passes/serving/one_token.h"
#include "passes/serving/serving.h"
#include "passes/serving/several_texts.h"
#include "passes/serving/states/returned_states.h"
#include "passes/serving/static_caches.h"
#include "runtime/interpreter/evaluator.h"

#include <fmt/core.h>

#include <limits>

namespace tscompile {
namespace {

class LanguageModelBuild {
 public:
  LanguageModelBuild(const Module& module, const BuildConfig& config, Diagnostics& diagnostics)
      : given_(module), config_(config), diagnostics_(diagnostics), original_(module), settings_(config) {}

  // Of what was built.
  const std::vector<LayerOffer>& offers() const { return offers_; }

  bool run(const std::string& folder) {
    if (!open()) return false;
    if (givesProbabilities()) return runWithLogarithms(folder);
    const bool maySettle = config_.kvCacheType == KvCacheType::Auto;
    if (maySettle) config_.kvCacheType = KvCacheType::Paged;
    Diagnostics why;
    bool isMade = hasPools(config_.kvCacheType) && withCache(why);
    if (!why.list().empty()) noAttention_ = why.list().front().message;
    if (!isMade && hasPools(config_.kvCacheType)) {
      if (!maySettle || !mayDoWithoutPools(why)) return refuse(why);
      config_.kvCacheType = KvCacheType::State;
    }
    if (!isMade && config_.kvCacheType == KvCacheType::State) {
      Diagnostics whyNoState;
      isMade = withState(whyNoState);
      if (!isMade && !maySettle) return refuse(whyNoState);
      if (!isMade) config_.kvCacheType = KvCacheType::Disabled;
      if (isMade && !why.list().empty())
        diagnostics_.remark(why.list().front().range,
                            "each text keeps tensors of its own, since a cache of keys and values in blocks is not "
                            "right for this model: " +
                                why.list().front().message);
      for (const Diagnostic& d : whyNoState.list()) why.add(d);
    }
    if (!isMade && !withoutCache(why)) return false;
    warnOfWidth(shape_.vocabulary, entrance_->words, given_.graph() ? given_.graph()->range : SourceRange{},
                diagnostics_);
    if (filledTo_ != 0)
      diagnostics_.remark({}, fmt::format("the program was exported for {} alone: each step computes so many",
                                          counted(static_cast<uint64_t>(filledTo_), "token")));
    if (asked_ == 0 && !shape_.positions && config_.maxSeqLen == kUsualTokens)
      diagnostics_.remark({},
                          fmt::format("max_seq_len is {}: the model computes its positions and does not say how many "
                                      "it was trained for",
                                      kUsualTokens));
    return write(folder);
  }

 private:
  bool open() {
    // The sizes of a trace are those of its example.
    evaluator_ = makeEvaluator(given_.registry());
    lowering_.query = Query().including({"default", "any_sizes"});
    // What a trace writes to its caches is told from other writes by where they are; exports copy these for themselves.
    lowering_.keepsState = !isExported();
    lowered_ = given_.lowered(lowering_, diagnostics_);
    returnsLogitsAlone_ = lowered_ && lowered_->graph()->outputs().size() == 1 &&
                          lowered_->graph()->outputs()[0].value->type()->isTensor();
    if (!lowered_ || !withLogits() || !isDetermined() || !withTextDimension() || !withOwnMask() || !withWholeTexts() ||
        !lowered_->prepare(diagnostics_))
      return false;  // reports weights that are missing
    if (!withoutMemory()) return false;
    graph_ = cloneGraph(*lowered_->graph());
    Diagnostics unknown;
    entrance_ = openEntrance(*graph_, given_.registry(), *evaluator_, unknown);
    if (!entrance_ && !staticCaches_.unchanged.empty())
      reportUnchanged(staticCaches_.unchanged, graph_->range, diagnostics_);
    else
      refuse(unknown);
    if (!entrance_) return false;
    if (!mayBeginEmpty(original_.exportedInputs(*original_.graph()), entrance_->names, diagnostics_)) return false;
    if (!readsTexts()) return false;
    auto run = [this](const std::vector<IValue>& inputs, Diagnostics& d) { return given_.forward(inputs, d); };
    if (!tryTexts(run)) return false;
    shape_.positions = entrance_->positions;
    asked_ = config_.maxSeqLen;
    return settle(config_, shape_, tokensExportedFor(), diagnostics_);
  }

  // A model that does not run without what was taken for caches may have others among them.
  bool tryTexts(const RunModel& run) {
    Diagnostics found;
    const bool isRight = tryInputs(run, *entrance_, found);
    const bool isLess = !isRight && hasCaches_ && called_ && !TextTrials(run).run(*entrance_);
    for (Diagnostic d : found.list()) {
      if (isLess) d.note(noteOfDropped(*called_->graph(), *entrance_));
      diagnostics_.add(d);
    }
    return isRight;
  }

  bool givesProbabilities() const {
    return TextTrials([this](const std::vector<IValue>& in, Diagnostics& d) { return given_.forward(in, d); })
        .givesProbabilities(*entrance_);
  }

  // Logarithms of probabilities are logits, which tokens are drawn by.
  bool runWithLogarithms(const std::string& folder) {
    LanguageModelBuild other(original_, settings_, diagnostics_);
    other.takesLogarithms_ = true;
    const bool isMade = other.run(folder);
    offers_ = std::move(other.offers_);
    return isMade;
  }

  bool isExported() const { return !given_.exportedInputs(*given_.graph()).empty(); }
  // Has no calls, and knows what it writes.
  const Module& withoutCalls() const { return isExported() ? given_ : *lowered_; }

  // A model may return other values before its logits, or tokens that it chose of them.
  bool withLogits() {
    std::unique_ptr<Graph> graph = cloneGraph(*withoutCalls().graph());
    std::string choice;
    Diagnostics ignored;
    if (const Result<ModuleValues> attributes = withoutCalls().withGraph(cloneGraph(*graph)).values(ignored))
      tellAttributeSizes(*graph, attributes->tensors);
    const bool isOther = returnLogits(*graph, given_.registry(), choice);
    if (takesLogarithms_) returnLogarithms(*graph, given_.registry());
    if (!isOther && !takesLogarithms_) return true;
    if (!choice.empty() && !takesLogarithms_)
      diagnostics_.remark({},
                          fmt::format("the model chooses tokens itself, by {}: its logits are built, and tokens are "
                                      "chosen by those who generate",
                                      choice));
    given_ = Module(withoutCalls()).withGraph(std::move(graph));
    lowered_ = given_.lowered(lowering_, diagnostics_);
    return lowered_.ok();
  }

  bool hidesLaterTokens(const Module& model, bool tokensFirst = false) const {
    return TextTrials([&](const std::vector<IValue>& in, Diagnostics& d) { return model.forward(in, d); })
        .hidesLaterTokens(entranceByNames(*model.graph(), tokensFirst));
  }

  bool runs(const Module& model) const {
    return TextTrials([&](const std::vector<IValue>& in, Diagnostics& d) { return model.forward(in, d); })
        .run(entranceByNames(*model.graph(), false));
  }

  // Another form of the model, which takes or returns others: where `isSure` says so, or where it runs with texts and
  // the model does not. It `keepsSizes` of what it takes if it takes nothing else.
  using Form = bool(Graph&, const OpRegistry&);
  bool takeForm(Form* change, bool isSure, bool keepsSizes = false) {
    const Module flat = withoutCalls();
    std::unique_ptr<Graph> graph = cloneGraph(*flat.graph());
    Diagnostics ignored;
    if (const Result<ModuleValues> own = flat.values(ignored)) tellAttributeSizes(*graph, own->tensors);
    if (!change(*graph, given_.registry())) return true;
    const Module other = Module(flat).withGraph(std::move(graph), !keepsSizes);
    if (!isSure && (runs(flat) || !runs(other))) return true;
    if (!keepsSizes) repeated_ = given_.exportedInputs(*given_.graph());
    given_ = other;
    lowered_ = given_.lowered(lowering_, diagnostics_);
    return lowered_.ok();
  }

  bool withTextDimension() {
    return (isExported() || takeForm(putAnySizes, true)) && takeForm(dropTargets, true) &&
           takeForm(dropHandedOn, true, true) && takeForm(takeOneAxis, false) &&
           takeForm(addTextDimension, lacksTextDimension(*withoutCalls().graph()));
  }

  // A mask that hides later tokens is made in the graph, if it is not one of texts with a number for each token.
  bool withOwnMask() {
    const Module flat = withoutCalls();
    const Value* mask = maskedInputs(*flat.graph()).mask;
    if (!mask || hidesLaterTokens(flat)) return true;
    for (const PairMaskForm& form : pairMaskForms(mask)) {
      std::unique_ptr<Graph> graph = cloneGraph(*flat.graph());
      makePairMask(*graph, maskedInputs(*graph), form);
      const Module other = Module(flat).withGraph(std::move(graph), true);
      if (!hidesLaterTokens(other, form.tokensFirst)) continue;
      repeated_ = given_.exportedInputs(*given_.graph());
      given_ = other;
      ownMask_ = form;
      lowered_ = given_.lowered(lowering_, diagnostics_);
      return lowered_.ok();
    }
    return true;
  }

  // A model that was saved while it was in training drops others of its values in each call.
  bool isDetermined() {
    const Node* drawn = randomNodeOfLogits(*lowered_->graph(), given_.registry());
    if (!drawn) return true;
    diagnostics_
        .error(drawn->range,
               fmt::format("{} draws random numbers, and logits follow from them: each call would give others",
                           drawn->kind().text()),
               ErrorKind::Input)
        .note("dropout is left out by model.eval() before the model is traced, scripted or exported");
    return false;
  }

  // How many tokens or texts a program of torch.export takes at most, by the dimension of its inputs.
  int64_t mostExportedFor(size_t dim, std::span<const std::string> names) const {
    int64_t most = std::numeric_limits<int64_t>::max();
    const bool isRow = dim == 1 && lacksTextDimension(*original_.graph());
    auto look = [&](const ExportedInputs& inputs) {
      for (const ExportedInput& input : inputs.tensors)
        if (input.sizes.size() == (isRow ? 1 : 2) && std::ranges::find(names, input.name) != names.end())
          most = mostByConditions(inputs, input, isRow ? 0 : dim, std::min(most, input.sizes[isRow ? 0 : dim].most));
    };
    look(given_.exportedInputs(*given_.graph()));
    if (dim == 1 && !outgrowsCalls_) look(repeated_);
    return most;
  }
  int64_t tokensExportedFor() const {
    return std::min(handedOn_, mostExportedFor(entrance_->tokensFirst ? 0 : 1, entrance_->names));
  }
  int64_t textsExportedFor() const { return mostExportedFor(entrance_->tokensFirst ? 1 : 0, entrance_->names); }

  // A model that writes keys and values into tensors of a fixed length is one of whole texts, which begin with them as
  // they are; one that is for several texts has the same in each place.
  bool withWholeTexts() {
    const Module& flat = withoutCalls();
    const std::unique_ptr<Graph> sized = withSizes(flat);
    if (!tellDoubt() || (isExported() && !checkGrowth(*sized, diagnostics_))) return false;
    takeFirstNames(*sized, given_.registry());
    selectUnbound(*sized);
    std::unique_ptr<Graph> graph = cloneGraph(*sized);
    filledTo_ = isExported() ? fillTexts(*graph, 0) : 0;
    const bool isRepeated = repeatText(*graph);
    const std::unique_ptr<Graph> calls = cloneGraph(*graph);
    StaticCaches caches = readWholeTexts(*graph, given_.registry(), &staticCaches_);
    if (caches == StaticCaches::None && !isRepeated && filledTo_ == 0) return true;
    const bool isAlone = caches == StaticCaches::WholeText && filledTo_ == 0 && !takesTensorsBesideTexts(*graph);
    if (isAlone && takesOneByOne(flat, *calls, graph)) caches = StaticCaches::OneByOne;
    isOneByOne_ = caches == StaticCaches::OneByOne;
    if (isOneByOne_ && !checkReturned(*sized, given_.registry(), diagnostics_)) return false;
    if (isRepeated || filledTo_ != 0) putApart(flat, *sized);
    if ((isRepeated && !isOneByOne_) || filledTo_ != 0 || outgrowsCalls_)
      repeated_ = given_.exportedInputs(*given_.graph());
    resize(flat, *sized, isRepeated, caches);
    const bool grows = takesTensorsBesideTexts(*graph);
    keepsPlaces_ = !grows && staticCaches_.mask.empty() && !isRepeated && takesTensorsBesideTexts(*sized);
    if (caches == StaticCaches::WholeText && (grows || keepsPlaces_)) {
      Diagnostics ignored;
      called_ = Module(flat).withGraph(cloneGraph(*sized), true).lowered(lowering_, ignored);
      if (called_ && !called_->prepare(ignored)) called_ = Failed{};
    }
    given_ = Module(flat).withGraph(std::move(graph), isRepeated || isOneByOne_ || filledTo_ != 0 || outgrowsCalls_);
    lowered_ = given_.lowered(lowering_, diagnostics_);
    return lowered_.ok();
  }

  // What nothing tells of states: a reason to refuse them, or what was taken.
  bool tellDoubt() {
    constexpr const char* kHelp = "torch.export writes dtypes and sizes of what a call is given";
    const SourceRange place = given_.graph()->range;
    if (doubt_.empty()) return true;
    if (!mayDoubt_) diagnostics_.error(place, doubt_, ErrorKind::Input).note(kHelp);
    if (mayDoubt_) diagnostics_.warning(place, doubt_).note(kHelp);
    return mayDoubt_;
  }

  // One call with all tokens of a text may forget some, or be for fewer than a text may have.
  bool takesOneByOne(const Module& flat, const Graph& calls, std::unique_ptr<Graph>& whole) {
    Diagnostics ignored;
    const int64_t asked = config_.maxSeqLen ? config_.maxSeqLen : kUsualTokens;
    const int64_t places = staticCaches_.tokens ? staticCaches_.tokens : asked;
    const auto runOf = [&flat](const Graph& graph) -> RunModel {
      auto model = std::make_shared<Module>(Module(flat).withGraph(cloneGraph(graph), true));
      return [model](const std::vector<IValue>& in, Diagnostics& d) { return model->forward(in, d); };
    };
    OneCall one{.calls = calls, .whole = *whole, .places = places, .runOf = runOf, .registry = given_.registry()};
    if (const Result<ModuleValues> values = Module(flat).withGraph(cloneGraph(calls)).values(ignored))
      for (const auto& [name, t] : values->tensors) one.weights += t.numel();
    const int64_t most = mostExportedFor(1, entranceByNames(*whole, false).names);
    OneByOne found = tryOneByOne(one, most);
    outgrowsCalls_ = found.isTheSameBeyond;
    if (!found.remembers) return false;
    diagnostics_.remark({},
                        "one call with all tokens of a text forgets some that calls with one after the other "
                        "remember: texts are read so");
    whole = std::move(found.remembers);
    return true;
  }

  void putApart(const Module& flat, const Graph& sized) {
    std::unique_ptr<Graph> graph = cloneGraph(sized);
    const bool isFilled = filledTo_ != 0 && fillTexts(*graph, 1) != 0;
    if (!putTextLast(*graph) && !isFilled) return;
    readWholeTexts(*graph, given_.registry());
    dropCaches(*graph, given_.registry());
    apart_ = Module(flat).withGraph(std::move(graph), true);
  }

  // A trace tells nothing of the sizes of its example, and may know no others.
  std::unique_ptr<Graph> withSizes(const Module& flat) {
    std::unique_ptr<Graph> graph = cloneGraph(*flat.graph());
    Diagnostics ignored;
    if (&flat != &*lowered_) {
      if (const Result<ModuleValues> own = Module(flat).withGraph(cloneGraph(*graph)).values(ignored))
        tellAttributeSizes(*graph, own->tensors);
      takePartsAsPut(*graph, given_.registry());
      return graph;
    }
    const Result<ModuleValues> attributes = lowered_->values(ignored);
    if (!attributes) return graph;
    if (const Node* count = keptCount(*graph, given_.registry(), attributes->tensors))
      warnOfCount(count->output()->name(), count->range, diagnostics_);
    auto run = [&](const std::vector<IValue>& inputs, const Graph* changed) {
      Diagnostics failure;
      Result<std::vector<IValue>> out = changed ? Module(flat).withGraph(cloneGraph(*changed)).forward(inputs, failure)
                                                : given_.forward(inputs, failure);
      return out ? inOrder(std::move(*out)) : std::vector<IValue>();
    };
    const int64_t places = config_.maxSeqLen ? config_.maxSeqLen : kUsualTokens;
    const bool isSized = findExampleSizes(*graph, given_.registry(), attributes->tensors, places, run, doubt_);
    mayDoubt_ = isSized;
    return isSized ? std::move(graph) : cloneGraph(*flat.graph());
  }

  // A graph for several texts may be one for one of them, and one for one token one for any number of them, as a cache
  // in blocks wants it.
  void resize(const Module& flat, const Graph& sized, bool isRepeated, StaticCaches caches) {
    const bool isOneByOne = caches == StaticCaches::OneByOne;
    if (!isRepeated && !isOneByOne) return;
    std::unique_ptr<Graph> graph = cloneGraph(sized);
    if (!isOneByOne && dropCaches(*graph, given_.registry())) keepLogitsAlone(*graph, given_.registry());
    if (isRepeated && !narrowToOneText(*graph, given_.registry())) return;
    const bool grows = isOneByOne && dropCaches(*graph, given_.registry());
    if (grows) beginAtFirstPlace(*graph, true), closeSizes(*graph, given_.registry());
    if (isOneByOne && !widenToTexts(*graph, given_.registry(), &lost_)) return;
    if (grows && !hideLaterTokens(*graph, given_.registry(), *evaluator_)) return;
    const StaticCaches left = readWholeTexts(*graph, given_.registry());
    if (left != (grows ? StaticCaches::None : isOneByOne ? StaticCaches::WholeText : caches)) return;
    // One token sees all of a cache that is cut where the token is.
    if (isOneByOne && !grows) hideLaterTokens(*graph, given_.registry(), *evaluator_);
    Diagnostics ignored;
    wide_ = Module(flat).withGraph(std::move(graph), true).lowered(lowering_, ignored);
    if (wide_ && !wide_->prepare(ignored)) wide_ = Failed{};
  }

  // What a cache in blocks is made for: the model, or what its graph for one token or several texts became.
  const Module* openWide(Diagnostics& diagnostics) {
    if (!wide_) return &*lowered_;
    graph_ = cloneGraph(*wide_->graph());
    Result<Entrance> entrance = openEntrance(*graph_, given_.registry(), *evaluator_, diagnostics);
    if (!entrance) return nullptr;
    // A loop over tokens hides what they are compared with.
    for (int64_t id : entrance->marked)
      if (std::ranges::find(entrance_->marked, id) == entrance_->marked.end()) entrance_->marked.push_back(id);
    if (asked_ == 0 && entrance->positions && config_.maxSeqLen > entrance->positions) bound(entrance->positions);
    return &*wide_;
  }

  // A model that takes keys and values of earlier tokens is taken for one of whole texts, without any. So is one that
  // may be given them, and whatever else callers may leave out.
  bool withoutMemory() {
    std::unique_ptr<Graph> graph = cloneGraph(*lowered_->graph());
    defaults_ = given_.defaults();
    const bool hasDefaults = bindDefaults(*graph, defaults_), isCalledWithLess = beginEmpty(*graph) || hasDefaults;
    // What a call does not hand on to the next one is no cache, if new tokens are joined to it: an image in front of
    // them.
    const bool hasCaches = !returnsLogitsAlone_ && dropCaches(*graph, given_.registry());
    const bool writes = writeCopies(*graph), begins = beginAtFirstPlace(*graph, hasCaches || writes);
    if (!isCalledWithLess && !hasCaches && !writes && !begins) return true;
    hasCaches_ = hasCaches;
    if (!called_ && (hasCaches || (isCalledWithLess && !returnsLogitsAlone_))) called_ = *lowered_;
    // The mask of a text with its memory is longer than the text.
    Module changed = lowered_->withGraph(std::move(graph), hasCaches || begins);
    if (isCalledWithLess || hasCaches || begins) given_ = changed;
    lowered_ = changed.lowered(lowering_, diagnostics_);
    return lowered_ && (!hasCaches || withOwnMask()) && lowered_->prepare(diagnostics_);
  }

  // What is kept for the next tokens is read, and hides nothing; a cache is one of whole texts.
  bool readsTexts() {
    const TextTrials trials([this](const std::vector<IValue>& in, Diagnostics& d) { return given_.forward(in, d); });
    entrance_->tokensFirst = trials.takesTokensFirst(*entrance_);
    const TextTrials apart([this](const std::vector<IValue>& in, Diagnostics& d) { return apart_->forward(in, d); });
    if (apart_ && !trials.givesTheSame(apart, *entrance_)) {
      reportApart(*entrance_, filledTo_, diagnostics_);
      return false;
    }
    if ((isOneByOne_ || !staticCaches_.mask.empty()) &&
        !trials.showTokens(*entrance_, staticCaches_.mask, diagnostics_))
      return false;
    return (!hasCaches_ || entrance_->tokensFirst || trials.areOfTexts(*entrance_, diagnostics_)) && handsOn();
  }

  // What was taken away is what calls hand on to each other.
  bool handsOn() {
    if (!called_) return true;
    int64_t longest = config_.maxSeqLen ? config_.maxSeqLen : kUsualTokens;
    for (int64_t bound : {entrance_->positions, tokensExportedFor()})
      if (bound != 0) longest = std::min(longest, bound);
    int64_t most = 0;
    if (!saysWhatItsCallsSay({.graph = *called_->graph(),
                              .called = [this](const auto& in, Diagnostics& d) { return called_->forward(in, d); },
                              .whole = [this](const auto& in, Diagnostics& d) { return given_.forward(in, d); },
                              .entrance = *entrance_,
                              .defaults = defaults_,
                              .ownMask = ownMask_,
                              .mayLeaveOut = !hasCaches_,
                              .keepsPlaces = keepsPlaces_ && filledTo_ == 0,
                              .longest = longest},
                             most, diagnostics_))
      return false;
    if (most != 0 && !original_.exportedInputs(*original_.graph()).empty()) handedOn_ = most;
    return true;
  }

  // What stands against a model, or its cache, is told, and its kind is kept.
  bool refuse(const Diagnostics& why) {
    for (const Diagnostic& d : why.list()) diagnostics_.add(d);
    return false;
  }

  // Settings that say how tokens are kept need a cache, and lack of memory or time is no fault of the model.
  bool mayDoWithoutPools(const Diagnostics& why) const {
    bool isModel = why.firstErrorKind() == ErrorKind::Unsupported || why.firstErrorKind() == ErrorKind::Input;
    return isModel && !config_.window && config_.kvCacheDtype == DType::Float32;
  }

  CompileSpec specFor(const std::vector<CompileInput>& inputs) const {
    CompileSpec spec;
    spec.setInputs(inputs);
    spec.refittable = config_.useRefit;
    spec.isLanguageModel = true;
    spec.engine.precision = config_.weightPrecision;
    // Activations of text have outliers; and of models as they are, a token has the same logits whatever others there
    // are.
    spec.engine.roundsRows = config_.weightPrecision != DType::Int8 && config_.weightPrecision != DType::Float32;
    return spec;
  }

  bool withCache(Diagnostics& diagnostics) {
    if (entrance_->tokensFirst) {
      diagnostics.error("the model takes [tokens, batch], and a cache is for [batch, tokens]", ErrorKind::Unsupported);
      return false;
    }
    if (isOneByOne_ && !wide_) {
      diagnostics.error(lost_, "the model is for one token a call, and what this gives for several is not known",
                        ErrorKind::Unsupported);
      return false;
    }
    const Module* whole = openWide(diagnostics);
    if (!whole) return false;
    Module opened = whole->withGraph(cloneGraph(*graph_));
    ServingOptions serving;
    serving.tokensPerBlock = config_.tokensPerBlock;
    serving.longest = config_.maxSeqLen;
    serving.mostTokens = config_.maxNumTokens;
    serving.kvCacheQuantMode = quantMode(config_.kvCacheDtype);
    serving.gatherContextLogits = config_.gatherContextLogits;
    Result<ServingModel> served = prepareForServing(*graph_, given_.registry(), *evaluator_, serving, diagnostics);
    if (!served) return false;
    shape_.layers = served->layers, shape_.heads = served->heads, shape_.kvHeads = served->kvHeads;
    shape_.headSize = served->headSize, shape_.hidden = served->hidden, shape_.vocabulary = served->vocabulary;
    if (served->places && config_.maxSeqLen > served->places && !boundByPlaces(served->places, diagnostics))
      return false;
    built_.cache = cacheOf(config_, shape_);
    if (!validateKvCache(built_.cache, diagnostics)) return false;
    // Each layer has a pool of its own, which is written where it lies.
    for (AttentionNode& node : AttentionNode::all(*graph_)) node.set("inplace", IValue(1));
    offer(*graph_, diagnostics);

    std::vector<CompileInput> inputs;
    for (const std::string& name : served->inputs) inputs.push_back(rangeOfServed(name, config_, shape_, built_.cache));
    CompileSpec spec = specFor(inputs);
    spec.minBlockSize = 1;
    // Tokens of all texts lie in one row, which may be longer than a text.
    Module packed = whole->withGraph(std::move(graph_), true);
    compiled_ = packed.compiled(spec, diagnostics);
    built_.inputs = served->inputs;
    if (!compiled_) return false;
    Diagnostics ignored;  // short tables are none of its business
    const int64_t tokens = tokensOfLongText(served->bends, packed);
    const bool hasLong = tokens != 0 && tryLongest(tokens, ignored);
    return prove({.given = given_,
                  .entrance = *entrance_,
                  .compiled = *compiled_,
                  .lowered = &opened,
                  .packed = &packed,
                  .longest = hasLong ? &longest_ : nullptr},
                 diagnostics);
  }

  // Caches of a fixed length have places for so many tokens.
  bool boundByPlaces(int64_t places, Diagnostics& diagnostics) {
    if (asked_ == 0) {
      bound(places);
      return true;
    }
    diagnostics.error(fmt::format("max_seq_len is {}, but the model's caches have places for {}", config_.maxSeqLen,
                                  counted(static_cast<uint64_t>(places), "token")),
                      ErrorKind::Input);
    return false;
  }

  // Of a text that shows what only tokens do that are far from the first: the longest one where that costs little, else
  // one that is past all bends that are known of. 0: short texts show it, or it would take too long, and what it would
  // show has been looked at in masks and positions alone.
  int64_t tokensOfLongText(int64_t bends, const Module& packed) {
    constexpr int64_t kShort = 21, kMostTokens = 4100, kLittleWork = int64_t{1} << 31, kMostWork = int64_t{1} << 40;
    const int64_t most = config_.window ? std::min(config_.maxSeqLen, config_.window) : config_.maxSeqLen;
    int64_t weights = 1;
    for (const Tensor& t : heldWeights(*packed.graph())) weights += t.numel();
    const int64_t tokens = std::min(bends, most);
    if (most <= std::min(kMostTokens, kLittleWork / weights)) return most > kShort ? most : 0;
    if (tokens <= kShort || tokens <= kMostWork / weights) return tokens > kShort ? tokens : 0;
    diagnostics_.remark({}, fmt::format("a window ends at token {}: a text of so many was not tried, "
                                        "since the model is large",
                                        tokens));
    return 0;
  }

  void offer(Graph& graph, Diagnostics& diagnostics) {
    offers_ = offerLayers(graph, given_.registry(), noAttention_, diagnostics);
  }

  // The model as it is, one text after the other, each of which keeps what its next tokens need.
  bool withState(Diagnostics& diagnostics) {
    if (!describe(diagnostics) || !findLongest(diagnostics)) return false;
    std::unique_ptr<Graph> graph = cloneGraph(*lowered_->graph());
    offer(*graph, diagnostics);
    Result<IncrementalModel> made = makeIncremental(*graph, given_.registry(), *evaluator_, *entrance_,
                                                    shape_.vocabulary, config_.maxSeqLen, diagnostics);
    if (!made) return false;
    const int64_t asked = config_.maxBatchSize, texts = std::min(asked, textsExportedFor());
    const bool mayShare =
        texts > 1 && std::ranges::all_of(made->states, [](const KeptState& s) { return s.batch >= 0; });
    Diagnostics ignored;
    config_.maxBatchSize = mayShare ? texts : asked;
    if (mayShare && withStates(*made, texts, ignored)) {
      if (texts < asked)
        diagnostics_.remark({}, fmt::format("max_batch_size is {}: the program was exported for so many texts", texts));
      return true;
    }
    config_.maxBatchSize = asked;
    return withStates(*made, 1, diagnostics);
  }

  // For steps of so many texts together.
  bool withStates(const IncrementalModel& made, int64_t texts, Diagnostics& diagnostics) {
    std::vector<CompileInput> inputs = inputsOfWholeTexts(texts);
    built_.inputs.resize(entrance_->inputs.size());
    built_.states.clear();
    for (KeptState s : made.states) {
      Dims least = s.sizes, usual = s.sizes, most = s.sizes;
      const auto d = static_cast<size_t>(s.dim);
      most[d] = s.most ? s.most : config_.maxSeqLen - 1;
      usual[d] = s.most ? s.most : most[d] / 2;
      if (texts == 1) s.batch = -1;
      if (s.batch >= 0) most[static_cast<size_t>(s.batch)] *= texts;
      inputs.emplace_back(least, usual, most, s.dtype);
      built_.inputs.push_back("state_" + std::to_string(built_.states.size()));
      built_.states.push_back(s);
    }
    CompileSpec spec = specFor(inputs);
    spec.minBlockSize = 1;
    compiled_ = lowered_->withGraph(cloneGraph(*made.graph)).compiled(spec, diagnostics);
    built_.cache = cacheOf(config_, shape_);
    const bool isMade =
        compiled_ && validateKvCache(built_.cache, diagnostics) &&
        prove({.given = given_, .entrance = *entrance_, .compiled = *compiled_, .longest = &longest_}, diagnostics);
    if (!isMade) built_.states.clear();
    return isMade;
  }

  // The model as it is, for one text after the other. `why` tells what stands against a cache, if one was tried.
  bool withoutCache(const Diagnostics& why) {
    Diagnostics failure;
    bool isMade = describe(failure) && findLongest(failure) && compileWhole(failure) &&
                  prove({.given = given_, .entrance = *entrance_, .compiled = *compiled_}, failure);
    const Diagnostic* first = why.list().empty() ? nullptr : &why.list().front();
    if (!isMade && !first) return refuse(failure);
    if (!isMade) {
      refuse(why);
      if (!failure.list().empty())
        diagnostics_.remark(failure.list().front().range,
                            "nor can it be served by whole texts: " + failure.list().front().message);
      return false;
    }
    if (first)
      diagnostics_
          .warning(first->range,
                   "each step computes whole texts, since no cache of keys and values is right for this model: " +
                       first->message)
          .note("the setting kv_cache_type=paged makes this an error");
    return true;
  }

  bool describe(Diagnostics& diagnostics) {
    shape_ = {.positions = entrance_->positions, .tokensFirst = entrance_->tokensFirst};
    const TokenId kFew[] = {0, 1, 2};
    Result<std::vector<IValue>> out = given_.forward(inputsOfText(*entrance_, kFew), diagnostics);
    if (!out) return false;
    Tensor logits = logitsOf(*out);
    if (!logits.defined() || !isFloating(logits.dtype()) || logits.rank() == 0 || logits.numel() == 0) {
      diagnostics.error("the model gives no logits for three tokens", ErrorKind::Unsupported);
      return false;
    }
    if (constexpr int kMostRank = 3; logits.rank() > kMostRank) {
      diagnostics
          .error(fmt::format("the model gives {} numbers for one text of three tokens, and logits are [texts, tokens, "
                             "words]",
                             dimsText(logits.sizes())),
                 ErrorKind::Unsupported)
          .note("a model of several heads is served by one of them: a module around it can return that one's logits");
      return false;
    }
    shape_.vocabulary = logits.size(logits.rank() - 1);
    built_.inputs.clear();
    for (ServingInput input : entrance_->inputs) built_.inputs.emplace_back(nameOf(input));
    return true;
  }

  // A model of tables that are too short for max_seq_len fails at its longest text: the longest one that it runs with
  // is looked for then, unless a length was asked for.
  bool findLongest(Diagnostics& diagnostics) {
    if (knowsLongest_) return true;
    Diagnostics failure;
    int64_t tried = 0;
    const int64_t longest = longestThatRuns(config_.maxSeqLen, staticCaches_.tokens, asked_ != 0,
                                            [&](int64_t tokens) { return tryLongest(tried = tokens, failure); });
    if (longest == 0) {
      diagnostics.error(failure.list().empty() ? SourceRange{} : failure.list().front().range,
                        fmt::format("the model does not run with {}, which is max_seq_len: {}",
                                    counted(static_cast<uint64_t>(config_.maxSeqLen), "token"),
                                    failure.list().empty() ? "interrupted" : failure.list().front().message),
                        ErrorKind::Unsupported);
      return false;
    }
    bound(longest);
    if (tried != longest && !tryLongest(longest, failure)) return false;
    return knowsLongest_ = true;
  }

  void bound(int64_t tokens) {
    config_.maxSeqLen = tokens;
    config_.maxInputLen = std::min(config_.maxInputLen, tokens);
  }

  bool tryLongest(int64_t tokens, Diagnostics& failure) {
    failure.clear();
    LongText text = longText(tokens, shape_.vocabulary, entrance_->marked);
    longest_.ids = std::move(text.any);
    // Ids that mean something may take no row of a table.
    if (text.plain != longest_.ids && !given_.forward(inputsOfText(*entrance_, text.plain), failure)) return false;
    Result<std::vector<IValue>> out = given_.forward(inputsOfText(*entrance_, longest_.ids), failure);
    if (out) longest_.logits = logitsOf(*out);
    return out.ok();
  }

  std::vector<CompileInput> inputsOfWholeTexts(int64_t texts = 1) const {
    std::vector<CompileInput> inputs;
    int64_t most = config_.maxSeqLen;
    for (DType dtype : entrance_->dtypes)
      inputs.emplace_back(sizesFor(1), sizesFor((most + 1) / 2), sizesFor(most, texts),
                          dtype == DType::Undefined ? DType::Int64 : dtype);
    return inputs;
  }

  bool compileWhole(Diagnostics& diagnostics) {
    std::unique_ptr<Graph> graph = cloneGraph(*lowered_->graph());
    offer(*graph, diagnostics);
    compiled_ = lowered_->withGraph(std::move(graph)).compiled(specFor(inputsOfWholeTexts()), diagnostics);
    built_.cache = cacheOf(config_, shape_);
    return compiled_ && validateKvCache(built_.cache, diagnostics);
  }

  Dims sizesFor(int64_t tokens, int64_t texts = 1) const {
    return entrance_->tokensFirst ? Dims{tokens, texts} : Dims{texts, tokens};
  }

  bool prove(ServingSteps steps, Diagnostics& diagnostics) {
    built_.config = config_, built_.shape = shape_;
    steps.isHalf = areHalf(heldWeights(*lowered_->graph()));
    steps.flat = &*lowered_;
    steps.remarks = &diagnostics_;
    return proveServing(steps, built_, diagnostics);
  }

  bool write(const std::string& folder) {
    config_.useRefit = config_.useRefit && compiled_->refitSource();
    const MadeFolder made(folder);
    if (!made.check(diagnostics_)) return false;
    built_.config = config_;
    built_.shape = shape_;
    built_.marked.clear();
    for (int64_t id : entrance_->marked)
      if (id >= 0 && id < shape_.vocabulary) built_.marked.push_back(id);
    return writeBuiltModel(built_, *compiled_, given_.registry(), folder, lowering_.limits, diagnostics_);
  }

  Module given_;
  BuildConfig config_;
  Diagnostics& diagnostics_;
  const Module original_;
  const BuildConfig settings_;
  bool takesLogarithms_ = false;  // of what the model returns
  LowerOptions lowering_;
  Result<Module> lowered_ = Failed{}, wide_ = Failed{};
  std::unique_ptr<Graph> graph_;  // of ids and positions, then of what serves
  std::unique_ptr<Evaluator> evaluator_;
  Result<Entrance> entrance_ = Failed{};
  Result<Module> apart_ = Failed{};  // a model for several texts, or for long ones, with others around one of them
  int64_t filledTo_ = 0;             // tokens that the model is for; 0: any number
  std::vector<LayerOffer> offers_;
  std::string noAttention_ = "kv_cache_type asks for no blocks";
  int64_t asked_ = 0;  // max_seq_len, before it was settled
  StaticCacheFacts staticCaches_;
  ExportedInputs repeated_;                                 // what a program for several texts asks of their sizes
  bool hasCaches_ = false;                                  // to which new keys and values are joined
  Result<Module> called_ = Failed{};                        // with what calls hand on to each other
  int64_t handedOn_ = std::numeric_limits<int64_t>::max();  // tokens of a text that calls run with
  std::map<std::string, IValue> defaults_;
  std::optional<PairMaskForm> ownMask_;  // that the graph makes
  bool returnsLogitsAlone_ = false;
  std::string doubt_;  // what nothing tells of states
  bool mayDoubt_ = true;
  bool isOneByOne_ = false;     // the model is for one token
  bool outgrowsCalls_ = false;  // a call is for fewer tokens than its caches have places for, and texts need not be
  bool keepsPlaces_ = false;    // it is given caches of a fixed length
  SourceRange lost_;            // where it could not be made one for several
  KnownText longest_;
  bool knowsLongest_ = false;
  LanguageModelShape shape_;
  Result<Module> compiled_ = Failed{};
  BuiltModel built_;
};

}  // namespace

bool buildLanguageModel(const Module& module, const BuildConfig& given, const std::string& folder,
                        Diagnostics& diagnostics, std::vector<LayerOffer>* offers) {
  const InputTrialsScope trials;
  LanguageModelBuild build(module, given, diagnostics);
  const bool isMade = build.run(folder);
  if (offers) *offers = build.offers();
  return isMade;
}

bool refitLanguageModel(const std::string& folder, const RefitOptions& options, const std::string& output,
                        Diagnostics& diagnostics) {
  Result<BuiltModel> built = readBuiltModel(folder, diagnostics);
  if (!built) return false;
  LoadOptions load = options.load;
  load.weights.clear();
  Result<Module> old = Module::load(built->engine, load, diagnostics);
  if (!old) return false;
  std::shared_ptr<const RefitSource> source = refittedSource(built->engine, old->refitSource(), options, diagnostics);
  if (!source) return false;
  Result<Module> module = Module::fromRefitSource(*source, load, diagnostics);
  return module && buildLanguageModel(*module, built->config, output, diagnostics) &&
         copyGenerationFiles(folder, output, diagnostics);
}

}  // namespace tscompile
