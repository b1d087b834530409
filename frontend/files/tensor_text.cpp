#include "frontend/files/tensor_text.h"

#include "frontend/files/generator_text.h"
#include "frontend/files/number_text.h"
#include "frontend/files/tensor_formats.h"
#include "frontend/files/tensor_generator.h"
#include "ir/support/text.h"
#include "ir/values/carried_types.h"
#include "ir/values/dtype_words.h"
#include "ir/values/error.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

namespace tscompile {
namespace {

constexpr std::string_view kScalar = "scalar";

// ---- elements ----

// Numbers to elements of T; reports those that are none.
template <class T>
bool toElement(TextCursor& c, size_t begin, const NumberText& n, DType dtype, T& out) {
  auto fail = [&](std::string_view why) {
    return c.fail(begin, fmt::format("{} {} {}", c.from(begin).substr(0, 40), why, pythonName(dtype)));
  };
  if constexpr (kIsComplex<T>) {
    using Part = typename T::value_type;
    out = T(roundedTo<Part>(n.value.real()), roundedTo<Part>(n.value.imag()));
    return true;
  } else if constexpr (std::is_integral_v<T>) {
    if (n.kind != NumberText::Kind::Integer) return fail("is not an integer, but the tensor is");
    const bool fits = n.integer < 0 ? n.integer >= static_cast<int64_t>(std::numeric_limits<T>::min())
                                    : static_cast<uint64_t>(n.integer) <= std::numeric_limits<T>::max();
    if (!n.integerFits || !fits) return fail("does not fit in");
    out = static_cast<T>(n.integer);
    return true;
  } else {
    if (n.kind == NumberText::Kind::Complex) return fail("is complex, but the tensor is");
    out = roundedTo<T>(n.value.real());
    return true;
  }
}

template <class T>
bool readElement(TextCursor& c, DType dtype, const Limits& limits, T& out) {
  size_t begin = c.at();
  if constexpr (std::is_same_v<T, bool>) {
    if (isLetter(c.peek())) {
      std::string_view word = c.takeWord();
      out = word == "true" || word == "True";
      return out || word == "false" || word == "False" || c.fail(begin, "expected true or false");
    }
  }
  if (!startsNumber(c)) return c.expected("a number");
  NumberText n;
  return readNumber(c, limits, n) && toElement(c, begin, n, dtype, out);
}

// ---- reading ----

// One tensor at the cursor.
class TensorReader {
 public:
  TensorReader(TextCursor& cursor, const Limits& limits) : c_(cursor), limits_(limits), begin_(cursor.at()) {}

  bool read(Tensor& out);

 private:
  bool readShape();
  bool readDType();
  bool generate(Tensor& out);
  bool readLiteral(Tensor& out);
  template <class T>
  bool readElements(std::string& bytes);
  bool readSeparator(int64_t count);
  bool allocate(Tensor& out);

  TextCursor& c_;
  const Limits& limits_;
  size_t begin_;
  Dims sizes_;
  int64_t numel_ = 1;
  DType dtype_ = DType::Undefined;
};

bool TensorReader::read(Tensor& out) {
  if (!readShape() || !readDType()) return false;
  if (c_.take(':')) return generate(out);
  if (c_.take('=')) return readLiteral(out);
  return c_.expected("':' and a generator, or '=' and numbers");
}

bool TensorReader::readShape() {
  if (!c_.take(kScalar)) {
    do {
      size_t begin = c_.at();
      while (isDigit(c_.peek())) c_.skip(1);
      std::string_view digits = c_.from(begin);
      int64_t size = 0;
      auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
      if (digits.empty()) return c_.expected("a size");
      if (error != std::errc() || size > kMaxElements)
        return c_.fail(begin, "the size is above 2^48", ErrorKind::Limit);
      if (sizes_.size() == kMaxRank)
        return c_.fail(begin, fmt::format("a tensor has at most {} dimensions", kMaxRank), ErrorKind::Limit);
      sizes_.push_back(size);
    } while (c_.take('x'));
  }
  std::optional<int64_t> numel = checkedNumel(sizes_);
  if (!numel) return c_.fail(begin_, "a tensor of this shape has more than 2^48 elements", ErrorKind::Limit);
  numel_ = *numel;
  if (!c_.take(':')) return c_.expected("':' and a dtype");
  return true;
}

bool TensorReader::readDType() {
  size_t begin = c_.at();
  std::string_view name = c_.takeWord();
  if (name.empty()) return c_.expected("a dtype");
  std::optional<DType> dtype = dtypeFromName(name);
  if (!dtype) {
    Diagnostic& d = c_.error(begin, fmt::format("unknown dtype '{}'", name));
    if (const std::string meant = dtypeMeantBy(name); !meant.empty()) d.note(fmt::format("did you mean '{}'?", meant));
    return false;
  }
  if (!isSupported(*dtype))
    return c_.fail(begin, fmt::format("tensors of dtype {} are not supported", name), ErrorKind::Unsupported);
  dtype_ = *dtype;
  return true;
}

bool TensorReader::allocate(Tensor& out) {
  try {
    out = Tensor::empty(dtype_, sizes_);
    return true;
  } catch (const ExecutionError& e) {
    return c_.fail(begin_, e.message(), e.kind());
  }
}

bool TensorReader::generate(Tensor& out) {
  TensorGenerator g;
  size_t begin = c_.at();
  if (!readGenerator(c_, limits_, g)) return false;
  if (std::string why = whyNotGenerated(g, dtype_, numel_); !why.empty()) return c_.fail(begin, why);
  if (static_cast<uint64_t>(numel_) > limits_.generatedBytes / itemSize(dtype_))
    return c_.failLimit(begin_,
                        fmt::format("{} elements of {} bytes are above the limit of {} bytes for generated tensors",
                                    numel_, itemSize(dtype_), limits_.generatedBytes),
                        "generated");
  if (!allocate(out)) return false;
  generateTensor(g, out);
  return true;
}

// ---- literals ----

// How many dimensions end before element `index`: as many semicolons stand there.
size_t dimensionsEnding(DimSpan sizes, int64_t index) {
  size_t ending = 0;
  for (size_t d = sizes.size(); d-- > 1 && index % sizes[d] == 0; ++ending) index /= sizes[d];
  return ending;
}

// Passes the semicolons between two elements, or nothing before the bracket that ends the literal.
bool TensorReader::readSeparator(int64_t count) {
  c_.skipBlanks();
  if (c_.peek() == ']' || c_.atEnd()) return true;
  size_t begin = c_.at(), found = 0;
  if (c_.take(',')) {
    c_.skipBlanks();
  } else {
    for (; c_.take(';'); c_.skipBlanks()) ++found;
  }
  size_t wanted = dimensionsEnding(sizes_, count);
  if (found == wanted) return true;
  auto marks = [](size_t n) { return n == 0 ? std::string("no ';'") : fmt::format("'{}'", std::string(n, ';')); };
  return c_.fail(begin, fmt::format("expected {} after element {} of {}, found {}", marks(wanted), count,
                                    dimsText(sizes_), marks(found)));
}

template <class T>
bool TensorReader::readElements(std::string& bytes) {
  auto readOne = [&] {
    T value{};
    if (!readElement(c_, dtype_, limits_, value)) return false;
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return true;
  };
  size_t begin = c_.at();
  auto fail = [&](const std::string& found) {
    return c_.fail(begin,
                   fmt::format("{} has {}, the literal has {}", dimsText(sizes_), counted(numel_, "element"), found));
  };
  if (!c_.take('[')) {
    if (sizes_.empty()) return readOne();
    return c_.expected("'[' and the elements");
  }
  c_.skipBlanks();
  int64_t count = 0;
  while (!c_.take(']')) {
    if (count == numel_) return c_.atEnd() ? c_.expected("']'") : fail("more");
    if (!readOne()) return false;
    if (++count < numel_ && !readSeparator(count)) return false;
    c_.skipBlanks();
  }
  return count == numel_ || fail(std::to_string(count));
}

bool TensorReader::readLiteral(Tensor& out) {
  std::string bytes;
  bool good = false;
  visitStoredDType(dtype_, [&](auto sample) { good = readElements<decltype(sample)>(bytes); });
  if (!good || !allocate(out)) return false;
  if (!bytes.empty()) std::memcpy(out.raw(), bytes.data(), bytes.size());
  return true;
}

}  // namespace

bool startsTensor(const TextCursor& c) {
  if (startsWith(c.rest(), "scalar:")) return true;
  size_t n = 0;
  while (isDigit(c.peek(n)) || c.peek(n) == 'x') ++n;
  return n > 0 && isDigit(c.peek()) && c.peek(n) == ':';
}

bool readTensorText(TextCursor& cursor, const Limits& limits, Tensor& out) {
  return TensorReader(cursor, limits).read(out);
}

// ---- writing ----

namespace {

// The shortest text of a float32; where rounding it by way of a double would miss, that of the double.
void appendFloat32(float value, std::string& out) {
  if (!std::isfinite(value)) return appendNumber(static_cast<double>(value), out);
  char buffer[32];
  std::string_view text(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr - buffer);
  double read = 0;
  std::from_chars(text.data(), text.data() + text.size(), read);
  if (static_cast<float>(read) == value)
    out += text;
  else
    appendNumber(static_cast<double>(value), out);
}

void appendFloat64(double value, std::string& out) {
  size_t begin = out.size();
  appendNumber(value, out);
  // In a tensor the dtype says that it is a float.
  if (endsWith(std::string_view(out).substr(begin), ".0")) out.resize(out.size() - 2);
}

template <class T>
void appendElement(const std::byte* at, std::string& out) {
  T value;
  std::memcpy(static_cast<void*>(&value), at, sizeof value);
  if constexpr (std::is_same_v<T, bool>) {
    out += value ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    out += fmt::to_string(+value);
  } else if constexpr (std::is_same_v<T, double>) {
    appendFloat64(value, out);
  } else if constexpr (kIsComplex<T>) {
    constexpr bool wide = std::is_same_v<typename T::value_type, double>;
    auto part = [&](auto v) { wide ? appendFloat64(v, out) : appendFloat32(static_cast<float>(v), out); };
    part(value.real());
    size_t sign = out.size();
    part(value.imag());
    if (out[sign] != '-') out.insert(sign, "+");
    out += 'j';
  } else {
    appendFloat32(static_cast<float>(value), out);
  }
}

}  // namespace

void appendTensorText(const Tensor& t, std::string& out) {
  out += t.rank() == 0 ? std::string(kScalar) : fmt::format("{}", fmt::join(t.sizes(), "x"));
  out += fmt::format(":{}={}", shortName(t.dtype()), t.rank() == 0 ? "" : "[");
  int64_t count = 0;
  auto separate = [&] {
    if (count > 0) {
      out.append(dimensionsEnding(t.sizes(), count), ';');
      out += ' ';
    }
    ++count;
  };
  visitStoredDType(t.dtype(), [&](auto sample) {
    forEachElement(t, [&](const std::byte* element) {
      separate();
      appendElement<decltype(sample)>(element, out);
    });
  });
  // The numbers that the integers stand for.
  for (int64_t i = 0; isQuantized(t.dtype()) && i < t.numel(); ++i) {
    separate();
    appendFloat32(static_cast<float>(t.real(i)), out);
  }
  if (t.rank() > 0) out += ']';
}

}  // namespace tscompile
