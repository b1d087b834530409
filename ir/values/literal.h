// Values as graph text writes them.
#pragma once

#include "ir/values/ivalue.h"
#include "ir/values/tensor_stream.h"

#include <string>
#include <string_view>

namespace tscompile {

void appendComplex(std::complex<double> value, std::string& out);
// In double quotes with PyTorch's escapes. Bytes from 0x80 up come out as PyTorch on x86-64 prints them (digits below
// '0'), which `decodeEscapes` reads back.
void appendQuoted(std::string_view text, std::string& out);
// The tensor as PyTorch's stream prints it, newlines as blanks: `{1.5}`, ` 1  2 [ CPULongType{2} ]`, `<Tensor>`.
void appendTensor(const Tensor& tensor, std::string& out);

enum class LiteralStyle {
  Attribute,  // the value of a node's attribute: bool constants print as 1 and 0
  Schema,     // a schema's default: True, False, no limit where floats lose their point
  Plain,      // as Python's str() of run-time values would be read: for messages and outputs
  Stream,     // as PyTorch's C++ stream prints run-time values: print(), str() and format() of a model
};
void appendValue(const IValue& value, LiteralStyle style, std::string& out, const TextCheck& check = nullptr);
std::string valueText(const IValue& value, LiteralStyle style = LiteralStyle::Attribute);

}  // namespace tscompile
