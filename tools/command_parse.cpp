// `tscompile parse`: the text in PyTorch's form, or its structure as JSON.
#include "frontend/file_io.h"
#include "ir/printer.h"
#include "runtime/ops/ops.h"
#include "tools/commands.h"
#include "tools/graph_json.h"

#include <optional>
#include <ostream>
#include <streambuf>

namespace tscompile {
namespace {

bool printText(const ParsedText& text, const TextSink& sink, const PrintOptions& options) {
  if (text.module && !printDump(*text.module, sink, options)) return false;
  for (size_t i = 0; i < text.graphs.size(); ++i) {
    if (i || text.module) sink("\n");
    if (!printGraph(*text.graphs[i], sink, options)) return false;
  }
  return true;
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

int runParse(const Options& options, Session& session) {
  ParseOptions reading;
  reading.registry = &allOps();
  reading.likeParseIr = options.parse.likeParseIr;
  Result<ParsedText> text = session.parse(options.arguments[0], reading);
  if (!text) return session.finish();
  session.report();

  std::optional<FileWriter> file;
  bool toFile = !options.parse.output.empty() && options.parse.output != "-";
  if (toFile) file.emplace(options.parse.output, session.diagnostics);
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
    PrintOptions printing;
    printing.locations = options.parse.locations;
    printing.typeVerbosity = options.parse.typeVerbosity;
    printing.maxBytes = session.common.limits.printBytes;
    if (!printText(*text, sink, printing)) {
      session.diagnostics
          .error("the printed text is longer than " + std::to_string(printing.maxBytes) + " bytes", ErrorKind::Limit)
          .note("the limit is set by --limit print=N");
      return session.finish();
    }
  }
  if (toFile) file->commit();
  return session.finish();
}

}  // namespace tscompile
