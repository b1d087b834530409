// Values to text in the grammar that parseValueText reads.
#include "api/value_text.h"
#include "frontend/files/number_text.h"
#include "frontend/files/quoted_text.h"
#include "frontend/files/tensor_text.h"
#include "ir/values/literal.h"

#include <utility>
#include <vector>

namespace tscompile {
namespace {

// Walks with a stack of its own: values may be nested to any depth.
class ValueWriter {
 public:
  explicit ValueWriter(std::string& out) : out_(out) {}

  void write(const IValue& value) {
    open(value);
    while (!stack_.empty()) step();
  }

 private:
  struct Frame {
    std::vector<const IValue*> items;  // of a dict: key, value, key, value ...
    char close;
    size_t next = 0;
  };

  void open(const IValue& v);
  void step();

  std::string& out_;
  std::vector<Frame> stack_;
};

void ValueWriter::open(const IValue& v) {
  switch (v.tag()) {
    case IValue::Tag::None:
      out_ += "None";
      return;
    case IValue::Tag::Bool:
      out_ += v.toBool() ? "true" : "false";
      return;
    case IValue::Tag::Int:
      out_ += std::to_string(v.toInt());
      return;
    case IValue::Tag::Float:
      appendNumber(v.toFloat(), out_);
      return;
    case IValue::Tag::Complex:
      appendNumber(v.toComplex(), out_);
      return;
    case IValue::Tag::String:
      appendQuotedText(v.toString(), out_);
      return;
    case IValue::Tag::Tensor:
      if (v.tensorImpl())
        appendTensorText(v.toTensor(), out_);
      else
        out_ += "None";
      return;
    case IValue::Tag::List:
    case IValue::Tag::Tuple: {
      Frame f{{}, v.isList() ? ']' : ')'};
      for (const IValue& item : v.isList() ? v.toList().items : v.toTuple().items) f.items.push_back(&item);
      out_ += v.isList() ? '[' : '(';
      stack_.push_back(std::move(f));
      return;
    }
    case IValue::Tag::Dict: {
      Frame f{{}, '}'};
      v.toDict().forEach([&](const IValue& key, const IValue& value) {
        f.items.push_back(&key);
        f.items.push_back(&value);
      });
      out_ += '{';
      stack_.push_back(std::move(f));
      return;
    }
    case IValue::Tag::Enum:
      out_ += valueText(v, LiteralStyle::Plain);
      return;
    default:
      out_ += "<" + valueText(v, LiteralStyle::Plain) + ">";
      return;  // the grammar has no such values
  }
}

void ValueWriter::step() {
  Frame& f = stack_.back();
  size_t i = f.next++;
  if (i == f.items.size()) {
    if (f.close == ')' && f.items.size() == 1) out_ += ',';
    out_ += f.close;
    stack_.pop_back();
    return;
  }
  if (i > 0) out_ += f.close == '}' && i % 2 == 1 ? ": " : ", ";
  open(*f.items[i]);
}

}  // namespace

std::string valueToText(const IValue& value) {
  std::string out;
  ValueWriter(out).write(value);
  return out;
}

}  // namespace tscompile
