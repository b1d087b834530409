// `tscompile inspect`: what a file is and what it holds. Nothing in it is executed.
#include "frontend/file_io.h"
#include "frontend/file_kind.h"
#include "frontend/weights.h"
#include "ir/support/json_writer.h"
#include "ir/support/text.h"
#include "tools/commands.h"
#include "tools/graph_summary.h"
#include "tools/quantities.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

// One file at a time; text and JSON come from the same calls.
class Inspector {
 public:
  explicit Inspector(Session& session) : session_(session), json_(session.out), isJson_(session.common.json) {}

  int run(const std::vector<std::string>& files) {
    if (isJson_) {
      json_.beginObject();
      json_.field("schema", "tscompile.inspect/1");
      json_.key("files");
      json_.beginArray();
    }
    int code = kExitDone;
    for (const std::string& file : files) {
      if (isJson_) json_.newLine();
      one(file);
      int now = session_.finish();
      if (code == kExitDone) code = now;
    }
    if (isJson_) {
      json_.newLine();
      json_.endArray();
      json_.endObject();
      json_.finish();
    }
    return code;
  }

 private:
  void one(const std::string& path) {
    Diagnostics& diagnostics = session_.diagnostics;
    isInput_ = path == "-";
    Result<std::string> start = isInput_ ? session_.read(path) : readFileStart(path, kFileKindBytes, diagnostics);
    if (!start) return;
    name_ = isInput_ ? "<stdin>" : path;
    FileKind kind = detectFileKind(std::string_view(*start).substr(0, kFileKindBytes));
    head(kind);
    switch (kind) {
      case FileKind::GraphText:
      case FileKind::ModuleDump:
        graphs(path, std::move(*start));
        break;
      case FileKind::Safetensors:
        safetensors(path);
        break;
      case FileKind::Npy:
        npy(path);
        break;
      case FileKind::Npz:
        npz(path);
        break;
      case FileKind::GitLfsPointer:
        lfsPointer(*start);
        break;
      default:
        break;
    }
    if (isJson_) {
      json_.endObject();
    } else {
      session_.out << text_;
      text_.clear();
    }
  }

  void head(FileKind kind) {
    if (isJson_) {
      json_.beginObject();
      json_.field("path", name_);
      json_.field("kind", describe(kind));
    } else {
      text_ += name_ + ": " + std::string(describe(kind)) + "\n";
    }
  }

  // Files that are read by their names cannot come from a pipe.
  bool needsFile() {
    if (!isInput_) return true;
    session_.diagnostics.fileError(name_, {}, "tensors can be listed in files only");
    return false;
  }

  // ---- graph text ----

  void graphs(const std::string& path, std::string start) {
    Diagnostics& diagnostics = session_.diagnostics;
    Result<std::string> text = isInput_ ? Result<std::string>(std::move(start)) : session_.read(path);
    if (!text) return;
    size_t bytes = text->size(), lines = static_cast<size_t>(std::count(text->begin(), text->end(), '\n'));
    source_ = SourceFile::make(name_, std::move(*text));
    ParseOptions options;
    options.limits = session_.common.limits;
    Result<ParsedText> parsed = parseText(source_, diagnostics, options);
    if (isJson_) {
      json_.field("bytes", bytes);
      json_.field("lines", lines);
    } else {
      text_ += fmt::format("  {:<12}{} bytes, {} lines\n", "size", bytes, lines);
    }
    if (!parsed) {
      if (isJson_) json_.field("readable", false);
      return;
    }
    if (parsed->module) modules(*parsed->module);
    if (isJson_ && !parsed->graphs.empty()) {
      json_.key("graphs");
      json_.beginArray();
    }
    for (size_t i = 0; i < parsed->graphs.size(); ++i) {
      if (!isJson_ && parsed->graphs.size() > 1)
        text_ += fmt::format("  graph {} of {}\n", i + 1, parsed->graphs.size());
      summary(*parsed->graphs[i], "  ");
    }
    if (isJson_ && !parsed->graphs.empty()) json_.endArray();
  }

  void summary(const Graph& graph, const std::string& margin) {
    GraphSummary s = summarize(graph);
    if (isJson_)
      writeSummary(s, json_);
    else
      writeSummary(s, margin, text_);
  }

  void modules(const ModuleDump& dump) {
    if (isJson_) {
      json_.key("modules");
      json_.beginArray();
    }
    // Submodules follow their parent: depth first from an explicit stack.
    std::vector<std::pair<size_t, size_t>> todo{{0, 0}};
    while (!todo.empty()) {
      auto [index, depth] = todo.back();
      todo.pop_back();
      const DumpedModule& m = dump.modules[index];
      module(m, depth);
      for (size_t i = m.children.size(); i-- > 0;) todo.emplace_back(m.children[i], depth + 1);
    }
    if (isJson_) {
      json_.newLine();
      json_.endArray();
    }
    if (dump.functions.empty()) return;
    if (isJson_) {
      json_.key("functions");
      methodsJson(dump.functions);
    } else {
      methods(dump.functions, "  function ");
    }
  }

  void module(const DumpedModule& m, size_t depth) {
    size_t parameters = 0;
    for (const ModuleAttribute& a : m.attributes) parameters += a.isParameter;
    if (isJson_) {
      json_.newLine();
      json_.beginObject();
      json_.field("class", m.className);
      json_.field("depth", depth);
      json_.field("parameters", parameters);
      json_.field("attributes", m.attributes.size() - parameters);
      json_.key("methods");
      methodsJson(m.methods);
      json_.endObject();
      return;
    }
    // Deep trees are shown up to a depth: each level would make its line longer.
    std::string margin(2 * std::min<size_t>(depth, 20) + 2, ' ');
    text_ += margin + "module " + m.className;
    if (parameters) text_ += ", " + counted(parameters, "parameter");
    text_ += "\n";
    methods(m.methods, margin + "  method ");
  }

  void methodsJson(const std::vector<DumpedMethod>& methods) {
    json_.beginObject();
    for (const DumpedMethod& method : methods) {
      json_.key(method.name);
      if (method.graph)
        summary(*method.graph, "");
      else
        json_.null();
    }
    json_.endObject();
  }

  // A line for each, after `lead`.
  void methods(const std::vector<DumpedMethod>& methods, const std::string& lead) {
    for (const DumpedMethod& method : methods) {
      text_ += lead + method.name;
      if (method.graph) {
        const Graph& g = *method.graph;
        text_ += "(" +
                 join(g.inputs(), ", ", [](const Value* v) { return "%" + v->name() + " : " + typeText(v->type()); }) +
                 "), " + counted(g.nodeCount(), "node");
      }
      text_ += "\n";
    }
  }

  // ---- tensors ----

  void safetensors(const std::string& path) {
    if (!needsFile()) return;
    Result<SafetensorsHeader> header = readSafetensorsHeader(path, session_.diagnostics, session_.common.limits);
    if (!header) return;
    uint64_t bytes = 0;
    for (const TensorEntry& t : header->tensors) bytes += t.end - t.begin;
    if (isJson_) return safetensorsJson(*header, bytes);
    text_ += fmt::format("  {:<12}{}, {}\n", "tensors", header->tensors.size(), sizeText(bytes));
    for (const auto& [key, value] : header->metadata)
      text_ += fmt::format("  {:<12}{} = {}\n", "metadata", abbreviate(key, 80), abbreviate(value, 200));
    for (const TensorEntry& t : header->tensors)
      text_ += fmt::format("    {} : {} {}, {}\n", t.name, t.dtype, dimsText(t.sizes), sizeText(t.end - t.begin));
  }

  void safetensorsJson(const SafetensorsHeader& header, uint64_t bytes) {
    json_.field("bytes", bytes);
    json_.key("metadata");
    json_.beginObject();
    for (const auto& [key, value] : header.metadata) json_.field(key, value);
    json_.endObject();
    json_.key("tensors");
    json_.beginArray();
    for (const TensorEntry& t : header.tensors) {
      json_.newLine();
      json_.beginObject();
      json_.field("name", t.name);
      json_.field("dtype", t.dtype);
      shape(t.sizes);
      json_.field("bytes", t.end - t.begin);
      json_.endObject();
    }
    json_.endArray();
  }

  void shape(DimSpan sizes) {
    json_.key("shape");
    json_.beginArray();
    for (int64_t s : sizes) json_.value(s);
    json_.endArray();
  }

  void npy(const std::string& path) {
    if (!needsFile()) return;
    Result<NpyHeader> header = readNpyHeader(path, session_.diagnostics, session_.common.limits);
    if (!header) return;
    if (isJson_) {
      json_.field("dtype", pythonName(header->dtype));
      shape(header->sizes);
      json_.field("fortranOrder", header->fortranOrder);
    } else {
      text_ += fmt::format("  {:<12}{} {}{}\n", "array", pythonName(header->dtype), dimsText(header->sizes),
                           header->fortranOrder ? ", in Fortran order" : "");
    }
  }

  void npz(const std::string& path) {
    if (!needsFile()) return;
    Result<std::vector<std::string>> names = readNpzNames(path, session_.diagnostics, session_.common.limits);
    if (!names) return;
    if (isJson_) {
      json_.key("members");
      json_.beginArray();
      for (const std::string& name : *names) json_.value(name);
      json_.endArray();
      return;
    }
    for (size_t i = 0; i < names->size(); ++i) text_ += fmt::format("  {:<12}{}\n", i ? "" : "members", (*names)[i]);
  }

  // ---- others ----

  void lfsPointer(const std::string& text) {
    size_t at = text.find("\nsize ");
    if (at == std::string::npos) return;
    std::optional<uint64_t> bytes =
        parseCount(trim(std::string_view(text).substr(at + 6, text.find('\n', at + 6) - at - 6)));
    if (!bytes) return;
    if (isJson_)
      json_.field("pointsToBytes", *bytes);
    else
      text_ += fmt::format("  {:<12}a file of {}; 'git lfs pull' fetches it\n", "points to", sizeText(*bytes));
  }

  Session& session_;
  JsonWriter json_;
  bool isJson_, isInput_ = false;
  std::string name_, text_;
  SourcePtr source_;
};

}  // namespace

int runInspect(const Options& options, Session& session) { return Inspector(session).run(options.arguments); }

}  // namespace tscompile
