// The JSON of torch.export's programs: unions, lists and enumerations.
#pragma once

#include "frontend/files/json_tree.h"
#include "ir/values/type.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile::exported {

using Json = JsonTree::Value;

// What a union holds, with the name of the alternative as its key. Older files list all alternatives, null but for one.
// Nothing for what is no union.
Json alternative(Json any);
// The members or items of an object or a list; of anything else none.
std::vector<Json> items(Json any);
// Of a string; of anything else "".
std::string_view textOf(Json any);
// A number, or the texts "Infinity", "-Infinity" and "NaN".
std::optional<double> floatOf(Json any);

// PyTorch's JSON may name infinities without quotes, which is no JSON; the same text with quotes around them.
std::string quoteNonFinite(std::string text);

// Enumerations of files as the integers that graphs have: 7 is float there and 6 here.
std::optional<int64_t> scalarTypeOf(Json number);
std::optional<int64_t> layoutOf(Json number);
std::optional<int64_t> memoryFormatOf(Json number);
std::optional<Device> deviceOf(Json device);

// A size, which is a number or an expression of symbols: kUnknownSize.
int64_t sizeOf(Json size);
// The expression of symbols that a size is, as the file has it; empty for numbers.
std::string_view expressionOf(Json size);
// What an open size was when the program was exported; kUnknownSize where the file does not say it.
int64_t hintOf(Json size);
// What a file says of a tensor: PyTorch 2.1 has it one step deeper.
Json metaOf(Json tensor);
// dtype and sizes of a `tensor_meta`; what it does not say stays unknown.
TensorFacts factsOf(Json meta);

}  // namespace tscompile::exported
