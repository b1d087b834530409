#include "frontend/pickle/pickle_reader.h"

#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>

namespace tscompile {

Result<std::shared_ptr<const PickleTree>> readPickle(std::string_view bytes, const PickleOptions& options,
                                                     Diagnostics& diagnostics, size_t* used) {
  std::shared_ptr<const PickleTree> tree = PickleReader(bytes, options, diagnostics).read(used);
  if (!tree) return Failed{};
  return tree;
}

// What each byte stands for; null: not an instruction that we know.
struct PickleReader::Instructions {
  std::array<Run, 256> of{};
  Instructions();
};

PickleReader::Instructions::Instructions() {
  using R = PickleReader;
  const std::pair<int, Run> list[] = {
      {0x80, &R::protocol},
      {0x95, &R::frame},
      {'(', &R::mark},
      {'0', &R::popOne},
      {'1', &R::popMark},
      {'2', &R::duplicate},
      {'N', &R::none},
      {0x88, &R::boolean<true>},
      {0x89, &R::boolean<false>},
      {'J', &R::integer<4>},
      {'K', &R::integer<1>},
      {'M', &R::integer<2>},
      {0x8a, &R::longInteger<1>},
      {0x8b, &R::longInteger<4>},
      {'G', &R::floating},
      {'X', &R::text<Kind::String, 4>},
      {0x8c, &R::text<Kind::String, 1>},
      {0x8d, &R::text<Kind::String, 8>},
      {'T', &R::text<Kind::String, 4>},  // strings of Python 2
      {'U', &R::text<Kind::String, 1>},
      {'B', &R::text<Kind::Bytes, 4>},
      {'C', &R::text<Kind::Bytes, 1>},
      {0x8e, &R::text<Kind::Bytes, 8>},
      {0x96, &R::text<Kind::Bytes, 8>},  // a bytearray
      {')', &R::empty<Kind::Tuple>},
      {']', &R::empty<Kind::List>},
      {'}', &R::empty<Kind::Dict>},
      {0x8f, &R::empty<Kind::Set>},
      {'t', &R::fromMark<Kind::Tuple>},
      {0x85, &R::tupleOf<1>},
      {0x86, &R::tupleOf<2>},
      {0x87, &R::tupleOf<3>},
      {'l', &R::fromMark<Kind::List>},
      {0x91, &R::fromMark<Kind::Set>},
      {'d', &R::dictFromMark},
      {'a', &R::append},
      {'e', &R::appends},
      {0x90, &R::appends},
      {'s', &R::setItem},
      {'u', &R::setItems},
      {'q', &R::putAt<1>},
      {'r', &R::putAt<4>},
      {'h', &R::getAt<1>},
      {'j', &R::getAt<4>},
      {0x94, &R::memoize},
      {'c', &R::global},
      {0x93, &R::stackGlobal},
      {0x81, &R::newObject},
      {0x92, &R::newObjectEx},
      {'R', &R::reduce},
      {'b', &R::build},
      {'Q', &R::persistentId},
  };
  for (const auto& [byte, run] : list) of[static_cast<size_t>(byte)] = run;
}

std::shared_ptr<const PickleTree> PickleReader::read(size_t* used) {
  tree_->owner_ = options_.owner;
  constexpr char kStop = '.';
  while (at_ < bytes_.size() && bytes_[at_] != kStop)
    if (!step()) return nullptr;
  start_ = at_;
  if (at_ == bytes_.size()) return failed("the pickle ends too early");
  if (stack_.size() != 1 || !marks_.empty()) return failed("the pickle does not end with one value");
  tree_->root_ = stack_[0];
  if (used) *used = at_ + 1;
  if (!checkKeys() || !checkDepth()) return nullptr;
  return tree_;
}

bool PickleReader::step() {
  static const Instructions instructions;
  start_ = at_++;
  auto byte = static_cast<unsigned char>(bytes_[start_]);
  if (Run run = instructions.of[byte]) return (this->*run)();
  return fail(fmt::format("the pickle instruction 0x{:02x} is not supported", byte), ErrorKind::Unsupported);
}

bool PickleReader::fail(std::string message, ErrorKind kind) {
  diagnostics_.fileError(options_.path, options_.offset + start_, std::move(message), kind);
  return false;
}

// ---- bytes ----

bool PickleReader::take(uint64_t count, std::string_view& out) {
  if (count > bytes_.size() - at_) return fail("the pickle ends too early");
  out = bytes_.substr(at_, count);
  at_ += count;
  return true;
}

template <size_t n>
bool PickleReader::takeNumber(uint64_t& value) {
  std::string_view b;
  if (!take(n, b)) return false;
  value = 0;
  for (size_t i = n; i-- > 0;) value = value << 8 | static_cast<unsigned char>(b[i]);
  return true;
}

template <size_t n>
bool PickleReader::takeCounted(std::string_view& out) {
  uint64_t count;
  return takeNumber<n>(count) && take(count, out);
}

bool PickleReader::takeLine(std::string_view& out) {
  size_t end = bytes_.substr(at_, options_.limits.identifierBytes).find('\n');
  if (end == std::string_view::npos) return fail("the name has no end");
  out = bytes_.substr(at_, end);
  at_ += end + 1;
  return true;
}

// ---- values ----

PickleValue* PickleReader::make(Kind kind) {
  if (tree_->values_.size() >= options_.limits.values)
    return diagnostics_.metLimit(
        "values", failed(fmt::format("the pickle has more than {} values", options_.limits.values), ErrorKind::Limit));
  return &tree_->values_.emplace_back(kind, options_.offset + start_);
}

PickleValue* PickleReader::makeText(Kind kind, std::string text) {
  return make(kind, std::string_view(tree_->texts_.emplace_back(std::move(text))));
}

// Values that are equal and cannot change are made once.
PickleValue* PickleReader::constant(Kind kind, int64_t value) {
  PickleValue*& known = kind == Kind::None ? none_ : kind == Kind::Bool ? booleans_[value] : bytesAsIntegers_[value];
  if (!known) known = kind == Kind::Bool ? make(kind, value != 0) : kind == Kind::Int ? make(kind, value) : make(kind);
  return known;
}

// ---- the stack ----

bool PickleReader::push(PickleValue* value) {
  if (value) stack_.push_back(value);
  return value;
}

bool PickleReader::pop(PickleValue*& value) {
  value = top();
  if (!value) return fail("the pickle takes a value that is not there");
  stack_.pop_back();
  return true;
}

bool PickleReader::popToMark(std::vector<PickleRef>& items) {
  if (marks_.empty()) return fail("the pickle closes what it has not opened");
  items.assign(stack_.begin() + static_cast<ptrdiff_t>(marks_.back()), stack_.end());
  stack_.resize(marks_.back());
  marks_.pop_back();
  return true;
}

bool PickleReader::mark() {
  marks_.push_back(stack_.size());
  return true;
}

bool PickleReader::popOne() {
  if (!marks_.empty() && stack_.size() == marks_.back()) return popMark();
  PickleValue* value;
  return pop(value);
}

bool PickleReader::popMark() {
  std::vector<PickleRef> items;
  return popToMark(items);
}

bool PickleReader::duplicate() { return top() ? push(top()) : fail("the pickle takes a value that is not there"); }

// ---- constants ----

bool PickleReader::protocol() {
  constexpr uint64_t kNewest = 5;
  uint64_t version;
  if (!takeNumber<1>(version)) return false;
  return version <= kNewest || fail(fmt::format("version {} of pickles is not known", version), ErrorKind::Unsupported);
}

bool PickleReader::frame() {
  uint64_t length;
  return takeNumber<8>(length);
}

template <size_t n>
bool PickleReader::integer() {
  uint64_t value;
  if (!takeNumber<n>(value)) return false;
  if (n == 4) return push(make(Kind::Int, int64_t{static_cast<int32_t>(value)}));
  return push(n == 1 ? constant(Kind::Int, static_cast<int64_t>(value)) : make(Kind::Int, static_cast<int64_t>(value)));
}

// Two's complement in as many bytes as it takes.
template <size_t n>
bool PickleReader::longInteger() {
  std::string_view b;
  if (!takeCounted<n>(b)) return false;
  if (b.size() > options_.limits.numberBytes)
    return diagnostics_.metLimit(
        "number", fail(fmt::format("the integer has {} bytes, the limit is {}", b.size(), options_.limits.numberBytes),
                       ErrorKind::Limit));
  if (b.size() > 8) return push(make(Kind::Long, b));
  uint64_t value = !b.empty() && b.back() < 0 ? ~uint64_t{0} : 0;
  for (size_t i = b.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(b[i]);
  return push(make(Kind::Int, static_cast<int64_t>(value)));
}

bool PickleReader::floating() {
  std::string_view b;
  if (!take(8, b)) return false;
  uint64_t bits = 0;
  for (char c : b) bits = bits << 8 | static_cast<unsigned char>(c);
  return push(make(Kind::Float, std::bit_cast<double>(bits)));
}

template <PickleValue::Kind kind, size_t n>
bool PickleReader::text() {
  std::string_view b;
  return takeCounted<n>(b) && push(make(kind, b));
}

// ---- containers ----

template <size_t n>
bool PickleReader::tupleOf() {
  if (stack_.size() - floor() < n) return fail("the pickle takes a value that is not there");
  std::vector<PickleRef> items(stack_.end() - n, stack_.end());
  stack_.resize(stack_.size() - n);
  return push(makeItems(Kind::Tuple, std::move(items)));
}

template <PickleValue::Kind kind>
bool PickleReader::empty() {
  return push(kind == Kind::Dict ? makeDict() : makeItems(kind));
}

template <PickleValue::Kind kind>
bool PickleReader::fromMark() {
  std::vector<PickleRef> items;
  return popToMark(items) && push(makeItems(kind, std::move(items)));
}

bool PickleReader::dictFromMark() {
  std::vector<PickleRef> items;
  if (!popToMark(items)) return false;
  PickleValue* dict = makeDict();
  return dict && addEntries(dict, items) && push(dict);
}

bool PickleReader::append() {
  PickleValue* item;
  return pop(item) && addTo(top(), {item});
}

bool PickleReader::appends() {
  std::vector<PickleRef> items;
  return popToMark(items) && addTo(top(), items);
}

bool PickleReader::setItem() {
  PickleValue *value, *key;
  return pop(value) && pop(key) && addEntries(top(), {key, value});
}

bool PickleReader::setItems() {
  std::vector<PickleRef> items;
  return popToMark(items) && addEntries(top(), items);
}

bool PickleReader::addTo(PickleValue* target, const std::vector<PickleRef>& items) {
  if (!target) return fail("the pickle takes a value that is not there");
  // An object of a class that is also a list: of objects that we do not know nothing is asked.
  if (target->is(Kind::Object) && options_.foreignNames) return true;
  if (!target->is(Kind::List) && !target->is(Kind::Set))
    return fail(fmt::format("the pickle appends to {}", describe(target->kind())));
  std::vector<PickleRef>& list = std::get<PickleValue::Items>(target->payload_).items;
  list.insert(list.end(), items.begin(), items.end());
  return true;
}

bool PickleReader::addEntries(PickleValue* target, const std::vector<PickleRef>& items) {
  if (!target) return fail("the pickle takes a value that is not there");
  if (items.size() % 2) return fail("the pickle has a key without a value");
  if (target->is(Kind::Object) && options_.foreignNames) return true;
  if (!target->is(Kind::Dict)) return fail(fmt::format("the pickle sets items of {}", describe(target->kind())));
  auto& entries = std::get<PickleValue::Entries>(target->payload_).entries;
  for (size_t i = 0; i < items.size(); i += 2) entries.push_back({items[i], items[i + 1]});
  return true;
}

// ---- the memo ----

bool PickleReader::put(uint64_t index) {
  if (!top()) return fail("the pickle takes a value that is not there");
  // Numbers are given one after the other, and each took an instruction.
  if (index >= bytes_.size()) return fail(fmt::format("the pickle remembers a value as number {}", index));
  if (index >= memo_.size()) memo_.resize(index + 1);
  memoized_ += !memo_[index];
  memo_[index] = top();
  return true;
}

template <size_t n>
bool PickleReader::putAt() {
  uint64_t index;
  return takeNumber<n>(index) && put(index);
}

template <size_t n>
bool PickleReader::getAt() {
  uint64_t index;
  if (!takeNumber<n>(index)) return false;
  if (index >= memo_.size() || !memo_[index])
    return fail(fmt::format("the pickle has not remembered a value as number {}", index));
  return push(memo_[index]);
}

// ---- names, objects ----

bool PickleReader::global() {
  std::string_view module, what;
  return takeLine(module) && takeLine(what) && push(name(module, what));
}

bool PickleReader::stackGlobal() {
  PickleValue *what, *module;
  if (!pop(what) || !pop(module)) return false;
  if (!what->is(Kind::String) || !module->is(Kind::String)) return fail("a name of the pickle is not a string");
  return push(name(module->text(), what->text()));
}

bool PickleReader::newObject() {
  PickleValue *arguments, *type;
  return pop(arguments) && pop(type) && push(call(type, arguments));
}

bool PickleReader::newObjectEx() {
  PickleValue* keywords;
  if (!pop(keywords)) return false;
  if (!keywords->is(Kind::Dict)) return fail(fmt::format("keywords are a dict, not {}", describe(keywords->kind())));
  if (!keywords->entries().empty() && !options_.foreignNames)
    return fail("objects that are made with keywords are not supported", ErrorKind::Unsupported);
  return newObject();
}

bool PickleReader::reduce() { return newObject(); }

bool PickleReader::build() {
  PickleValue* state;
  if (!pop(state)) return false;
  PickleValue* target = top();
  if (!target) return fail("the pickle takes a value that is not there");
  // Dicts and tensors of Python may have attributes, too, which nobody asks for: `state_dict()._metadata`.
  if (!target->is(Kind::Object)) return true;
  PickleObject& object = std::get<PickleObject>(target->payload_);
  if (object.state) return fail(fmt::format("the pickle builds an object of '{}' twice", abbreviate(object.name, 200)));
  object.state = state;
  return object.name != kArray || buildArray(*target, *state);
}

bool PickleReader::persistentId() {
  PickleValue* id;
  if (!pop(id)) return false;
  if (!id->is(Kind::Tuple) || id->items().empty() || !id->items()[0]->is(Kind::String))
    return fail("what the pickle refers to is not a storage");
  const std::vector<PickleRef>& items = id->items();
  // Before 1.6, classes of modules came with their sources: ("module", class, file, source).
  if (items[0]->isString("module") && items.size() > 1) return push(const_cast<PickleValue*>(items[1]));
  if (!items[0]->isString("storage"))
    return fail(fmt::format("what the pickle refers to is a '{}', not a storage", abbreviate(items[0]->text(), 200)));
  return push(storageOf(items));
}

// ---- afterwards ----

bool PickleReader::checkKeys() {
  std::vector<PickleRef> keys;
  auto less = [](PickleRef a, PickleRef b) {
    if (a->kind() != b->kind()) return a->kind() < b->kind();
    return a->is(Kind::String) ? a->text() < b->text() : a->toInt() < b->toInt();
  };
  for (const PickleValue& dict : tree_->values_) {
    if (!dict.is(Kind::Dict)) continue;
    keys.clear();
    for (const PickleValue::Entry& e : dict.entries())
      if (e.key->is(Kind::String) || e.key->is(Kind::Int)) keys.push_back(e.key);
    std::sort(keys.begin(), keys.end(), less);
    auto twin = std::adjacent_find(keys.begin(), keys.end(), [&](PickleRef a, PickleRef b) { return !less(a, b); });
    if (twin == keys.end()) continue;
    start_ = dict.offset() - options_.offset;
    return fail(fmt::format("the dict has the key {} twice", (*twin)->is(Kind::String)
                                                                 ? "'" + abbreviate((*twin)->text(), 200) + "'"
                                                                 : std::to_string((*twin)->toInt())));
  }
  return true;
}

bool PickleReader::checkDepth() {
  struct Open {
    std::vector<PickleRef> parts;
    size_t next = 0;
  };
  std::vector<Open> open(1);
  open[0].parts.push_back(tree_->root_);
  while (!open.empty()) {
    if (open.back().next == open.back().parts.size()) {
      open.pop_back();
      continue;
    }
    PickleRef value = open.back().parts[open.back().next++];
    if (std::exchange(const_cast<PickleValue*>(value)->seen_, true)) continue;
    Open inner;
    value->forEachPart([&](const PickleValue& part) { inner.parts.push_back(&part); });
    if (inner.parts.empty()) continue;
    start_ = value->offset() - options_.offset;
    if (open.size() > options_.limits.typeDepth)
      return fail(fmt::format("values are more than {} deep inside each other", options_.limits.typeDepth),
                  ErrorKind::Limit);
    open.push_back(std::move(inner));
  }
  return true;
}

}  // namespace tscompile
