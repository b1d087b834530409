#include "api/support/loaded_weights.h"

#include "api/support/wrapper_part.h"
#include "frontend/files/tensor_formats.h"
#include "ir/support/split.h"
#include "ir/support/text.h"
#include "ir/values/error.h"
#include "runtime/reference/loops/copy.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace tscompile {
namespace {

class WeightsLoader {
 public:
  WeightsLoader(const ModelContents& model, Weights& given, const std::string& path, Diagnostics& diagnostics)
      : model_(model), path_(path), diagnostics_(diagnostics), given_(given) {}

  bool load(const std::vector<std::string>& stored) {
    const size_t before = diagnostics_.errorCount();
    wrapper_ = wrapperPart(stored, given_.names());
    if (!wrapper_.empty()) diagnostics_.remark({}, wrapperText(wrapper_));
    findWrapped(stored);
    try {
      for (const std::string& name : given_.names()) take(std::string(given_.shortest(name)));
    } catch (const ExecutionError& e) {
      diagnostics_.error(e.message(), e.kind());
    }
    for (const std::string& name : stored)
      if (const Weights::Refused* r = given_.refusedAt(name))
        diagnostics_.fileError(r->file, {}, tensorText(r->name) + ": " + r->why, ErrorKind::Unsupported);
    if (diagnostics_.errorCount() != before) return false;
    if (copies_.empty()) return reportStrangers(stored);
    moveAll();
    tellKept(stored);
    return true;
  }

 private:
  // The tensor of the model at a path; undefined if there is none.
  Tensor find(const std::string& name) const {
    if (model_.objects.empty()) {
      const Tensor* found = model_.tensors.peek(name);
      return found ? *found : Tensor();
    }
    const IValue* at = nullptr;
    const std::vector<std::string_view> parts = split(name, '.');
    for (size_t i = 0; i < parts.size(); ++i) {
      if (at && !at->isObject()) return {};
      ObjectValue& object = at ? at->toObject() : *model_.objects[0];
      at = object.find(Symbol::of(parts[i]));
      if (!at) return {};
    }
    return at && at->isTensor() ? at->toTensor() : Tensor();
  }

  // The name of a weight without what wraps parts of the model, and the first of these.
  struct Unwrapped {
    std::string name, wrapper;
  };
  // What torch.compile and others put around a part of a model stands within the names of weights:
  // "body._orig_mod.weight".
  void findWrapped(const std::vector<std::string>& stored) {
    std::unordered_set<std::string_view> parts;
    for (const std::string& name : stored)
      for (std::string_view part : split(name, '.')) parts.insert(part);
    std::unordered_map<std::string, int> counts;
    for (const std::string& full : given_.names()) {
      const std::string name(given_.shortest(full));
      const std::vector<std::string_view> all = split(name, '.');
      Unwrapped inside;
      for (size_t i = 0; i < all.size(); ++i)  // the last one is the weight itself
        if (i + 1 == all.size() || !all[i].starts_with('_') || parts.contains(all[i]))
          inside.name += (inside.name.empty() ? "" : ".") + std::string(all[i]);
        else if (inside.wrapper.empty())
          inside.wrapper = all[i];
      if (inside.wrapper.empty() || given_.peek(inside.name)) continue;
      ++counts[inside.name];
      unwrapped_.emplace(name, std::move(inside));
    }
    std::erase_if(unwrapped_, [&](const auto& entry) { return counts[entry.second.name] > 1; });
  }

  // Of several programs, all that have a tensor of the name and the sizes take it.
  void take(const std::string& name) {
    if (const Tensor to = find(wrapper_ + name); to.defined()) return put(to, name);
    if (const auto inside = unwrapped_.find(name); inside != unwrapped_.end())
      if (const Tensor to = find(inside->second.name); to.defined()) {
        if (!std::exchange(toldWrapped_, true))
          diagnostics_.remark({}, fmt::format("parts such as '{}' in the names of the weights are left out",
                                              abbreviate(inside->second.wrapper, 80)));
        return put(to, name);
      }
    std::vector<Tensor> places;
    for (const std::string& program : model_.programs)
      if (Tensor to = find(program + "." + wrapper_ + name); to.defined()) places.push_back(std::move(to));
    const Tensor* from = places.empty() ? nullptr : given_.peek(name);
    auto fits = [&](const Tensor& to) { return from && std::ranges::equal(to.sizes(), from->sizes()); };
    if (std::ranges::any_of(places, fits)) std::erase_if(places, [&](const Tensor& to) { return !fits(to); });
    for (const Tensor& to : places) put(to, name);
  }

  void put(const Tensor& to, const std::string& name) {
    Tensor from = *given_.find(name);
    // Before PyTorch 0.4 there was no tensor without dimensions.
    if (to.rank() == 0 && from.rank() == 1 && from.numel() == 1)
      from = from.withGeometry(Dims(), Dims(), from.offset());
    if (to.storage()->quantization()) return refuse(name, "it is quantised in the model", ErrorKind::Unsupported);
    if (!std::ranges::equal(to.sizes(), from.sizes()))
      return refuse(name, fmt::format("its sizes are [{}], those in the model [{}]", fmt::join(from.sizes(), ", "),
                                      fmt::join(to.sizes(), ", ")));
    Ref<Storage>& copy = copies_[to.storage().get()];
    if (!copy) {
      copy = Storage::allocate(to.storage()->bytes());
      if (copy->bytes() > 0) std::memcpy(copy->data(), to.storage()->data(), copy->bytes());
    }
    copyTensor(Tensor::view(to.dtype(), copy, to.sizes(), to.strides(), to.offset()), from);
  }

  void refuse(const std::string& name, const std::string& why, ErrorKind kind = ErrorKind::Input) {
    diagnostics_.fileError(std::string(given_.fileOf(name)), {}, tensorText(name) + ": " + why, kind);
  }

  bool reportStrangers(const std::vector<std::string>& stored) {
    Diagnostic& d = diagnostics_.fileError(path_, {}, "the weights have no tensor of the model");
    if (stored.empty()) {
      d.note("it has no parameters: freezing makes constants of them");
      return false;
    }
    const std::vector<std::string> names = given_.names();
    const std::string advice = given_.adviceFor(stored[0]);
    if (!advice.empty())
      d.note(advice);
    else if (!names.empty())
      d.note(fmt::format("the first of {} is '{}', that of the model '{}'", counted(names.size(), "tensor"),
                         abbreviate(names[0], 200), abbreviate(stored[0], 200)));
    return false;
  }

  // Tensors that share memory with what was written are views of the copy.
  void moveAll() {
    for (const auto& [from, copy] : copies_) copy->makeReadOnly();
    for (const Ref<ObjectValue>& object : model_.objects) move(IValue(object));
    for (const std::string& name : model_.tensors.names()) move(*model_.tensors.peek(name));
    while (!todo_.empty()) {
      const IValue value = std::move(todo_.back());
      todo_.pop_back();
      moveParts(value);
    }
  }

  void move(const IValue& value) {
    if (value.isTensor()) return move(value.toTensor());
    const bool hasParts = value.isObject() || value.isList() || value.isTuple() || value.isDict();
    if (hasParts && seen_.insert(value.object()).second) todo_.push_back(value);
  }

  void moveParts(const IValue& value) {
    if (value.isObject())
      for (const auto& [name, part] : value.toObject().attributes) move(part);
    else if (value.isList())
      for (const IValue& item : value.toList().items) move(item);
    else if (value.isTuple())
      for (const IValue& item : value.toTuple().items) move(item);
    else
      value.toDict().forEachValue([&](const IValue& item) { move(item); });
  }

  void move(const Tensor& t) {
    if (!t.defined()) return;
    auto found = copies_.find(t.storage().get());
    if (found != copies_.end()) t.impl()->setStorage(found->second, Dims(t.sizes()), Dims(t.strides()), t.offset());
  }

  void tellKept(const std::vector<std::string>& stored) {
    std::unordered_set<const Storage*> written;
    for (const auto& [from, copy] : copies_) written.insert(copy.get());
    std::vector<std::string> kept;
    for (const std::string& name : stored) {
      const Tensor t = find(name);
      if (t.defined() && !written.count(t.storage().get())) kept.push_back(name);
    }
    if (kept.empty()) return;
    const std::string others = kept.size() == 1 ? "" : fmt::format(" and {} more", kept.size() - 1);
    diagnostics_.warning({}, fmt::format("the weights lack '{}'{}, which keep{} what the model file has", kept[0],
                                         others, kept.size() == 1 ? "s" : ""));
  }

  const ModelContents& model_;
  const std::string& path_;
  Diagnostics& diagnostics_;
  Weights& given_;
  std::string wrapper_;                                   // in front of the names that are given
  std::unordered_map<std::string, Unwrapped> unwrapped_;  // by their names
  bool toldWrapped_ = false;
  std::unordered_map<const Storage*, Ref<Storage>> copies_;  // of memory of the model that is written
  std::unordered_set<const RefCounted*> seen_;
  std::vector<IValue> todo_;
};

}  // namespace

bool addExported(Weights& weights, const std::string& path, ExportFile& file, Diagnostics& diagnostics) {
  for (auto& [name, tensor] : file.tensors)
    if (!weights.add(name, std::move(tensor))) {
      diagnostics.fileError(path, {}, "the file has '" + abbreviate(name, 80) + "' twice");
      return false;
    }
  return true;
}

bool addWeightsFile(Weights& weights, const std::string& path, const OpRegistry& registry, const Limits& limits,
                    Diagnostics& diagnostics, bool constants) {
  if (!isExportFile(path)) return weights.addFile(path, diagnostics, limits);
  Result<ExportFile> file = readExportFile(path, registry, diagnostics, limits, UnknownOperators::Kept);
  if (!file) return false;
  if (!constants)
    std::erase_if(file->tensors, [&](const auto& t) { return !std::ranges::count(file->stored, t.first); });
  return addExported(weights, path, *file, diagnostics);
}

bool loadWeights(const ModelContents& model, Weights& given, const std::string& path,
                 const std::vector<std::string>& stored, Diagnostics& diagnostics) {
  return WeightsLoader(model, given, path, diagnostics).load(stored);
}

std::vector<std::string> parameterNames(const ModuleDump& dump, std::span<const Ref<ObjectValue>> objects) {
  std::unordered_map<const RefCounted*, std::string> paths{{objects[0].get(), ""}};
  std::vector<std::string> names;
  for (size_t i = 0; i < objects.size(); ++i) {  // children come after their parents
    const std::string path = paths[objects[i].get()];
    for (const auto& [name, value] : objects[i]->attributes)
      if (value.isObject()) paths.try_emplace(value.object(), fmt::format("{}{}.", path, name.text()));
    for (const ModuleAttribute& a : dump.modules[i].attributes)
      if (a.isParameter) names.push_back(path + a.name);
  }
  return names;
}

}  // namespace tscompile
