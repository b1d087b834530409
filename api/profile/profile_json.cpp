#include "api/profile/profile_json.h"

namespace tscompile {

std::vector<ProfileJson::EngineFields> ProfileJson::engines() const {
  std::vector<EngineFields> out;
  for (const RunProfile::Engine& e : profile.engines) {
    EngineFields& engine = out.emplace_back(EngineFields{profile.perRun(e.time), e.calls, {}});
    for (const RunProfile::Layer& l : e.layers)
      engine.layers.push_back({l, profile.perRun(l.time), l.time / profile.time});
  }
  return out;
}

std::vector<ProfileJson::NodeFields> ProfileJson::nodes() const {
  std::vector<NodeFields> out;
  for (const RunProfile::Interpreted& n : profile.nodes)
    out.push_back({n, profile.perRun(n.time), n.time / profile.time});
  return out;
}

std::vector<ProfileJson::TotalFields> ProfileJson::totals(const std::vector<RunProfile::Total>& totals) const {
  std::vector<TotalFields> out;
  for (const RunProfile::Total& t : totals)
    out.push_back({t.name, profile.perRun(t.time), t.time / profile.time, t.parts});
  return out;
}

}  // namespace tscompile
