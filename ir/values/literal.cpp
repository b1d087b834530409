#include "ir/values/literal.h"

#include <charconv>
#include <cmath>

namespace tscompile {
namespace {

void appendInt(int64_t v, std::string& out) {
  char buffer[24];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, v);
  out.append(buffer, end);
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

// Zero and NaN as C++ streams have them.
void appendStreamFloat(double v, std::string& out) {
  constexpr double kInts = 9223372036854775808.0;
  if (std::isnan(v) || v == -kInts)
    out += std::isnan(v) ? (std::signbit(v) ? "-nan" : "nan") : "-9223372036854775808.";
  else
    appendFloatUpTo(v == 0 ? 0.0 : v, kInts, out);
}

}  // namespace

void appendComplex(std::complex<double> value, std::string& out) {
  appendStreamFloat(value.real(), out);
  out += value.imag() >= 0 ? '+' : '-';  // NaN takes "-": as PyTorch has it
  appendStreamFloat(std::fabs(value.imag()), out);
  out += 'j';
}

void appendQuoted(std::string_view text, std::string& out) {
  out += '"';
  for (char c : text) {
    switch (c) {
      case '\\':
        out += "\\\\";
        continue;
      case '\'':
        out += "\\'";
        continue;
      case '"':
        out += "\\\"";
        continue;
      case '\a':
        out += "\\a";
        continue;
      case '\b':
        out += "\\b";
        continue;
      case '\f':
        out += "\\f";
        continue;
      case '\n':
        out += "\\n";
        continue;
      case '\r':
        out += "\\r";
        continue;
      case '\t':
        out += "\\t";
        continue;
      case '\v':
        out += "\\v";
        continue;
      default:
        break;
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
    std::string text;
    appendTensorStream(t, text);
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
  ValuePrinter(LiteralStyle style, std::string& out, const TextCheck& check)
      : style_(style), out_(out), check_(check) {}

  void print(const IValue& value) {
    open(value, true);
    while (!stack_.empty()) {
      step();
      if (check_) check_(out_);
    }
  }

 private:
  struct Frame {
    explicit Frame(const IValue* container) : container(container) {}
    const IValue* container;
    size_t next = 0;
    std::vector<std::pair<const IValue*, const IValue*>> entries;  // of a dict
    bool annotated = false;
  };

  // What the stream prints in its own way. False for the rest.
  bool openStream(const IValue& v) {
    switch (v.tag()) {
      case IValue::Tag::Float:
        appendStreamFloat(v.toFloat(), out_);
        return true;
      case IValue::Tag::String:
        out_ += v.toString();
        return true;
      case IValue::Tag::Device:
        out_ += deviceText(v.toDevice());
        return true;
      case IValue::Tag::Future:
        out_ += "Future";
        return true;
      case IValue::Tag::Enum: {
        const std::string& type = v.toEnum().type->name();
        out_ += "Enum<" + type.substr(type.rfind('.') + 1) + "." + v.toEnum().member + ">";
        return true;
      }
      case IValue::Tag::Tensor:
        if (!v.tensorImpl()) return false;
        appendTensorStream(v.toTensor(), out_, check_);
        return true;
      default:
        return false;
    }
  }

  void open(const IValue& v, bool top) {
    if (style_ == LiteralStyle::Stream && openStream(v)) return;
    switch (v.tag()) {
      case IValue::Tag::None:
        out_ += "None";
        return;
      case IValue::Tag::Bool:
        if (top && style_ == LiteralStyle::Attribute)
          out_ += v.toBool() ? '1' : '0';
        else
          out_ += v.toBool() ? "True" : "False";
        return;
      case IValue::Tag::Int:
        appendInt(v.toInt(), out_);
        return;
      case IValue::Tag::Float:
        appendFloatUpTo(v.toFloat(), style_ == LiteralStyle::Schema ? 9.2e18 : 1e10, out_);
        return;
      case IValue::Tag::Complex:
        appendComplex(v.toComplex(), out_);
        return;
      case IValue::Tag::String:
        appendQuoted(v.toString(), out_);
        return;
      case IValue::Tag::Device:
        if (style_ == LiteralStyle::Schema)
          out_ += deviceText(v.toDevice());
        else if (top)
          appendQuoted(deviceText(v.toDevice()), out_);
        else
          out_ += "torch.device(\"" + deviceText(v.toDevice()) + "\")";
        return;
      case IValue::Tag::Tensor:
        appendTensor(v.toTensor(), out_);
        return;
      case IValue::Tag::Literal:
        out_ += v.toLiteral().text;
        return;
      case IValue::Tag::Enum:
        out_ += v.toEnum().type->name() + "." + v.toEnum().member;
        return;
      case IValue::Tag::Function:
        appendQuoted(v.toFunction().name, out_);
        return;
      case IValue::Tag::Object:
        out_ += "<" + v.toObject().type->name() + " object>";
        return;
      case IValue::Tag::Uninitialized:
        out_ += "Uninitialized";
        return;
      case IValue::Tag::Future:
        out_ += "<Future>";
        return;
      case IValue::Tag::List:
        openList(v, top);
        return;
      case IValue::Tag::Tuple:
        out_ += '(';
        stack_.emplace_back(&v);
        return;
      case IValue::Tag::Dict:
        openDict(v);
        return;
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
  const TextCheck& check_;
  std::vector<Frame> stack_;
};

}  // namespace

void appendValue(const IValue& value, LiteralStyle style, std::string& out, const TextCheck& check) {
  ValuePrinter(style, out, check).print(value);
}

std::string valueText(const IValue& value, LiteralStyle style) {
  std::string out;
  appendValue(value, style, out);
  return out;
}

}  // namespace tscompile
