#include "api/refit.h"

#include "api/compile_settings.h"
#include "api/model_file.h"
#include "api/module_state.h"
#include "api/support/graph_parts.h"
#include "api/support/loaded_weights.h"
#include "api/support/wrapper_part.h"
#include "frontend/files/archive_kind.h"
#include "frontend/files/file_io.h"
#include "frontend/files/weights.h"
#include "ir/support/remedy.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

namespace tscompile {
namespace {

constexpr size_t kMostNames = 8;  // of a list in a message
constexpr std::string_view kAttributeKey = "attribute:";

std::string formText(const Tensor& t) {
  return fmt::format("{} [{}]", pythonName(t.dtype()),
                     join(t.sizes(), ", ", [](int64_t size) { return std::to_string(size); }));
}

std::string listText(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) shown.push_back(abbreviate(names[i], 80));
  std::string out = join(shown, ", ", [](const std::string& name) { return name; });
  return names.size() > kMostNames ? fmt::format("{} and {} more", out, names.size() - kMostNames) : out;
}

// Puts new weights in the place of old ones, and reports each that does not fit.
class NewWeights {
 public:
  NewWeights(const RefitSource& source, const RefitOptions& options, Diagnostics& diagnostics)
      : options_(options), diagnostics_(diagnostics), out_(source) {}

  std::shared_ptr<const RefitSource> run() {
    size_t before = diagnostics_.errorCount();
    bool readable = true;
    for (const std::string& file : options_.weights) readable &= addFile(file);
    if (!readable) return nullptr;  // what it has is not missing
    findWrapper();
    for (const std::string& name : given_.names()) take(name);
    for (const auto& [key, file] : attributeFiles_) takeAttribute(key, file);
    checkComplete();
    tellPassedOver();
    if (diagnostics_.errorCount() != before) return nullptr;
    if (isComplete()) {
      out_.files.clear();
      std::erase_if(out_.unread, [&](const std::string& name) { return !isGiven(name); });
    }
    nameFiles();
    return std::make_shared<RefitSource>(std::move(out_));
  }

 private:
  bool addFile(const std::string& file) {
    const LoadOptions& load = options_.load;
    const OpRegistry& registry = registryOf(load);
    if (!addWeightsFile(given_, file, registry, load.limits, diagnostics_, /*constants=*/false)) return false;
    if (modelFileOf(file) == ModelFile::Export) {
      Weights whole;
      if (!addWeightsFile(whole, file, registry, load.limits, diagnostics_)) return false;
      for (const std::string& name : whole.names())
        if (!given_.has(name)) constants_.insert(name);
    }
    for (const auto& [key, value] : given_.metadata())
      if (startsWith(key, kAttributeKey)) attributeFiles_.try_emplace(key, file);
    return true;
  }

  void findWrapper() {
    std::vector<std::string> stored;
    for (const auto& [name, tensor] : out_.weights)
      if (!isConstant(name)) stored.push_back(name);
    wrapper_ = wrapperPart(stored, given_.names());
    if (!wrapper_.empty()) diagnostics_.remark({}, wrapperText(wrapper_));
  }

  bool isGiven(const std::string& name) const {
    return given_.has(name) ||
           (!wrapper_.empty() && startsWith(name, wrapper_) && given_.has(name.substr(wrapper_.size())));
  }

  auto at(const std::string& name) {
    auto found = std::lower_bound(out_.weights.begin(), out_.weights.end(), name,
                                  [](const auto& weight, const std::string& n) { return weight.first < n; });
    return found != out_.weights.end() && found->first == name ? found : out_.weights.end();
  }

  void take(const std::string& name) {
    auto old = at(wrapper_ + name);
    if (old == out_.weights.end()) return unknown(name);
    const Tensor& tensor = *given_.peek(name);
    bool fits =
        tensor.dtype() == old->second.dtype() && std::equal(tensor.sizes().begin(), tensor.sizes().end(),
                                                            old->second.sizes().begin(), old->second.sizes().end());
    if (!fits) return fail(name, fmt::format("is {} in the model, not {}", formText(old->second), formText(tensor)));
    old->second = tensor;
  }

  void takeAttribute(const std::string& key, const std::string& file) {
    auto old = out_.attributes.find(key);
    if (old != out_.attributes.end()) {
      old->second = given_.metadata().find(key)->second;
      return;
    }
    std::string name = attributeName(key);
    NearestName nearest(name);
    std::vector<std::string> names;
    for (const auto& [known, value] : out_.attributes)
      if (isAttribute(known)) names.push_back(attributeName(known));
    for (const std::string& known : names) nearest.consider(known);
    diagnostics_.fileError(file, {},
                           "attribute '" + abbreviate(name, 80) + "' is not in the model" + suggestion(nearest));
  }

  // Else it is a default of an input, or says that a weight is a constant.
  static bool isAttribute(const std::string& key) { return startsWith(key, kAttributeKey); }
  static std::string attributeName(const std::string& key) { return key.substr(kAttributeKey.size()); }
  static std::string suggestion(const NearestName& nearest) {
    return nearest.found() ? ", did you mean '" + nearest.name() + "'?" : "";
  }

  void fail(const std::string& name, const std::string& what) {
    diagnostics_.fileError(std::string(given_.fileOf(name)), {}, "weight '" + abbreviate(name, 80) + "' " + what);
  }

  void unknown(const std::string& name) {
    // A file of all weights has those that nothing reads, too.
    if (std::find(out_.unread.begin(), out_.unread.end(), wrapper_ + name) != out_.unread.end()) return;
    NearestName nearest(name);
    for (const auto& [known, tensor] : out_.weights) nearest.consider(known);
    if (nearest.found() && !given_.has(nearest.name())) return fail(name, "is not in the model" + suggestion(nearest));
    passedOver_.push_back(name);
  }

  // A state_dict has what only training needs, and one file may serve several models.
  void tellPassedOver() {
    if (passedOver_.empty()) return;
    if (passedOver_.size() == given_.names().size()) {
      diagnostics_.error("the model reads none of the weights that are given", ErrorKind::Input);
      return;
    }
    diagnostics_.warning({}, fmt::format("{} {} not in the model: {}", counted(passedOver_.size(), "weight"),
                                         passedOver_.size() == 1 ? "is" : "are", listText(passedOver_)));
  }

  void checkComplete() {
    std::vector<std::string> weights, attributes;
    for (const auto& [name, tensor] : out_.weights)
      if (!isGiven(name) && !isConstant(name)) weights.push_back(name);
    for (const auto& [key, value] : out_.attributes)
      if (isAttribute(key) && !attributeFiles_.contains(key) && !isConstant(key))
        attributes.push_back(attributeName(key));
    // Numbers of a module are not in a state_dict, and loading one leaves them.
    const bool isCheckpoint = attributeFiles_.empty();
    options_.partial ? tellKept("weight", weights) : reportMissing("weight", weights);
    options_.partial || isCheckpoint ? tellKept("attribute", attributes) : reportMissing("attribute", attributes);
  }

  void tellKept(std::string_view what, const std::vector<std::string>& names) {
    if (names.empty()) return;
    const bool isOne = names.size() == 1;
    diagnostics_.remark({}, fmt::format("{} {} as {}, not given with the weights: {}", counted(names.size(), what),
                                        isOne ? "stays" : "stay", isOne ? "it is" : "they are", listText(names)));
  }

  // What is no tensor of an archive's state_dict stays, and what exported programs only number: another program may
  // have another constant by that name.
  bool isConstant(const std::string& name) const {
    return constants_.contains(name) || out_.attributes.contains(std::string(kConstantOf) + name);
  }

  void reportMissing(std::string_view what, const std::vector<std::string>& names) {
    if (names.empty()) return;
    diagnostics_
        .error(fmt::format("{} {} not given: {}", counted(names.size(), what), names.size() == 1 ? "was" : "were",
                           listText(names)),
               ErrorKind::Input)
        .note(textOf(Remedy::Kind::KeepOthers));
  }

  // Then nothing of the old weights counts.
  bool isComplete() const {
    return std::all_of(out_.weights.begin(), out_.weights.end(),
                       [&](const auto& weight) { return isGiven(weight.first) || isConstant(weight.first); }) &&
           std::all_of(out_.attributes.begin(), out_.attributes.end(), [&](const auto& a) {
             return !isAttribute(a.first) || attributeFiles_.contains(a.first) || isConstant(a.first);
           });
  }

  // Where the weights come from, as far as they are known to.
  void nameFiles() {
    for (const std::string& path : options_.weights) {
      std::string name = fileNameOf(path);
      if (std::find(out_.files.begin(), out_.files.end(), name) == out_.files.end()) out_.files.push_back(name);
    }
  }

  const RefitOptions& options_;
  Diagnostics& diagnostics_;
  RefitSource out_;
  Weights given_;
  std::set<std::string> constants_;                    // of the programs that are given
  std::string wrapper_;                                // in front of the names that are given
  std::vector<std::string> passedOver_;                // names that the model has not
  std::map<std::string, std::string> attributeFiles_;  // the first file that has it, by key
};

// The settings that made an engine, as its file has them.
Result<CompileSpec> specOf(const EngineInfo& info, const std::string& path, Diagnostics& diagnostics) {
  CompileSpec spec;
  Result<EngineOptions> engine = info.engineOptions(path, diagnostics);
  if (!engine) return Failed{};
  spec.engine = std::move(*engine);
  for (const std::string& text : info.options) {
    if (applySetting(spec, text)) continue;
    diagnostics.fileError(path, {},
                          "it was compiled with the setting '" + abbreviate(text, 80) + "', which is not known here",
                          ErrorKind::Incompatible);
    return Failed{};
  }
  return spec;
}

}  // namespace

std::shared_ptr<const RefitSource> refittedSource(const std::string& path, const RefitSource* source,
                                                  const RefitOptions& options, Diagnostics& diagnostics) {
  if (!source) {
    diagnostics.fileError(path, {}, "the engine was not made to be refitted", ErrorKind::Unsupported)
        .note(textOf(Remedy::Kind::MakeRefittable));
    return nullptr;
  }
  return NewWeights(*source, options, diagnostics).run();
}

bool refitEngine(const std::string& path, const RefitOptions& options, const std::string& output,
                 Diagnostics& diagnostics) {
  LoadOptions load = options.load;
  load.weights.clear();
  if (!isEngineFile(path)) {
    reportOtherKind(path, "an engine file", diagnostics);
    return false;
  }
  Result<Module> old = Module::load(path, load, diagnostics);
  if (!old) return false;
  if (old->refitSource() && old->refitSource()->isLanguageModel) {
    diagnostics.fileError(path, {}, "this engine belongs to a language model, whose folder is refitted as a whole");
    return false;
  }
  std::shared_ptr<const RefitSource> source = refittedSource(path, old->refitSource(), options, diagnostics);
  if (!source) return false;
  Result<CompileSpec> spec = specOf(*old->engineInfo(), path, diagnostics);
  if (!spec) return false;
  spec->lowering.limits = load.limits;
  Result<Module> module = Module::fromRefitSource(*source, load, diagnostics);
  if (!module) return false;
  Result<Module> compiled = module->compiled(*spec, diagnostics);
  return compiled && compiled->save(output, diagnostics, load.limits);
}

}  // namespace tscompile
