// `tscompile inspect`: what a file is and what it holds. Nothing in it is executed.
#include "api/built_model.h"
#include "api/compile_settings.h"
#include "api/engine_file.h"
#include "frontend/archive/torch_archive.h"
#include "frontend/export/export_file.h"
#include "frontend/files/archive_kind.h"
#include "frontend/files/checkpoint.h"
#include "frontend/files/file_io.h"
#include "frontend/files/section_file.h"
#include "frontend/files/weights.h"
#include "frontend/files/zip.h"
#include "ir/support/diagnostic_printer.h"
#include "ir/support/json_fields.h"
#include "ir/support/quantities.h"
#include "ir/support/split.h"
#include "ir/support/text.h"
#include "runtime/engine/network/calibration.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"
#include "tools/reports/graph_summary.h"
#include "tools/reports/inspect_fields.h"
#include "tools/reports/op_status.h"
#include "tools/reports/remedy_words.h"
#include "tools/reports/torch_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <set>

namespace tscompile {
namespace {

struct InspectCommand {
  bool emitGraph = false;  // of an engine file
};

// One file at a time.
class Inspector {
 public:
  Inspector(Session& session, bool emitGraph)
      : session_(session), json_(session.out), isJson_(session.common.json), emitGraph_(emitGraph) {}

  int run(const std::vector<std::string>& files) {
    if (emitGraph_) return printGraphs(files);
    if (isJson_) {
      json_.beginObject();
      field()("schema", "tscompile.inspect/1");
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
    std::error_code ignored;
    if (!isInput_ && std::filesystem::is_directory(path, ignored)) return builtModel(path);
    Result<std::string> start = isInput_ ? session_.read(path) : readFileStart(path, kFileKindBytes, diagnostics);
    if (!start) return;
    name_ = isInput_ ? "<stdin>" : path;
    FileKind kind = detectFileKind(std::string_view(*start).substr(0, kFileKindBytes));
    if (isArchive(kind) && !isInput_) {
      Ref<FileMapping> mapping = FileMapping::open(path, diagnostics);
      if (!mapping) return;
      kind = detectWholeFileKind(mapping->bytes(), session_.common.limits);
    }
    head(kind);
    switch (kind) {
      case FileKind::GraphText:
      case FileKind::ModuleDump:
        graphs(path, std::move(*start));
        break;
      case FileKind::EngineFile:
        engine(path);
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
      case FileKind::TorchScript:
        torchScript(path);
        break;
      case FileKind::ExportedProgram:
        exportedProgram(path);
        break;
      case FileKind::TorchArchive:
      case FileKind::Zip:
        brokenArchive(path);
        break;
      case FileKind::TorchCheckpoint:
      case FileKind::LegacyCheckpoint:
        checkpoint(path, session_.diagnostics);
        break;
      case FileKind::Pickle: {
        Diagnostics ignored;  // most pickles are no checkpoints
        checkpoint(path, ignored);
        break;
      }
      case FileKind::Json:
        weightsIndex(path);
        break;
      case FileKind::GitLfsPointer:
        lfsPointer(*start);
        break;
      case FileKind::Empty:
      case FileKind::Binary:
        diagnostics.fileError(name_, {}, "expected a model or weights, found " + std::string(describe(kind)));
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
      field()("path", name_);
      field()("kind", describe(kind));
    } else {
      text_ += name_ + ": " + std::string(describe(kind)) + "\n";
    }
  }

  static bool isArchive(FileKind kind) { return kind == FileKind::TorchArchive || kind == FileKind::Zip; }

  // Files that are read by their names cannot come from a pipe.
  bool needsFile() {
    if (!isInput_) return true;
    session_.diagnostics.fileError(name_, {}, "tensors can be listed in files only");
    return false;
  }

  // ---- engine files ----

  int printGraphs(const std::vector<std::string>& files) {
    int code = kExitDone;
    for (const std::string& file : files) {
      printGraphOf(file);
      const int now = session_.finish();
      if (code == kExitDone) code = now;
    }
    return code;
  }

  void printGraphOf(const std::string& path) {
    const std::string name = path == "-" ? "<stdin>" : path;
    Result<std::string> start =
        path == "-" ? session_.read(path) : readFileStart(path, kFileKindBytes, session_.diagnostics);
    if (!start) return;
    FileKind kind = detectFileKind(std::string_view(*start).substr(0, kFileKindBytes));
    if (kind == FileKind::EngineFile && path != "-") {
      if (Result<SourcePtr> text = session_.readGraphText(path)) session_.out << (*text)->text();
      return;
    }
    if (Diagnostics unheard; isArchive(kind) && path != "-")
      if (Ref<FileMapping> mapping = FileMapping::open(path, unheard))
        kind = detectWholeFileKind(mapping->bytes(), session_.common.limits);
    Diagnostic& d = reportFileKind(name, "an engine file", kind, session_.diagnostics);
    if (kind == FileKind::GraphText || kind == FileKind::ModuleDump || kind == FileKind::TorchScript ||
        kind == FileKind::ExportedProgram)
      d.note("'tscompile parse' prints the graph of a model");
  }

  void engine(const std::string& path) {
    if (!needsFile()) return;
    Ref<FileMapping> mapping = FileMapping::open(path, session_.diagnostics);
    if (!mapping) return;
    Result<EngineFile> file =
        parseEngineFile(mapping->bytes(), mapping.get(), path, session_.diagnostics, session_.common.limits);
    if (!file) return;
    source_ = SourceFile::make(name_, std::move(file->graph));
    ParseOptions options;
    options.limits = session_.common.limits;
    Result<ParsedText> parsed = parseText(source_, session_.diagnostics, options);
    if (!parsed || parsed->graphs.size() != 1) return;
    uint64_t bytes = 0;
    for (const auto& [name, t] : file->tensors) bytes += static_cast<uint64_t>(t.numel()) * itemSize(t.dtype());
    const uint64_t size = mapping->bytes().size();
    const std::set<std::string> needs = foreignOperators(*parsed->graphs[0]);
    if (isJson_)
      EngineFileFields{*file,
                       size,
                       bytes,
                       *parsed->graphs[0],
                       summaryOf(*parsed->graphs[0], &*file),
                       std::vector<std::string>(needs.begin(), needs.end())}
          .fields(field());
    else
      engineText(*file, size, bytes, *parsed->graphs[0], needs);
  }

  // ---- folders of `tscompile build` ----

  void builtModel(const std::string& path) {
    Result<BuiltModel> built = readBuiltModel(path, session_.diagnostics);
    if (!built) return;
    // Only the engine's beginning was read for it.
    Ref<FileMapping> engine = FileMapping::open(built->engine, session_.diagnostics);
    if (!engine || !parseSectionFile(engine->bytes(), built->engine, session_.diagnostics)) return;
    const LanguageModelShape& s = built->shape;
    // Of a token in all layers.
    int64_t tokenBytes = s.layers * built->cache.bytesPerBlock() / built->cache.tokensPerBlock;
    if (isJson_) return writeJson(json_, BuiltModelFields{path, *built, tokenBytes});
    auto line = [&](std::string_view what, const std::string& text) {
      session_.out << fmt::format("  {:<12}{}\n", what, printable(abbreviate(text, 400)));
    };
    session_.out << path << ": a language model that was built\n";
    line("made by", "tscompile " + built->version);
    const bool isCached = hasPools(built->config.kvCacheType);
    if (isCached)
      line("model",
           fmt::format("{}, {} of size {}, {} for keys, {} tokens", counted(static_cast<uint64_t>(s.layers), "layer"),
                       counted(static_cast<uint64_t>(s.heads), "head"), s.headSize, s.kvHeads, s.vocabulary));
    else
      line("model", fmt::format("{} tokens", s.vocabulary));
    line("engine", fmt::format("{}, {}", fileNameOf(built->engine), sizeText(built->engineBytes)));
    for (const std::string& plugin : built->plugins) line("plugin", plugin);
    if (!built->states.empty())
      line("cache", join(built->states, ", ", stateText));
    else if (!isCached)
      line("cache", "none: each step computes whole texts");
    else
      line("cache",
           fmt::format("{} bytes a token, {} blocks of {} tokens, {}", tokenBytes, built->cache.blocks,
                       built->cache.tokensPerBlock,
                       sizeText(static_cast<uint64_t>(s.layers * built->cache.blocks * built->cache.bytesPerBlock()))));
    line("inputs", join(built->inputs, " ", [](const std::string& name) { return "%" + name; }));
    std::string_view rest = "settings";
    for (const auto& [name, value] : buildOptionTexts(built->usedConfig())) {
      line(rest, name + "=" + value);
      rest = "";
    }
  }

  // "float32 1x4xTx8", "int64 1x2" of two tokens.
  static std::string stateText(const KeptState& s) {
    std::string out = std::string(pythonName(s.dtype)) + " ";
    for (size_t d = 0; d < s.sizes.size(); ++d) {
      const bool grows = d == static_cast<size_t>(s.dim);
      out += (d ? "x" : "") + (!grows ? std::to_string(s.sizes[d]) : s.most ? std::to_string(s.most) : "tokens");
    }
    return out;
  }

  void engineText(const EngineFile& file, uint64_t size, uint64_t tensorBytes, const Graph& graph,
                  const std::set<std::string>& needs) {
    const EngineInfo& info = file.info;
    auto line = [&](std::string_view what, const std::string& text) {
      text_ += fmt::format("  {:<12}{}\n", what, printable(abbreviate(text, 400)));
    };
    auto list = [](const std::vector<std::string>& words) {
      return join(words, " ", [](const std::string& w) { return w; });
    };
    line("size", sizeText(size));
    line("format", fmt::format("{}, made by tscompile {}", kEngineFormat, info.version));
    line("processor", info.cpu.empty() ? "any that tscompile runs on" : "needs " + list(info.cpu));
    line("source", fmt::format("{}, checksum {}", info.source, info.sourceHash));
    for (const std::string& name : info.weights) line("weights", name);
    line("options", info.options.empty() ? "none" : join(info.options, " ", optionText));
    for (const InputRange& range : info.inputs) line("range", "%" + inputRangeText(range));
    for (const std::string& text : info.bound) line("bound", "%" + text);
    for (const std::string& text : exportedTexts(info)) line("exported", "%" + text);
    for (const std::string& text : conditionTexts(info.exported)) line("exported", "where " + text);
    for (const std::string& value : defaultsIn(file)) line("default", "%" + value);
    const size_t ranges = calibratedRanges(info.tactics);
    line("precision", std::string(precisionName(info.precision)) +
                          (ranges ? fmt::format(", with {} that examples have shown", counted(ranges, "range")) : ""));
    for (const std::string& name : needs) line("needs", name + ", which is none of tscompile's own");
    line("tensors",
         fmt::format("{}, {}, checksum {}", file.tensors.size(), sizeText(tensorBytes), tensorChecksum(file)));
    size_t index = 0;
    for (const Node* n : enginesOf(graph)) line("engine", fmt::format("{}: {}", index++, engineSummary(n)));
    line("interpreter", counted(fallbackNodes(graph), "node"));
    summary(graph, "  ", &file);
  }

  // Rows of a timing cache that say how large values are.
  static size_t calibratedRanges(std::string_view cache) {
    const std::vector<std::string_view> rows = split(cache, '\n');
    return static_cast<size_t>(
        std::ranges::count_if(rows, [](std::string_view row) { return Calibration::isRange(row); }));
  }
  // Kinds that a library, or who loads the file, has to bring.
  std::set<std::string> foreignOperators(const Graph& graph) const {
    OpFinder finder(session_.operators());
    std::set<std::string> out;
    auto look = [&](const Node* n) {
      const OpStatus status = finder.find(*n).status;
      if (status == OpStatus::Unknown) out.emplace(n->kind().text());
    };
    forEachNode(graph, [&](const Node* n) {
      look(n);
      if (n->subgraph()) forEachNode(*n->subgraph(), look);
    });
    return out;
  }

  static std::string engineSummary(const Node* n) {
    auto names = [](auto&& values) { return join(values, ", ", [](const Value* v) { return "%" + v->name(); }); };
    std::vector<const Value*> inputs;
    for (const Use& u : n->inputs()) inputs.push_back(u.value);
    return fmt::format("{}, ({}) -> ({})", counted(workNodes(*n->subgraph()), "node"), names(inputs),
                       names(n->outputs()));
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
      field()("bytes", bytes);
      field()("lines", lines);
    } else {
      text_ += fmt::format("  {:<12}{} bytes, {} lines\n", "size", bytes, lines);
    }
    if (!parsed) {
      if (isJson_) field()("readable", false);
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

  static GraphSummary summaryOf(const Graph& graph, const EngineFile* file) {
    GraphSummary s = summarize(graph);
    if (file)  // which has them
      std::erase_if(s.missing, [&](const GraphSummary::Named& constant) {
        return std::any_of(file->tensors.begin(), file->tensors.end(),
                           [&](const auto& t) { return t.first == constant.name || t.first == constant.name + ".0"; });
      });
    return s;
  }

  void summary(const Graph& graph, const std::string& margin, const EngineFile* file = nullptr) {
    show(summaryOf(graph, file), margin);
  }
  void show(const GraphSummary& s, const std::string& margin) {
    isJson_ ? writeJson(json_, s) : writeSummary(s, margin, text_);
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
    isJson_ ? field()("functions", MethodsFields{dump.functions}) : methods(dump.functions, "  function ");
  }

  void module(const DumpedModule& m, size_t depth) {
    size_t parameters = 0;
    for (const ModuleAttribute& a : m.attributes) parameters += a.isParameter;
    if (isJson_) {
      json_.newLine();
      return writeJson(json_, ModuleFields{m, depth, parameters});
    }
    // Deep trees are shown up to a depth: each level would make its line longer.
    std::string margin(2 * std::min<size_t>(depth, 20) + 2, ' ');
    text_ += margin + "module " + m.className;
    if (parameters) text_ += ", " + counted(parameters, "parameter");
    text_ += "\n";
    methods(m.methods, margin + "  method ");
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
    if (isJson_) return SafetensorsFields{*header, bytes}.fields(field());
    text_ += fmt::format("  {:<12}{}, {}\n", "tensors", header->tensors.size(), sizeText(bytes));
    for (const auto& [key, value] : header->metadata)
      text_ += fmt::format("  {:<12}{} = {}\n", "metadata", abbreviate(key, 80), abbreviate(value, 200));
    for (const TensorEntry& t : header->tensors)
      text_ += fmt::format("    {} : {} {}, {}\n", t.name, t.dtype, dimsText(t.sizes), sizeText(t.end - t.begin));
  }

  void npy(const std::string& path) {
    if (!needsFile()) return;
    Result<NpyHeader> header = readNpyHeader(path, session_.diagnostics, session_.common.limits);
    if (!header) return;
    if (isJson_) return NpyFields{*header}.fields(field());
    text_ += fmt::format("  {:<12}{} {}{}\n", "array", pythonName(header->dtype), dimsText(header->sizes),
                         header->fortranOrder ? ", in Fortran order" : "");
  }

  void npz(const std::string& path) {
    if (!needsFile()) return;
    Result<std::vector<std::string>> names = readNpzNames(path, session_.diagnostics, session_.common.limits);
    if (!names) return;
    if (isJson_) return field()("members", *names);
    for (size_t i = 0; i < names->size(); ++i) text_ += fmt::format("  {:<12}{}\n", i ? "" : "members", (*names)[i]);
  }

  // ---- PyTorch's files ----

  TorchListing torchListing() {
    return {isJson_ ? nullptr : &text_, json_, session_.diagnostics, session_.common.limits, session_.common.verbose};
  }

  void torchScript(const std::string& path) {
    Ref<FileMapping> file = FileMapping::open(path, session_.diagnostics);
    if (!file) return;
    FilePart part{file->bytes(), name_};
    auto archive = TorchArchive::read(part, file.get(), session_.diagnostics, session_.common.limits);
    if (archive) listTorchScript(**archive, file->bytes().size(), torchListing());
  }

  void exportedProgram(const std::string& path) {
    Result<ExportFile> file = readExportFile(path, session_.operators(), session_.diagnostics, session_.common.limits,
                                             UnknownOperators::Kept);
    if (!file) return;
    uint64_t bytes = 0;
    for (const auto& [name, t] : file->tensors) bytes += static_cast<uint64_t>(t.numel()) * itemSize(t.dtype());
    if (isJson_) {
      field()("tensors", file->tensors.size());
      field()("tensor_bytes", bytes);
      json_.key(file->programs.size() > 1 ? "graphs" : "graph");
    } else {
      text_ += fmt::format("  {:<12}{}, {}\n", "tensors", file->tensors.size(), sizeText(bytes));
    }
    const bool areSeveral = file->programs.size() > 1;
    if (isJson_ && areSeveral) json_.beginArray();
    for (const ExportFile::Program& p : file->programs) {
      if (!isJson_ && areSeveral) text_ += fmt::format("  {}\n", printable(p.name));
      const char* indent = areSeveral ? "    " : "  ";
      if (!isJson_)
        for (const ExportedInput& input : p.program.inputs.tensors)
          if (std::ranges::any_of(input.sizes, [](const ExportedSize& s) { return s.least != s.most; }))
            text_ += fmt::format("{}{:<12}%{}\n", indent, "exported", exportedInputText(input));
      if (!isJson_)
        for (const std::string& text : conditionTexts(p.program.inputs))
          text_ += fmt::format("{}{:<12}where {}\n", indent, "exported", text);
      if (!isJson_)
        for (const ExportedConstant& c : p.program.inputs.constants)
          text_ += fmt::format("{}{:<12}with the constant {} = {}\n", indent, "exported", printable(c.name),
                               printable(abbreviate(c.value, 80)));
      GraphSummary s = summarize(*p.program.graph);
      if (areSeveral) s.name = p.name;
      show(s, indent);
    }
    if (isJson_ && areSeveral) json_.endArray();
  }

  // What keeps an archive from being told from others, if something does.
  void brokenArchive(const std::string& path) {
    if (isInput_) return;
    Diagnostics reasons;
    if (ZipArchive::open(path, reasons, session_.common.limits)) {
      Ref<FileMapping> file = FileMapping::open(path, reasons);
      const std::string files = file && !isJson_ ? filesInside(file->bytes(), session_.common.limits) : "";
      if (!files.empty()) text_ += fmt::format("  {:<12}{}\n", "holds", printable(files));
      return;
    }
    for (const Diagnostic& d : reasons.list())
      if (d.kind != ErrorKind::Unsupported) session_.diagnostics.add(d);
  }

  void checkpoint(const std::string& path, Diagnostics& diagnostics) {
    if (!needsFile()) return;
    Ref<FileMapping> file = FileMapping::open(path, session_.diagnostics);
    if (!file) return;
    auto read = Checkpoint::read({file->bytes(), name_}, file.get(), /*foreignNames=*/true, diagnostics,
                                 session_.common.limits);
    if (read) listCheckpoint(**read, name_, file->bytes().size(), torchListing());
  }

  // Of other JSON nothing is told.
  void weightsIndex(const std::string& path) {
    if (isInput_) return;
    Ref<FileMapping> file = FileMapping::open(path, session_.diagnostics);
    if (!file) return;
    Diagnostics ignored;
    auto index = parseWeightsIndex({file->bytes(), name_}, ignored, session_.common.limits);
    if (index) listWeightsIndex(*index, torchListing());
  }

  // ---- others ----

  void lfsPointer(const std::string& text) {
    size_t at = text.find("\nsize ");
    if (at == std::string::npos) return;
    std::optional<uint64_t> bytes =
        parseCount(trim(std::string_view(text).substr(at + 6, text.find('\n', at + 6) - at - 6)));
    if (!bytes) return;
    if (isJson_)
      field()("points_to_bytes", *bytes);
    else
      text_ += fmt::format("  {:<12}a file of {}; 'git lfs pull' fetches it\n", "points to", sizeText(*bytes));
  }

  FieldWriter field() { return FieldWriter(json_); }

  Session& session_;
  JsonWriter json_;
  bool isJson_, isInput_ = false, emitGraph_ = false;
  std::string name_, text_;
  SourcePtr source_;
};

}  // namespace

static int runInspect(const Options& options, Session& session) {
  return Inspector(session, options.own.of<InspectCommand>().emitGraph).run(options.arguments);
}

namespace {

OptionSpecs inspectOptions() {
  return OptionSpecs{
      {"--emit", "summary|graph", "tell what the file is (default), or print the graph of an engine file",
       [](Options& o, const std::string& v) { o.own.of<InspectCommand>().emitGraph = v == "graph"; }},
  };
}

}  // namespace

VerbSpec inspectCommand() {
  return {.name = "inspect",
          .summary = "tell what a file is and what it holds, without executing anything",
          .argument = "FILE",
          .argumentHelp = "any file; -: standard input",
          .argumentRequired = true,
          .argumentRepeats = true,
          .details =
              "Knows graph text, module dumps, engine files, folders of build, safetensors, .npy and .npz, and\n"
              "names other formats. 'tscompile FILE' means the same.\n",
          .options = inspectOptions(),
          .command = runInspect};
}

}  // namespace tscompile
