#include "frontend/archive/source_origins.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace tscompile {
namespace {

using Kind = PickleValue::Kind;

bool isSequence(const PickleValue& v, size_t least) {
  return (v.is(Kind::Tuple) || v.is(Kind::List)) && v.items().size() >= least;
}

std::optional<uint32_t> count(const PickleValue& v) {
  if (!v.is(Kind::Int) || v.toInt() < 0 || v.toInt() > std::numeric_limits<int32_t>::max()) return std::nullopt;
  return static_cast<uint32_t>(v.toInt());
}

// The texts that a file with a table names by their numbers; others have them in place.
class Texts {
 public:
  explicit Texts(const PickleValue* table) : table_(table) {}

  std::optional<std::string_view> of(const PickleValue& v) const {
    if (!table_) return v.is(Kind::String) ? std::optional(v.text()) : std::nullopt;
    std::optional<uint32_t> index = count(v);
    if (!index || *index >= table_->items().size() || !table_->items()[*index]->is(Kind::String)) return std::nullopt;
    return table_->items()[*index]->text();
  }

  // How many lines of a source text end before this byte of it, and where the last of these ends. A text with a table
  // is a list of its lines, others are in place.
  std::pair<uint32_t, size_t> linesBefore(const PickleValue& source, size_t byte) {
    uint32_t lines = 0;
    size_t begin = 0;
    if (!table_) {
      if (!source.is(Kind::String)) return {0, 0};
      std::string_view text = source.text().substr(0, byte);
      work_ += text.size();
      for (size_t end; (end = text.find('\n', begin)) != std::string_view::npos; begin = end + 1) ++lines;
      return {lines, begin};
    }
    if (!isSequence(source, 0)) return {0, 0};
    for (PickleRef item : source.items()) {
      std::optional<std::string_view> line = of(*item);
      if (!line || begin + line->size() > byte) break;
      begin += line->size();
      ++lines;
    }
    work_ += lines;
    return {lines, begin};
  }
  // Ranges of a file that was made to take long are passed over.
  bool tooMuch() const { return work_ > size_t{1} << 26; }

 private:
  const PickleValue* table_;
  size_t work_ = 0;
};

// ((text, file, first line), begin, end): where the range begins.
CodeLocation locationOf(const PickleValue& range, Texts& texts) {
  if (texts.tooMuch() || !isSequence(range, 3) || !isSequence(*range.items()[0], 3)) return {};
  const std::vector<PickleRef>& source = range.items()[0]->items();
  std::optional<std::string_view> file = texts.of(*source[1]);
  std::optional<uint32_t> first = count(*source[2]), begin = count(*range.items()[1]);
  if (!file || file->empty() || !first || !begin) return {};
  auto [lines, lineBegin] = texts.linesBefore(*source[0], *begin);
  return {Symbol::of(*file), *first + lines, static_cast<uint32_t>(*begin - std::min<size_t>(lineBegin, *begin))};
}

}  // namespace

SourceOrigins::SourceOrigins(const PickleValue& root) {
  if (!isSequence(root, 0)) return;
  const std::vector<PickleRef>& parts = root.items();
  const bool hasTable = parts.size() == 3 && parts[0]->isString("FORMAT_WITH_STRING_TABLE") && isSequence(*parts[1], 0);
  const PickleValue& list = hasTable ? *parts[2] : root;
  if (!isSequence(list, 0)) return;
  Texts texts(hasTable ? parts[1] : nullptr);
  for (PickleRef item : list.items()) {
    if (!isSequence(*item, 2)) continue;
    if (std::optional<uint32_t> byte = count(*item->items()[0]))
      entries_.push_back({*byte, locationOf(*item->items()[1], texts)});
  }
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.byte < b.byte; });
}

CodeLocation SourceOrigins::of(uint32_t byte) const {
  auto after =
      std::upper_bound(entries_.begin(), entries_.end(), byte, [](uint32_t b, const Entry& e) { return b < e.byte; });
  return after == entries_.begin() ? CodeLocation() : std::prev(after)->location;
}

}  // namespace tscompile
