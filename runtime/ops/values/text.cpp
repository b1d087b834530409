// Strings: Python's methods as TorchScript has them. They are bytes; only ASCII letters have a case.
#include "runtime/call/kernel_call.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/loops/scalars.h"
#include "runtime/reference/loops/slices.h"
#include "runtime/reference/text_format.h"

#include <algorithm>

namespace tscompile {
namespace {

using View = std::string_view;
constexpr size_t kNone = View::npos;

// ---- characters ----

bool isUpper(char c) { return c >= 'A' && c <= 'Z'; }
bool isLower(char c) { return c >= 'a' && c <= 'z'; }
bool isAlpha(char c) { return isUpper(c) || isLower(c); }
bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isAlnum(char c) { return isAlpha(c) || isDigit(c); }
bool isSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool isPrintable(char c) { return c >= ' ' && c <= '~'; }
char toUpper(char c) { return isLower(c) ? static_cast<char>(c - 'a' + 'A') : c; }
char toLower(char c) { return isUpper(c) ? static_cast<char>(c - 'A' + 'a') : c; }
char swapCase(char c) { return isUpper(c) ? toLower(c) : toUpper(c); }

// ---- search ----

// Linear, unlike std::string's.
size_t findFirst(View text, View part, size_t from) {
  if (from > text.size()) return kNone;
  if (part.empty()) return from;
  if (part.size() > text.size() - from) return kNone;
  const void* p = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return p ? static_cast<size_t>(static_cast<const char*>(p) - text.data()) : kNone;
}
size_t findLast(View text, View part) {
  if (part.empty()) return text.size();
  size_t last = kNone;
  for (size_t at = findFirst(text, part, 0); at != kNone; at = findFirst(text, part, at + 1)) last = at;
  return last;
}

// The arguments `int start, int end` count from the end if they are negative; an end of -1 is after the last
// character.
struct Range {
  int64_t start, end;
};
Range rangeOf(const IValue& start, const IValue& end, size_t size) {
  auto n = static_cast<int64_t>(size);
  int64_t from = intOf(start), to = intOf(end);
  if (from < 0) from = from < -n ? 0 : n + from;
  if (to < 0) to = to < -n ? 0 : n + to + 1;
  return {from, to};
}
// What PyTorch looks at: up to the end of the text if the range ends before it starts.
View partOf(View text, Range range) {
  if (range.start > static_cast<int64_t>(text.size())) failRun("the start is after the end of the string");
  return text.substr(static_cast<size_t>(range.start),
                     range.end < range.start ? kNone : static_cast<size_t>(range.end - range.start));
}

template <bool kLast>
int64_t positionIn(Arguments a) {
  View text = stringOf(*a[0]), part = stringOf(*a[1]);
  Range range = rangeOf(*a[2], *a[3], text.size());
  View within = range.end > range.start ? partOf(text, range) : View();
  size_t at = kLast ? findLast(within, part) : findFirst(within, part, 0);
  return at == kNone ? -1 : static_cast<int64_t>(at) + range.start;
}
template <bool kLast>
void findIn(Arguments a, IValue& r) {
  r = positionIn<kLast>(a);
}
template <bool kLast>
void indexIn(Arguments a, IValue& r) {
  int64_t at = positionIn<kLast>(a);
  if (at < 0) failRun("ValueError: substring not found");
  r = at;
}
void startsWithPart(Arguments a, IValue& r) {
  View text = stringOf(*a[0]);
  r = partOf(text, rangeOf(*a[2], *a[3], text.size())).starts_with(stringOf(*a[1]));
}
void endsWithPart(Arguments a, IValue& r) {
  View text = stringOf(*a[0]);
  r = partOf(text, rangeOf(*a[2], *a[3], text.size())).ends_with(stringOf(*a[1]));
}
// Matches count if they begin before the end.
void countInText(Arguments a, IValue& r) {
  View text = stringOf(*a[0]), part = stringOf(*a[1]);
  Range range = rangeOf(*a[2], *a[3], text.size());
  int64_t found = 0;
  // In an empty text PyTorch finds nothing, not even the empty text.
  if (!text.empty() && range.start <= static_cast<int64_t>(text.size())) {
    size_t step = std::max<size_t>(part.size(), 1);
    for (size_t at = findFirst(text, part, static_cast<size_t>(range.start));
         at != kNone && static_cast<int64_t>(at) < range.end + part.empty(); at = findFirst(text, part, at + step))
      ++found;
  }
  r = found;
}

// ---- tests ----

template <bool (*kTest)(char)>
void allAre(Arguments a, IValue& r) {
  const std::string& text = stringOf(*a[0]);
  r = !text.empty() && std::all_of(text.begin(), text.end(), kTest);
}
void allPrintable(Arguments a, IValue& r) {
  const std::string& text = stringOf(*a[0]);
  r = std::all_of(text.begin(), text.end(), isPrintable);
}
// Letters, of which there is at least one, are of one case.
template <bool (*kCase)(char)>
void isCase(Arguments a, IValue& r) {
  const std::string& text = stringOf(*a[0]);
  r = std::any_of(text.begin(), text.end(), isAlpha) &&
      std::all_of(text.begin(), text.end(), [](char c) { return !isAlpha(c) || kCase(c); });
}
void isIdentifier(Arguments a, IValue& r) {
  const std::string& text = stringOf(*a[0]);
  r = !text.empty() && !isDigit(text[0]) && std::all_of(text.begin(), text.end(), isAlnum);
}
void isTitle(Arguments a, IValue& r) {
  bool any = false, inside = false, good = true;
  for (char c : stringOf(*a[0])) {
    good &= inside ? !isUpper(c) : !isLower(c);
    inside = isAlpha(c);
    any |= inside;
  }
  r = any && good;
}

// ---- case ----

template <char (*kMap)(char)>
void mapped(Arguments a, IValue& r) {
  std::string text = stringOf(*a[0]);
  std::transform(text.begin(), text.end(), text.begin(), kMap);
  r = IValue(std::move(text));
}
void capitalize(Arguments a, IValue& r) {
  std::string text = stringOf(*a[0]);
  for (size_t i = 0; i < text.size(); ++i) text[i] = i == 0 ? toUpper(text[i]) : toLower(text[i]);
  r = IValue(std::move(text));
}
void title(Arguments a, IValue& r) {
  std::string text = stringOf(*a[0]);
  bool inside = false;
  for (char& c : text) {
    c = inside ? toLower(c) : toUpper(c);
    inside = isAlpha(c);
  }
  r = IValue(std::move(text));
}

// ---- blanks ----

template <bool kLeft, bool kRight>
void strip(Arguments a, IValue& r) {
  View text = stringOf(*a[0]), chars = stringOf(*a[1]);
  size_t from = kLeft ? text.find_first_not_of(chars) : 0;
  if (from == kNone) from = text.size();
  size_t last = kRight ? text.find_last_not_of(chars) : text.size() - 1;
  size_t to = last == kNone ? 0 : last + 1;
  r = IValue(to > from ? text.substr(from, to - from) : View());
}

// Copies of `fill` on both sides up to a width.
void pad(const IValue& textValue, const IValue& fillValue, int64_t left, int64_t right, IValue& r) {
  const std::string& text = stringOf(textValue);
  const std::string& fill = stringOf(fillValue);
  if (fill.size() != 1) failRun("TypeError: The fill character must be exactly one character long");
  if (left > INT64_MAX - right) left = INT64_MAX - right;
  checkTextSize(text.size() + static_cast<size_t>(left + right));
  std::string out(static_cast<size_t>(left), fill[0]);
  out += text;
  out.append(static_cast<size_t>(right), fill[0]);
  r = IValue(std::move(out));
}
int64_t paddingOf(const IValue& text, const IValue& width) {
  int64_t w = intOf(width);
  auto size = static_cast<int64_t>(stringOf(text).size());
  return w > size ? w - size : 0;
}
void leftJustify(Arguments a, IValue& r) { pad(*a[0], *a[2], 0, paddingOf(*a[0], *a[1]), r); }
void rightJustify(Arguments a, IValue& r) { pad(*a[0], *a[2], paddingOf(*a[0], *a[1]), 0, r); }
// Of an odd padding the left side gets more if the width is odd.
void center(Arguments a, IValue& r) {
  int64_t padding = paddingOf(*a[0], *a[1]), less = padding / 2, more = padding - less;
  bool odd = intOf(*a[1]) % 2 != 0;
  pad(*a[0], *a[2], odd ? more : less, odd ? less : more, r);
}
void zeroFill(Arguments a, IValue& r) { pad(*a[0], IValue("0"), paddingOf(*a[0], *a[1]), 0, r); }

// Columns count through line breaks.
void expandTabs(Arguments a, IValue& r) {
  const std::string& text = stringOf(*a[0]);
  int64_t size = intOf(*a[1]);
  std::string out;
  for (char c : text) {
    if (c != '\t') {
      out += c;
    } else if (size > 0) {
      size_t step = static_cast<size_t>(size) - out.size() % static_cast<size_t>(size);
      checkTextSize(out.size() + step);
      out.append(step, ' ');
    }
  }
  r = IValue(std::move(out));
}

// ---- parts ----

IValue textList(std::vector<IValue> parts) { return Ref<ListValue>::make(types().string, std::move(parts)); }

// PyTorch takes the bytes of U+2028 and U+2029 one by one.
constexpr View kLineBreaks = "\n\r\v\f\x1c\x1d\x1e\x85\xe2\x80\xa8\xa9";
constexpr View kBlanks = " \t\n\r\v\f\x1c\x1d\x1e\x85\xe2\x80\xa8\xa9";

IValue splitAtBlanks(View text) {
  std::vector<IValue> parts;
  for (size_t from = 0; (from = text.find_first_not_of(kBlanks, from)) != kNone;) {
    size_t to = std::min(text.find_first_of(kBlanks, from), text.size());
    parts.emplace_back(text.substr(from, to - from));
    from = to;
  }
  return textList(std::move(parts));
}
void split(Arguments a, IValue& r) {
  View text = stringOf(*a[0]);
  int64_t most = intOf(*a[2]);
  if (a[1]->isNone()) {
    r = splitAtBlanks(text);
    return;
  }
  View separator = stringOf(*a[1]);
  if (separator.empty()) failRun("ValueError: empty separator");
  std::vector<IValue> parts;
  size_t from = 0;
  for (size_t at; (at = findFirst(text, separator, from)) != kNone; from = at + separator.size()) {
    if (most >= 0 && static_cast<int64_t>(parts.size()) == most) break;
    parts.emplace_back(text.substr(from, at - from));
  }
  parts.emplace_back(text.substr(from));
  r = textList(std::move(parts));
}
// The same from the right: of overlapping separators the last one counts. What is not to be split at all may have an
// empty one.
void splitFromRight(Arguments a, IValue& r) {
  std::string text = stringOf(*a[0]), separator = stringOf(*a[1]);
  int64_t most = intOf(*a[2]);
  if (separator.empty() && most != 0) failRun("ValueError: empty separator");
  std::reverse(text.begin(), text.end());
  std::reverse(separator.begin(), separator.end());
  std::vector<IValue> parts;
  auto add = [&](View reversed) { parts.emplace_back(std::string(reversed.rbegin(), reversed.rend())); };
  size_t from = 0;
  for (size_t at; (at = findFirst(text, separator, from)) != kNone; from = at + separator.size()) {
    if (most >= 0 && static_cast<int64_t>(parts.size()) == most) break;
    add(View(text).substr(from, at - from));
  }
  add(View(text).substr(from));
  std::reverse(parts.begin(), parts.end());
  r = textList(std::move(parts));
}
// Line breaks that are kept are items of their own.
void splitLines(Arguments a, IValue& r) {
  View text = stringOf(*a[0]);
  bool keep = boolOf(*a[1]);
  std::vector<IValue> parts;
  size_t from = 0;
  for (size_t at; (at = text.find_first_of(kLineBreaks, from)) != kNone; from = at + 1) {
    parts.emplace_back(text.substr(from, at - from));
    if (keep) parts.emplace_back(text.substr(at, 1));
  }
  if (from != text.size()) parts.emplace_back(text.substr(from));
  r = textList(std::move(parts));
}

void partition(KernelCall& call, size_t at) {
  View text = stringOf(call.argument(0)), separator = stringOf(call.argument(1));
  call.setResult(0, text.substr(0, at));
  call.setResult(1, separator);
  call.setResult(2, text.substr(at + separator.size()));
}
void partitionFirst(KernelCall& call) {
  const std::string& text = stringOf(call.argument(0));
  if (size_t at = findFirst(text, stringOf(call.argument(1)), 0); at != kNone) return partition(call, at);
  call.setResult(0, text);
  call.setResult(1, "");
  call.setResult(2, "");
}
void partitionLast(KernelCall& call) {
  const std::string& text = stringOf(call.argument(0));
  if (size_t at = findLast(text, stringOf(call.argument(1))); at != kNone) return partition(call, at);
  call.setResult(0, "");
  call.setResult(1, "");
  call.setResult(2, text);
}

// ---- building ----

void addTexts(Arguments a, IValue& r) {
  const std::string& x = stringOf(*a[0]);
  const std::string& y = stringOf(*a[1]);
  constexpr size_t kSmall = 4096;
  if (x.size() + y.size() > kSmall) checkTextSize(x.size() + y.size());
  // Nobody else sees a text that its sum takes the place of: loops build texts in linear time.
  if (auto* sum = static_cast<StringValue*>(a[0] == &r ? r.object() : nullptr); sum && sum->unique()) {
    sum->text.append(y);
    sum->charge.raise(sum->text.capacity());
    return;
  }
  std::string text;
  text.reserve(x.size() + y.size());
  text.append(x).append(y);
  r = IValue(std::move(text));
}

void join(Arguments a, IValue& r) {
  const std::string& separator = stringOf(*a[0]);
  const std::vector<IValue>& items = listOf(*a[1]).items;
  size_t size = items.empty() ? 0 : (items.size() - 1) * separator.size();
  for (const IValue& item : items) size += stringOf(item).size();
  checkTextSize(size);
  std::string text;
  text.reserve(size);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i) text += separator;
    text += items[i].toString();
  }
  r = IValue(std::move(text));
}

void replace(Arguments a, IValue& r) {
  View text = stringOf(*a[0]), old = stringOf(*a[1]), fresh = stringOf(*a[2]);
  int64_t most = intOf(*a[3]), done = 0;
  std::string out;
  size_t from = 0;
  auto put = [&](View part) {
    checkTextSize(out.size() + part.size());
    out += part;
  };
  if (old.empty() && most >= 0) {
    // PyTorch puts them all in front.
    size_t size;
    if (__builtin_mul_overflow(fresh.size(), static_cast<size_t>(most), &size)) size = SIZE_MAX / 2;
    checkTextSize(size);
    for (; done < most && !fresh.empty(); ++done) out += fresh;
  } else if (old.empty()) {
    for (char c : text) {
      put(fresh);
      out += c;
    }
    put(fresh);
    from = text.size();
  } else {
    for (size_t at; (at = findFirst(text, old, from)) != kNone && (most < 0 || done < most);
         from = at + old.size(), ++done) {
      put(text.substr(from, at - from));
      put(fresh);
    }
  }
  put(text.substr(from));
  r = IValue(std::move(out));
}

// ---- characters by index ----

void length(Arguments a, IValue& r) { r = static_cast<int64_t>(stringOf(*a[0]).size()); }
void getCharacter(Arguments a, IValue& r) {
  const std::string& text = stringOf(*a[0]);
  int64_t i = positionOf(intOf(*a[1]), text.size());
  if (i < 0) failRun("string index out of range");
  r = IValue(std::string(1, text[static_cast<size_t>(i)]));
}
void sliceText(Arguments a, IValue& r) {
  const std::string& text = stringOf(*a[0]);
  Slice s = sliceOf(*a[1], *a[2], *a[3], text.size());
  std::string out;
  for (int64_t k = 0; k < s.count; ++k) out += text[static_cast<size_t>(s.start + k * s.step)];
  r = IValue(std::move(out));
}

// ---- values as text ----

void str(Arguments a, IValue& r) { r = a[0]->isString() ? *a[0] : IValue(textOf(*a[0])); }
void format(KernelCall& call) {
  call.setResult(formatBraces(stringOf(call.argument(0)), call.arguments() + 1, call.size() - 1));
}
void percentFormat(KernelCall& call) {
  if (call.size() != 2) call.fail("expected a string and a tuple, not {} arguments", call.size());
  call.setResult(formatPercent(stringOf(call.argument(0)), call.argument(1)));
}

struct TextMethod {
  const char* schema;
  ScalarFunction function;
};
constexpr TextMethod kTextMethods[] = {
    {"aten::find", findIn<false>},
    {"aten::rfind", findIn<true>},
    {"aten::index.str", indexIn<false>},
    {"aten::rindex", indexIn<true>},
    {"aten::startswith", startsWithPart},
    {"aten::endswith", endsWithPart},
    {"aten::count", countInText},
    {"aten::isalpha", allAre<isAlpha>},
    {"aten::isdigit", allAre<isDigit>},
    {"aten::isdecimal", allAre<isDigit>},
    {"aten::isnumeric", allAre<isDigit>},
    {"aten::isalnum", allAre<isAlnum>},
    {"aten::isspace", allAre<isSpace>},
    {"aten::isprintable", allPrintable},
    {"aten::isupper", isCase<isUpper>},
    {"aten::islower", isCase<isLower>},
    {"aten::isidentifier", isIdentifier},
    {"aten::istitle", isTitle},
    {"aten::upper", mapped<toUpper>},
    {"aten::lower", mapped<toLower>},
    {"aten::swapcase", mapped<swapCase>},
    {"aten::capitalize", capitalize},
    {"aten::title", title},
    {"aten::strip", strip<true, true>},
    {"aten::lstrip", strip<true, false>},
    {"aten::rstrip", strip<false, true>},
    {"aten::ljust", leftJustify},
    {"aten::rjust", rightJustify},
    {"aten::center", center},
    {"aten::zfill", zeroFill},
    {"aten::expandtabs", expandTabs},
    {"aten::split.str", split},
    {"aten::rsplit", splitFromRight},
    {"aten::splitlines", splitLines},
    {"aten::add.str", addTexts},
    {"aten::join", join},
    {"aten::replace", replace},
    {"aten::len.str", length},
    {"aten::__getitem__.str", getCharacter},
    {"prim::StringIndex", getCharacter},
    {"aten::slice.str", sliceText},
    {"aten::str", str},
};

}  // namespace

void registerTextOps(OpRegistry& ops) {
  for (const TextMethod& e : kTextMethods) ops.add({.schema = e.schema, .scalar = e.function});
  ops.add({.schema = "aten::partition", .kernel = partitionFirst});
  ops.add({.schema = "aten::rpartition", .kernel = partitionLast});
  ops.add({.schema = "aten::format", .kernel = format});
  ops.add({.schema = "aten::percentFormat", .kernel = percentFormat});
}

}  // namespace tscompile
