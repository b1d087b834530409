#include "ir/literal.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace tscompile {
namespace {

void appendInt(int64_t v, std::string& out) {
  char buffer[24];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, v);
  out.append(buffer, end);
}

// As C's %.{precision}g in the C locale.
void appendGeneral(double v, int precision, std::string& out) {
  if (std::isnan(v)) {
    out += std::signbit(v) ? "-nan" : "nan";
    return;
  }
  char buffer[64];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, v, std::chars_format::general, precision);
  out.append(buffer, end);
}

std::string formatted(double v, bool scientific, int precision) {
  if (std::isnan(v)) return "nan";
  char buffer[400];
  auto format = scientific ? std::chars_format::scientific : std::chars_format::fixed;
  auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, v, format, precision);
  return std::string(buffer, end);
}

void appendFloatUpTo(double v, double limit, std::string& out) {
  if (std::isnan(v)) {
    out += "nan";
    return;
  }
  int c = std::fpclassify(v);
  if ((c == FP_NORMAL || c == FP_ZERO) && std::fabs(v) < limit && v == std::trunc(v)) {
    if (v == 0 && std::signbit(v)) out += '-';
    appendInt(static_cast<int64_t>(v), out);
    out += '.';
    return;
  }
  appendGeneral(v, 17, out);
}

}  // namespace

void appendFloat(double value, std::string& out) { appendFloatUpTo(value, 1e10, out); }

void appendComplex(std::complex<double> value, std::string& out) {
  // Parts lose the sign of zero, and a NaN imaginary part takes "-": as PyTorch has it.
  auto part = [&out](double v) { appendFloatUpTo(v == 0 ? 0.0 : v, 9.2e18, out); };
  part(value.real());
  out += value.imag() >= 0 ? '+' : '-';
  part(std::fabs(value.imag()));
  out += 'j';
}

void appendQuoted(std::string_view text, std::string& out) {
  out += '"';
  for (char c : text) {
    switch (c) {
      case '\\': out += "\\\\"; continue;
      case '\'': out += "\\'"; continue;
      case '"': out += "\\\""; continue;
      case '\a': out += "\\a"; continue;
      case '\b': out += "\\b"; continue;
      case '\f': out += "\\f"; continue;
      case '\n': out += "\\n"; continue;
      case '\r': out += "\\r"; continue;
      case '\t': out += "\\t"; continue;
      case '\v': out += "\\v"; continue;
      default: break;
    }
    if (c >= 0x20 && c < 0x7f) {
      out += c;
      continue;
    }
    // PyTorch takes the digits from a signed char, so those of bytes above 0x7f lie below '0'.
    int v = static_cast<signed char>(c);
    out += '\\';
    out += static_cast<char>('0' + v / 64);
    out += static_cast<char>('0' + v % 64 / 8);
    out += static_cast<char>('0' + v % 8);
  }
  out += '"';
}

// ---- tensors ----

namespace {

// How PyTorch's stream lays out the numbers of one matrix or vector.
struct NumberFormat {
  double scale = 1;
  int width = 0;
  bool integers = false;
  bool scientific = false;

  std::string operator()(double v) const {
    std::string s = integers && std::isfinite(v) && !scientific ? formatted(v, false, 0)
                    : std::isfinite(v)                          ? formatted(v / scale, scientific, 4)
                    : std::isnan(v)                             ? "nan"
                    : v > 0                                     ? "inf"
                                                                : "-inf";
    return s.size() < static_cast<size_t>(width) ? std::string(width - s.size(), ' ') + s : s;
  }
};

NumberFormat chooseFormat(const std::vector<double>& values) {
  NumberFormat f;
  f.integers = true;
  double least = 1, most = 1;
  bool any = false;
  for (double v : values) {
    if (!std::isfinite(v)) continue;
    if (v != std::ceil(v)) f.integers = false;
    double magnitude = std::fabs(v);
    // The maximum moves only when the *signed* value exceeds it: PyTorch's quirk.
    if (!any) {
      least = most = magnitude;
      any = true;
    } else {
      if (magnitude < least) least = magnitude;
      if (v > most) most = magnitude;
    }
  }
  auto exponent = [any](double v) { return !any ? 1 : v == 0 ? 1 : static_cast<int>(std::floor(std::log10(v))) + 1; };
  int low = exponent(least), high = exponent(most);
  if (f.integers) {
    f.width = high > 9 ? 11 : high + 1;
    f.scientific = high > 9;
  } else if (high - low > 4) {
    f.width = std::abs(high) > 99 || std::abs(low) > 99 ? 12 : 11;
    f.scientific = true;
  } else if (high > 5 || high < 0) {
    f.width = 7;
    f.scale = std::pow(10.0, high - 1);
  } else {
    f.width = high == 0 ? 7 : high + 6;
  }
  return f;
}

void appendScale(const NumberFormat& f, std::string& out) {
  if (f.scale == 1) return;
  appendGeneral(f.scale, 6, out);
  out += " *\n";
}

void appendMatrix(const std::vector<double>& values, int64_t rows, int64_t columns, int indent, std::string& out) {
  NumberFormat f = chooseFormat(values);
  std::string margin(indent, ' ');
  int64_t perLine = std::max<int64_t>(1, (80 - indent) / (f.width + 1));
  out += margin;
  for (int64_t first = 0; first < columns; first += perLine) {
    int64_t last = std::min(first + perLine, columns) - 1;
    if (columns > perLine) {
      if (first != 0) out += '\n';
      out += "Columns ";
      appendInt(first + 1, out);
      out += " to ";
      appendInt(last + 1, out);
      out += margin;  // no line end: PyTorch has none
    }
    if (f.scale != 1) {
      appendScale(f, out);
      out += margin;
    }
    for (int64_t r = 0; r < rows; ++r) {
      if (r != 0) out += f.scale != 1 ? margin + " " : margin;
      for (int64_t c = first; c <= last; ++c) {
        out += f(values[static_cast<size_t>(r * columns + c)]);
        out += c == last ? '\n' : ' ';
      }
    }
  }
}

std::string tensorStream(const Tensor& t) {
  std::string out;
  std::vector<double> values;
  for (int64_t i = 0; i < t.numel(); ++i) values.push_back(t.real(i));
  if (t.numel() == 0) {
    out += "[ ";
  } else if (t.rank() == 1) {
    NumberFormat f = chooseFormat(values);
    appendScale(f, out);
    for (double v : values) {
      out += f(v);
      out += '\n';
    }
    out += "[ ";
  } else if (t.rank() == 2) {
    appendMatrix(values, t.size(0), t.size(1), 0, out);
    out += "[ ";
  } else {
    int64_t rows = t.size(t.rank() - 2), columns = t.size(t.rank() - 1), matrix = rows * columns;
    for (int64_t m = 0; m < t.numel() / matrix; ++m) {
      if (m > 0) out += '\n';
      std::string index;
      int64_t rest = m;
      for (int d = t.rank() - 3; d >= 0; --d) {
        index = std::to_string(rest % t.size(d) + 1) + "," + index;
        rest /= t.size(d);
      }
      out += "(" + index + ".,.) = \n";
      appendMatrix({values.begin() + m * matrix, values.begin() + (m + 1) * matrix}, rows, columns, 1, out);
    }
    out += "[ ";
  }
  out += "CPU";
  out += graphName(t.dtype());
  out += "Type{";
  for (int d = 0; d < t.rank(); ++d) {
    if (d) out += ',';
    appendInt(t.size(d), out);
  }
  return out + "} ]";
}

void appendScalarTensor(const Tensor& t, std::string& out) {
  out += '{';
  if (isComplex(t.dtype())) {
    out += '(';
    appendGeneral(t.complex(0).real(), 6, out);
    out += ',';
    appendGeneral(t.complex(0).imag(), 6, out);
    out += ')';
  } else if (isFloating(t.dtype())) {
    appendGeneral(t.real(0), 6, out);
  } else {
    appendInt(t.integer(0), out);
  }
  out += '}';
}

}  // namespace

void appendTensor(const Tensor& t, std::string& out) {
  constexpr int64_t kMostShown = 10;
  if (!t.defined()) {
    out += "[ Tensor (undefined) ]";
  } else if (t.numel() == 1) {
    appendScalarTensor(t, out);
  } else if (t.numel() > kMostShown || isComplex(t.dtype())) {
    out += "<Tensor>";
  } else {
    std::string text = tensorStream(t);
    for (char& c : text)
      if (c == '\n') c = ' ';
    out += text;
  }
}

// ---- values ----

namespace {

// PyTorch annotates lists and dicts whose element type the items do not show.
bool needsAnnotation(const ListValue& list) {
  if (list.items.empty()) return true;
  TypeKind k = list.elementType->kind();
  return k == TypeKind::Optional || k == TypeKind::Any || k == TypeKind::Union;
}

// Prints nested values from an explicit stack: their depth is not bounded.
class ValuePrinter {
 public:
  ValuePrinter(LiteralStyle style, std::string& out) : style_(style), out_(out) {}

  void print(const IValue& value) {
    open(value, true);
    while (!stack_.empty()) step();
  }

 private:
  struct Frame {
    explicit Frame(const IValue* container) : container(container) {}
    const IValue* container;
    size_t next = 0;
    std::vector<std::pair<const IValue*, const IValue*>> entries;  // of a dict
    bool annotated = false;
  };

  void open(const IValue& v, bool top) {
    switch (v.tag()) {
      case IValue::Tag::None: out_ += "None"; return;
      case IValue::Tag::Bool:
        if (top && style_ == LiteralStyle::Attribute)
          out_ += v.toBool() ? '1' : '0';
        else
          out_ += v.toBool() ? "True" : "False";
        return;
      case IValue::Tag::Int: appendInt(v.toInt(), out_); return;
      case IValue::Tag::Float: appendFloatUpTo(v.toFloat(), style_ == LiteralStyle::Schema ? 9.2e18 : 1e10, out_); return;
      case IValue::Tag::Complex: appendComplex(v.toComplex(), out_); return;
      case IValue::Tag::String: appendQuoted(v.toString(), out_); return;
      case IValue::Tag::Device:
        if (style_ == LiteralStyle::Schema)
          out_ += deviceText(v.toDevice());
        else if (top)
          appendQuoted(deviceText(v.toDevice()), out_);
        else
          out_ += "torch.device(\"" + deviceText(v.toDevice()) + "\")";
        return;
      case IValue::Tag::Tensor: appendTensor(v.toTensor(), out_); return;
      case IValue::Tag::Literal: out_ += v.toLiteral().text; return;
      case IValue::Tag::Enum: out_ += v.toEnum().type->name() + "." + v.toEnum().member; return;
      case IValue::Tag::Function: appendQuoted(v.toFunction().name, out_); return;
      case IValue::Tag::Object: out_ += "<" + v.toObject().type->name() + " object>"; return;
      case IValue::Tag::Uninitialized: out_ += "Uninitialized"; return;
      case IValue::Tag::Future: out_ += "<Future>"; return;
      case IValue::Tag::Opaque: out_ += "<object>"; return;
      case IValue::Tag::List: openList(v, top); return;
      case IValue::Tag::Tuple:
        out_ += '(';
        stack_.emplace_back(&v);
        return;
      case IValue::Tag::Dict: openDict(v); return;
    }
  }

  void openList(const IValue& v, bool top) {
    ListValue& list = v.toList();
    if (style_ == LiteralStyle::Attribute) {
      if (top && !list.items.empty() && list.elementType->isTensor()) {
        out_ += "[<Tensors>]";
        return;
      }
      if (needsAnnotation(list)) {
        out_ += "annotate(List[";
        appendType(list.elementType, TypeStyle::Python, out_);
        out_ += "], [";
        stack_.emplace_back(&v);
        stack_.back().annotated = true;
        return;
      }
    }
    out_ += '[';
    stack_.emplace_back(&v);
  }

  void openDict(const IValue& v) {
    DictValue& dict = v.toDict();
    Frame frame(&v);
    dict.forEach([&](const IValue& key, const IValue& value) { frame.entries.emplace_back(&key, &value); });
    TypeKind k = dict.valueType->kind();
    if (style_ == LiteralStyle::Attribute &&
        (frame.entries.empty() || k == TypeKind::Optional || k == TypeKind::Any || k == TypeKind::Union)) {
      out_ += "annotate(Dict[";
      appendType(dict.keyType, TypeStyle::Python, out_);
      out_ += ", ";
      appendType(dict.valueType, TypeStyle::Python, out_);
      out_ += "],";  // without a blank, unlike lists: as PyTorch prints it
      frame.annotated = true;
    }
    out_ += '{';
    stack_.push_back(std::move(frame));
  }

  void step() {
    size_t depth = stack_.size() - 1;
    Frame& f = stack_[depth];
    if (f.container->isDict()) {
      size_t i = f.next++;
      if (i / 2 >= f.entries.size()) return close(f, "}");
      if (i % 2 == 0 && i > 0) out_ += ", ";
      if (i % 2 == 1) out_ += ": ";
      const IValue* item = i % 2 == 0 ? f.entries[i / 2].first : f.entries[i / 2].second;
      open(*item, false);
      return;
    }
    bool isTuple = f.container->isTuple();
    const auto& items = isTuple ? f.container->toTuple().items : f.container->toList().items;
    if (f.next == items.size()) return close(f, !isTuple ? "]" : items.size() == 1 ? ",)" : ")");
    if (f.next > 0) out_ += ", ";
    open(items[f.next++], false);
  }

  void close(Frame& f, std::string_view bracket) {
    out_ += bracket;
    if (f.annotated) out_ += ')';
    stack_.pop_back();
  }

  LiteralStyle style_;
  std::string& out_;
  std::vector<Frame> stack_;
};

}  // namespace

void appendValue(const IValue& value, LiteralStyle style, std::string& out) { ValuePrinter(style, out).print(value); }

std::string valueText(const IValue& value, LiteralStyle style) {
  std::string out;
  appendValue(value, style, out);
  return out;
}

}  // namespace tscompile
