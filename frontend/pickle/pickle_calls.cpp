// The closed list: names that pickles of PyTorch have, and what becomes of a call.
#include "frontend/pickle/pickle_reader.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

constexpr std::string_view kScriptClasses = "__torch__.";

// What is only named: a dtype, a class that a function is told to make.
constexpr std::string_view kNames[] = {
    "torch.per_tensor_affine",
    "torch.per_channel_affine",
    "torch.per_channel_affine_float_qparams",
    "torch.strided",
    "torch.sparse_coo",
    "torch.contiguous_format",
    "torch.preserve_format",
    "torch.channels_last",
    "torch.channels_last_3d",
    "torch.Tensor",
    "torch._tensor.Tensor",
    "torch.nn.parameter.Parameter",
    "torch.nn.parameter.Buffer",
    "torch.storage.UntypedStorage",
    "torch.storage._UntypedStorage",
    "builtins.bool",
    "builtins.dict",
    "builtins.float",
    "builtins.int",
    "builtins.list",
    "builtins.str",
    "builtins.tuple",
    PickleReader::kArray,
};

bool isStorageName(std::string_view name) {
  constexpr std::string_view kEnd = "Storage";
  if (!startsWith(name, "torch.") || !endsWith(name, kEnd)) return false;
  name.remove_prefix(startsWith(name, "torch.cuda.") ? 11 : 6);
  name.remove_suffix(std::min(kEnd.size(), name.size()));
  return dtypeFromGraphName(name).has_value();
}

}  // namespace

const PickleReader::NamedCall* PickleReader::findCall(std::string_view name) {
  using R = PickleReader;
  static constexpr NamedCall kCalls[] = {
      {"_codecs.encode", &R::encode, 1},
      {"builtins.bytes", &R::noBytes, 0},
      {"builtins.complex", &R::complexNumber, 2},
      {"builtins.frozenset", &R::setOf, 0},
      {"builtins.set", &R::setOf, 0},
      {"collections.Counter", &R::orderedDict, 0},
      {"collections.OrderedDict", &R::orderedDict, 0},
      {"collections.defaultdict", &R::defaultDict, 0},
      {"numpy._core.multiarray._reconstruct", &R::array, 3},
      {"numpy._core.multiarray.scalar", &R::arrayScalar, 2},
      {"numpy._core.numeric._frombuffer", &R::arrayOfBytes, 4},
      {"numpy.core.multiarray._reconstruct", &R::array, 3},
      {"numpy.core.multiarray.scalar", &R::arrayScalar, 2},
      {"numpy.core.numeric._frombuffer", &R::arrayOfBytes, 4},
      {kArrayDType, &R::arrayDType, 1},
      {"torch.Size", &R::size, 1},
      {"torch._tensor._rebuild_from_type_v2", &R::tensorOfType, 4},
      {"torch._utils._rebuild_parameter", &R::parameter, 3},
      {"torch._utils._rebuild_parameter_with_state", &R::parameter, 4},
      {"torch._utils._rebuild_qtensor", &R::quantizedTensor, 6},
      {kSparseTensor, &R::sparseTensor, 0},
      {"torch._utils._rebuild_tensor", &R::tensor, 4},
      {"torch._utils._rebuild_tensor_v2", &R::tensor, 4},
      {"torch._utils._rebuild_tensor_v3", &R::tensorOfDType, 7},
      {"torch.device", &R::device, 1},
      {"torch.jit._pickle.build_boollist", &R::listOf<'b'>, 1},
      {"torch.jit._pickle.build_doublelist", &R::listOf<'f'>, 1},
      {"torch.jit._pickle.build_intlist", &R::listOf<'i'>, 1},
      {"torch.jit._pickle.build_tensorlist", &R::listOf<'t'>, 1},
      {"torch.jit._pickle.restore_type_tag", &R::typeTag, 2},
      {"torch.serialization._get_layout", &R::layout, 1},
      {kBytesOfStorage, &R::storageOfBytes, 1},
  };
  auto at = std::find_if(std::begin(kCalls), std::end(kCalls), [&](const NamedCall& c) { return c.name == name; });
  return at == std::end(kCalls) ? nullptr : at;
}

bool PickleReader::isKnown(std::string_view name) const {
  if (name == kBytesOfStorage) return false;  // of checkpoints alone
  if (startsWith(name, kScriptClasses) || isStorageName(name) || findCall(name)) return true;
  if (startsWith(name, "torch.") && dtypeFromName(name.substr(6))) return true;
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

PickleValue* PickleReader::name(std::string_view module, std::string_view name) {
  if (module == "__builtin__") module = "builtins";  // Python 2
  std::string full = fmt::format("{}.{}", module, name);
  if (!options_.foreignNames && !isKnown(full)) {
    return failed(fmt::format("'{}' is not on the list of what a pickle may ask for", abbreviate(full, 200)),
                  ErrorKind::Unsupported);
  }
  return makeText(Kind::Name, std::move(full));
}

PickleValue* PickleReader::call(PickleValue* function, PickleValue* arguments) {
  if (!function->is(Kind::Name)) {
    if (options_.foreignNames && function->is(Kind::Object)) return object(function->object().name, arguments);
    return failed(fmt::format("the pickle calls {}", describe(function->kind())));
  }
  std::string_view name = function->text();
  const NamedCall* known = findCall(name);
  if (!known) {
    if (options_.foreignNames || startsWith(name, kScriptClasses)) return object(name, arguments);
    return failed(fmt::format("'{}' is not on the list of what a pickle may call", abbreviate(name, 200)),
                  ErrorKind::Unsupported);
  }
  if (!arguments->is(Kind::Tuple) || arguments->items().size() < known->least)
    return failed(fmt::format("{} takes {} or more", name, counted(known->least, "argument")));
  return (this->*known->call)(arguments->items());
}

PickleValue* PickleReader::object(std::string_view name, PickleRef arguments) {
  return make(Kind::Object, PickleObject{name, arguments, nullptr});
}

// There is no tensor for it: its reader finds the places and elements.
PickleValue* PickleReader::sparseTensor(const std::vector<PickleRef>& arguments) {
  PickleValue* parts = makeItems(Kind::Tuple, arguments);
  return parts ? object(kSparseTensor, parts) : nullptr;
}

// From nothing, another dict, or a list of pairs.
PickleValue* PickleReader::orderedDict(const std::vector<PickleRef>& arguments) {
  PickleValue* dict = makeDict();
  if (!dict || arguments.empty()) return dict;
  const PickleValue& from = *arguments[0];
  auto& entries = std::get<PickleValue::Entries>(dict->payload_).entries;
  if (from.is(Kind::Dict)) {
    entries = from.entries();
    return dict;
  }
  if (!from.is(Kind::List)) return failed(fmt::format("a dict cannot be made of {}", describe(from.kind())));
  for (PickleRef pair : from.items()) {
    bool isPair = (pair->is(Kind::List) || pair->is(Kind::Tuple)) && pair->items().size() == 2;
    if (!isPair) return failed("a dict is made of pairs");
    entries.push_back({pair->items()[0], pair->items()[1]});
  }
  return dict;
}

// The first argument makes values that are missing.
PickleValue* PickleReader::defaultDict(const std::vector<PickleRef>& arguments) {
  return orderedDict(
      std::vector<PickleRef>(arguments.begin() + std::min<size_t>(1, arguments.size()), arguments.end()));
}

PickleValue* PickleReader::setOf(const std::vector<PickleRef>& arguments) {
  if (arguments.empty()) return makeItems(Kind::Set);
  const PickleValue& from = *arguments[0];
  bool isRun = from.is(Kind::List) || from.is(Kind::Tuple) || from.is(Kind::Set);
  if (!isRun) return failed(fmt::format("a set cannot be made of {}", describe(from.kind())));
  return makeItems(Kind::Set, from.items());
}

PickleValue* PickleReader::complexNumber(const std::vector<PickleRef>& arguments) {
  if (!arguments[0]->is(Kind::Float) || !arguments[1]->is(Kind::Float))
    return failed("a complex number is made of two floats");
  return make(Kind::Complex, std::complex<double>(arguments[0]->toFloat(), arguments[1]->toFloat()));
}

PickleValue* PickleReader::device(const std::vector<PickleRef>& arguments) {
  bool hasIndex = arguments.size() > 1 && arguments[1]->is(Kind::Int);
  if (!arguments[0]->is(Kind::String)) return failed("the name of a device is not a string");
  if (!hasIndex) return make(Kind::Device, arguments[0]->text());
  return makeText(Kind::Device, fmt::format("{}:{}", arguments[0]->text(), arguments[1]->toInt()));
}

PickleValue* PickleReader::size(const std::vector<PickleRef>& arguments) {
  const PickleValue& sizes = *arguments[0];
  if (!sizes.is(Kind::Tuple) && !sizes.is(Kind::List))
    return failed(fmt::format("sizes are a tuple, not {}", describe(sizes.kind())));
  return makeItems(Kind::Tuple, sizes.items());
}

// Protocol 2 has no bytes: they are written as text that is encoded in Latin-1.
PickleValue* PickleReader::encode(const std::vector<PickleRef>& arguments) {
  if (!arguments[0]->is(Kind::String)) return failed("only strings are encoded");
  std::string out;
  std::string_view text = arguments[0]->text();
  for (size_t i = 0; i < text.size(); ++i) {
    auto byte = static_cast<unsigned char>(text[i]);
    bool isPair = (byte == 0xc2 || byte == 0xc3) && i + 1 < text.size();
    if (byte >= 0x80 && !isPair) return failed("the string is not Latin-1");
    out += isPair ? static_cast<char>((byte & 3) << 6 | (text[++i] & 0x3f)) : text[i];
  }
  return makeText(Kind::Bytes, std::move(out));
}

// So protocol 2 writes those that are empty.
PickleValue* PickleReader::noBytes(const std::vector<PickleRef>& arguments) {
  if (arguments.empty()) return makeText(Kind::Bytes, "");
  PickleValue* tuple = makeItems(Kind::Tuple, arguments);
  return tuple ? object("builtins.bytes", tuple) : nullptr;
}

PickleValue* PickleReader::layout(const std::vector<PickleRef>& arguments) {
  if (!arguments[0]->is(Kind::String)) return failed("the name of a layout is not a string");
  return make(Kind::Name, arguments[0]->text());
}

PickleValue* PickleReader::tagged(PickleRef container, std::string_view tag) {
  auto* value = const_cast<PickleValue*>(container);  // this reader made it
  if (value->is(Kind::List))
    std::get<PickleValue::Items>(value->payload_).tag = tag;
  else if (value->is(Kind::Dict))
    std::get<PickleValue::Entries>(value->payload_).tag = tag;
  else
    return failed(fmt::format("{} has no types of items", describe(value->kind())));
  return value;
}

PickleValue* PickleReader::typeTag(const std::vector<PickleRef>& arguments) {
  if (!arguments[1]->is(Kind::String)) return failed("the name of a type is not a string");
  return tagged(arguments[0], arguments[1]->text());
}

template <char element>
PickleValue* PickleReader::listOf(const std::vector<PickleRef>& arguments) {
  if (!arguments[0]->is(Kind::List)) return failed(fmt::format("{} is not a list", describe(arguments[0]->kind())));
  switch (element) {
    case 'b':
      return tagged(arguments[0], "List[bool]");
    case 'f':
      return tagged(arguments[0], "List[float]");
    case 'i':
      return tagged(arguments[0], "List[int]");
    default:
      return tagged(arguments[0], "List[Tensor]");
  }
}

}  // namespace tscompile
