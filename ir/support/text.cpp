#include "ir/support/text.h"

#include "ir/support/unsafe_text.h"

#include <algorithm>
#include <array>

namespace tscompile {

size_t editDistance(std::string_view a, std::string_view b, size_t limit) {
  constexpr size_t kLongest = 256;
  if (a.size() > b.size()) std::swap(a, b);
  if (b.size() - a.size() > limit || b.size() > kLongest) return limit + 1;
  // Rows of distances between the beginnings of both: only those up to the limit, near the diagonal, are told apart.
  std::array<uint16_t, kLongest + 2> rows[3];
  auto *beforeLast = rows[0].data(), *last = rows[1].data(), *row = rows[2].data();
  const auto beyond = static_cast<uint16_t>(std::min(limit, kLongest) + 1);
  const size_t band = beyond - 1;
  for (size_t j = 0; j <= std::min(b.size(), band + 1); ++j) last[j] = static_cast<uint16_t>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    const size_t first = i > band ? i - band : 1, end = std::min(b.size(), i + band);
    row[first - 1] = first == 1 ? static_cast<uint16_t>(i) : beyond;
    uint16_t least = row[first - 1];
    for (size_t j = first; j <= end; ++j) {
      const int cost = a[i - 1] == b[j - 1] ? 0 : 1;
      int distance = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + cost});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        distance = std::min(distance, beforeLast[j - 2] + 1);
      row[j] = static_cast<uint16_t>(distance);
      least = std::min(least, row[j]);
    }
    row[end + 1] = beyond;
    if (least > band) return limit + 1;
    std::swap(beforeLast, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

namespace {

// Whether the words of the one, which are two or more, are among those of the other, in their order: max_batch of
// max_batch_size, max_tokens of max_new_tokens.
bool isSomeWordsOf(std::string_view some, std::string_view all) {
  const auto next = [](std::string_view& rest) {
    const size_t end = std::min(rest.find_first_of("_-"), rest.size());
    const std::string_view word = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return word;
  };
  // Of options, too.
  some.remove_prefix(std::min(some.find_first_not_of('-'), some.size()));
  all.remove_prefix(std::min(all.find_first_not_of('-'), all.size()));
  if (some.size() > all.size()) return false;
  size_t words = 0;
  while (!some.empty()) {
    const std::string_view word = next(some);
    if (word.empty()) return false;
    ++words;
    std::string_view found;
    while (found != word) {
      if (all.empty()) return false;
      found = next(all);
    }
  }
  return words >= 2;
}

}  // namespace

NearestName::NearestName(std::string_view wanted)
    : wanted_(wanted),
      bestDistance_(wanted.size() < 3   ? 1
                    : wanted.size() < 6 ? 2
                                        : 3) {}

void NearestName::consider(std::string_view candidate) {
  if (bestDistance_ == 0 || candidate == wanted_) return;
  size_t distance = editDistance(wanted_, candidate, bestDistance_ - 1);
  // "max_seq_length" for max_seq_len.
  const size_t less = std::min(wanted_.size(), candidate.size()), more = std::max(wanted_.size(), candidate.size());
  if (less >= 6 && 4 * less >= 3 * more && wanted_.compare(0, less, candidate.substr(0, less)) == 0)
    distance = std::min<size_t>(distance, 2);
  const std::string_view scope = candidate.substr(0, candidate.size() - less);
  if (candidate.ends_with(wanted_) && scope.ends_with("::")) distance = 0;  // "relu" for aten::relu
  if (isSomeWordsOf(wanted_, candidate)) distance = std::min<size_t>(distance, 2);
  if (distance < bestDistance_) {
    bestDistance_ = distance;
    best_ = candidate;
  }
}

std::string fileNameOf(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

size_t displayWidth(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xc0) != 0x80; }));
}

size_t utf8Length(std::string_view text) {
  auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  auto follows = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  unsigned c = byte(0);
  if (c < 0x80) return 1;
  if (c >= 0xc2 && c <= 0xdf) return follows(1) ? 2 : 0;
  if (c >= 0xe0 && c <= 0xef) {
    if (c == 0xe0 && byte(1) < 0xa0) return 0;
    if (c == 0xed && byte(1) >= 0xa0) return 0;
    return follows(1) && follows(2) ? 3 : 0;
  }
  if (c >= 0xf0 && c <= 0xf4) {
    if (c == 0xf0 && byte(1) < 0x90) return 0;
    if (c == 0xf4 && byte(1) >= 0x90) return 0;
    return follows(1) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

std::string jsonQuote(std::string_view text) {
  static const char* kHex = "0123456789abcdef";
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    unsigned char c = static_cast<unsigned char>(text[i]);
    size_t n = utf8Length(text.substr(i));
    if (n == 0) {
      out += "\xef\xbf\xbd";
      ++i;
      continue;
    }
    if (uint32_t code = n > 1 ? unsafeCode(text.substr(i, n)) : 0) {
      out += "\\u";
      for (int shift = 12; shift >= 0; shift -= 4) out += kHex[code >> shift & 15];
    } else if (n > 1) {
      out += text.substr(i, n);
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c < 0x20 || c == 0x7f) {
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
    } else {
      out += static_cast<char>(c);
    }
    i += n;
  }
  return out += '"';
}

std::string counted(uint64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string abbreviate(std::string_view text, size_t limit) {
  if (text.size() <= limit) return std::string(text);
  return std::string(text.substr(0, limit)) + "...";
}

bool startsWith(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

bool endsWith(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

}  // namespace tscompile
