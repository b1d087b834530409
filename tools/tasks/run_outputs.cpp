#include "tools/tasks/run_outputs.h"

#include "api/value_text.h"
#include "frontend/files/file_io.h"
#include "frontend/files/made_folder.h"
#include "frontend/files/weights.h"
#include "ir/support/json_writer.h"
#include "ir/support/text.h"
#include "ir/values/error.h"
#include "ir/values/literal.h"
#include "ir/values/quantization.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <sstream>

namespace tscompile {
namespace {

struct Statistics {
  double least = 0, greatest = 0, mean = 0;
};

// Of a real tensor with elements. NaN anywhere makes all of them NaN, as in PyTorch.
Statistics statistics(const Tensor& given) {
  // Elements that stand for many count once: the mean stays what it is.
  Dims sizes(given.sizes());
  for (int d = 0; d < given.rank(); ++d)
    if (given.stride(d) == 0) sizes[static_cast<size_t>(d)] = 1;
  const Tensor t = given.withGeometry(sizes, given.strides(), given.offset());
  Statistics s{HUGE_VAL, -HUGE_VAL, 0};
  double sum = 0;
  bool anyNaN = false;
  auto take = [&](double v) {
    anyNaN |= std::isnan(v);
    s.least = std::min(s.least, v);
    s.greatest = std::max(s.greatest, v);
    sum += v;
  };
  bool read = t.isContiguous() && visitDType(t.dtype(), [&](auto zero) {
                using T = decltype(zero);
                const T* data = t.data<T>();
                for (int64_t i = 0; i < t.numel(); ++i) {
                  if constexpr (std::is_arithmetic_v<T>)
                    take(static_cast<double>(data[i]));
                  else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
                    take(static_cast<float>(data[i]));
                }
              });
  for (int64_t i = 0; !read && i < t.numel(); ++i) take(t.real(i));
  s.mean = sum / static_cast<double>(t.numel());
  if (anyNaN) s = {NAN, NAN, NAN};
  return s;
}

bool hasStatistics(const Tensor& t) { return t.numel() > 0 && !isComplex(t.dtype()); }

// ---- outputs.json ----

// Writes values as JSON objects; what a tensor's object says is up to `tensor`.
class OutputWriter {
 public:
  using TensorFields = std::function<void(const Tensor&)>;
  OutputWriter(JsonWriter& json, TensorFields tensor) : json_(json), tensor_(std::move(tensor)) {}

  void write(const IValue& v) {
    json_.beginObject();
    switch (v.tag()) {
      case IValue::Tag::None:
        none();
        break;
      case IValue::Tag::Bool:
        scalar("bool", v.toBool());
        break;
      case IValue::Tag::Int:
        scalar("int", v.toInt());
        break;
      case IValue::Tag::Float:
        scalar("float", v.toFloat());
        break;
      case IValue::Tag::String:
        scalar("str", v.toString());
        break;
      case IValue::Tag::Device:
        scalar("Device", deviceText(v.toDevice()));
        break;
      case IValue::Tag::Complex: {
        json_.field("type", "complex");
        json_.key("value");
        json_.beginArray();
        json_.value(v.toComplex().real());
        json_.value(v.toComplex().imag());
        json_.endArray();
        break;
      }
      case IValue::Tag::Tensor:
        tensor(v);
        break;
      case IValue::Tag::List:
        items("List", v.toList().items);
        break;
      case IValue::Tag::Tuple:
        items("Tuple", v.toTuple().items);
        break;
      case IValue::Tag::Dict:
        dict(v.toDict());
        break;
      default:
        json_.field("type", typeText(dynamicType(v)));
        json_.field("repr", valueText(v, LiteralStyle::Plain));
    }
    json_.endObject();
  }

 private:
  void none() { json_.field("type", "None"); }
  template <class T>
  void scalar(const char* type, const T& value) {
    json_.field("type", type);
    json_.field("value", value);
  }
  void tensor(const IValue& v) {
    if (!v.tensorImpl()) return none();
    Tensor t = v.toTensor();
    json_.field("type", "Tensor");
    json_.field("dtype", pythonName(t.dtype()));
    json_.key("shape");
    json_.beginArray();
    for (int64_t s : t.sizes()) json_.value(s);
    json_.endArray();
    tensor_(t);
  }
  void items(const char* type, const std::vector<IValue>& list) {
    json_.field("type", type);
    json_.key("items");
    json_.beginArray();
    for (const IValue& item : list) write(item);
    json_.endArray();
  }
  void dict(const DictValue& d) {
    json_.field("type", "Dict");
    json_.key("items");
    json_.beginArray();
    d.forEach([&](const IValue& key, const IValue& value) {
      json_.beginArray();
      write(key);
      write(value);
      json_.endArray();
    });
    json_.endArray();
  }

  JsonWriter& json_;
  TensorFields tensor_;
};

void writeList(std::span<const IValue> values, JsonWriter& json, OutputWriter::TensorFields tensor) {
  OutputWriter writer(json, std::move(tensor));
  json.beginArray();
  for (const IValue& v : values) {
    json.newLine();
    writer.write(v);
  }
  json.newLine();
  json.endArray();
}

// The name of the file of a tensor: they are numbered as they come. Of quantised tensors it has the integers.
std::string fileNameOf(const Tensor& t, size_t number) {
  return std::to_string(number) + (hasNpyType(storedAs(t.dtype())) ? ".npy" : ".safetensors");
}

// One for each channel, or the one of all.
void listNumbers(JsonWriter& json, const char* key, const Tensor& channels, double all) {
  json.key(key);
  json.beginArray();
  if (!channels.defined()) json.value(all);
  for (int64_t i = 0; channels.defined() && i < channels.numel(); ++i) json.value(channels.real(i));
  json.endArray();
}

// The file, and what the integers in it stand for.
void describeFile(JsonWriter& json, const Tensor& t, const std::string& name) {
  json.field("file", name);
  const Quantization* q = isQuantized(t.dtype()) ? t.storage()->quantization() : nullptr;
  if (!q) return;
  listNumbers(json, "scales", q->scales, q->scale);
  listNumbers(json, "zero_points", q->zeroPoints, static_cast<double>(q->zeroPoint));
  if (!q->isPerTensor()) json.field("axis", q->axis);
}

class SizeCheck {
 public:
  void value(const IValue& v, int depth = 0) {
    constexpr int kMostDepth = 256;
    constexpr uint64_t kMostItems = uint64_t{16} << 20;
    if (depth > kMostDepth)
      throw ExecutionError(ErrorKind::Limit, fmt::format("an output nests more than {} deep", kMostDepth));
    if (v.isTensor() && v.tensorImpl()) elements_ += static_cast<uint64_t>(v.tensorImpl()->numel());
    if (++items_ > kMostItems)
      throw ExecutionError(ErrorKind::Limit, fmt::format("the outputs have more than {} items", kMostItems));
    auto all = [&](const std::vector<IValue>& items) {
      for (const IValue& item : items) value(item, depth + 1);
    };
    if (v.isList()) all(v.toList().items);
    if (v.isTuple()) all(v.toTuple().items);
    if (v.isDict()) {
      v.toDict().forEach([&](const IValue& key, const IValue& item) {
        value(key, depth + 1);
        value(item, depth + 1);
      });
    }
  }

  uint64_t elements() const { return elements_; }

 private:
  uint64_t items_ = 0, elements_ = 0;
};

}  // namespace

uint64_t checkOutputs(std::span<const IValue> values) {
  SizeCheck check;
  for (const IValue& v : values) check.value(v);
  return check.elements();
}

bool writeOutputs(const std::string& folder, std::span<const IValue> values, Diagnostics& diagnostics) {
  const MadeFolder made(folder);
  if (!made.check(diagnostics)) return false;
  bool good = true;
  std::deque<FileWriter> files;
  auto tensor = [&](const Tensor& t) -> std::string {
    std::string name = fileNameOf(t, files.size());
    if (!good) return name;
    FileWriter& file = files.emplace_back(folder + "/" + name, diagnostics);
    const Tensor stored = isQuantized(t.dtype()) ? integersOf(t) : t;
    good = (hasNpyType(stored.dtype()) ? putNpy(file, stored) : putSafetensors(file, {{"value", stored}})) &&
           file.finish();
    return name;
  };
  std::ostringstream text;
  JsonWriter json(text);
  writeList(values, json, [&](const Tensor& t) { describeFile(json, t, tensor(t)); });
  json.finish();
  const std::string index = folder + "/outputs.json";
  FileWriter all(index, diagnostics);
  if (!good || !all.write(text.str()) || !all.finish()) return false;
  // Whoever looks meanwhile finds no list of outputs, rather than one of others.
  std::error_code ignored;
  if (!files.empty()) std::filesystem::remove(index, ignored);
  return std::all_of(files.begin(), files.end(), [](FileWriter& file) { return file.commit(); }) && all.commit();
}

namespace {

bool holdsTensor(const IValue& v, int depth = 0) {
  if (v.isTensor()) return true;
  if (depth > 8) return false;
  auto any = [&](const std::vector<IValue>& items) {
    return std::any_of(items.begin(), items.end(), [&](const IValue& i) { return holdsTensor(i, depth + 1); });
  };
  if (v.isList()) return any(v.toList().items);
  if (v.isTuple()) return any(v.toTuple().items);
  bool found = false;
  if (v.isDict())
    v.toDict().forEach([&](const IValue&, const IValue& value) { found |= holdsTensor(value, depth + 1); });
  return found;
}

// Containers of tensors show one line for each of their items.
class Describer {
 public:
  explicit Describer(std::ostream& out) : out_(out) {}

  void value(const IValue& v, const std::string& label, int depth) {
    if (lines_++ >= kMostLines) {
      if (lines_ == kMostLines + 1) out_ << "...\n";
      return;
    }
    out_ << std::string(2 * static_cast<size_t>(depth), ' ') << label;
    bool absent = v.isNone() || (v.isTensor() && !v.tensorImpl());
    if (absent) {
      out_ << "None\n";
    } else if (v.isTensor()) {
      tensor(v.toTensor());
    } else if (depth < 8 && holdsTensor(v)) {
      container(v, depth);
    } else {
      out_ << typeText(withoutRefinement(dynamicType(v)), TypeStyle::Schema) << "  "
           << abbreviate(valueText(v, LiteralStyle::Plain), 200) << '\n';
    }
  }

 private:
  static constexpr int kMostLines = 1000;

  void tensor(const Tensor& t) {
    out_ << "Tensor  " << pythonName(t.dtype()) << "  " << dimsText(t.sizes());
    if (hasStatistics(t)) {
      Statistics s = statistics(t);
      out_ << fmt::format("  min {:.6g}  max {:.6g}  mean {:.6g}", s.least, s.greatest, s.mean);
    }
    out_ << '\n';
  }

  void container(const IValue& v, int depth) {
    if (v.isDict()) {
      out_ << "Dict of " << v.toDict().size() << '\n';
      v.toDict().forEach([&](const IValue& key, const IValue& item) {
        value(item, abbreviate(valueText(key, LiteralStyle::Plain), 60) + ": ", depth + 1);
      });
      return;
    }
    const std::vector<IValue>& items = v.isList() ? v.toList().items : v.toTuple().items;
    out_ << (v.isList() ? "List" : "Tuple") << " of " << items.size() << '\n';
    for (const IValue& item : items) value(item, "", depth + 1);
  }

  std::ostream& out_;
  int lines_ = 0;
};

}  // namespace

void describeOutputs(std::span<const IValue> values, std::ostream& out) {
  Describer describer(out);
  for (const IValue& v : values) describer.value(v, "", 0);
}

std::string outputListText(std::span<const IValue> values) {
  std::ostringstream text;
  {
    JsonWriter json(text);
    size_t files = 0;
    writeList(values, json, [&](const Tensor& t) { describeFile(json, t, fileNameOf(t, files++)); });
    json.finish();
  }
  return text.str();
}

void describeOutputsJson(std::span<const IValue> values, bool full, std::span<const std::string> leftToInterpreter,
                         std::ostream& out) {
  JsonWriter json(out);
  json.beginObject();
  json.field("schema", "tscompile.run/1");
  json.key("outputs");
  writeList(values, json, [&](const Tensor& t) {
    if (full) return json.field("value", valueToText(IValue(t)));
    if (!hasStatistics(t)) return;
    Statistics s = statistics(t);
    json.field("min", s.least);
    json.field("max", s.greatest);
    json.field("mean", s.mean);
  });
  if (!leftToInterpreter.empty()) {
    json.key("left_to_interpreter");
    json.beginArray();
    for (const std::string& text : leftToInterpreter) json.value(text);
    json.endArray();
  }
  json.endObject();
  json.finish();
}

}  // namespace tscompile
