// The stack machine behind readPickle().
#pragma once

#include "frontend/pickle/pickle.h"

#include <map>
#include <tuple>

namespace tscompile {

class PickleReader {
 public:
  PickleReader(std::string_view bytes, const PickleOptions& options, Diagnostics& diagnostics)
      : bytes_(bytes), options_(options), diagnostics_(diagnostics), tree_(std::make_shared<PickleTree>()) {}

  std::shared_ptr<const PickleTree> read(size_t* used);

  static constexpr std::string_view kArray = "numpy.ndarray", kArrayDType = "numpy.dtype";
  static constexpr std::string_view kBytesOfStorage = "torch.storage._load_from_bytes";

 private:
  using Kind = PickleValue::Kind;
  using Run = bool (PickleReader::*)();
  using Call = PickleValue* (PickleReader::*)(const std::vector<PickleRef>& arguments);
  // What PyTorch's views see: the elements of a storage as they are, their negatives, their conjugates.
  struct SignBits {
    bool conjugate = false, negative = false;
  };
  struct Instructions;
  struct NamedCall {
    std::string_view name;
    Call call;
    size_t least;  // arguments
  };

  // Reports at the instruction that runs. False or null, as its callers want it.
  bool fail(std::string message, ErrorKind kind = ErrorKind::Input);
  std::nullptr_t failed(std::string message, ErrorKind kind = ErrorKind::Input) {
    fail(std::move(message), kind);
    return nullptr;
  }

  // ---- bytes ----
  bool take(uint64_t count, std::string_view& out);
  template <size_t n>
  bool takeNumber(uint64_t& value);
  template <size_t n>
  bool takeCounted(std::string_view& out);
  bool takeLine(std::string_view& out);

  // ---- values; null after a report ----
  PickleValue* make(Kind kind);
  template <class T>
  PickleValue* make(Kind kind, T payload) {
    PickleValue* v = make(kind);
    if (v) v->payload_ = std::move(payload);
    return v;
  }
  PickleValue* makeText(Kind kind, std::string text);
  PickleValue* makeItems(Kind kind, std::vector<PickleRef> items = {}) {
    return make(kind, PickleValue::Items{std::move(items), {}});
  }
  PickleValue* makeDict() { return make(Kind::Dict, PickleValue::Entries{}); }
  PickleValue* constant(Kind kind, int64_t value);

  // ---- the stack, whose uppermost values stand above the last mark ----
  bool push(PickleValue* value);
  bool pop(PickleValue*& value);
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  bool popToMark(std::vector<PickleRef>& items);
  PickleValue* top() { return stack_.size() > floor() ? stack_.back() : nullptr; }

  // ---- instructions (pickle_reader.cpp) ----
  bool step();
  bool mark();
  bool popOne();
  bool popMark();
  bool duplicate();
  bool protocol();
  bool frame();
  bool none() { return push(constant(Kind::None, 0)); }
  template <bool value>
  bool boolean() {
    return push(constant(Kind::Bool, value));
  }
  template <size_t n>
  bool integer();
  template <size_t n>
  bool longInteger();
  bool floating();
  template <PickleValue::Kind kind, size_t n>
  bool text();
  template <size_t n>
  bool tupleOf();
  template <PickleValue::Kind kind>
  bool empty();
  template <PickleValue::Kind kind>
  bool fromMark();
  bool append();
  bool appends();
  bool setItem();
  bool setItems();
  bool addTo(PickleValue* target, const std::vector<PickleRef>& items);
  bool addEntries(PickleValue* target, const std::vector<PickleRef>& items);
  bool dictFromMark();
  bool put(uint64_t index);
  template <size_t n>
  bool putAt();
  template <size_t n>
  bool getAt();
  bool memoize() { return put(memoized_); }
  bool global();
  bool stackGlobal();
  bool newObject();
  bool newObjectEx();
  bool reduce();
  bool build();
  bool persistentId();

  // ---- names and calls (pickle_calls.cpp) ----
  PickleValue* name(std::string_view module, std::string_view name);
  bool isKnown(std::string_view name) const;
  static const NamedCall* findCall(std::string_view name);
  PickleValue* call(PickleValue* function, PickleValue* arguments);
  PickleValue* object(std::string_view name, PickleRef arguments);
  PickleValue* orderedDict(const std::vector<PickleRef>& arguments);
  PickleValue* defaultDict(const std::vector<PickleRef>& arguments);
  PickleValue* setOf(const std::vector<PickleRef>& arguments);
  PickleValue* complexNumber(const std::vector<PickleRef>& arguments);
  PickleValue* device(const std::vector<PickleRef>& arguments);
  PickleValue* size(const std::vector<PickleRef>& arguments);
  PickleValue* encode(const std::vector<PickleRef>& arguments);
  PickleValue* noBytes(const std::vector<PickleRef>& arguments);
  PickleValue* layout(const std::vector<PickleRef>& arguments);
  PickleValue* tagged(PickleRef container, std::string_view tag);
  PickleValue* typeTag(const std::vector<PickleRef>& arguments);
  template <char element>
  PickleValue* listOf(const std::vector<PickleRef>& arguments);

  // ---- storages and tensors (pickle_tensors.cpp) ----
  PickleValue* storageOf(const std::vector<PickleRef>& id);
  PickleValue* storageOfBytes(const std::vector<PickleRef>& arguments);
  PickleValue* tensor(const std::vector<PickleRef>& arguments);
  PickleValue* tensorOfDType(const std::vector<PickleRef>& arguments);
  PickleValue* quantizedTensor(const std::vector<PickleRef>& arguments);
  PickleValue* sparseTensor(const std::vector<PickleRef>& arguments);
  PickleValue* parameter(const std::vector<PickleRef>& arguments);
  PickleValue* tensorOfType(const std::vector<PickleRef>& arguments);
  // The tensor's bits are at `signs` of the arguments.
  PickleValue* makeTensor(const std::vector<PickleRef>& arguments, DType dtype, size_t signs);
  bool readDims(PickleRef value, std::string_view what, bool mayBeNegative, Dims& out);
  bool viewStorage(const PickleStorage& storage, SignBits signs, DimSpan strides, int64_t offset, PickleTensor& out);
  bool readSignBits(const std::vector<PickleRef>& arguments, size_t index, DType dtype, SignBits& out);
  Ref<Storage> withSigns(const Ref<Storage>& memory, DType dtype, SignBits signs);
  bool readQuantization(PickleRef value, const PickleTensor& tensor, Quantization& out);
  static Tensor tableOfHalfBytes(const PickleStorage& from, const PickleTensor& tensor);
  bool readChannelValues(PickleRef value, std::string_view what, DType listDType, int64_t count, Tensor& out);

  // ---- arrays (pickle_arrays.cpp) ----
  PickleValue* arrayDType(const std::vector<PickleRef>& arguments);
  PickleValue* array(const std::vector<PickleRef>& arguments);
  PickleValue* arrayOfBytes(const std::vector<PickleRef>& arguments);
  PickleValue* arrayScalar(const std::vector<PickleRef>& arguments);
  bool buildArray(PickleValue& array, const PickleValue& state);
  // Makes a tensor of the object, if tensors have the dtype.
  bool fillArray(PickleValue& array, PickleRef sizes, PickleRef type, bool columnsFirst, PickleRef bytes);

  // ---- afterwards ----
  bool checkKeys();
  bool checkDepth();

  std::string_view bytes_;
  const PickleOptions& options_;
  Diagnostics& diagnostics_;
  std::shared_ptr<PickleTree> tree_;
  size_t at_ = 0, start_ = 0;  // of the next byte and of the instruction that runs
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::vector<PickleValue*> memo_;
  uint64_t memoized_ = 0;
  PickleValue* none_ = nullptr;
  PickleValue* booleans_[2] = {};
  PickleValue* bytesAsIntegers_[256] = {};
  // Storages whose elements are negated or conjugated, shared as the storages that they are made of.
  std::map<std::tuple<const Storage*, DType, bool, bool>, Ref<Storage>> withSigns_;
};

}  // namespace tscompile
