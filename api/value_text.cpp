#include "api/value_text.h"

#include "api/support/deep_copy.h"
#include "api/support/fitted_values.h"
#include "frontend/export/sample_inputs.h"
#include "frontend/files/file_io.h"
#include "frontend/files/number_text.h"
#include "frontend/files/quoted_text.h"
#include "frontend/files/tensor_text.h"
#include "frontend/files/weights.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <cstring>
#include <utility>
#include <vector>

namespace tscompile {
namespace {

// What an expected type says about the value itself: T of Optional[T].
TypePtr unwrapped(TypePtr type) { return type && type->is(TypeKind::Optional) ? type->element() : type; }

bool expects(TypePtr type, TypeKind kind) { return type && type->is(kind); }

// A value's type for the elements of a container: tensors without what is known of them.
TypePtr elementType(const IValue& v) {
  if (v.isTensor()) return types().tensor;
  if (!v.isTuple()) return dynamicType(v);
  std::vector<TypePtr> elements;
  for (const IValue& item : v.toTuple().items) elements.push_back(elementType(item));
  return tupleType(elements);
}

std::string typeName(TypePtr type) { return typeText(type, TypeStyle::Python); }

// ---- reading ----

bool isNamePart(char c) { return isLetter(c) || isDigit(c) || c == '_'; }

// Whether a member of an enum may stand here: any name but None.
bool startsMember(const TextCursor& c) {
  return (isLetter(c.peek()) || c.peek() == '_') && !(c.rest().starts_with("None") && !isNamePart(c.peek(4)));
}

class ValueReader {
 public:
  ValueReader(SourcePtr source, Diagnostics& diagnostics, const Limits& limits)
      : c_(std::move(source), diagnostics), limits_(limits) {}

  bool read(TypePtr expected, IValue& out);

 private:
  // A value and where it stands.
  struct Item {
    IValue value;
    size_t begin = 0, end = 0;
  };
  using Items = std::vector<Item>;

  bool readItem(TypePtr expected, int depth, Item& out);
  bool readValue(TypePtr expected, int depth, IValue& out);
  bool readNumberValue(TypePtr expected, IValue& out);
  bool readWord(IValue& out);
  bool readMember(TypePtr type, IValue& out);
  bool readList(TypePtr expected, int depth, IValue& out);
  bool readTuple(TypePtr expected, int depth, IValue& out);
  bool readDict(TypePtr expected, int depth, IValue& out);
  bool readKey(TypePtr expected, Item& out);
  bool readPath(int depth, std::string& text);
  bool readRaw(size_t head, int depth, IValue& out);
  bool readFile(TypePtr expected, int depth, IValue& out);
  // Reads `item, item, ...` up to the bracket; `commaEnd` tells of a comma before it.
  bool readItems(char close, TypePtr elements, TypePtr expectedTuple, int depth, Items& out, bool& commaEnd);
  // The one type that all items have; widens numbers where they differ.
  bool unify(Items& items, TypePtr expected, std::string_view what, TypePtr& out);
  bool fail(const Item& item, std::string message) {
    c_.moveTo(item.end);
    return c_.fail(item.begin, std::move(message));
  }

  TextCursor c_;
  const Limits& limits_;
};

bool ValueReader::read(TypePtr expected, IValue& out) {
  Item item;
  if (!readItem(expected, 0, item)) return false;
  c_.skipBlanks();
  out = std::move(item.value);
  return c_.atEnd() || c_.expected("the end of the value");
}

bool ValueReader::readItem(TypePtr expected, int depth, Item& out) {
  c_.skipBlanks();
  out.begin = c_.at();
  if (!readValue(unwrapped(expected), depth, out.value)) return false;
  out.end = c_.at();
  return true;
}

bool ValueReader::readValue(TypePtr expected, int depth, IValue& out) {
  constexpr int kMaxDepth = 64;
  switch (c_.peek()) {
    case '[':
    case '(':
    case '{':
      if (depth == kMaxDepth)
        return c_.fail(c_.at(), fmt::format("values are nested more than {} deep", kMaxDepth), ErrorKind::Limit);
      return c_.peek() == '['   ? readList(expected, depth + 1, out)
             : c_.peek() == '(' ? readTuple(expected, depth + 1, out)
                                : readDict(expected, depth + 1, out);
    case '@':
      return readFile(expected, depth, out);
    case '"': {
      std::string text;
      if (!readQuotedText(c_, limits_, text)) return false;
      out = IValue(std::move(text));
      return true;
    }
    default:
      break;
  }
  if (expects(expected, TypeKind::Enum) && startsMember(c_)) return readMember(expected, out);
  if (startsTensor(c_)) {
    if (const size_t head = c_.rest().find('=');
        head != std::string_view::npos && c_.peek(head + 1) == '@' && c_.rest().find_first_of(" \t\n,(") > head)
      return readRaw(head, depth, out);
    Tensor t;
    if (!readTensorText(c_, limits_, t)) return false;
    out = std::move(t);
    return true;
  }
  return startsNumber(c_) ? readNumberValue(expected, out) : readWord(out);
}

bool ValueReader::readNumberValue(TypePtr expected, IValue& out) {
  size_t begin = c_.at();
  NumberText n;
  if (!readNumber(c_, limits_, n)) return false;
  if (n.kind == NumberText::Kind::Complex || expects(expected, TypeKind::Complex))
    out = n.value;
  else if (n.kind == NumberText::Kind::Float || expects(expected, TypeKind::Float))
    out = n.value.real();
  else if (n.integerFits)
    out = n.integer;
  else
    return c_.fail(begin, "the integer does not fit in 64 bits");
  return true;
}

bool ValueReader::readWord(IValue& out) {
  size_t begin = c_.at();
  std::string_view word = c_.takeWord();
  if (word == "true" || word == "True") {
    out = true;
  } else if (word == "false" || word == "False") {
    out = false;
  } else if (word == "None" || word == "null") {
    out.reset();
  } else if (word == "torch" && c_.take('.')) {
    const std::string_view name = c_.takeWord();
    const std::optional<DType> dtype = dtypeFromName(name);
    if (!dtype || pythonName(*dtype) != name)
      return c_.fail(begin, fmt::format("'torch.{}' is no dtype", abbreviate(name, 40)));
    out = static_cast<int64_t>(*dtype);
  } else if (word.empty()) {
    return c_.expected("a value");
  } else {
    NearestName nearest(word);
    for (const char* known : {"None", "True", "False", "null", "true", "false"}) nearest.consider(known);
    Diagnostic& error = c_.error(begin, fmt::format("unknown word '{}'", abbreviate(word, 40)));
    if (nearest.found()) error.note("did you mean '" + nearest.name() + "'?");
    error.note("text is written in double quotes, files as @path, tensors as 2x3:f32=[1 2 3; 4 5 6] or 2x3:f32:randn");
    return false;
  }
  return true;
}

// "Mode.MEAN", or with the whole name of the class, as graphs have it. What it stands for is not known here.
bool ValueReader::readMember(TypePtr type, IValue& out) {
  const size_t begin = c_.at();
  while (isNamePart(c_.peek()) || c_.peek() == '.') c_.skip(1);
  const std::string_view text = c_.from(begin), whole = type->name();
  const size_t dot = text.rfind('.');
  const std::string_view owner = text.substr(0, dot == std::string_view::npos ? 0 : dot);
  const bool isOwner = whole == owner || whole.ends_with("." + std::string(owner));
  if (dot == std::string_view::npos || !isOwner || text.ends_with('.'))
    return c_.fail(begin, fmt::format("expected a member of {}, found '{}'", typeName(type), abbreviate(text, 80)));
  out = Ref<EnumValue>::make(type, std::string(text.substr(dot + 1)), IValue());
  return true;
}

// ---- containers ----

bool ValueReader::readItems(char close, TypePtr elements, TypePtr expectedTuple, int depth, Items& out,
                            bool& commaEnd) {
  commaEnd = false;
  c_.skipBlanks();
  while (!c_.take(close)) {
    if (out.size() >= limits_.listItems)
      return c_.fail(c_.at(), fmt::format("there are more than {} items", limits_.listItems), ErrorKind::Limit);
    TypePtr expected = elements;
    if (expectedTuple && out.size() < expectedTuple->elements().size()) expected = expectedTuple->element(out.size());
    if (!readItem(expected, depth, out.emplace_back())) return false;
    c_.skipBlanks();
    commaEnd = c_.take(',');
    if (commaEnd)
      c_.skipBlanks();
    else if (c_.peek() != close)
      return c_.expected(fmt::format("',' or '{}'", close));
  }
  return true;
}

bool ValueReader::unify(Items& items, TypePtr expected, std::string_view what, TypePtr& out) {
  if (expected && expected->isTensor()) expected = types().tensor;
  bool fits = expected != nullptr;
  bool numbers = true, floats = false, complexes = false;
  for (const Item& i : items) {
    fits = fits && isInstance(i.value, expected);
    numbers = numbers && (i.value.isInt() || i.value.isFloat() || i.value.isComplex());
    floats = floats || i.value.isFloat();
    complexes = complexes || i.value.isComplex();
  }
  if (fits) {
    out = expected;
    return true;
  }
  if (numbers && (floats || complexes)) {
    for (Item& i : items) {
      if (complexes && !i.value.isComplex()) i.value = std::complex<double>(i.value.toDouble());
      if (!complexes) i.value = i.value.toDouble();
    }
  }
  out = nullptr;
  for (const Item& i : items) {
    TypePtr type = elementType(i.value);
    TypePtr both = out ? unifyTypes(out, type) : type;
    if (!both)
      return fail(
          i, fmt::format("the {} have one type; this is {}, those before are {}", what, typeName(type), typeName(out)));
    out = both;
  }
  return true;
}

bool ValueReader::readList(TypePtr expected, int depth, IValue& out) {
  c_.skip(1);
  TypePtr element = expects(expected, TypeKind::List) ? expected->element() : nullptr;
  Items items;
  bool commaEnd;
  if (!readItems(']', element, nullptr, depth, items, commaEnd)) return false;
  TypePtr type = element ? element : types().tensor;  // as in TorchScript source, where [] is List[Tensor]
  if (!items.empty() && !unify(items, element, "items of a list", type)) return false;
  std::vector<IValue> values;
  for (Item& i : items) values.push_back(std::move(i.value));
  out = Ref<ListValue>::make(type, std::move(values));
  return true;
}

bool ValueReader::readTuple(TypePtr expected, int depth, IValue& out) {
  size_t begin = c_.at();
  c_.skip(1);
  Items items;
  bool commaEnd, isTuple = expects(expected, TypeKind::Tuple);
  if (!readItems(')', nullptr, isTuple ? expected : nullptr, depth, items, commaEnd)) return false;
  if (items.size() == 1 && !commaEnd) return c_.fail(begin, "a tuple of one value is written (v,)");
  std::vector<IValue> values;
  for (Item& i : items) values.push_back(std::move(i.value));
  TypePtr named =
      isTuple && expected->isNamedTuple() && expected->elements().size() == values.size() ? expected : nullptr;
  out = Ref<TupleValue>::make(std::move(values), named);
  return true;
}

// Not a tensor: `{1: 2:f32:zeros}` may be written without blanks.
bool ValueReader::readKey(TypePtr expected, Item& out) {
  c_.skipBlanks();
  out.begin = c_.at();
  expected = unwrapped(expected);
  if (c_.peek() == '"') {
    std::string text;
    if (!readQuotedText(c_, limits_, text)) return false;
    out.value = IValue(std::move(text));
  } else if (!(startsNumber(c_) ? readNumberValue(expected, out.value) : readWord(out.value))) {
    return false;
  }
  out.end = c_.at();
  return !out.value.isNone() || fail(out, "None is no key of a dict");
}

bool ValueReader::readDict(TypePtr expected, int depth, IValue& out) {
  c_.skip(1);
  bool isDict = expects(expected, TypeKind::Dict);
  TypePtr keyType = isDict ? expected->element(0) : types().string;
  TypePtr valueType = isDict ? expected->element(1) : types().tensor;
  Items keys, values;
  c_.skipBlanks();
  while (!c_.take('}')) {
    if (keys.size() >= limits_.listItems)
      return c_.fail(c_.at(), fmt::format("there are more than {} items", limits_.listItems), ErrorKind::Limit);
    if (!readKey(isDict ? keyType : nullptr, keys.emplace_back())) return false;
    c_.skipBlanks();
    if (!c_.take(':')) return c_.expected("':' and the value of this key");
    if (!readItem(isDict ? valueType : nullptr, depth, values.emplace_back())) return false;
    c_.skipBlanks();
    if (c_.take(','))
      c_.skipBlanks();
    else if (c_.peek() != '}')
      return c_.expected("',' or '}'");
  }
  if (!keys.empty() && (!unify(keys, isDict ? keyType : nullptr, "keys of a dict", keyType) ||
                        !unify(values, isDict ? valueType : nullptr, "values of a dict", valueType)))
    return false;
  auto dict = Ref<DictValue>::make(keyType, valueType);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (dict->find(keys[i].value)) return fail(keys[i], "the dict has this key twice");
    dict->set(keys[i].value, std::move(values[i].value));
  }
  out = IValue(std::move(dict));
  return true;
}

// ---- files ----

// `@path` or `@path#member`; in double quotes if a bracket or comma is part of it. Inside containers it ends at the
// first of these.
bool ValueReader::readPath(int depth, std::string& text) {
  size_t begin = c_.at();
  c_.skip(1);
  if (c_.peek() == '"') {
    if (!readQuotedText(c_, limits_, text)) return false;
  } else {
    size_t length = depth > 0 ? c_.rest().find_first_of(",])}") : std::string_view::npos;
    text = trim(c_.rest().substr(0, length));
    c_.skip(length == std::string_view::npos ? c_.rest().size() : length);
  }
  if (text.empty()) return c_.fail(begin, "expected the path of a file after '@'");
  return text.find('\0') == std::string::npos || c_.fail(begin, "a path holds no zero byte");
}

// `2x3:f32=@x.bin`: a file of nothing but elements, row by row, as this processor has them in memory.
bool ValueReader::readRaw(size_t head, int depth, IValue& out) {
  const size_t begin = c_.at();
  TextCursor sizes(SourceFile::make("sizes", std::string(c_.rest().substr(0, head)) + ":zeros"), c_.diagnostics());
  Tensor tensor;
  if (!readTensorText(sizes, limits_, tensor)) return false;
  c_.skip(head + 1);
  std::string path;
  if (!readPath(depth, path)) return false;
  Ref<FileMapping> file = FileMapping::open(path, c_.diagnostics());
  if (!file) return false;
  const size_t wanted = static_cast<size_t>(tensor.numel()) * itemSize(tensor.dtype());
  if (file->bytes().size() != wanted)
    return c_.fail(begin, fmt::format("{} of {} are {} bytes, and {} has {}", counted(tensor.numel(), "element"),
                                      shortName(tensor.dtype()), wanted, path, file->bytes().size()));
  if (wanted > 0) std::memcpy(tensor.raw(), file->bytes().data(), wanted);
  if (tensor.dtype() == DType::Bool)
    for (size_t i = 0; i < wanted; ++i) tensor.raw()[i] = std::byte{file->bytes()[i] != 0};
  out = std::move(tensor);
  return true;
}

bool ValueReader::readFile(TypePtr expected, int depth, IValue& out) {
  std::string text;
  if (!readPath(depth, text)) return false;
  // A name may hold '#', and so may a path: the first one after the ending of such a file counts.
  std::optional<std::string> member;
  for (std::string_view ending : {".safetensors#", ".npz#", ".npy#", ".pt#", ".pth#", ".pkl#"}) {
    size_t at = text.find(ending);
    if (at == std::string::npos) continue;
    member = text.substr(at + ending.size());
    text.resize(at + ending.size() - 1);
    break;
  }
  if (expected && !expected->isTensor() && !member)
    if (std::optional<IValue> saved = readSavedValue(text, limits_); saved && !saved->isTensor()) {
      const std::optional<IValue> value = fitted(*saved, expected);
      // Runs may write to it, and not to the file's memory.
      out = std::move(deepCopy({value ? &*value : &*saved, 1})[0]);
      return true;
    }
  Result<Tensor> t = readTensorFile(text, member, c_.diagnostics(), limits_);
  if (!t) return false;
  out = std::move(*t);
  return true;
}

}  // namespace

Result<IValue> parseValueText(std::string_view text, std::string_view what, Diagnostics& diagnostics, TypePtr expected,
                              const Limits& limits) {
  if (text.size() > limits.textBytes) {
    diagnostics.error(fmt::format("{}: the value has more than {} bytes", what, limits.textBytes), ErrorKind::Limit);
    return diagnostics.metLimit("text", Failed{});
  }
  IValue value;
  ValueReader reader(SourceFile::make(std::string(what), std::string(text)), diagnostics, limits);
  if (!reader.read(expected, value)) return Failed{};
  return value;
}

}  // namespace tscompile
