#include "frontend/export/program_json.h"

#include "ir/support/number_of_text.h"
#include "ir/support/text.h"

#include <array>
#include <limits>

namespace tscompile::exported {

Json alternative(Json any) {
  if (!any.is(JsonTree::Kind::Object)) return {};
  for (Json v = any.first(); v; v = v.next())
    if (v.present()) return v;
  return {};
}

std::vector<Json> items(Json any) {
  std::vector<Json> out;
  if (!any.is(JsonTree::Kind::Object) && !any.is(JsonTree::Kind::Array)) return out;
  for (Json v = any.first(); v; v = v.next()) out.push_back(v);
  return out;
}

std::string_view textOf(Json any) { return any.is(JsonTree::Kind::String) ? any.text() : std::string_view(); }

std::optional<double> floatOf(Json any) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (any.is(JsonTree::Kind::String)) {
    if (any.text() == "Infinity") return kInfinity;
    if (any.text() == "-Infinity") return -kInfinity;
    if (any.text() == "NaN") return std::numeric_limits<double>::quiet_NaN();
  }
  if (!any.is(JsonTree::Kind::Number)) return std::nullopt;
  return numberOfText<double>(any.range().text());
}

std::string quoteNonFinite(std::string text) {
  constexpr std::string_view kWords[] = {"-Infinity", "Infinity", "NaN"};
  auto wordAt = [&](size_t i) {
    for (std::string_view word : kWords)
      if (text.compare(i, word.size(), word) == 0) return word.size();
    return size_t{0};
  };
  if (text.find("Infinity") == std::string::npos && text.find("NaN") == std::string::npos) return text;
  std::string out;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    size_t length = inString ? 0 : wordAt(i);
    if (length > 0) {
      out += '"' + text.substr(i, length) + '"';
      i += length - 1;
      continue;
    }
    out += text[i];
    if (inString && text[i] == '\\' && i + 1 < text.size())
      out += text[++i];
    else if (text[i] == '"')
      inString = !inString;
  }
  return out;
}

namespace {

template <size_t N>
std::optional<int64_t> mapped(Json number, const std::array<int, N>& table) {
  std::optional<int64_t> i = number ? number.integer() : std::nullopt;
  if (!i || *i < 0 || *i >= static_cast<int64_t>(N) || table[static_cast<size_t>(*i)] < 0) return std::nullopt;
  return table[static_cast<size_t>(*i)];
}

}  // namespace

std::optional<int64_t> scalarTypeOf(Json number) {
  // unknown, u8, i8, i16, i32, i64, f16, f32, f64, c32, c64, c128, bool, bf16; 28: u16, float8 in four kinds, e8m0,
  // u32, u64
  static constexpr std::array<int, 36> kTypes{-1, 0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 15, -1, -1, -1, -1,
                                              -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 27, 24, 23, 26, 25, 44, 28, 29};
  return mapped(number, kTypes);
}

std::optional<int64_t> layoutOf(Json number) {
  // unknown, sparse: coo, csr, csc, bsr, bsc, mkldnn, strided
  static constexpr std::array<int, 8> kLayouts{-1, 1, 3, 4, 5, 6, 2, 0};
  return mapped(number, kLayouts);
}

std::optional<int64_t> memoryFormatOf(Json number) {
  // unknown, contiguous, channels last, channels last 3d, preserve
  static constexpr std::array<int, 5> kFormats{-1, 0, 2, 3, 1};
  return mapped(number, kFormats);
}

std::optional<Device> deviceOf(Json device) {
  std::optional<Device> d = deviceFromText(textOf(device.find("type")));
  Json index = device.find("index");
  if (!d || !index.present()) return d;
  std::optional<int64_t> i = index.integer();
  if (!i || *i < 0 || *i > std::numeric_limits<int16_t>::max()) return std::nullopt;
  d->index = static_cast<int16_t>(*i);
  return d;
}

int64_t sizeOf(Json size) {
  Json v = size.is(JsonTree::Kind::Number) ? size : alternative(size);
  std::optional<int64_t> n = v ? v.integer() : std::nullopt;
  return n && *n >= 0 ? *n : kUnknownSize;
}

std::string_view expressionOf(Json size) {
  Json expression = alternative(size);
  if (!expression || expression.key() != "as_expr") return {};
  return textOf(expression.find("expr_str"));
}

int64_t hintOf(Json size) { return sizeOf(alternative(size).find("hint")); }

Json metaOf(Json tensor) {
  Json inner = tensor.find("meta");
  return inner.is(JsonTree::Kind::Object) ? inner : tensor;
}

TensorFacts factsOf(Json meta) {
  TensorFacts facts;
  if (std::optional<int64_t> dtype = scalarTypeOf(meta.find("dtype")))
    if (std::optional<DType> d = dtypeFromNumber(*dtype)) facts.dtype = *d;
  Json sizes = meta.find("sizes");
  std::vector<Json> all = items(sizes);
  if (!sizes.is(JsonTree::Kind::Array) || all.size() > static_cast<size_t>(kMaxRank)) return facts;
  facts.hasRank = true;
  for (Json s : all) facts.sizes.push_back(sizeOf(s));
  return facts;
}

}  // namespace tscompile::exported
