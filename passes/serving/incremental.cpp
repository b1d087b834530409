#include "passes/serving/incremental.h"

#include "ir/values/aten.h"
#include "passes/lowering/clean_up.h"
#include "passes/rewrite/formula.h"
#include "passes/serving/serving_passes.h"
#include "passes/serving/small_instance.h"
#include "passes/serving/text_length.h"
#include "passes/serving/text_regions.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

namespace tscompile {
namespace {

// All rows, computed from all rows: what is kept of the text is made before.
constexpr int kRecomputed = -2;
constexpr size_t kMostForms = 200, kMostSeen = 20000;  // that are tried, and that are looked at

// How the rows of a value come about.
struct Way {
  enum class Kind : uint8_t {
    Input,
    Compute,  // of rows in these forms
    Cut,      // from all rows
    Keep,     // all rows: those that were kept and the new ones, along `dim`
    After,    // from a piece that begins `before` tokens earlier
    Scan,     // from the last row before
    Carry,    // with what the tokens before left
  };
  Kind kind = Kind::Compute;
  std::vector<int> forms = {};
  int64_t before = 0;
  int dim = 0;
  std::vector<CarriedInput> carried = {};
};

class Incremental {
 public:
  Incremental(Graph& graph, RewriteContext& context, const Entrance& entrance, int64_t words, int64_t longest)
      : graph_(graph),
        context_(context),
        entrance_(entrance),
        longest_(longest),
        regions_(context, entrance, words, longest) {}

  Result<IncrementalModel> run(const Value* logits) {
    if (!regions_.run()) return fail(nullptr, "parts of this model cannot be computed apart from each other");
    ids_ = graph_.input(static_cast<size_t>(
        std::find(entrance_.inputs.begin(), entrance_.inputs.end(), ServingInput::Ids) - entrance_.inputs.begin()));
    if (regions_.dims(ids_).size() != 1) return fail(nullptr, "its ids are no rows of tokens");
    if (const Node* choice = findTextLengths(context_, ids_, nullptr, longest_, longest_).byLength)
      return fail(choice, "this is chosen by how many tokens there are, for the first of them as well");
    if (!plan(logits)) return Failed{};
    findBatches();
    emit(logits);
    return std::move(out_);
  }

 private:
  Failed fail(const Node* node, std::string message) {
    context_.diagnostics.error(node ? node->range : graph_.range, std::move(message), ErrorKind::Unsupported);
    return {};
  }

  // ---- which rows of which values are computed, and from what ----

  bool plan(const Value* logits) {
    const std::vector<int>& dims = regions_.dims(logits);
    int wanted = dims.size() == 1 ? dims[0] : kAllRows;
    if (dims.size() > 1) return fail(logits->node(), "its logits are no rows of tokens"), false;
    ask(logits, wanted);
    std::vector<const Value*> order(graph_.inputs().begin(), graph_.inputs().end());
    for (const Node* n : graph_.block()->nodes()) order.insert(order.end(), n->outputs().begin(), n->outputs().end());
    for (size_t i = order.size(); i-- > 0;) {
      if (order[i] == ids_ && cuts_) ask(ids_, kAllRows);  // how many tokens there are
      if (asked_.count(order[i])) decide(order[i]);
    }
    if (tooLarge_) return fail(tooLarge_, "this is computed by too many nodes that have no rows of tokens"), false;
    const Way& last = ways_.at({logits, wanted});
    if (last.kind == Way::Kind::Cut || (wanted == kAllRows && needsAll(regionsOf_.at(logits), last.forms)))
      return fail(logits->node(), "its logits depend on all tokens at once"), false;
    for (const Value* v : order)
      if (asked_.count(v)) order_.push_back(v);
    return true;
  }

  bool needsAll(const TextRegion& region, const std::vector<int>& forms) const {
    for (size_t i = 0; i < forms.size(); ++i)
      if (forms[i] == kAllRows && region.rows[i]->node() && regions_.isData(region.rows[i])) return true;
    return false;
  }

  void ask(const Value* v, int form) { asked_[v].insert(form); }

  void decide(const Value* v) {
    std::set<int> forms = asked_.at(v);
    const bool isInput = !v->node();
    const TextRegion region = isInput ? TextRegion{v} : regions_.regionOf(v);
    if (!isInput && region.nodes.empty()) tooLarge_ = v->node();
    if (tooLarge_) return;
    if (forms.contains(kAllRows)) {
      const std::vector<int>& dims = regions_.dims(v);
      bool mayKeep =
          dims.size() == 1 && (isInput || (regions_.isData(v) && !regions_.isView(region))) && regions_.isCausal(v);
      if (mayKeep) forms.insert(dims[0]);
      if (!mayKeep && dims.empty()) return result(v, region);
      if (!mayKeep) forms.insert(kRecomputed);
    }
    for (int form : forms)
      if (form >= 0) {
        Way way = isInput ? Way{.kind = Way::Kind::Input} : wayTo(region, form);
        if (way.kind == Way::Kind::Cut) forms.insert(kRecomputed);
        settle(v, form, region, way);
      }
    if (forms.contains(kRecomputed))
      settle(v, kRecomputed, region, {.forms = std::vector<int>(region.rows.size(), kAllRows)});
    else if (forms.contains(kAllRows))
      settle(v, kAllRows, region, {.kind = Way::Kind::Keep, .dim = regions_.dims(v)[0]});
  }

  // Of logits that have no rows of tokens.
  void result(const Value* v, const TextRegion& region) { settle(v, kAllRows, region, wayTo(region, kAllRows)); }

  void settle(const Value* v, int form, const TextRegion& region, const Way& way) {
    ways_[{v, form}] = way;
    cuts_ |= way.kind == Way::Kind::Cut;
    if (v->node()) regionsOf_.emplace(v, region);
    for (size_t i = 0; i < way.forms.size(); ++i) ask(region.rows[i], way.forms[i]);
  }

  Way wayTo(const TextRegion& region, int dim) {
    const std::optional<std::vector<int>> forms = formsThatGive(region, dim);
    // What the last tokens alone are given of, as a last hidden state, is looked for before all of a text is computed.
    if (forms && (dim >= 0 || !needsAll(region, *forms))) return {.forms = *forms};
    std::vector<int> pieces;
    for (const Value* v : region.rows)
      if (regions_.dims(v).size() == 1) pieces.push_back(regions_.dims(v)[0]);
    if (!pieces.empty() && pieces.size() == region.rows.size()) {
      const bool hasRows = dim >= 0;
      if (hasRows && pieces.size() == 1 && regions_.isScan(region, pieces, dim))
        return {.kind = Way::Kind::Scan, .forms = pieces, .dim = dim};
      std::vector<CarriedInput> carried = regions_.carriedInputs(region, pieces, dim);
      if (!carried.empty()) return {.kind = Way::Kind::Carry, .forms = pieces, .dim = dim, .carried = carried};
      if (int64_t before = hasRows ? tokensBefore(region, pieces, dim) : 0)
        return {.kind = Way::Kind::After, .forms = pieces, .before = before, .dim = dim};
    }
    if (dim == kAllRows) return {.forms = std::vector<int>(region.rows.size(), kAllRows)};
    return {.kind = Way::Kind::Cut, .dim = dim};
  }

  // The fewest; 0: all of them.
  int64_t tokensBefore(const TextRegion& region, const std::vector<int>& pieces, int dim) {
    int64_t least = 1, most = regions_.mostBefore();
    if (!regions_.givesRowsAfter(region, pieces, most, dim)) return 0;
    while (least < most) {
      const int64_t middle = (least + most) / 2;
      if (regions_.givesRowsAfter(region, pieces, middle, dim))
        most = middle;
      else
        least = middle + 1;
    }
    return least;
  }

  // Those with the fewest values of which all rows are needed. How many tokens there are is asked of all of them where
  // that does as well.
  std::optional<std::vector<int>> formsThatGive(const TextRegion& region, int dim) {
    std::vector<std::vector<int>> choices;
    for (const Value* v : region.rows) choices.push_back(choicesOf(v, region.value, dim));
    std::vector<bool> areData;
    for (const Value* v : region.rows) areData.push_back(v->node() && regions_.isData(v));
    size_t tried = 0, seen = 0;
    for (size_t whole = 0; whole <= region.rows.size(); ++whole) {
      std::vector<size_t> at(choices.size(), 0);
      while (true) {
        std::vector<int> forms;
        size_t count = 0;
        for (size_t i = 0; i < at.size(); ++i) {
          forms.push_back(choices[i][at[i]]);
          count += forms.back() == kAllRows && areData[i];
        }
        if (++seen > kMostSeen) return std::nullopt;
        if (count == whole) {
          if (++tried > kMostForms) return std::nullopt;
          if (regions_.givesRows(region, forms, dim)) return forms;
        }
        size_t d = at.size();
        while (d > 0 && ++at[d - 1] == choices[d - 1].size()) at[--d] = 0;
        if (d == 0) break;
      }
    }
    return std::nullopt;
  }

  // Dimensions at the same place as that of the result come first.
  std::vector<int> choicesOf(const Value* v, const Value* result, int dim) const {
    std::vector<int> out = regions_.dims(v);
    const int shift = dim < 0 ? 0 : rankOf(v) - rankOf(result);
    std::stable_sort(out.begin(), out.end(),
                     [&](int a, int b) { return std::abs(a - shift - dim) < std::abs(b - shift - dim); });
    out.insert(v->node() ? out.end() : out.begin(), kAllRows);
    return out;
  }

  int rankOf(const Value* v) const {
    const IValue* sample = regions_.sample(v);
    return sample && sample->isTensor() ? sample->toTensor().rank() : 0;
  }

  // ---- texts beside each other ----

  // Values that states are made of.
  std::vector<const Value*> keptValues() const {
    std::vector<const Value*> out;
    for (const auto& [made, way] : ways_) {
      if (way.kind == Way::Kind::Keep || way.kind == Way::Kind::Scan) out.push_back(made.first);
      if (way.kind == Way::Kind::After)
        for (const Value* v : regionsOf_.at(made.first).rows) out.push_back(v);
      for (const CarriedInput& c : way.carried) out.push_back(givenTo(c));
    }
    return out;
  }

  static const Value* givenTo(const CarriedInput& c) {
    const Value* given = c.node->input(c.slot);
    return c.element ? given->node()->input(*c.element) : given;
  }

  // The dimension of texts shows where two of them run together. Where that fails they run apart.
  void findBatches() {
    const std::vector<const Value*> kept = keptValues();
    const int64_t tokens = regions_.sample(ids_)->toTensor().numel();
    const std::vector<int32_t> ids(static_cast<size_t>(tokens), 1);
    std::vector<IValue> inputs = inputsOfText(entrance_, ids);
    const bool first = entrance_.tokensFirst;
    for (IValue& input : inputs)
      input =
          input.toTensor().withGeometry(first ? Dims{tokens, 2} : Dims{2, tokens}, first ? Dims{1, 0} : Dims{0, 1}, 0);
    ValueMap copies;
    std::unique_ptr<Graph> both = cloneGraph(graph_, copies);
    while (both->outputs().size()) both->returnNode()->removeInput(both->outputs().size() - 1);
    for (const Value* v : kept) both->addOutput(copies.at(v));
    std::optional<std::vector<IValue>> out = context_.evaluator->run(*both, inputs);
    for (size_t i = 0; out && i < kept.size(); ++i) batches_[kept[i]] = doubled(kept[i], out->at(i));
  }

  // The only dimension that is twice as large.
  int64_t doubled(const Value* v, const IValue& both) const {
    if (!both.isTensor() || both.toTensor().rank() != rankOf(v)) return -1;
    Tensor one = regions_.sample(v)->toTensor(), two = both.toTensor();
    int64_t found = -1;
    for (int d = 0; d < one.rank(); ++d) {
      if (one.size(d) == two.size(d)) continue;
      if (found >= 0 || two.size(d) != 2 * one.size(d)) return -1;
      found = d;
    }
    return found;
  }

  int64_t batchOf(const Value* v) const {
    auto found = batches_.find(v);
    return found == batches_.end() ? -1 : found->second;
  }

  // ---- the graph ----

  void emit(const Value* logits) {
    out_.graph = std::make_unique<Graph>();
    for (const SourcePtr& source : graph_.sources()) out_.graph->keepAlive(source);
    out_.graph->range = graph_.range;
    builder_.emplace(*out_.graph);
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      const Value* given = graph_.input(i);
      Value* input = out_.graph->addInput(given->type());
      input->setName(nameOf(entrance_.inputs[i]));
      for (int dim : regions_.dims(given)) made_[{given, dim}] = input;
    }
    for (const Node* n : graph_.block()->nodes())
      if (std::ranges::any_of(n->outputs(), [&](const Value* v) { return !regions_.dependsOnText(v); }))
        out_.graph->block()->append(cloneNode(*n, *out_.graph, weights_));
    for (const Value* v : order_)
      for (bool keeps : {false, true})  // what is kept has to be there
        for (auto way = ways_.lower_bound({v, kRecomputed}); way != ways_.end() && way->first.first == v; ++way)
          if ((way->second.kind == Way::Kind::Keep) == keeps) make(v, way->first.second, way->second);
    const std::vector<int>& dims = regions_.dims(logits);
    out_.graph->addOutput(made_.at({logits, dims.empty() ? kAllRows : dims[0]}));
    for (Value* v : kept_) out_.graph->addOutput(v);
  }

  Value* op(Symbol kind, std::initializer_list<Value*> inputs, TypePtr type = types().tensor) {
    return builder_->call(kind, inputs, type);
  }
  Value* number(int64_t n) { return builder_->constant(IValue(n)); }
  Value* joined(Value* a, Value* b, int dim) {
    Value* both[] = {a, b};
    return op(aten::cat, {builder_->list(both, types().tensor), number(dim)});
  }
  Value* rowsFrom(Value* v, int dim, Value* first) {
    return op(aten::slice, {v, number(dim), first, number(INT64_MAX), number(1)});
  }
  Value* rowsIn(Value* v, int dim) { return op(aten::size, {v, number(dim)}, types().integer); }

  Value* addState(DType dtype, Dims sizes, int dim, int64_t most, int64_t batch) {
    sizes[static_cast<size_t>(dim)] = 0;
    if (batch == dim) batch = -1;
    Value* state = out_.graph->addInput(types().tensor);
    state->setName("state_" + std::to_string(out_.states.size()));
    out_.states.push_back({dtype, sizes, dim, most, batch});
    return state;
  }
  Value* addState(const Value* of, int dim, int64_t most) {
    Tensor t = regions_.sample(of)->toTensor();
    return addState(t.dtype(), Dims(t.sizes().begin(), t.sizes().end()), dim, most, batchOf(of));
  }

  void make(const Value* v, int form, const Way& way) {
    Value*& made = made_[{v, form}];
    if (way.kind == Way::Kind::Input) return;
    if (way.kind == Way::Kind::Keep) {
      Value* state = addState(v, way.dim, 0);
      made = joined(state, made_.at({v, way.dim}), way.dim);
      kept_.push_back(made);
      if (v == ids_) past_ = rowsIn(state, way.dim);
      return;
    }
    if (way.kind == Way::Kind::Cut) {
      made = rowsFrom(made_.at({v, kAllRows}), form, past_);
      return;
    }
    const TextRegion& region = regionsOf_.at(v);
    ValueMap values = weights_;
    Value* dropped = nullptr;
    for (size_t i = 0; i < way.forms.size(); ++i) {
      const Value* u = region.rows[i];
      if (way.kind == Way::Kind::After) {
        const auto& [window, state] = windowOf(u, way.forms[i], way.before);
        values[u] = window;
        dropped = rowsIn(state, way.forms[i]);
      } else {
        values[u] = made_.at({u, way.forms[i]});
      }
    }
    if (way.kind == Way::Kind::Scan) {
      Value* state = addState(v, way.dim, 1);
      values[region.rows[0]] = joined(state, values[region.rows[0]], way.dim);
      dropped = rowsIn(state, way.dim);
    }
    cloneRegion(region, *builder_, values, way.carried, carriedFor(way, values));
    Value* all = values.at(v);
    made = dropped ? rowsFrom(all, way.dim, dropped) : all;
    if (way.kind == Way::Kind::Scan) kept_.push_back(rowsFrom(all, way.dim, number(-1)));
    for (const CarriedInput& c : way.carried) {
      Value* left = values.at(c.node->output(c.output));
      const bool grows = grownDim(regions_.sample(givenTo(c))->toTensor(), leftBy(c)).has_value();
      kept_.push_back(grows ? left : op(aten::unsqueeze, {left, number(0)}));
    }
    if (form == kRecomputed) made_[{v, kAllRows}] = made;
  }

  // The rows of a piece and those before it, and what was kept of these.
  std::pair<Value*, Value*> windowOf(const Value* u, int dim, int64_t before) {
    auto [it, isNew] = windows_.try_emplace({u, before});
    if (!isNew) return it->second;
    Value* state = addState(u, dim, before);
    Value* window = joined(state, made_.at({u, dim}), dim);
    kept_.push_back(rowsFrom(window, dim, number(-before)));
    return it->second = {window, state};
  }

  Tensor leftBy(const CarriedInput& c) const { return regions_.sample(c.node->output(c.output))->toTensor(); }

  // What the tokens before left, or what the model begins with, which is nothing of what grows.
  std::vector<Value*> carriedFor(const Way& way, ValueMap& values) {
    std::vector<Value*> out;
    for (const CarriedInput& c : way.carried) {
      const Value* given = givenTo(c);
      if (!values.contains(given)) {
        ValueMap copies = values;
        cloneRegion(regions_.regionOf(given), *builder_, copies);
        values[given] = copies.at(given);
      }
      Tensor t = regions_.sample(given)->toTensor();
      const Tensor left = leftBy(c);
      if (const std::optional<int> dim = grownDim(t, left)) {
        out.push_back(addState(t.dtype(), Dims(left.sizes().begin(), left.sizes().end()), *dim, 0, batchOf(given)));
        continue;
      }
      Dims sizes{1};
      for (int64_t n : t.sizes()) sizes.push_back(n);
      const int64_t batch = batchOf(given);
      Value* state = addState(t.dtype(), sizes, 0, 1, batch < 0 ? batch : batch + 1);
      Value* both = joined(state, op(aten::unsqueeze, {values.at(given), number(0)}), 0);
      out.push_back(op(aten::select, {both, number(0), number(0)}));
    }
    return out;
  }

  using Form = std::pair<const Value*, int>;
  Graph& graph_;
  RewriteContext& context_;
  const Entrance& entrance_;
  const int64_t longest_;
  TextRegions regions_;
  const Value* ids_ = nullptr;
  std::map<const Value*, std::set<int>> asked_;
  std::map<Form, Way> ways_;
  std::map<const Value*, TextRegion> regionsOf_;
  std::vector<const Value*> order_;  // of those that are made
  IncrementalModel out_;
  std::optional<Builder> builder_;
  ValueMap weights_;
  std::map<Form, Value*> made_;
  std::map<std::pair<const Value*, int64_t>, std::pair<Value*, Value*>> windows_;
  std::vector<Value*> kept_;
  Value* past_ = nullptr;  // tokens before
  bool cuts_ = false;
  const Node* tooLarge_ = nullptr;
  std::map<const Value*, int64_t> batches_;  // dimensions of texts
};

// Sizes that are the number of tokens are asked of the ids, and what attention hides of itself becomes a mask: both
// then ask for no rows.
class StepPreparation {
 public:
  StepPreparation(Graph& graph, RewriteContext& context, const Entrance& entrance)
      : graph_(graph), context_(context), dim_(entrance.tokensFirst ? 0 : 1) {
    for (size_t i = 0; i < entrance.inputs.size(); ++i)
      if (entrance.inputs[i] == ServingInput::Ids) ids_ = graph.input(i);
    for (int64_t tokens : {29, 23}) small_.emplace_back(context, dim_ ? 1 : tokens, dim_ ? tokens : 1);
  }

  void run() {
    if (!small_[0].fits() || !small_[1].fits()) return;
    std::vector<Node*> sizes, attention;
    for (Node* n : graph_.block()->nodes()) {
      std::optional<int64_t> dim =
          n->kind() == aten::size && n->inputCount() == 2 ? context_.facts.integer(n->input(1)) : std::nullopt;
      if (dim && n->input(0) != ids_ && isTokens(n->input(0), *dim)) sizes.push_back(n);
      if (n->kind() == aten::scaled_dot_product_attention && hidesItself(n)) attention.push_back(n);
    }
    if (sizes.empty() && attention.empty()) return;
    Builder b(graph_, graph_.block()->first());
    Value* tokens = b.call(aten::size, {ids_, b.constant(IValue(dim_))}, types().integer);
    for (Node* n : sizes) n->output()->replaceAllUsesWith(tokens);
    if (!attention.empty()) {
      Value* none = b.constant(IValue());
      Value* places = b.call(aten::arange, {tokens, none, none, none, none}, types().tensor);
      Value* rows = b.call(aten::unsqueeze, {places, b.constant(IValue(1))}, types().tensor);
      Value *seen = b.call(aten::ge, {rows, places}, types().tensor), *no = b.constant(IValue(false));
      for (Node* n : attention) n->replaceInput(3, seen), n->replaceInput(5, no);
    }
    context_.facts.refresh();
  }

 private:
  bool isTokens(const Value* v, int64_t dim) const {
    for (const SmallInstance& s : small_) {
      std::optional<Dims> sizes = s.sizes(v);
      const int64_t rank = sizes ? static_cast<int64_t>(sizes->size()) : 0, d = dim < 0 ? dim + rank : dim;
      if (d < 0 || d >= rank || (*sizes)[static_cast<size_t>(d)] != (dim_ ? s.tokens : s.batch)) return false;
    }
    return true;
  }

  bool hidesItself(Node* n) {
    return n->inputCount() > 5 && GraphFacts::isNone(n->input(3)) && context_.facts.boolean(n->input(5)) == true &&
           isTokens(n->input(0), -2) && isTokens(n->input(1), -2);
  }

  Graph& graph_;
  RewriteContext& context_;
  int64_t dim_;
  Value* ids_ = nullptr;
  std::deque<SmallInstance> small_;
};

}  // namespace

Result<IncrementalModel> makeIncremental(const Graph& graph, const OpRegistry& registry, Evaluator& evaluator,
                                         const Entrance& entrance, int64_t words, int64_t longest,
                                         Diagnostics& diagnostics) {
  std::unique_ptr<Graph> own = cloneGraph(graph);
  RewriteContext context(*own, registry, diagnostics);
  context.evaluator = &evaluator;
  writePlainly(*own, context);
  Value* logits = logitsOf(*own);
  if (!logits) {
    diagnostics.error(own->range, "logits are no tensor among what is returned", ErrorKind::Unsupported);
    return Failed{};
  }
  StepPreparation(*own, context, entrance).run();
  return Incremental(*own, context, entrance, words, longest).run(logits);
}

}  // namespace tscompile
