#include "tools/reports/sarif.h"

#include "ir/support/json_fields.h"

#include <fmt/core.h>

#include <cctype>
#include <vector>

namespace tscompile {
namespace {

// A path as a relative reference.
std::string uriOf(std::string_view path) {
  std::string out;
  for (char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool isPlain = std::isalnum(byte) || std::string_view("-._~/").find(c) != std::string_view::npos;
    out += isPlain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return out;
}

struct Text {
  std::string text;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("text", text);
  }
};

struct Region {
  LineColumn begin, end;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("startLine", begin.line);
    visit("startColumn", begin.column);
    visit("endLine", end.line);
    visit("endColumn", end.column);
  }
};

struct Artifact {
  std::string uri;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("uri", uri);
  }
};

struct PhysicalLocation {
  Artifact artifact;
  std::optional<Region> region;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("artifactLocation", artifact);
    visit("region", region);
  }
};

struct Location {
  PhysicalLocation physical;
  std::optional<Text> message = {};

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("physicalLocation", physical);
    visit("message", message);
  }
};

struct Finding {
  std::string_view level;
  Text message;
  std::vector<Location> locations, related;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("level", level);
    visit("message", message);
    visit("locations", locations);
    if (!related.empty()) visit("relatedLocations", related);
  }
};

struct Driver {
  std::string_view version;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("name", "tscompile");
    visit("version", version);
  }
};

struct Tool {
  Driver driver;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("driver", driver);
  }
};

struct Run {
  Tool tool;
  std::vector<Finding> results;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("tool", tool);
    visit("results", Lines{results});
  }
};

struct Log {
  std::vector<Run> runs;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("$schema", "https://json.schemastore.org/sarif-2.1.0.json");
    visit("version", "2.1.0");
    visit("runs", runs);
  }
};

std::optional<PhysicalLocation> placeOf(const Diagnostic& d) {
  if (d.range.valid())
    return PhysicalLocation{{uriOf(d.range.file->path())},
                            Region{d.range.file->lineColumn(d.range.begin), d.range.file->lineColumn(d.range.end)}};
  if (!d.path.empty()) return PhysicalLocation{{uriOf(d.path)}, {}};
  return std::nullopt;
}

Finding findingOf(const Diagnostic& d) {
  Finding out{d.severity == Severity::Error     ? "error"
              : d.severity == Severity::Warning ? "warning"
                                                : "note",
              {d.message},
              {},
              {}};
  if (auto place = placeOf(d)) out.locations.push_back({std::move(*place)});
  for (const Diagnostic& note : d.notes) {
    if (auto place = placeOf(note))
      out.related.push_back({std::move(*place), Text{note.message}});
    else
      out.message.text += "; " + note.message;
  }
  return out;
}

}  // namespace

void writeSarif(std::ostream& out, std::span<const Diagnostic> findings, std::string_view version) {
  Run run{{{version}}, {}};
  for (const Diagnostic& d : findings) run.results.push_back(findingOf(d));
  writeJson(out, Log{{std::move(run)}});
}

}  // namespace tscompile
