// Where the time of runs goes as JSON: "tscompile.profile/1", times in microseconds of one run.
#pragma once

#include "api/profile/run_profile.h"
#include "ir/graph/module_path.h"
#include "ir/support/json_fields.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace tscompile {

struct ProfileJson {
  const RunProfile& profile;

  struct LayerFields {
    const RunProfile::Layer& layer;
    double us, share;

    template <class Visit>
    void fields(Visit&& visit) const {
      visit("node", layer.node);
      visit("module", layer.source ? modulePath(layer.source) : "");
      visit("layer", layer.name);
      visit("native", layer.isNative);
      if (!layer.why.empty()) visit("why_kernel", layer.why);
      visit("shapes", layer.shapes);
      visit("us", us);
      visit("share", share);
      visit("flops", layer.flops);
      visit("bytes", layer.bytes);
      visit("calls", layer.calls);
    }
  };
  struct EngineFields {
    double us;
    size_t calls;
    std::vector<LayerFields> layers;

    template <class Visit>
    void fields(Visit&& visit) const {
      visit("us", us);
      visit("calls", calls);
      visit("layers", Lines{layers});
    }
  };
  struct NodeFields {
    const RunProfile::Interpreted& node;
    double us, share;

    template <class Visit>
    void fields(Visit&& visit) const {
      visit("node", node.node);
      visit("module", node.source ? modulePath(node.source) : "");
      visit("operator", node.name);
      visit("us", us);
      visit("share", share);
      visit("bytes", node.bytes / static_cast<double>(std::max<size_t>(1, node.calls)));
      visit("calls", node.calls);
    }
  };
  struct TotalFields {
    std::string name;
    double us, share;
    size_t parts;

    template <class Visit>
    void fields(Visit&& visit) const {
      visit("name", name);
      visit("us", us);
      visit("share", share);
      visit("parts", parts);
    }
  };
  struct BorderFields {
    double us, bytes;
    size_t calls;

    template <class Visit>
    void fields(Visit&& visit) const {
      visit("us", us);
      visit("bytes", bytes);
      visit("calls", calls);
    }
  };

  template <class Visit>
  void fields(Visit&& visit) const {
    const RunProfile& p = profile;
    visit("schema", "tscompile.profile/1");
    visit("runs", p.runs);
    visit("runs_left_out", p.leftOut);
    visit("run_us", p.perRun(p.time));
    visit("native_share", p.layerShare(true));
    visit("kernel_share", p.layerShare(false));
    visit("interpreter_share", p.interpreterShare());
    visit("engines", Lines{engines()});
    visit("nodes", Lines{nodes()});
    visit("borders",
          Line{BorderFields{p.perRun(p.calls.time - p.inEngines()), p.perRun(p.calls.bytes), p.calls.calls}});
    visit("modules", Lines{totals(p.totalsByModule())});
    visit("operators", Lines{totals(p.totalsByOperator())});
    visit("steps_us", p.perRun(p.steps));
    visit("rest_us", p.perRun(p.time - p.timed()));
  }

 private:
  std::vector<EngineFields> engines() const;
  std::vector<NodeFields> nodes() const;
  std::vector<TotalFields> totals(const std::vector<RunProfile::Total>& totals) const;
};

}  // namespace tscompile
