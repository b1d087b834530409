#include "passes/rewrite/trace.h"

#include "ir/graph/printer.h"
#include "ir/support/json_writer.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <sstream>

namespace tscompile {
namespace {

std::string textOf(const Node* n) {
  PrintOptions plain;
  plain.locations = false;
  plain.typeVerbosity = 0;
  return nodeText(*n, plain);
}

// "%y = test::f", for what has been said of the node before.
std::string nameOf(const Node* n, Symbol kind) {
  std::string outputs = join(n->outputs(), ", ", [](const Value* v) { return "%" + v->name(); });
  return (outputs.empty() ? "" : outputs + " = ") + std::string(kind.text());
}
std::string nameOf(const Node* n) { return nameOf(n, n->kind()); }

std::string nameOf(const Value* v) { return v ? "%" + v->name() : "nothing"; }

}  // namespace

TraceObserver::TraceObserver(EditLog& log, TraceSink sink, Form form) : log_(log), sink_(std::move(sink)), form_(form) {
  log_.attach(this);
}

TraceObserver::~TraceObserver() { log_.detach(this); }

void TraceObserver::tell(const std::string& text, std::string_view what, const Node* node,
                         const std::vector<Field>& fields) {
  if (form_ == Form::Text) {
    sink_((log_.isTakingBack() ? "taking back: " : "") + text);
    return;
  }
  std::ostringstream out;
  JsonWriter json(out);
  json.beginObject();
  json.field("edit", what);
  json.field("node", node->isReturn() ? std::string("return") : textOf(node));
  for (const auto& [key, value] : fields) json.field(key, value);
  if (log_.isTakingBack()) json.field("takingBack", true);
  json.endObject();
  json.finish();
  std::string line = std::move(out).str();
  while (line.ends_with('\n')) line.pop_back();
  sink_(line);
}

void TraceObserver::imported(Node* n) { tell("importing " + textOf(n), "import", n, {}); }
void TraceObserver::pruned(Node* n) { tell("pruning " + textOf(n), "prune", n, {}); }

void TraceObserver::inputChanged(Node* n, size_t index, Value* before, Value* after) {
  // The inputs that a node comes with.
  if (!n->isInserted() && !n->isReturn()) return;
  std::string place = fmt::format("input {} of {}", index, n->isReturn() ? "the results" : nameOf(n));
  tell(fmt::format("changing {} from {} to {}", place, nameOf(before), nameOf(after)), "input", n,
       {{"index", std::to_string(index)}, {"before", nameOf(before)}, {"after", nameOf(after)}});
}

void TraceObserver::attributeChanged(Node* n, Symbol name) {
  tell(fmt::format("changing attribute {} of {}", name.text(), nameOf(n)), "attribute", n,
       {{"name", std::string(name.text())}});
}

void TraceObserver::kindChanged(Node* n, Symbol before, Symbol after) {
  tell(fmt::format("changing {} to {}", nameOf(n, before), after.text()), "kind", n,
       {{"before", std::string(before.text())}, {"after", std::string(after.text())}});
}

TraceSink traceWithout(std::vector<std::string> rewrites, TraceSink sink) {
  return [rewrites = std::move(rewrites), sink = std::move(sink)](const std::string& line) {
    bool ignored = std::any_of(rewrites.begin(), rewrites.end(), [&](const std::string& name) {
      return startsWith(line, "rewriting: rewrite " + name + " ") ||
             (startsWith(line, "rewriting: validate failed ") && line.find(". Reason: " + name + ", ") != line.npos);
    });
    if (!ignored) sink(line);
  };
}

ReplacedBy::ReplacedBy(EditLog& log) : log_(log) { log_.attach(this); }

void ReplacedBy::inputChanged(Node*, size_t, Value* before, Value* after) {
  if (!before || !after) return;
  // Whoever has uses again is not replaced.
  next_.erase(after);
  if (!log_.isTakingBack()) next_[before] = after;
}

std::vector<const Value*> ReplacedBy::chain(const Value* value) const {
  std::vector<const Value*> out{value};
  while (true) {
    const Value* v = out.back();
    auto at = next_.find(v);
    bool isUsed = isPresent(v) && v->hasUses();
    if (isUsed || at == next_.end() || std::find(out.begin(), out.end(), at->second) != out.end()) return out;
    out.push_back(at->second);
  }
}

}  // namespace tscompile
