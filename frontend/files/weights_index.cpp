#include "frontend/files/weights_index.h"

#include "ir/support/text.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace tscompile {
namespace {

// Takes {"metadata": ..., "weight_map": {name: file}} apart as it is parsed: what else there is costs no memory.
class IndexReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  IndexReader(WeightsIndex& out, const Limits& limits) : out_(out), limits_(limits) {}

  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(number_integer_t) override { return other(); }
  bool number_unsigned(number_unsigned_t) override { return other(); }
  bool number_float(number_float_t, const string_t&) override { return other(); }
  bool binary(binary_t&) override { return other(); }
  bool string(string_t& value) override;
  bool start_object(size_t) override { return open(true); }
  bool start_array(size_t) override { return open(false); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override;
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail(fmt::format("it is not JSON at byte {}", position));
  }
  const std::string& message() const { return message_; }
  ErrorKind kind() const { return kind_; }
  bool hasMap() const { return hasMap_; }

 private:
  bool fail(std::string message, ErrorKind kind = ErrorKind::Input) {
    message_ = std::move(message);
    kind_ = kind;
    return false;
  }
  bool isInMap() const { return depth_ == 2 && inMap_; }
  bool other() { return !isInMap() || fail("the name of a file is a string"); }
  bool open(bool isObject);
  bool close();

  WeightsIndex& out_;
  const Limits& limits_;
  size_t depth_ = 0;
  bool mapNext_ = false, inMap_ = false, hasMap_ = false;
  std::string name_, message_;
  ErrorKind kind_ = ErrorKind::Input;
};

bool IndexReader::open(bool isObject) {
  if (isInMap() || (depth_ == 1 && mapNext_ && !isObject)) return fail("weight_map is an object of strings");
  if (depth_ == 0 && !isObject) return fail("it is not an object");
  inMap_ = depth_ == 1 && mapNext_;
  hasMap_ = hasMap_ || inMap_;
  ++depth_;
  return true;
}

bool IndexReader::close() {
  if (--depth_ == 1) inMap_ = false;
  return true;
}

bool IndexReader::key(string_t& name) {
  if (depth_ == 1) {
    mapNext_ = name == "weight_map";
    if (mapNext_ && hasMap_) return fail("it has weight_map twice");
  }
  if (isInMap()) name_ = name;
  return true;
}

bool IndexReader::string(string_t& value) {
  if (!isInMap()) return true;
  if (value.empty() || value.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos || value == "..")
    return fail(fmt::format("'{}' is not the name of a file beside it", abbreviate(value, 200)));
  if (name_.size() > limits_.identifierBytes || out_.tensors.size() >= limits_.tensors)
    return fail("it has too many or too long names", ErrorKind::Limit);
  if (out_.tensors.emplace(name_, value).second) return true;
  return fail(fmt::format("it has {} twice", tensorText(name_)));
}

}  // namespace

Result<WeightsIndex> parseWeightsIndex(const FilePart& file, Diagnostics& diagnostics, const Limits& limits) {
  auto fail = [&](const std::string& message, ErrorKind kind) {
    diagnostics.fileError(file.path, {}, "this is not an index of weights: " + message, kind);
    return Failed{};
  };
  if (file.bytes.size() > limits.headerBytes)
    return diagnostics.metLimit(
        "header",
        fail(fmt::format("it has {} bytes, the limit is {}", file.bytes.size(), limits.headerBytes), ErrorKind::Limit));
  WeightsIndex out;
  IndexReader reader(out, limits);
  bool good = nlohmann::json::sax_parse(file.bytes.begin(), file.bytes.end(), &reader);
  if (!good) return fail(reader.message(), reader.kind());
  if (!reader.hasMap()) return fail("it has no weight_map", ErrorKind::Input);
  for (const auto& [name, path] : out.tensors) out.files.push_back(path);
  std::sort(out.files.begin(), out.files.end());
  out.files.erase(std::unique(out.files.begin(), out.files.end()), out.files.end());
  return out;
}

}  // namespace tscompile
