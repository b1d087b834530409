// Operators by name: PyTorch's schemas in the order in which overloads are tried, joined with the records of what we
// implement. Made once, then const; sessions lay their own registries over it.
#pragma once

#include "ir/operators/op_def.h"
#include "ir/operators/schema.h"
#include "ir/support/diagnostics.h"
#include "ir/values/symbol.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tscompile {

class Node;
class OpRegistry;

// One overload of an operator. Known by schema alone (PyTorch has it, we do not), or with a record.
class Operator {
 public:
  Symbol kind() const { return kind_; }
  std::string_view overload() const { return overload_; }
  std::string fullName() const;
  // Parsed at the first question.
  const Schema& schema() const;
  std::string_view schemaSource() const { return schemaText_; }

  bool isImplemented() const { return def_ != nullptr; }
  // The record; of the functional form for in-place and `out` variants. The caller has asked isImplemented().
  const OpDef& def() const { return *def_; }
  // The record for quantised tensors, where it is another; else null.
  const OpDef* quantized() const { return quantized_ == def_ ? nullptr : quantized_; }
  // Whether its record says so; nothing is said of those that are not implemented.
  bool has(Trait t) const { return def_ && def_->has(t); }
  // `aten::relu_`: writes its first argument.
  bool isInPlaceVariant() const { return inPlaceVariant_; }
  // Whether the node writes this argument without its schema saying so. Weights are kept as they are.
  bool trains(const Node& node, size_t argument) const;
  bool trains(const Node& node) const;
  // Whether the node may draw random numbers: not if its `train` or `training` is the constant false, or its `dropout`
  // or `dropout_p` the constant 0.
  bool drawsRandom(const Node& node) const;
  // Whether it draws random numbers for some nodes and not for others.
  bool mayDrawNothing() const;
  // `aten::add.out`: the last `outCount` arguments take the results.
  size_t outCount() const { return outCount_; }

  // Whose record it is.
  const OpRegistry& registry() const { return *registry_; }

  // One that stands in no registry's tables; both arguments outlive it.
  static std::unique_ptr<Operator> make(const OpDef& def, const OpRegistry& registry);

 private:
  friend class OpRegistry;
  Symbol kind_;
  std::string_view overload_;
  std::string_view schemaText_;
  std::string ownedText_;  // of derived variants
  const OpDef* def_ = nullptr;
  bool inPlaceVariant_ = false;
  uint8_t outCount_ = 0;
  const OpRegistry* registry_ = nullptr;
  mutable std::atomic<const Schema*> schema_{nullptr};
  mutable std::unique_ptr<const Schema> ownedSchema_;
  const OpDef* quantized_ = nullptr;
};

// Why a node of a known kind means no operator; an empty text: it means one.
struct OperatorProblem {
  std::string text;
  ErrorKind kind = ErrorKind::Input;  // Unsupported: it has a meaning, but this operator cannot do it
};

// Operators whose nodes tell with attributes what they compute, such as plugins: each node has a schema of its own.
// Called by several threads at once.
class ConfiguredOperators {
 public:
  virtual ~ConfiguredOperators() = default;
  virtual bool owns(Symbol kind) const = 0;
  // The operator that a node of an owned kind means. Null, and why in `problem`, if its attributes or inputs are wrong.
  virtual const Operator* resolve(const Node& node, OperatorProblem* problem) const = 0;
  // All owned kinds.
  virtual std::vector<Symbol> kinds() const = 0;
};

class OpRegistry {
 public:
  // Reads a schema's text; false for one that is malformed. Injected, as the reader stands above `ir`.
  using SchemaReader = bool (*)(std::string_view text, Schema& schema);

  // `catalog`: schemas, one a line, those of one operator next to each other in the order in which they are tried.
  OpRegistry(SchemaReader reader, std::string_view catalog);
  // A registry that is asked first and hands on to `base`, which must outlive it.
  explicit OpRegistry(const OpRegistry* base);
  OpRegistry(const OpRegistry&) = delete;
  ~OpRegistry();

  // Before the first question only. A later record of the same overload replaces the earlier one. A record for
  // quantised dtypes alone (kQuantizedTypes) stands beside that for all others.
  void add(const OpDef& def);

  // Lays a copy of the record over this one overload of the base, which is implemented and takes no `out`. The copy is
  // to be changed at once.
  OpDef& addCopy(const Operator& op);

  // The one that sessions laid theirs over.
  const OpRegistry& builtIn() const { return base_ ? base_->builtIn() : *this; }

  // Asked before the tables, and before what a base has. Must outlive the registry.
  void setConfigured(const ConfiguredOperators* operators) { configured_ = operators; }
  // Who owns this kind; null: the tables, or nobody.
  const ConfiguredOperators* configured(Symbol kind) const {
    for (const OpRegistry* r = this; r; r = r->base_)
      if (r->configured_ && r->configured_->owns(kind)) return r->configured_;
    return nullptr;
  }

  // All overloads of a kind in the order in which they are tried; empty if the kind is unknown, or configured.
  std::span<const Operator* const> overloads(Symbol kind) const;
  // By "aten::add.Tensor"; null if unknown.
  const Operator* find(std::string_view fullName) const;
  bool isKnown(Symbol kind) const { return configured(kind) || !overloads(kind).empty(); }

  // The overload that a node with these input types means; null if none matches.
  const Operator* resolve(Symbol kind, std::span<const TypePtr> inputs, TypeBindings* bindings = nullptr) const;
  const Operator* resolve(const Node& node, TypeBindings* bindings = nullptr) const;
  // Why resolve(node) finds nothing, if its operator is configured.
  OperatorProblem problemOf(const Node& node) const;

  // All kinds, sorted by name; with `implementedOnly`, those that have a record.
  std::vector<Symbol> kinds(bool implementedOnly) const;
  // The known kind whose name is nearest to a misspelt one, or "".
  std::string nearestKind(std::string_view kind) const;

 private:
  friend class Operator;
  struct Group {
    std::vector<std::unique_ptr<Operator>> own;
    std::vector<const Operator*> all;
  };
  // The catalog's line for one overload; empty if it has none.
  std::string_view catalogText(std::string_view kind, std::string_view overload) const;
  std::unique_ptr<Group> makeGroup(Symbol kind) const;
  void attachOutVariants(Group& group) const;

  SchemaReader reader_;
  const OpRegistry* base_ = nullptr;
  const ConfiguredOperators* configured_ = nullptr;
  std::unordered_map<std::string_view, std::string_view> catalog_;  // kind -> its lines
  std::vector<std::string_view> catalogKinds_;
  std::unordered_map<std::string, std::vector<OpDef>> records_;  // kind -> records in order of registration
  std::vector<std::string> recordKinds_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<Symbol, std::unique_ptr<Group>> groups_;
};

}  // namespace tscompile
