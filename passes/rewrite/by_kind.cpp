#include "passes/rewrite/by_kind.h"

#include "passes/rewrite/apply.h"
#include "passes/rewrite/kind_index.h"

#include <algorithm>

namespace tscompile {
namespace {

constexpr size_t kMostUses = 8;  // times the number of nodes

class KindDriver {
 public:
  KindDriver(RewriteContext& context, EditLog& log)
      : index_(log), applier_(context, log), left_(kMostUses * std::max<size_t>(context.graph.nodeCount(), 16)) {}

  bool run(const std::vector<NodeRewrite>& rewrites) {
    bool changed = false;
    for (bool again = true; again && left_ > 0;) {
      again = false;
      for (const NodeRewrite& r : rewrites)
        for (Symbol kind : r.kinds) again |= visit(r, kind);
      changed |= again;
    }
    return changed;
  }

 private:
  bool visit(const NodeRewrite& r, Symbol kind) {
    bool changed = false;
    std::vector<Node*> nodes = index_.nodes(kind);  // a copy: the index follows what is done
    for (Node* n : nodes) {
      if (left_ == 0) break;
      if (!n->isInserted() || n->isDestroyed() || n->kind() != kind || !applier_.apply(r, n)) continue;
      changed = true;
      --left_;
    }
    return changed;
  }

  KindIndex index_;
  RewriteApplier applier_;
  size_t left_;
};

}  // namespace

GraphRewrite byKind(std::string name, std::vector<NodeRewrite> rewrites) {
  std::stable_sort(rewrites.begin(), rewrites.end(),
                   [](const NodeRewrite& a, const NodeRewrite& b) { return a.benefit > b.benefit; });
  return {std::move(name), [rewrites = std::move(rewrites)](Graph& graph, RewriteContext& context) {
            // Whoever runs this as a part of a plan has a log already.
            std::optional<EditLog> own;
            if (!graph.editLog()) own.emplace(graph);
            return KindDriver(context, *graph.editLog()).run(rewrites);
          }};
}

}  // namespace tscompile
