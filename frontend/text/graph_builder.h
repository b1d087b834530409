// Statements to graphs and modules: the structure of blocks, names, types of outputs; all semantic mistakes of a text.
#pragma once

#include "frontend/text/parse.h"
#include "frontend/text/parse_context.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace tscompile::frontend {

class GraphBuilder : public StatementSink {
 public:
  GraphBuilder(SourcePtr source, const ParseOptions& options, Diagnostics& diagnostics)
      : source_(std::move(source)), options_(options), diagnostics_(diagnostics) {}
  void setContext(ParseContext* ctx) { ctx_ = ctx; }

  void onNode(NodeSyntax& node, const PlaceSyntax* place, Span span) override;
  void onHeader(HeaderSyntax& header, Span span) override;
  void onSubgraph(Name kind, HeaderSyntax& header, Span span) override;
  void onBlockEnd(Slice<Name> results, Span span) override;
  void onReturn(Slice<Name> results, Span span) override;
  void onBrace(Span span) override;
  void onModule(std::string_view line, Span span) override;
  void onSection(std::string_view line, Span span) override;
  void onMethod(std::string_view line, Span span) override;
  void onSetting(std::string_view line, Span span) override;
  void onRecovery(std::string_view line, Span span) override;

  // After the last statement: reports what was left open.
  void finish();
  ParsedText take() { return std::move(result_); }
  // True once the rest of the text is to be ignored.
  bool stopped() const { return stopped_; }

 private:
  // A graph whose statements are being read, or whose `with` parts may follow.
  struct OpenGraph {
    Graph* graph = nullptr;
    std::vector<Block*> blocks;  // open ones, outermost first
    Node* last = nullptr;        // the node that a block header would belong to
    bool brace = false;          // PyTorch 1.0's notation: blocks end with "}"
    bool arrowSeen = false;      // in brace notation: "->" was read, "}" is to come
    bool returned = false;
    std::vector<Node*> candidates;  // nodes whose kind ends in "_N", in text order
    size_t nextCandidate = 0, subgraphs = 0;
    std::unordered_map<std::string, Value*> names;  // with likeParseIr: names in the text, also those dropped
    std::vector<Value*> nameless;                   // values that lost a numeric name to a later one
    uint64_t nextNumber = 0;
  };
  struct OpenModule {
    size_t index;
    std::string section;
    bool inMethod = false;
  };

  std::vector<DumpedMethod>& methodsOf(const OpenModule& m);
  OpenGraph* current() { return graphs_.empty() || graphs_.back().returned ? nullptr : &graphs_.back(); }
  SourceRange range(Span span) const { return ctx_->range(span); }
  void startGraph(std::unique_ptr<Graph> graph, HeaderSyntax& header, Span span);
  // Makes `graph`, which somebody owns, the one that statements go to.
  void openGraph(Graph* graph, HeaderSyntax& header, Span span);
  void startTopGraph(HeaderSyntax& header, Span span);
  void startBlock(OpenGraph& g, HeaderSyntax& header, Span span);
  void endOpenGraphs(Span span);
  void finishNumbers(OpenGraph& g);
  void addParameters(OpenGraph& g, Block* block, HeaderSyntax& header);
  void nameValue(OpenGraph& g, Value* value, const Name& name, bool isParameter);
  Value* lookUp(OpenGraph& g, const Name& name);
  // The names of values that stand in a statement.
  Slice<TypedName> namesIn(std::string_view line);
  void readAttributes(Node* node, NodeSyntax& syntax, TypePtr constantType);
  void inferOutputs(Node* node, NodeSyntax& syntax);
  bool charge(uint64_t& count, uint64_t amount, uint64_t Limits::*limit, Span span);
  Symbol kindSymbol(std::string_view kind);
  Symbol fileSymbol(std::string_view file);

  SourcePtr source_;
  const ParseOptions& options_;
  Diagnostics& diagnostics_;
  ParseContext* ctx_ = nullptr;
  ParsedText result_;
  std::vector<OpenGraph> graphs_;  // the graph being read and those around it
  std::vector<OpenModule> modules_;
  uint64_t nodeCount_ = 0, valueCount_ = 0;
  size_t strayBraces_ = 0;  // open ones that were reported as out of place
  bool stopped_ = false;
  std::string_view lastFile_, lastKind_;
  Symbol lastFileSymbol_, lastKindSymbol_;
};

}  // namespace tscompile::frontend
