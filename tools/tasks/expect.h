// Holds what a run returns against values that it is expected to return.
#pragma once

#include "api/verify.h"
#include "ir/support/json_fields.h"
#include "tools/options/options.h"
#include "tools/session/session.h"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace tscompile {

struct Expectations {
  std::vector<std::string> texts;  // DIR, @FILE or N=@FILE
  Tolerance tolerance;
  std::map<size_t, Tolerance> ofOutput;  // by position

  bool saysTolerance = false;  // one of them was given

  bool empty() const { return texts.empty(); }
};
// "1e-3", or "0=1e-3" of one output.
void setTolerance(Expectations& expectations, double Tolerance::*which, std::string_view option,
                  const std::string& text);

// How many elements are how many steps of their dtype away from what they should be.
struct UlpHistogram {
  static constexpr size_t kClasses = 6;
  static constexpr std::string_view kNames[kClasses] = {"0", "1", "2-4", "5-16", "17-1024", "more"};
  size_t counts[kClasses] = {};
  size_t all() const;
};
// Of tensors of one floating dtype and the same sizes; nothing is counted for others.
UlpHistogram ulpHistogram(const Tensor& got, const Tensor& want);

struct ExpectedOutput {
  std::string name;
  Difference difference;
  Tolerance tolerance;
  UlpHistogram ulps;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("name", name);
    visit("within", difference.within);
    if (!difference.wrong.empty()) visit("wrong", difference.wrong);
    visit("largest", difference.largest);
    visit("smallest_rtol", difference.relative);
    visit("smallest_atol", difference.absolute);
    visit("nan_in_both", difference.notNumbers);
    visit("rtol", tolerance.relative);
    visit("atol", tolerance.absolute);
    std::vector<size_t> counts(std::begin(ulps.counts), std::end(ulps.counts));
    visit("ulps", counts);
  }
};

struct ExpectationReport {
  std::vector<ExpectedOutput> outputs;

  bool passed() const;
  // `judges`: the last line is PASSED or FAILED.
  void writeText(std::ostream& out, bool judges = true) const;
  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", "tscompile.expect/1");
    visit("passed", passed());
    visit("outputs", Lines{outputs});
  }
};

// A folder holds the tensors among the outputs as 'run --outputs' writes them, and its outputs.json tells the rest.
// Nothing after reporting files that cannot be read. Throws UsageError for outputs that are not there.
Result<ExpectationReport> compareOutputs(std::span<const IValue> outputs, const Expectations& expectations,
                                         Session& session);
// Of outputs that are others: that --shape alone was given, whose inputs are random.
void tellRandomInputs(const Options& options, Session& session);

}  // namespace tscompile
