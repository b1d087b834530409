// What random networks are made by: what is known of each value, and one function for each kind of layer.
#pragma once

#include "ir/graph/builder.h"
#include "runtime/interpreter/call_operator.h"
#include "tests/support/random_network.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace tscompile::test {

inline constexpr int64_t kChannels[] = {16, 32, 3, 1, 20, 8, 4, 48, 17, 12, 2, 64};
inline constexpr int64_t kSides[] = {7, 8, 1, 5, 3, 9, 2, 13, 16, 4};

// A value of the graph with what it holds.
struct Known {
  Value* value = nullptr;
  Tensor tensor;
  bool used = false;

  int64_t size(int64_t d) const { return tensor.size(static_cast<int>(d)); }
  int rank() const { return tensor.rank(); }
};

// An argument of a call: a value that is there, values for a list, or something constant.
struct Given {
  Given(const Known& k) : values{k.value}, known(k.tensor) {}                   // NOLINT: implicit by design
  Given(IValue v, TypePtr type = nullptr) : known(std::move(v)), type(type) {}  // NOLINT
  Given(Tensor t) : known(std::move(t)) {}                                      // NOLINT
  Given(bool v) : known(v) {}                                                   // NOLINT
  Given(int v) : known(v) {}                                                    // NOLINT
  Given(int64_t v) : known(v) {}                                                // NOLINT
  Given(double v) : known(v) {}                                                 // NOLINT
  Given(const char* v) : known(v) {}                                            // NOLINT
  Given(const Dims& v) : known(intList(v)) {}                                   // NOLINT
  explicit Given(const std::vector<Known>& items) : isList(true) {
    std::vector<Tensor> tensors;
    for (const Known& k : items) {
      values.push_back(k.value);
      tensors.push_back(k.tensor);
    }
    known = tensorList(tensors);
  }

  std::vector<Value*> values;
  IValue known;
  TypePtr type = nullptr;
  bool isList = false;
};

inline Given none() { return Given(IValue(), types().none); }

// Makes a network call by call, and computes each with the operator's kernel meanwhile.
class NetworkMaker {
 public:
  NetworkMaker(Choices& choices, const OpRegistry& registry, size_t layers, bool writes)
      : c_(choices),
        registry_(registry),
        graph_(std::make_unique<Graph>()),
        b_(*graph_),
        left_(layers),
        writes_(writes) {}

  RandomNetwork make();

 private:
  // ---- choices ----

  int64_t between(int64_t low, int64_t high);
  bool coin() { return c_.oneIn(2); }
  double unit() { return static_cast<double>(c_.below(1 << 20)) / (1 << 19) - 1; }

  Tensor random(DimSpan sizes, double scale = 1, double offset = 0);
  // So that sums over `terms` products keep the magnitude of what they are made of.
  Tensor weight(const Dims& sizes, int64_t terms);
  static Tensor constant(Tensor t);
  Given biasOrNone(int64_t count) { return c_.oneIn(3) ? none() : Given(constant(random(Dims{count}))); }

  // ---- inputs ----

  // The same sizes in some order of memory.
  Tensor laidOut(const Dims& sizes);
  Known addInput(const Dims& sizes);
  Known image() { return addInput(Dims{between(1, 3), c_.oneOf(kChannels), c_.oneOf(kSides), c_.oneOf(kSides)}); }
  Known sequence() { return addInput(Dims{between(1, 3), c_.oneOf(kSides), c_.oneOf(kChannels)}); }

  // ---- calls ----

  static bool isUseful(const Tensor& t, bool hidden = false, bool anyDType = false);

  Value* valueOf(const Given& g);

  // The tensors that a call gives; none, and no call, where the operator refuses the arguments, or what it gives is too
  // large to compare. Arguments that are left out have their defaults.
  std::vector<Known> calls(const std::string& name, std::vector<Given> arguments);
  // The first of what a call gives; else what was there.
  Known call(const std::string& name, const Known& otherwise, std::vector<Given> arguments);
  void add(const std::string& name, std::vector<Given> arguments) { calls(name, std::move(arguments)); }

  // ---- operands ----

  // The latest values, more often than not.
  Known any();
  // A value with so many dimensions.
  Known ofRank(int rank);
  int64_t dimOf(const Known& k) { return between(-k.rank(), k.rank() - 1); }
  // Another value of the same sizes, if there is one.
  const Known* twin(const Known& k);

  // ---- layers ----

  void layer();  // one of those that follow

  void convolution();
  void pool();
  void adaptive();
  void norm();
  void activation();
  void linear();
  void product();
  void attention();

  // softmax(q k^T) v with what people do to scores in between; keys may be those of the first head for all heads, and
  // scores may change places. Nothing where a row of scores is hidden whole.
  std::optional<Known> attentionWrittenOut(Known q, Known k, Known v, Given mask);
  Known changedScores(const Known& s);
  void view();
  void cut();
  void join();
  void broadcast();
  void reduction();

  // relu(x + f(x))
  void residual();
  void pad();
  void resize();
  Tensor indices(const Dims& sizes, int64_t below);
  void gather();
  void recurrent();

  // Rows, volumes, and the nearest elements by their middles.
  void resizeOther();

  // By a mask that has some of the dimensions.
  void masked();
  void elements();

  // Of one or two leading dimensions, with rows of indices or a table of them.
  void indexed();
  void windows();

  // Attention whose keys and values have fewer heads than its queries.
  void grouped();
  void sums();
  void rearrange();
  void softmax();

  // Of two values, or of a value and a constant, whose dimensions have letters in any order.
  void einsum();
  void norms();
  void sample();

  // For each line along a dimension other ones, from 0 on or from the last one back.
  Tensor distinctIndices(const Dims& sizes, int dim, int64_t below);
  void scatter();
  void order();
  Known anyInput();

  // By masks and indices that are computed, of inputs: what rounding changes would say nothing.
  void computed();
  void moreProducts();
  void moreViews();

  // A copy of a value, or a view of a view of it, is written in place.
  void written();
  void writeLines(const Known& part);
  void inMemoryOrder(const Known& x);

  Choices& c_;
  const OpRegistry& registry_;
  std::unique_ptr<Graph> graph_;
  Builder b_;
  using Make = void (NetworkMaker::*)();
  std::vector<Make> kinds_;  // of layers, if not all
  bool isBegun_ = false;
  size_t left_;
  bool writes_;            // in place, some of the layers
  bool anyDType_ = false;  // values may be masks and indices
  bool hidden_ = false;    // values may be minus infinity: scores of attention that nobody sees
  std::vector<Known> known_;
  std::vector<IValue> inputs_;
};

}  // namespace tscompile::test
