// `tscompile parse`: the text in PyTorch's form, or its structure as JSON.
#include "frontend/files/file_io.h"
#include "ir/analysis/shape_propagation.h"
#include "ir/analysis/verifier.h"
#include "ir/graph/dot.h"
#include "ir/graph/expression.h"
#include "ir/graph/printer.h"
#include "ir/support/check.h"
#include "ir/values/size_expression.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"
#include "tools/pages/graph_svg.h"
#include "tools/reports/graph_json.h"

#include <fmt/core.h>

#include <optional>
#include <ostream>
#include <streambuf>

namespace tscompile {
namespace {

enum class GraphForm : uint8_t { Text, Expression, Tree, Dot, Svg };

struct ParseCommand {
  std::string output;
  GraphForm form = GraphForm::Text;
  bool allBrackets = false;
  bool likeParseIr = false;
  int typeVerbosity = 3;
  bool locations = true;
  bool sizes = false;
};

// Writes into the types what follows from those of the inputs, whose open sizes get names: s0, s1 ...
void nameSizes(Graph& graph, const OpRegistry& operators) {
  std::string known;
  for (const Value* v : graph.inputs()) known += typeText(v->type());
  size_t count = 0;
  auto next = [&] {
    std::string name;
    do name = fmt::format("s{}", count++);
    while (known.find(name) != std::string::npos);
    return SizeExpression::symbol(name);
  };
  for (Value* v : graph.inputs()) {
    if (!v->type()->isTensor()) continue;
    TensorFacts facts = v->type()->tensor();
    for (int64_t& size : facts.sizes)
      if (size == kUnknownSize) size = next().size();
    v->setType(tensorType(facts));
  }
  ShapePropagation(graph, operators).applyTo(graph);
}

using PrintOne = std::function<bool(const std::string& name, const Graph&)>;

bool printText(const ParsedText& text, const TextSink& sink, const PrintOptions& options) {
  if (text.module && !printDump(*text.module, sink, options)) return false;
  for (size_t i = 0; i < text.graphs.size(); ++i) {
    if (i || text.module) sink("\n");
    if (!printGraph(*text.graphs[i], sink, options)) return false;
  }
  return true;
}

// One graph after the other; those of a dump by the names of their methods.
bool printEach(const ParsedText& text, const TextSink& sink, const PrintOne& print) {
  std::string separator;
  auto methods = [&](const std::vector<DumpedMethod>& list, const std::string& owner) {
    for (const DumpedMethod& m : list) {
      if (!m.graph) continue;
      sink(separator);
      separator = "\n";
      if (!print(owner + m.name, *m.graph)) return false;
    }
    return true;
  };
  if (text.module) {
    for (const DumpedModule& m : text.module->modules)
      if (!methods(m.methods, m.className + ".")) return false;
    if (!methods(text.module->functions, "")) return false;
  }
  for (const auto& g : text.graphs) {
    sink(separator);
    separator = "\n";
    if (!print("", *g)) return false;
  }
  return true;
}

// Whether its graphs are what their nodes say: else there is nothing to show but the text.
bool areSound(const ParsedText& text, Session& session) {
  bool sound = true;
  printEach(
      text, [](std::string_view) {},
      [&](const std::string&, const Graph& g) {
        sound &= verify(g, session.operators(), session.diagnostics);
        return true;
      });
  return sound;
}

bool printSvg(const ParsedText& text, const TextSink& sink, uint64_t maxBytes) {
  std::vector<std::pair<std::string, const Graph*>> graphs;
  printEach(
      text, [](std::string_view) {},
      [&](const std::string& name, const Graph& g) {
        graphs.emplace_back(name, &g);
        return true;
      });
  const std::optional<std::string> picture = graphsAsSvg(graphs, maxBytes);
  if (picture) sink(*picture);
  return picture.has_value();
}

// False if it is longer than it may be.
bool changesSomething(const Node& n, const OpRegistry& operators) {
  const Operator* op = operators.resolve(n);
  return op && (op->schema().isMutable() || op->has(Trait::SideEffects));
}

bool printAs(const Options& options, const ParsedText& text, const OpRegistry& operators, const TextSink& textSink) {
  uint64_t left = options.common.limits.printBytes;
  TextSink sink = [&](std::string_view piece) {
    left -= std::min<uint64_t>(left, piece.size());
    textSink(piece);
  };
  // "Net.forward = " in front of what has a name.
  auto named = [&](const std::string& name, auto&& print) {
    if (!name.empty()) sink(name + " = ");
    return print();
  };
  switch (options.own.of<ParseCommand>().form) {
    case GraphForm::Text: {
      PrintOptions printing;
      printing.locations = options.own.of<ParseCommand>().locations;
      printing.typeVerbosity = options.own.of<ParseCommand>().typeVerbosity;
      printing.maxBytes = options.common.limits.printBytes;
      return printText(text, textSink, printing);
    }
    case GraphForm::Expression:
      return printEach(text, sink, [&](const std::string& name, const Graph& g) {
        return named(name, [&] {
          return printExpression(g, sink,
                                 {.allBrackets = options.own.of<ParseCommand>().allBrackets,
                                  .maxBytes = left,
                                  .hasEffects = [&](const Node& n) { return changesSomething(n, operators); }});
        });
      });
    case GraphForm::Tree:
      return printEach(text, sink, [&](const std::string& name, const Graph& g) {
        return named(name, [&] { return printTree(g, sink, left); });
      });
    case GraphForm::Dot:
      return printEach(text, sink, [&](const std::string& name, const Graph& g) {
        return printDot(g, name.empty() ? "graph" : name, sink, left);
      });
    case GraphForm::Svg:
      return printSvg(text, textSink, left);
  }
  TS_UNREACHABLE();
}

// Hands what is written to a stream on to a sink.
class SinkBuffer : public std::streambuf {
 public:
  explicit SinkBuffer(const TextSink& sink) : sink_(sink) {}

 protected:
  int overflow(int c) override {
    if (c == traits_type::eof()) return 0;
    char byte = static_cast<char>(c);
    sink_(std::string_view(&byte, 1));
    return c;
  }
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    sink_(std::string_view(text, static_cast<size_t>(size)));
    return size;
  }

 private:
  const TextSink& sink_;
};

}  // namespace

static int runParse(const Options& options, Session& session) {
  ParseOptions reading;
  reading.registry = &session.operators();
  reading.likeParseIr = options.own.of<ParseCommand>().likeParseIr;
  Result<ParsedText> text = session.parse(options.arguments[0], reading);
  if (!text) return session.finish();
  session.report();
  const ParseCommand& own = options.own.of<ParseCommand>();
  const bool showsText = own.form == GraphForm::Text && !own.sizes && !session.common.json;
  if (!showsText && !areSound(*text, session)) return session.finish();
  if (own.sizes) {
    for (auto& graph : text->graphs) nameSizes(*graph, session.operators());
    for (size_t m = 0; text->module && m < text->module->modules.size(); ++m)
      for (DumpedMethod& method : text->module->modules[m].methods)
        if (method.graph) nameSizes(*method.graph, session.operators());
  }

  std::optional<FileWriter> file;
  bool toFile = !options.own.of<ParseCommand>().output.empty() && options.own.of<ParseCommand>().output != "-";
  if (toFile) file.emplace(options.own.of<ParseCommand>().output, session.diagnostics);
  TextSink sink = [&](std::string_view piece) {
    if (toFile)
      file->write(piece);
    else
      session.out << piece;
  };
  if (session.common.json) {
    SinkBuffer buffer(sink);
    std::ostream stream(&buffer);
    JsonWriter json(stream);
    writeGraphJson(*text, json);
  } else {
    if (!printAs(options, *text, session.operators(), sink)) {
      session.failAtPrintLimit();
      return session.finish();
    }
  }
  if (toFile) file->commit();
  return session.finish();
}

namespace {

OptionSpecs parseOptions() {
  return OptionSpecs{
      writing(Written::File, {"-o,--output", "FILE", "write there instead of to standard output",
                              [](Options& o, const std::string& v) { o.own.of<ParseCommand>().output = v; }}),
      {"--as", "text|expr|tree|dot|svg",
       "graph text (default), formulas, a tree of nodes with their inputs below them, or a picture, for Graphviz or as "
       "it "
       "is",
       [](Options& o, const std::string& v) {
         o.own.of<ParseCommand>().form = v == "expr"   ? GraphForm::Expression
                                         : v == "tree" ? GraphForm::Tree
                                         : v == "dot"  ? GraphForm::Dot
                                         : v == "svg"  ? GraphForm::Svg
                                                       : GraphForm::Text;
       }},
      {"--brackets", "few|all", "in formulas: where they are needed (default), or around every operation",
       [](Options& o, const std::string& v) { o.own.of<ParseCommand>().allBrackets = v == "all"; }},
      {"--like-parse-ir", "", "read as torch._C.parse_ir does: only the first graph, names of node outputs are dropped",
       [](Options& o, const std::string&) { o.own.of<ParseCommand>().likeParseIr = true; }},
      {"--type-verbosity", "0|1|2|3|20",
       "types: 0 none, 1 sizes, 2 and strides, 3 everything (default), 20 symbolic sizes as well",
       [](Options& o, const std::string& v) {
         o.own.of<ParseCommand>().typeVerbosity = static_cast<int>(*parseCount(v));
       }},
      {"--sizes", "",
       "types tell dtypes and sizes as they follow from the inputs', whose open sizes are called s0, s1 ...: 2*s0 + 1",
       [](Options& o, const std::string&) { o.own.of<ParseCommand>().sizes = true; }},
      {"--no-locations", "", "leave out '# file:line:column'",
       [](Options& o, const std::string&) { o.own.of<ParseCommand>().locations = false; }},
  };
}

}  // namespace

VerbSpec parseCommand() {
  return {.name = "parse",
          .summary = "read graph text or a module dump and print it as PyTorch 1.13 does",
          .argument = "FILE",
          .argumentHelp = "a model: .pt, .pt2, graph text, a module dump; -: text from standard input",
          .argumentRequired = true,
          .details = "Checks syntax and names. 'tscompile lint' checks types and structure as well.\n",
          .options = parseOptions(),
          .command = runParse};
}

}  // namespace tscompile
