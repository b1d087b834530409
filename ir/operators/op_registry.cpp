#include "ir/operators/op_registry.h"

#include "ir/graph/node.h"
#include "ir/support/check.h"
#include "ir/support/text.h"

#include <algorithm>

namespace tscompile {
namespace {

// Asked for thousands of texts at the start, so it is a plain loop.
size_t endOfKind(std::string_view schema) {
  size_t end = 0;
  while (end < schema.size() && schema[end] != '.' && schema[end] != '(') ++end;
  return end;
}

// "aten::add" of "aten::add.Tensor(Tensor self ...".
std::string_view kindOf(std::string_view schema) { return schema.substr(0, endOfKind(schema)); }

std::string_view overloadOf(std::string_view schema) {
  size_t dot = endOfKind(schema);
  if (dot == schema.size() || schema[dot] != '.') return {};
  return schema.substr(dot + 1, schema.find('(') - dot - 1);
}

// A mistake in a record is one of its author: it is named, so that it is found at the first start.
[[noreturn]] void badRecord(std::string_view schema, const char* what) {
  std::string message = "the operator record '" + std::string(schema) + "' " + what;
  internalError(message.c_str(), __FILE_NAME__, __LINE__);
}

// The text of `aten::relu_(Tensor(a!) self) -> Tensor(a!)` made from that of `aten::relu`.
std::string inPlaceText(std::string_view schema) {
  std::string text(schema);
  size_t open = text.find('(');
  std::string_view kind = kindOf(schema);
  size_t arrow = text.rfind("-> Tensor");
  if (arrow == std::string::npos || text.compare(open, 8, "(Tensor ") != 0)
    badRecord(schema, "can have an in-place variant only if it takes a tensor first and returns one tensor");
  text.replace(arrow, 9, "-> Tensor(a!)");
  text.replace(open, 8, "(Tensor(a!) ");
  text.insert(kind.size(), "_");
  return text;
}

// The arguments and results; empty for a name alone.
std::string_view signatureOf(std::string_view schema) {
  return schema.substr(std::min(schema.find('('), schema.size()));
}

// Calls f for each line.
template <class F>
void forEachLine(std::string_view text, F f) {
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    if (end) f(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// "aten::pow_.Scalar(Tensor(a!) self, ...", which a record may name where it is not the functional name with an
// underscore.
bool writesFirstArgument(std::string_view schema) {
  return schema.substr(schema.find('(')).starts_with("(Tensor(a!) ");
}

// Arguments that say whether random numbers are drawn.
bool switchesRandom(std::string_view name) {
  return name == "train" || name == "training" || name == "dropout" || name == "dropout_p";
}

bool isOff(const Value* v) {
  const Node* n = v->node();
  if (!n || n->kind() != sym::Constant) return false;
  const IValue* value = n->attributeValue(sym::value);
  if (!value) return false;
  return value->isBool() ? !value->toBool() : value->isFloat() && value->toFloat() == 0;
}

}  // namespace

bool Operator::trains(const Node& node, size_t argument) const {
  if (!def_ || argument < def_->trained.first || argument >= def_->trained.end) return false;
  if (argument >= node.inputCount() || def_->trained.training >= node.inputCount()) return false;
  auto madeBy = [&](size_t input, Symbol kind) {
    const Node* n = node.input(input)->node();
    return n && n->kind() == kind;
  };
  if (node.input(argument)->type() == types().none || madeBy(argument, sym::Constant)) return false;
  if (!madeBy(def_->trained.training, sym::Constant)) return true;
  const IValue* on = node.input(def_->trained.training)->node()->attributeValue(sym::value);
  return !on || !on->isBool() || on->toBool();
}

bool Operator::trains(const Node& node) const {
  if (!def_) return false;
  for (size_t i = def_->trained.first; i < def_->trained.end; ++i)
    if (trains(node, i)) return true;
  return false;
}

bool Operator::drawsRandom(const Node& node) const {
  if (!has(Trait::Random)) return false;
  const std::vector<Argument>& arguments = schema().arguments;
  for (size_t i = 0; i < arguments.size() && i < node.inputCount(); ++i)
    if (switchesRandom(arguments[i].name) && isOff(node.input(i))) return false;
  return true;
}

bool Operator::mayDrawNothing() const {
  if (!has(Trait::Random)) return false;
  const std::vector<Argument>& arguments = schema().arguments;
  return std::any_of(arguments.begin(), arguments.end(), [](const Argument& a) { return switchesRandom(a.name); });
}

std::string Operator::fullName() const {
  std::string name(kind_.text());
  if (!overload_.empty()) name += "." + std::string(overload_);
  return name;
}

const Schema& Operator::schema() const {
  if (const Schema* s = schema_.load(std::memory_order_acquire)) return *s;
  auto parsed = std::make_unique<Schema>();
  bool good = registry_->reader_(schemaText_, *parsed);
  if (!good) badRecord(schemaText_, "has a schema that does not read");
  std::lock_guard lock(registry_->mutex_);
  if (!ownedSchema_) {
    ownedSchema_ = std::move(parsed);
    schema_.store(ownedSchema_.get(), std::memory_order_release);
  }
  return *ownedSchema_;
}

OpRegistry::OpRegistry(SchemaReader reader, std::string_view catalog) : reader_(reader) {
  constexpr size_t kKindBytes = 160;  // of the catalog, about
  catalog_.reserve(catalog.size() / kKindBytes);
  catalogKinds_.reserve(catalog.size() / kKindBytes);
  records_.reserve(catalog.size() / kKindBytes);
  for (size_t at = 0; at < catalog.size();) {
    // The lines of one operator stand together.
    size_t begin = at;
    std::string_view kind = kindOf(catalog.substr(at));
    do {
      size_t end = catalog.find('\n', at);
      at = end == std::string_view::npos ? catalog.size() : end + 1;
    } while (at < catalog.size() && kindOf(catalog.substr(at)) == kind);
    catalog_.emplace(kind, catalog.substr(begin, at - begin));
    catalogKinds_.push_back(kind);
  }
}

OpRegistry::OpRegistry(const OpRegistry* base) : reader_(base->reader_), base_(base) {}
OpRegistry::~OpRegistry() = default;

void OpRegistry::add(const OpDef& def) {
  auto put = [this](std::string kind, const OpDef& record) {
    auto [it, isNew] = records_.try_emplace(kind);
    if (isNew) recordKinds_.push_back(kind);
    for (OpDef& old : it->second)
      if (overloadOf(old.schema) == overloadOf(record.schema) && old.isForQuantized() == record.isForQuantized()) {
        old = record;
        return;
      }
    it->second.push_back(record);
  };
  std::string kind(kindOf(def.schema));
  if (kind.find("::") == std::string::npos) badRecord(def.schema, "has no name space");
  bool isWhole = def.schema.find('(') != std::string_view::npos;
  bool isKnown = isWhole;
  for (const OpRegistry* r = this; r && !isKnown; r = r->base_)
    isKnown = r->catalog_.contains(kind) || r->records_.contains(kind);
  if (!isKnown) badRecord(def.schema, "needs its whole schema, as the catalog does not have it");
  put(kind, def);
  if (def.inplace != InPlace::No && !kind.ends_with('_')) put(kind + "_", def);
  groups_.clear();
}

OpDef& OpRegistry::addCopy(const Operator& op) {
  TS_CHECK(base_ && op.isImplemented());
  std::string kind(op.kind().text());
  auto [records, isNew] = records_.try_emplace(kind);
  if (isNew) recordKinds_.push_back(kind);
  for (OpDef& known : records->second)
    if (overloadOf(known.schema) == op.overload()) return known;
  OpDef& copy = records->second.emplace_back(op.def());
  copy.schema = op.schemaSource();
  groups_.clear();
  return copy;
}

std::unique_ptr<Operator> Operator::make(const OpDef& def, const OpRegistry& registry) {
  auto op = std::make_unique<Operator>();
  op->kind_ = Symbol::of(kindOf(def.schema));
  op->overload_ = overloadOf(def.schema);
  op->schemaText_ = def.schema;
  op->def_ = &def;
  op->registry_ = &registry;
  return op;
}

std::string_view OpRegistry::catalogText(std::string_view kind, std::string_view overload) const {
  std::string_view found;
  for (const OpRegistry* r = this; r && found.empty(); r = r->base_)
    if (auto lines = r->catalog_.find(kind); lines != r->catalog_.end())
      forEachLine(lines->second, [&](std::string_view line) {
        if (overloadOf(line) == overload) found = line;
      });
  return found;
}

std::unique_ptr<OpRegistry::Group> OpRegistry::makeGroup(Symbol kind) const {
  auto group = std::make_unique<Group>();
  if (base_)
    for (const Operator* op : base_->overloads(kind)) group->all.push_back(op);

  auto add = [&](std::string_view text, std::string_view overload) {
    auto op = std::make_unique<Operator>();
    op->kind_ = kind;
    op->schemaText_ = text;
    op->overload_ = overload;
    op->registry_ = this;
    group->own.push_back(std::move(op));
    Operator* added = group->own.back().get();
    auto same = std::find_if(group->all.begin(), group->all.end(),
                             [&](const Operator* o) { return o->overload() == overload; });
    if (same != group->all.end()) {
      added->quantized_ = (*same)->quantized_;
      *same = added;
    } else {
      group->all.push_back(added);
    }
    return added;
  };
  auto ownOf = [&](std::string_view overload) -> Operator* {
    for (const auto& o : group->own)
      if (o->overload() == overload) return o.get();
    return nullptr;
  };
  if (auto lines = catalog_.find(kind.text()); lines != catalog_.end())
    forEachLine(lines->second, [&](std::string_view line) { add(line, overloadOf(line)); });
  if (auto records = records_.find(std::string(kind.text())); records != records_.end()) {
    for (const OpDef& def : records->second) {
      std::string_view overload = overloadOf(def.schema);
      bool derived = kindOf(def.schema) != kind.text();
      Operator* op = ownOf(overload);
      if (!op && derived) {
        // The catalog may name the overload otherwise (`aten::floor_divide_.Tensor`), or not have this variant.
        std::string_view functional = catalogText(kindOf(def.schema), overload);
        std::string text = inPlaceText(functional.empty() ? def.schema : functional);
        for (size_t i = 0; i < group->all.size() && !op; ++i) {
          const Operator* known = group->all[i];
          if (signatureOf(known->schemaText_) != signatureOf(text)) continue;
          op = ownOf(known->overload());
          if (!op) op = add(known->schemaText_, known->overload());
        }
        if (!op && !functional.empty()) continue;
        if (!op) {
          op = add(def.schema, overload);
          op->ownedText_ = std::move(text);
          op->schemaText_ = op->ownedText_;
          op->overload_ = overloadOf(op->ownedText_);
        }
      }
      // A record that lies over a catalog's operator may give its name alone.
      if (!op) op = add(signatureOf(def.schema).empty() ? catalogText(kind.text(), overload) : def.schema, overload);
      if (def.isForQuantized()) op->quantized_ = &def;
      if (def.isForQuantized() && op->def_) continue;
      op->def_ = &def;
      op->inPlaceVariant_ = derived || (def.inplace != InPlace::No && writesFirstArgument(op->schemaText_));
    }
  }
  return group;
}

// `aten::add.out` computes as the overload whose arguments it has in front of its outputs.
void OpRegistry::attachOutVariants(Group& group) const {
  for (const auto& op : group.own) {
    if (op->def_ || op->schemaText_.find("!)") == std::string_view::npos) continue;
    const Schema& s = op->schema();
    size_t outs = 0;
    while (outs < s.arguments.size() && s.arguments[s.arguments.size() - 1 - outs].keywordOnly &&
           s.arguments[s.arguments.size() - 1 - outs].isWritten())
      ++outs;
    if (outs == 0) continue;
    size_t count = s.arguments.size() - outs;
    for (const auto& base : group.own) {
      if (!base->def_ || base->inPlaceVariant_ || !base->def_->kernel) continue;
      const Schema& b = base->schema();
      if (b.arguments.size() != count || b.returns.size() != outs) continue;
      bool same = true;
      for (size_t i = 0; i < count; ++i) same &= b.arguments[i].type == s.arguments[i].type;
      if (!same) continue;
      op->def_ = base->def_;
      op->outCount_ = static_cast<uint8_t>(outs);
      break;
    }
  }
}

std::span<const Operator* const> OpRegistry::overloads(Symbol kind) const {
  {
    std::lock_guard lock(mutex_);
    if (auto it = groups_.find(kind); it != groups_.end()) return it->second->all;
  }
  std::unique_ptr<Group> made = makeGroup(kind);
  if (made->all.empty()) return {};  // not kept: texts may name any number of unknown operators
  attachOutVariants(*made);
  std::lock_guard lock(mutex_);
  return groups_.try_emplace(kind, std::move(made)).first->second->all;
}

const Operator* OpRegistry::find(std::string_view fullName) const {
  size_t dot = fullName.find('.');
  std::string_view overload = dot == std::string_view::npos ? std::string_view() : fullName.substr(dot + 1);
  for (const Operator* op : overloads(Symbol::of(fullName.substr(0, dot))))
    if (op->overload() == overload) return op;
  return nullptr;
}

const Operator* OpRegistry::resolve(Symbol kind, std::span<const TypePtr> inputs, TypeBindings* bindings) const {
  for (const Operator* op : overloads(kind)) {
    TypeBindings bound;
    if (!matchesSchema(op->schema(), inputs, bound)) continue;
    if (bindings) *bindings = std::move(bound);
    return op;
  }
  return nullptr;
}

const Operator* OpRegistry::resolve(const Node& node, TypeBindings* bindings) const {
  if (!node.attributes().empty() || node.kind().nameSpace() != "aten")
    if (const ConfiguredOperators* owner = configured(node.kind())) return owner->resolve(node, nullptr);
  SmallVector<TypePtr, 16> inputs;
  for (const Use& use : node.inputs()) inputs.push_back(use.value->type());
  const Operator* op = resolve(node.kind(), inputs, bindings);
  if (!op || node.outputCount() || op->schema().returns.empty()) return op;
  // One that gave nothing in older versions.
  TypeBindings none;
  for (const Operator* older : overloads(node.kind()))
    if (older->schema().returns.empty() && matchesSchema(older->schema(), inputs, none)) return older;
  return op;
}

OperatorProblem OpRegistry::problemOf(const Node& node) const {
  OperatorProblem problem;
  if (const ConfiguredOperators* owner = configured(node.kind())) owner->resolve(node, &problem);
  return problem;
}

std::vector<Symbol> OpRegistry::kinds(bool implementedOnly) const {
  std::vector<Symbol> out;
  if (base_) out = base_->kinds(implementedOnly);
  if (configured_)
    for (Symbol kind : configured_->kinds()) out.push_back(kind);
  for (const std::string& k : recordKinds_) out.push_back(Symbol::of(k));
  if (!implementedOnly)
    for (std::string_view k : catalogKinds_) out.push_back(Symbol::of(k));
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::string OpRegistry::nearestKind(std::string_view kind) const {
  NearestName nearest(kind);
  for (const OpRegistry* r = this; r; r = r->base_) {
    for (const std::string& k : r->recordKinds_) nearest.consider(k);
    for (std::string_view k : r->catalogKinds_) nearest.consider(k);
    if (r->configured_)
      for (Symbol k : r->configured_->kinds()) nearest.consider(k.text());
  }
  return nearest.name();
}

}  // namespace tscompile
