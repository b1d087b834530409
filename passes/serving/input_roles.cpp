#include "passes/serving/input_roles.h"

#include "ir/graph/builder.h"
#include "ir/support/text.h"
#include "ir/values/aten.h"
#include "ir/values/kind_set.h"
#include "passes/rewrite/facts.h"
#include "passes/serving/lookups.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <unordered_set>

namespace tscompile {
namespace {

constexpr size_t kMostValues = 80;  // that are looked at behind an input
constexpr const char* kWrapper =
    "a module around the model can give what else it takes inside of its own forward, which takes ids alone";

constexpr const char* kExport =
    "states, which a call is given and returns, need sizes: this file has none, and none were found with which calls "
    "one after the other say what one call does; torch.export writes them";

std::string lowered(std::string_view name) {
  std::string out(name);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

// Whether each column is a wave of the row's number: w[i - 1] + w[i + 1] is the same multiple of w[i] everywhere.
bool isTableOfWaves(const SmallInstance::Elements& table) {
  int64_t rows = 0, columns = 1;
  for (int64_t size : table.sizes)
    if (rows == 0 && size > 1)
      rows = size;
    else
      columns *= size;
  auto at = [&](int64_t r, int64_t c) { return table.values[static_cast<size_t>(r * columns + c)]; };
  bool moves = false;
  for (int64_t c = 0; c < columns && rows > 2; ++c) {
    int64_t most = 1;
    for (int64_t r = 1; r + 1 < rows; ++r)
      if (std::abs(at(r, c)) > std::abs(at(most, c))) most = r;
    const double scale = std::abs(at(most, c));
    const double factor = scale > 0 ? (at(most - 1, c) + at(most + 1, c)) / at(most, c) : 2;
    for (int64_t r = 1; r + 1 < rows; ++r)
      if (!(std::abs(at(r - 1, c) + at(r + 1, c) - factor * at(r, c)) <= 1e-3 * scale)) return false;
    moves = moves || std::abs(at(0, c) - at(1, c)) > 1e-2 * scale;
  }
  return moves;
}

// Follows an input forward, as long as what comes of it are its numbers or sums and multiples of them.
class Uses {
 public:
  Uses(const SmallInstance& small, RewriteContext& context) : small_(small), context_(context) {}

  InputUse run(const Value* input) {
    follow(input, true);
    while (!todo_.empty() && seen_.size() < kMostValues) {
      auto [v, isSame] = todo_.back();
      todo_.pop_back();
      for (const Use& u : v->uses()) visit(v, u, isSame);
    }
    return out_;
  }

 private:
  // `isSame`: its elements are those of the input but for what was added to them.
  void follow(const Value* v, bool isSame) {
    if (seen_.insert(v).second) todo_.emplace_back(v, isSame);
  }
  void followOutputs(const Node* n, bool isSame) {
    for (const Value* v : n->outputs()) follow(v, isSame);
  }

  void visit(const Value* v, const Use& use, bool isSame) {
    static const Symbol kPolar = Symbol::of("aten::polar");
    const Node* n = use.user;
    const Symbol kind = n->kind();
    if (kind == aten::sin || kind == aten::cos || kind == kPolar) out_.isPlace = true;
    if (isChoice(n, use)) return choose(n, isSame);
    const bool isOrder = kind != aten::eq && kind != aten::ne, isBool = givesBool(n);
    if (isSame && isOrder && isOuter(n)) out_.isPlace = true;
    if (isSame && isBool && !isOuter(n)) out_.asksIfZero = true;
    if (isBool) return;
    const bool isCopy = context_.facts.movesElements(n) || context_.facts.keepsElements(n);
    if (isCopy ? use.index() == 0 : otherIsGiven(n, v))
      followOutputs(n, isSame && (isCopy || kind == sym::ListConstruct || kind == aten::add || kind == aten::sub));
  }

  bool givesBool(const Node* n) const { return n->outputCount() == 1 && small_.dtype(n->output()) == DType::Bool; }

  static bool isChoice(const Node* n, const Use& use) {
    static const Symbol kOneHot = Symbol::of("aten::one_hot"), kGather = Symbol::of("aten::gather");
    if (n->kind() == kOneHot) return true;
    if (n->kind() == aten::index_select || n->kind() == kGather) return use.index() == 2;
    return (n->kind() == kEmbedding || n->kind() == kIndex) && use.index() == 1;
  }

  void choose(const Node* n, bool isSame) {
    const Value* table = n->input(0);
    const std::string name = lowered(table->givenName());
    auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
    if (has("pos") || has("wpe") || isOfWaves(table))
      out_.isPlace = true;
    else if (isSame)
      out_.choosesRows = true;
  }

  bool isOfWaves(const Value* table) const {
    constexpr int64_t kMostNumbers = int64_t{1} << 22;
    std::optional<Dims> sizes = small_.sizes(table);
    if (!sizes || checkedNumel(*sizes).value_or(kMostNumbers + 1) > kMostNumbers) return false;
    std::optional<SmallInstance::Elements> rows = small_.compute(table);
    return rows && isTableOfWaves(*rows);
  }

  // [tokens, 1] beside [1, tokens].
  bool isOuter(const Node* n) const {
    if (n->inputCount() < 2 || n->outputCount() != 1) return false;
    std::optional<Dims> a = small_.sizes(n->input(0)), b = small_.sizes(n->input(1)), all = small_.sizes(n->output());
    if (!a || !b || !all) return false;
    const int64_t count = checkedNumel(*all).value_or(0);
    return count > checkedNumel(*a).value_or(0) && count > checkedNumel(*b).value_or(0) &&
           checkedNumel(*b).value_or(0) > 1 && checkedNumel(*a).value_or(0) > 1;
  }

  // What other numbers of the model have part in is no angle any more.
  bool otherIsGiven(const Node* n, const Value* v) const {
    return std::ranges::all_of(n->inputs(), [&](const Use& u) {
      return u.value == v || !u.value->type()->isTensor() || seen_.contains(u.value) || small_.compute(u.value);
    });
  }

  const SmallInstance& small_;
  RewriteContext& context_;
  InputUse out_;
  std::unordered_set<const Value*> seen_;
  std::vector<std::pair<const Value*, bool>> todo_;
};

// What a module around the model can do with an input that its name tells, in place of kWrapper; empty if it tells
// none.
std::string helpFor(const Value* input) {
  const std::string name = lowered(input->givenName());
  auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (has("len"))
    return fmt::format(
        "texts are served without padding, so that lengths follow from ids: a module around the model can give %{} as "
        "torch.full((ids.shape[0],), ids.shape[1])",
        input->name());
  if (has("encoder") || has("decoder") || has("memory"))
    return "a decoder that is given what an encoder returns is called in a session: 'Encoders and decoders' in "
           "docs/language_models.md";
  return "";
}

std::string listOf(const std::vector<const Value*>& inputs) {
  return join(inputs, " and ", [](const Value* v) { return "%" + v->name(); });
}

class Roles {
 public:
  Roles(const Graph& graph, RewriteContext& context)
      : inputs_(graph.inputs().begin(), graph.inputs().end()), graph_(graph), c_(context) {}

  std::optional<std::vector<ServingInput>> run() {
    for (const Value* v : inputs_) roles_.push_back(roleByName(v));
    if (!checkCount()) return std::nullopt;
    lookAtUses();
    bool good = takeIds() && takeRest();
    for (ServingInput role : {ServingInput::Positions, ServingInput::Mask}) good = good && isOnce(role);
    if (!good) return std::nullopt;
    std::vector<ServingInput> out;
    for (const std::optional<ServingInput>& role : roles_) out.push_back(*role);
    return out;
  }

 private:
  Diagnostic& error(std::string message) { return c_.diagnostics.error(graph_.range, std::move(message)); }

  void lookAtUses() {
    uses_.resize(inputs_.size());
    if (inputs_.size() == 1) return;
    SmallInstance small(c_, 2, 5);
    for (size_t i = 0; i < inputs_.size(); ++i) uses_[i] = useOf(inputs_[i], small, c_);
  }

  static bool hasSizes(const Value* v) { return v->type()->isTensor() && v->type()->tensor().hasRank; }

  bool checkCount() {
    constexpr size_t kMost = 3;
    for (const Value* v : inputs_)
      if (!v->type()->isTensor() || inputs_.size() > kMost) {
        if (v->type()->is(TypeKind::Class) && saysWhatIsHeld()) return false;
        if (!isOnce(ServingInput::Mask)) return false;
        Diagnostic& d = error("expected ids, and a mask and positions at most, found " +
                              (inputs_.size() > kMost ? counted(inputs_.size(), "input") + ": " + listOf(inputs_)
                                                      : "an input %" + v->name() + " : " + typeText(v->type())));
        if (std::ranges::none_of(inputs_, hasSizes)) d.note(kExport);
        auto mayCount = [](const Value* in) {
          return in->type()->isTensor() && !roleByName(in) && isIntegral(in->type()->tensor().dtype, false);
        };
        if (auto count = std::ranges::find_if(inputs_, mayCount); count != inputs_.end() && *count != v)
          d.note(fmt::format("call %{} position_ids if it counts tokens from 0", (*count)->name()));
        d.note(kWrapper);
        return false;
      }
    return true;
  }

  // Containers that the module itself keeps from call to call.
  bool saysWhatIsHeld() {
    const Node* held = nullptr;
    forEachNode(graph_, [&](const Node* n) {
      const bool isRead = n->kind() == sym::GetAttr && n->outputCount() == 1 && n->attributeValue(sym::name);
      const TypePtr type = isRead ? n->output()->type() : nullptr;
      if (!held && type && (type->is(TypeKind::List) || type->is(TypeKind::Dict) || type->is(TypeKind::Tuple)))
        held = n;
    });
    if (!held) return false;
    c_.diagnostics
        .error(held->range, fmt::format("the attribute {} is a {}, and what a model keeps in such is not read",
                                        held->attributeValue(sym::name)->toString(), typeText(held->output()->type())))
        .note("each tensor is to be a buffer of its own, of register_buffer, or to be given and returned");
    return true;
  }

  std::vector<const Value*> with(ServingInput role) const {
    std::vector<const Value*> out;
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (roles_[i] == role) out.push_back(inputs_[i]);
    return out;
  }

  // What chooses rows of tables are ids, whatever its name; else the first input whose name says nothing.
  bool takeIds() {
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (!roles_[i] && uses_[i].choosesRows && !uses_[i].isPlace) roles_[i] = ServingInput::Ids;
    auto isOpen = [&](size_t i) { return !roles_[i] && !uses_[i].isPlace; };
    for (size_t i = 0; i < inputs_.size() && with(ServingInput::Ids).empty(); ++i)
      if (isOpen(i)) roles_[i] = ServingInput::Ids;
    std::vector<const Value*> ids = with(ServingInput::Ids);
    if (ids.size() == 1) return areNumbers(ids.front());
    if (std::ranges::any_of(ids, [](const Value* v) { return !helpFor(v).empty(); })) {
      Diagnostic& d = error(fmt::format("{} are all taken for ids, and a language model takes one text", listOf(ids)));
      for (const Value* v : ids)
        if (const std::string help = helpFor(v); !help.empty()) d.note(help);
      return false;
    }
    if (ids.empty())
      error("expected one input of ids, found none")
          .note("its name has ids, idx or token, or rows of a table follow from it");
    else
      error(fmt::format("{} are all taken for ids, and a language model takes one text", listOf(ids)))
          .note(
              "positions are to be called position_ids, what is 1 where tokens are attention_mask; ids of an encoder, "
              "types of tokens or speakers are none of these: " +
              std::string(kWrapper));
    return false;
  }

  // Rows of a table in place of the numbers of these rows.
  bool areNumbers(const Value* ids) {
    const TensorFacts& f = ids->type()->tensor();
    const bool areRows = f.hasRank ? f.sizes.size() == 3 && isFloating(f.dtype)
                                   : lowered(ids->givenName()).find("embed") != std::string::npos;
    if (!areRows) return true;
    error(fmt::format("%{} has rows of a table of words, and a language model takes the numbers of these rows, its ids",
                      ids->name()))
        .note(fmt::format("a module around the model can look them up: forward(ids) with model({}=table(ids))",
                          ids->givenName()));
    return false;
  }

  bool takeRest() {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (roles_[i]) continue;
      if (!uses_[i].isPlace) return unknown(i);
      roles_[i] = ServingInput::Positions;
    }
    return true;
  }

  bool unknown(size_t i) {
    Diagnostic& d = error(fmt::format("what %{} stands for is not known", inputs_[i]->name()));
    const DType dtype = inputs_[i]->type()->tensor().dtype;
    if (!hasSizes(inputs_[i])) d.note(kExport);
    if (const std::string help = helpFor(inputs_[i]); !help.empty())
      d.note(help);
    else if (isFloating(dtype) || dtype == DType::Undefined)
      d.note(
          fmt::format("call it {}; a state is returned with the same sizes; a decoder that is given what an encoder "
                      "returns is called in a session: 'Encoders and decoders' in docs/language_models.md; {}",
                      uses_[i].asksIfZero ? "attention_mask if it is 1 where tokens are"
                                          : "position_ids if it counts tokens from 0",
                      kWrapper));
    else
      d.note(fmt::format("call it {}, or leave it out: {}",
                         uses_[i].asksIfZero ? "attention_mask if it is 1 where tokens are"
                                             : "position_ids if it counts tokens from 0, attention_mask if it is 1 "
                                               "where tokens are",
                         kWrapper));
    return false;
  }

  bool isOnce(ServingInput role) {
    std::vector<const Value*> all = with(role);
    if (all.size() < 2) return true;
    const bool areMasks = role == ServingInput::Mask;
    Diagnostic& d = error(
        fmt::format("{} are all taken for {}, and one is expected", listOf(all), areMasks ? "masks" : "positions"));
    if (areMasks)
      d.note(
          "a module around the model can make masks of positions, what a window hides as well: nothing else tells "
          "which of them hides more");
    d.note(kWrapper);
    return false;
  }

  std::vector<const Value*> inputs_;
  const Graph& graph_;
  RewriteContext& c_;
  std::vector<std::optional<ServingInput>> roles_;
  std::vector<InputUse> uses_;
};

class Parts {
 public:
  const std::vector<InputPart>& all() const { return parts_; }
  bool find(const Value* input) { return lookInto(input, ""); }

  void replace(Graph& graph, Value* container, const std::function<TypePtr(const Value*)>& formOf,
               std::map<const Value*, std::string>& keys) const {
    for (const InputPart& part : parts_) {
      TypePtr type = formOf(part.taken.front());
      for (Value* v : part.taken)
        if (TypePtr form = formOf(v); form->tensor().hasRank) type = form;
      Value* input = graph.addInput(type);
      if (!part.key.empty()) keys[input] = part.key;
      for (Value* v : part.taken) v->replaceAllUsesWith(input);
    }
    for (size_t i = nodes_.size(); i-- > 0;) nodes_[i]->destroy();
    if (container->hasUses())
      container->replaceAllUsesWith(Builder(graph, graph.block()->first()).list({}, types().tensor));
  }

 private:
  struct Element {
    std::string key;
    int64_t place;
    std::vector<Value*> taken;
  };

  bool lookInto(const Value* container, const std::string& path) {
    std::vector<Element> elements;
    for (const Use& u : container->uses())
      if (!isReturned(*container, u) && (u.index() != 0 || !take(u.user, elements))) return false;
    std::ranges::stable_sort(elements, {}, &Element::place);
    for (const Element& e : elements) {
      const std::string own = path + "/" + (e.key.empty() ? std::to_string(e.place) : e.key);
      for (Value* v : e.taken)
        if (!v->type()->isTensor() ? !lookInto(v, own) : !add(own, e.key, v)) return false;
    }
    return true;
  }

  // A list of tensors that is handed on as it was given, which may be written meanwhile.
  static bool isReturned(const Value& list, const Use& u) {
    if (!list.type()->is(TypeKind::List) || list.node()) return false;
    if (u.user->isReturn()) return true;
    const bool isMade = u.user->kind() == sym::TupleConstruct && u.user->output()->useCount() == 1;
    return isMade && (*u.user->output()->uses().begin()).user->isReturn();
  }

  bool take(Node* n, std::vector<Element>& out) {
    const bool takesAll = n->kind() == sym::ListUnpack || n->kind() == sym::TupleUnpack;
    const bool takesOne = n->kind() == aten::getitem_ || n->kind() == sym::TupleIndex;
    const IValue* at = takesOne ? GraphFacts::constant(n->input(1)) : nullptr;
    const bool isKey = at && at->isString(), isPlace = at && at->isInt() && at->toInt() >= 0;
    if (!takesAll && !isKey && !isPlace) return false;
    nodes_.push_back(n);
    for (size_t i = 0; i < n->outputCount(); ++i)
      put(n->output(i), isKey ? std::string(at->toString()) : "",
          isPlace ? at->toInt() : static_cast<int64_t>(isKey ? out.size() : i), out);
    return true;
  }
  static void put(Value* v, const std::string& key, int64_t place, std::vector<Element>& out) {
    for (Element& e : out)
      if (key.empty() ? e.key.empty() && e.place == place : e.key == key) return e.taken.push_back(v);
    out.push_back({key, place, {v}});
  }

  bool add(const std::string& path, const std::string& key, Value* v) {
    auto [at, isNew] = places_.try_emplace(path, parts_.size());
    if (isNew) parts_.push_back({key, {}});
    parts_[at->second].taken.push_back(v);
    return true;
  }

  std::vector<InputPart> parts_;
  std::map<std::string, size_t> places_;  // of parts, by their paths
  std::vector<Node*> nodes_;
};

}  // namespace

bool makesNumber(Symbol kind) {
  static const KindSet kNumbers{aten::Int, aten::IntImplicit, Symbol::of("aten::item")};
  return kNumbers.contains(kind);
}

namespace {

// arange(v, ..), x[.., v:..], x[.., v:..] = y
bool countsFrom(const Value* v) {
  constexpr size_t kWithStart = 6, kBegin = 2;  // arange(start, end, dtype, ..)
  for (const Use& u : v->uses()) {
    const Symbol k = u.user->kind();
    if (k == aten::arange && u.index() == 0 && u.user->inputCount() >= kWithStart) return true;
    if (k == aten::slice && u.index() == kBegin) return true;
    if (k == kSliceScatter && u.index() == kBegin + 1) return true;
  }
  return false;
}

// int(v), int(v + n), as slices of a trace have them
bool isTakenAsNumber(const Value* v) {
  for (const Use& u : v->uses()) {
    const bool isSum = u.user->kind() == aten::add && u.index() < 2;
    if (!makesNumber(u.user->kind()) && !(isSum && isTakenAsNumber(u.user->output()))) return false;
  }
  return v->hasUses();
}

}  // namespace

std::optional<ServingInput> roleByName(const Value* input) { return roleOfName(input->givenName()); }

std::optional<ServingInput> roleOfName(std::string_view given) {
  const std::string name = lowered(given);
  auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  if (has("mask")) return ServingInput::Mask;
  const bool isCount = has("pos") || has("offset") || has("past_len") || has("n_past") || name == "timestep";
  if (isCount || name == "step" || name == "start") return ServingInput::Positions;
  if (has("ids") || has("idx") || has("token")) return ServingInput::Ids;
  return std::nullopt;
}

bool isCountedFrom(const Value* input) {
  constexpr size_t kWithStart = 6;  // arange(start, end, dtype, ..)
  auto isCount = [](const Value* v) {
    const Node* n = v->node();
    while (n && (n->kind() == aten::unsqueeze || n->kind() == aten::to)) n = n->input(0)->node();
    return n && n->kind() == aten::arange;
  };
  bool isCounted = false;
  for (const Use& u : input->uses()) {
    const Symbol k = u.user->kind();
    if (u.index() == 1 && k == kEmbedding) return false;  // ids
    isCounted = isCounted || (k == aten::add && u.index() < 2 && isCount(u.user->input(1 - u.index()))) ||
                (k == aten::arange && u.index() == 0 && u.user->inputCount() >= kWithStart);
  }
  return isCounted;
}

bool isFirstPlace(const Value* input) {
  const std::optional<ServingInput> role = roleByName(input);
  const bool isCalledSo = role == ServingInput::Positions;
  if (input->type()->is(TypeKind::Int)) return isCalledSo || countsFrom(input);
  if (!input->type()->isTensor() || (role && !isCalledSo)) return false;
  const TensorFacts& f = input->type()->tensor();
  const bool mayBeOne = !f.hasRank || f.sizes.empty() || f.sizes == Dims{1};
  if (mayBeOne && isCountedFrom(input)) return true;
  return isCalledSo && (f.hasRank ? f.sizes.empty() : isTakenAsNumber(input));
}

IValue firstPlaceOf(const Value* input) {
  if (!input->type()->isTensor()) return int64_t{0};
  const TensorFacts& f = input->type()->tensor();
  return Tensor::zeros(DType::Int64, f.hasRank && f.sizes == Dims{1} ? Dims{1} : Dims{});
}

InputUse useOf(const Value* input, const SmallInstance& small, RewriteContext& context) {
  return Uses(small, context).run(input);
}

std::optional<std::vector<ServingInput>> rolesOfInputs(const Graph& graph, RewriteContext& context) {
  return Roles(graph, context).run();
}

std::map<const Value*, std::string> takeInputsApart(Graph& graph, const std::function<TypePtr(const Value*)>& formOf) {
  std::map<const Value*, std::string> keys;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const TypePtr type = graph.input(i)->type();
    Parts parts;
    const bool isMany = type->is(TypeKind::List) || type->is(TypeKind::Tuple) || type->is(TypeKind::Dict);
    if (!isMany || !graph.input(i)->hasUses() || !parts.find(graph.input(i))) continue;
    parts.replace(graph, graph.input(i), formOf, keys);
    graph.block()->removeParameter(i--);
  }
  return keys;
}

std::vector<InputPart> partsOfInput(const Value* input) {
  Parts parts;
  return parts.find(input) ? parts.all() : std::vector<InputPart>();
}

namespace {

void addReturned(Value* v, const std::string& key, std::vector<ReturnedTensor>& out) {
  if (v->type()->isTensor()) return out.push_back({v, key});
  const Node* n = v->node();
  if (!n || (n->kind() != sym::TupleConstruct && n->kind() != sym::ListConstruct && n->kind() != sym::DictConstruct))
    return;
  for (const Use& u : n->inputs()) {
    const bool isInDict = n->kind() == sym::DictConstruct && u.index() % 2 == 1;
    const IValue* name = isInDict ? GraphFacts::constant(n->input(u.index() - 1)) : nullptr;
    addReturned(u.value, name && name->isString() ? std::string(name->toString()) : "", out);
  }
}

}  // namespace

bool haveOneForm(const Value* a, const Value* b) {
  if (!a->type()->isTensor() || !b->type()->isTensor()) return false;
  const TensorFacts &f = a->type()->tensor(), &g = b->type()->tensor();
  return f.hasRank && g.hasRank && f.dtype == g.dtype &&
         std::ranges::equal(f.sizes, g.sizes, [](int64_t x, int64_t y) { return x == y || (x < 0 && y < 0); });
}

Value* idsOf(const Graph& graph) {
  for (Value* v : graph.inputs())
    if (roleByName(v) == ServingInput::Ids) return v;
  for (Value* v : graph.inputs())
    if (v->type()->isTensor() && !roleByName(v)) return v;
  return nullptr;
}

std::vector<ReturnedTensor> returnedTensors(const Graph& graph) {
  std::vector<ReturnedTensor> out;
  for (const Use& u : graph.outputs()) addReturned(u.value, "", out);
  return out;
}

}  // namespace tscompile
