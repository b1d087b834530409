#include "frontend/export/arguments.h"

#include "ir/support/text.h"

#include <fmt/core.h>

#include <cmath>

namespace tscompile::exported {
namespace {

constexpr size_t kMaxFixedSize = 8;
constexpr double kExact = 9007199254740992;  // whole numbers below it are all doubles

std::optional<IValue> complexOf(Json v) {
  std::optional<double> real = floatOf(v.find("real")), imaginary = floatOf(v.find("imag"));
  if (!real || !imaginary) return std::nullopt;
  return IValue(std::complex<double>(*real, *imaginary));
}

std::optional<IValue> boolOf(Json v) {
  return v.is(JsonTree::Kind::Bool) ? std::optional<IValue>(v.truth()) : std::nullopt;
}

template <class T>
std::optional<IValue> valueOf(std::optional<T> v) {
  return v ? std::optional<IValue>(IValue(*v)) : std::nullopt;
}

// The name of a tensor; in the optional ones of older files the name itself.
Json tensorNameOf(Json tensor) { return tensor.is(JsonTree::Kind::String) ? tensor : tensor.find("name"); }

// Alternatives that are a constant by themselves.
struct ConstantKind {
  std::string_view key;
  std::optional<IValue> (*read)(Json);
};
constexpr ConstantKind kConstants[] = {
    {"as_int", [](Json v) { return valueOf(v.integer()); }},
    {"as_float", [](Json v) { return valueOf(floatOf(v)); }},
    {"as_bool", boolOf},
    {"as_string",
     [](Json v) { return v.is(JsonTree::Kind::String) ? std::optional<IValue>(IValue(v.text())) : std::nullopt; }},
    {"as_complex", complexOf},
    {"as_scalar_type", [](Json v) { return valueOf(scalarTypeOf(v)); }},
    {"as_memory_format", [](Json v) { return valueOf(memoryFormatOf(v)); }},
    {"as_layout", [](Json v) { return valueOf(layoutOf(v)); }},
    {"as_device", [](Json v) { return valueOf(deviceOf(v)); }},
};

// Lists by the alternative that each element would be.
struct ListKind {
  std::string_view key, element;
  TypePtr (*type)();
};
constexpr ListKind kLists[] = {
    {"as_ints", "as_int", [] { return types().integer; }},
    {"as_floats", "as_float", [] { return types().floating; }},
    {"as_bools", "as_bool", [] { return types().boolean; }},
    {"as_strings", "as_string", [] { return types().string; }},
    {"as_tensors", "as_tensor", [] { return types().tensor; }},
    {"as_sym_ints", "as_sym_int", [] { return types().integer; }},
    {"as_sym_floats", "as_sym_float", [] { return types().floating; }},
    {"as_sym_bools", "as_sym_bool", [] { return types().boolean; }},
    {"as_optional_tensors", "as_optional_tensor", [] { return optionalType(types().tensor); }},
};

class ArgumentReader {
 public:
  // `wanted` is null where nothing is.
  ArgumentReader(ExportBuilder& builder, TypePtr wanted, std::optional<int32_t> fixedSize)
      : b_(builder), wanted_(wanted ? withoutOptional(wanted) : nullptr), fixedSize_(fixedSize) {}

  Value* read(Json argument) {
    Json v = alternative(argument);
    return v ? read(v.key(), v) : none();
  }

  // The items of a list, else the one value.
  bool readItems(Json argument, std::vector<Value*>& out) {
    Json v = alternative(argument);
    for (const ListKind& k : kLists)
      if (v && k.key == v.key()) return elements(k, v, out);
    out.push_back(read(argument));
    return out.back() != nullptr;
  }

 private:
  Value* none() { return b_.constant(IValue()); }
  Value* malformed(std::string_view key, Json v) {
    b_.fail(v, fmt::format("the {} is malformed", abbreviate(key, 40)));
    return nullptr;
  }

  Value* read(std::string_view key, Json v) {
    if (key == "as_none") return none();
    if (key == "as_tensor") return b_.find(tensorNameOf(v));
    for (std::string_view symbolic : {"as_sym_int", "as_sym_float", "as_sym_bool", "as_optional_tensor"})
      if (key == symbolic) return nested(key, v);
    for (const ConstantKind& k : kConstants)
      if (k.key == key) {
        std::optional<IValue> constant = k.read(v);
        return constant ? number(std::move(*constant)) : malformed(key, v);
      }
    for (const ListKind& k : kLists)
      if (k.key == key) return list(k, v);
    b_.fail(v, fmt::format("arguments of the kind '{}' are not supported", abbreviate(key, 40)),
            ErrorKind::Unsupported);
    return nullptr;
  }

  // `as_sym_int: {as_name: "s"}`, `as_sym_int: {as_int: 3}`, `as_optional_tensor: {as_tensor: ...}`.
  Value* nested(std::string_view key, Json v) {
    Json inner = alternative(v);
    if (!inner) return malformed(key, v);
    if (inner.key() == "as_name") return b_.find(inner);
    if (startsWith(inner.key(), "as_sym") || startsWith(inner.key(), "as_opt")) return malformed(key, v);
    return read(inner.key(), inner);
  }

  Value* number(IValue v) {
    if (!wanted_) return b_.constant(v);
    if (wanted_->is(TypeKind::Float) && v.isInt()) return b_.constant(static_cast<double>(v.toInt()));
    if (wanted_->is(TypeKind::Int) && v.isFloat() && v.toFloat() == std::trunc(v.toFloat()) &&
        std::abs(v.toFloat()) < kExact)
      return b_.constant(static_cast<int64_t>(v.toFloat()));
    if (wanted_->is(TypeKind::List) && v.isNumber()) return repeated(std::move(v));
    if (wanted_->is(TypeKind::Device) && v.isString())  // as torch.export.passes.move_to_device_pass writes it
      if (std::optional<Device> device = deviceFromText(v.toString())) return b_.constant(*device);
    return b_.constant(v);
  }
  // A number for `int[2]`.
  Value* repeated(IValue v) {
    size_t count =
        fixedSize_ && *fixedSize_ > 0 ? std::min<size_t>(static_cast<size_t>(*fixedSize_), kMaxFixedSize) : 1;
    return constantList(std::vector<IValue>(count, v), wanted_->element());
  }

  Value* constantList(std::vector<IValue> values, TypePtr element) {
    if (element->is(TypeKind::Float))
      for (IValue& v : values)
        if (v.isInt()) v = static_cast<double>(v.toInt());
    TypePtr type = listType(element);
    return b_.constant(IValue(Ref<ListValue>::make(element, std::move(values))), type);
  }

  Value* list(const ListKind& kind, Json v) {
    if (!v.is(JsonTree::Kind::Array)) return malformed(kind.key, v);
    TypePtr element = wanted_ && wanted_->is(TypeKind::List) ? wanted_->element() : kind.type();
    if (std::optional<std::vector<IValue>> all = constants(kind, v)) return constantList(std::move(*all), element);
    std::vector<Value*> values;
    if (!ArgumentReader(b_, element, std::nullopt).elements(kind, v, values)) return nullptr;
    return b_.list(values, element);
  }
  bool elements(const ListKind& kind, Json v, std::vector<Value*>& out) {
    for (Json item : items(v)) {
      out.push_back(element(kind.element, item));
      if (!out.back()) return false;
    }
    return true;
  }
  Value* element(std::string_view kind, Json item) {
    if (kind == "as_tensor" || kind == "as_int" || kind == "as_float" || kind == "as_bool" || kind == "as_string")
      return read(kind, item);
    return nested(kind, item);
  }

  // The elements if all of them are constants of a type that constant lists have.
  std::optional<std::vector<IValue>> constants(const ListKind& kind, Json v) {
    std::vector<IValue> out;
    for (Json item : items(v)) {
      bool isSymbolic = startsWith(kind.key, "as_sym");
      Json inner = isSymbolic ? alternative(item) : item;
      std::string_view key = isSymbolic && inner ? inner.key() : kind.element;
      std::optional<IValue> constant;
      for (const ConstantKind& k : kConstants)
        if (k.key == key && inner) constant = k.read(inner);
      if (!constant) return std::nullopt;
      out.push_back(std::move(*constant));
    }
    return out;
  }

  ExportBuilder& b_;
  TypePtr wanted_;
  std::optional<int32_t> fixedSize_;
};

}  // namespace

Value* readArgument(ExportBuilder& builder, Json argument, const Argument& formal) {
  return ArgumentReader(builder, formal.type, formal.fixedSize).read(argument);
}

Value* readFreeArgument(ExportBuilder& builder, Json argument) {
  return ArgumentReader(builder, nullptr, std::nullopt).read(argument);
}

bool readItems(ExportBuilder& builder, Json argument, std::vector<Value*>& out) {
  return ArgumentReader(builder, nullptr, std::nullopt).readItems(argument, out);
}

std::vector<Json> namesOf(Json argument) {
  Json v = alternative(argument);
  if (!v) return {};
  if (v.key() == "as_tensor") return {tensorNameOf(v)};
  if (v.key() == "as_tensors") {
    std::vector<Json> names;
    for (Json t : items(v)) names.push_back(tensorNameOf(t));
    return names;
  }
  if (startsWith(v.key(), "as_sym_") || v.key() == "as_optional_tensor") {
    Json inner = alternative(v);
    if (inner && inner.key() == "as_tensor") return {tensorNameOf(inner)};
    if (inner && inner.key() == "as_name") return {inner};
  }
  return {};
}

}  // namespace tscompile::exported
