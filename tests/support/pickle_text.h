// Values of pickles as text, for tests.
#pragma once

#include "frontend/pickle/pickle_value.h"
#include "ir/support/json_writer.h"
#include "ir/support/text.h"

#include <map>
#include <string>

namespace tscompile::test {

// As Python would print it, with "=1" after the first place of a container that is held twice and "#1" at the others,
// "tag:" before what has a type tag.
class PickleText {
 public:
  std::string of(const PickleValue& root) {
    count(root);
    return text(root);
  }

 private:
  using Kind = PickleValue::Kind;

  void count(const PickleValue& v) {
    if (++times_[&v] == 1) v.forEachPart([&](const PickleValue& part) { count(part); });
  }
  static bool isContainer(const PickleValue& v) {
    return v.is(Kind::List) || v.is(Kind::Tuple) || v.is(Kind::Set) || v.is(Kind::Dict) || v.is(Kind::Object);
  }
  std::string text(const PickleValue& v) {
    if (!isContainer(v) || times_[&v] < 2) return plain(v);
    auto [at, isNew] = numbers_.try_emplace(&v, numbers_.size() + 1);
    std::string number = std::to_string(at->second);
    return isNew ? plain(v) + "=" + number : "#" + number;
  }
  std::string items(const PickleValue& v) {
    return join(v.items(), ", ", [&](PickleRef item) { return text(*item); });
  }
  static std::string tagged(const PickleValue& v, const std::string& text) {
    return (v.typeTag().empty() ? "" : std::string(v.typeTag()) + ":") + text;
  }
  std::string plain(const PickleValue& v) {
    switch (v.kind()) {
      case Kind::Bool:
        return v.toBool() ? "True" : "False";
      case Kind::Int:
        return std::to_string(v.toInt());
      case Kind::Float:
        return shortestNumber(v.toFloat());
      case Kind::Complex:
        return shortestNumber(v.toComplex().real()) + "+" + shortestNumber(v.toComplex().imag()) + "j";
      case Kind::String:
        return "'" + std::string(v.text()) + "'";
      case Kind::Bytes:
      case Kind::Long:
        return std::to_string(v.text().size()) + " bytes";
      case Kind::Device:
      case Kind::Name:
        return std::string(v.text());
      case Kind::Storage:
        return "storage " + std::string(v.storage().key);
      case Kind::Tensor:
        return tensor(v.tensor());
      case Kind::List:
        return tagged(v, "[" + items(v) + "]");
      case Kind::Tuple:
        return "(" + items(v) + ")";
      case Kind::Set:
        return "{" + items(v) + "}";
      case Kind::Dict:
        return tagged(v, "{" + join(v.entries(), ", ", [&](const auto& e) {
                           return text(*e.key) + ": " + text(*e.value);
                         }) + "}");
      case Kind::Object:
        return std::string(v.object().name) + (v.object().arguments ? text(*v.object().arguments) : "") +
               (v.object().state ? text(*v.object().state) : "");
      case Kind::None:
        break;
    }
    return "None";
  }
  static std::string tensor(const PickleTensor& t) {
    std::string out = std::string(pythonName(t.dtype)) + dimsText(t.sizes);
    if (t.isParameter) out += " parameter";
    if (!t.tensor.defined()) return out;
    out += " <";
    for (int64_t i = 0; i < t.tensor.numel(); ++i) {
      if (i) out += " ";
      if (isComplex(t.tensor.dtype()))
        out += shortestNumber(t.tensor.complex(i).real()) + "+" + shortestNumber(t.tensor.complex(i).imag()) + "j";
      else
        out += shortestNumber(t.tensor.real(i));
    }
    return out + ">";
  }

  std::map<PickleRef, int> times_;
  std::map<PickleRef, size_t> numbers_;
};

inline std::string pickleText(const PickleValue& v) { return PickleText().of(v); }

}  // namespace tscompile::test
