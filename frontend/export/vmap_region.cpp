#include "frontend/export/vmap_region.h"

#include "frontend/export/arguments.h"
#include "frontend/export/row_loop.h"
#include "ir/support/text.h"

#include <algorithm>

namespace tscompile::exported {
namespace {

constexpr std::string_view kPrefix = "torch._functorch.predispatch.";
constexpr std::string_view kBegin = "_vmap_increment_nesting", kEnd = "_vmap_decrement_nesting",
                           kRow = "_add_batch_dim", kStack = "_remove_batch_dim";

bool isMark(Json node, std::string_view name) {
  std::string_view target = textOf(node.find("target"));
  return startsWith(target, kPrefix) && target.substr(kPrefix.size()) == name;
}

std::vector<Json> argumentsOf(Json node) {
  std::vector<Json> out;
  for (Json input : items(node.find("inputs"))) out.push_back(input.find("arg"));
  return out;
}

std::optional<int64_t> numberOf(Json argument) {
  Json v = alternative(argument);
  return v ? v.integer() : std::nullopt;
}

Json onlyName(Json node) {
  std::vector<Json> outputs = items(node.find("outputs"));
  std::vector<Json> names = outputs.size() == 1 ? namesOf(outputs[0]) : std::vector<Json>();
  return names.size() == 1 ? names[0] : Json();
}

// The nodes of one region, without its marks. Those that take a row of a batched tensor are at its begin, those that
// give rows back at its end; regions inside of it have marks of their own. What else is at the end is how PyTorch moved
// dimensions while it traced, of which nobody uses anything.
class Region {
 public:
  Region(ExportBuilder& builder, std::span<const Json> nodes) : b_(builder), nodes_(nodes) {
    while (first_ < nodes_.size() && isMark(nodes_[first_], kRow)) ++first_;
    size_t depth = 0;
    for (size_t i = first_; i < nodes_.size(); ++i) {
      depth += isMark(nodes_[i], kBegin);
      depth -= isMark(nodes_[i], kEnd);
      if (depth > 0 || !isMark(nodes_[i], kStack)) continue;
      last_ = std::min(last_, i);
      stacks_.push_back(nodes_[i]);
    }
  }

  bool read(Value* count, const std::function<bool(std::span<const Json>)>& readAll) {
    RowLoop loop(b_, count, {}, stacks_.size(), /*mayBeEmpty=*/true);
    std::vector<int64_t> dims;
    {
      ExportBuilder::InBlock inside(b_, loop.body());
      for (Json node : nodes_.first(first_))
        if (!readRow(node, loop.index())) return false;
      if (!readAll(nodes_.subspan(first_, last_ - first_))) return false;
      std::vector<Value*> rows;
      for (Json node : stacks_) {
        std::vector<Json> arguments = argumentsOf(node);
        std::optional<int64_t> dim = arguments.size() == 4 ? numberOf(arguments[3]) : std::nullopt;
        if (!dim) return b_.fail(node, "it takes a tensor, a level, a size and a dimension");
        rows.push_back(readFreeArgument(b_, arguments[0]));
        if (!rows.back()) return false;
        dims.push_back(*dim);
      }
      if (!loop.finish({}, rows, nodes_.empty() ? Json() : nodes_[0])) return false;
    }
    forgetNames();
    std::vector<Value*> results;
    if (!loop.results(dims, results, nodes_.empty() ? Json() : nodes_[0])) return false;
    for (size_t i = 0; i < stacks_.size(); ++i) b_.bind(textOf(onlyName(stacks_[i])), results[i]);
    return true;
  }

 private:
  bool readRow(Json node, Value* index) {
    b_.setNode(node);
    std::vector<Json> arguments = argumentsOf(node);
    std::optional<int64_t> dim = arguments.size() == 3 ? numberOf(arguments[1]) : std::nullopt;
    if (!dim) return b_.fail(node, "it takes a tensor, a dimension and a level");
    Value* tensor = readFreeArgument(b_, arguments[0]);
    Value* row = tensor ? rowOf(b_, tensor, *dim, index, node) : nullptr;
    if (row) b_.bind(textOf(onlyName(node)), row);
    return row != nullptr;
  }
  // What is made inside of the loop is not there after it.
  void forgetNames() {
    for (Json node : nodes_)
      for (Json output : items(node.find("outputs")))
        for (Json name : namesOf(output)) b_.forget(textOf(name));
  }

  ExportBuilder& b_;
  std::span<const Json> nodes_;
  size_t first_ = 0, last_ = nodes_.size();
  std::vector<Json> stacks_;
};

}  // namespace

bool beginsVmap(Json node) { return isMark(node, kBegin); }
bool isVmapRemark(std::string_view target) {
  return startsWith(target, kPrefix) && target.substr(kPrefix.size()) == "lazy_load_decompositions";
}

size_t readVmapRegion(ExportBuilder& b, std::span<const Json> nodes,
                      const std::function<bool(std::span<const Json>)>& readAll) {
  size_t depth = 0, end = 0;
  for (size_t i = 0; i < nodes.size() && end == 0; ++i) {
    depth += isMark(nodes[i], kBegin);
    if (isMark(nodes[i], kEnd) && --depth == 0) end = i;
  }
  b.setNode(nodes[0]);
  std::vector<Json> arguments = argumentsOf(nodes[0]);
  if (end == 0 || arguments.empty()) {
    b.fail(nodes[0], "the region has no end or no size");
    return 0;
  }
  Value* count = readFreeArgument(b, arguments[0]);
  if (count && !count->type()->is(TypeKind::Int)) {
    b.fail(nodes[0], "the size of the region is not a number");
    count = nullptr;
  }
  return count && Region(b, nodes.subspan(1, end - 1)).read(count, readAll) ? end + 1 : 0;
}

}  // namespace tscompile::exported
