#include "frontend/source/listing.h"

#include "frontend/source/reader.h"

namespace tscompile {

using namespace source;

namespace {

// Walks over a tree; its depth is bounded by kMaxDepth.
class Lister {
 public:
  Lister(Reader& reader, std::string_view className, SourceListing& out)
      : reader_(reader), className_(className), out_(out) {}

  void statements(const Slice<Stmt*>& list) {
    for (const Stmt* s : list) statement(*s);
  }

 private:
  void statement(const Stmt& s) {
    for (const Expr* e : s.targets) expression(e);
    expression(s.value);
    statements(s.body);
    statements(s.other);
    if (s.def) statements(s.def->body);
    if (!s.made) return;
    if (s.made->name == className_)
      for (const Stmt* inner : s.made->body)
        if (inner->def) out_.methods.emplace_back(inner->def->name, signature(*inner->def));
    statements(s.made->body);
  }

  void expression(const Expr* e) {
    if (!e) return;
    if (e->is(Expr::Kind::Call)) count(*e->item());
    for (const Expr* item : e->items) expression(item);
  }

  // `torch.relu(x)` calls aten::relu, `ops.prim.data(x)` prim::data.
  void count(const Expr& callee) {
    if (!callee.is(Expr::Kind::Attribute)) return;
    const Expr& owner = *callee.item();
    if (owner.isName("torch")) ++out_.operators["aten::" + std::string(callee.text)];
    if (owner.is(Expr::Kind::Attribute) && owner.item()->isName("ops"))
      ++out_.operators[std::string(owner.text) + "::" + std::string(callee.text)];
  }

  std::string signature(const Def& def) const {
    std::string text;
    for (size_t i = 1; i < def.parameters.size; ++i) {
      const Parameter& p = def.parameters[i];
      text += (i > 1 ? ", " : "") + std::string(p.name);
      if (p.type) text += ": " + std::string(reader_.textOf(p.type->span));
      if (p.defaultValue) text += "=" + std::string(reader_.textOf(p.defaultValue->span));
    }
    return "(" + text + ")" + (def.returns ? " -> " + std::string(reader_.textOf(def.returns->span)) : "");
  }

  Reader& reader_;
  std::string_view className_;
  SourceListing& out_;
};

}  // namespace

bool listSource(const SourcePtr& source, std::string_view className, const Limits& limits, Diagnostics& diagnostics,
                SourceListing& out) {
  Arena arena;
  Reader reader(*source, diagnostics, limits, arena);
  const Slice<Stmt*>* statements = reader.read();
  if (!statements) return false;
  Lister(reader, className, out).statements(*statements);
  return true;
}

}  // namespace tscompile
