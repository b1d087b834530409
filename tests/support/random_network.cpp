#include "ir/values/error.h"
#include "runtime/reference/loops/copy.h"
#include "tests/support/network_maker.h"

#include <utility>

namespace tscompile::test {

namespace {

constexpr int64_t kMostElements = 24 << 10;
constexpr double kLargest = 200;  // larger magnitudes make rounding errors that say nothing

}  // namespace

RandomNetwork NetworkMaker::make() {
  image();
  if (c_.oneIn(3)) sequence();
  for (size_t tries = 4 * left_; left_ > 0 && tries > 0; --tries) layer();
  RandomNetwork made;
  for (const Known& k : known_)
    if (!k.used || c_.oneIn(6)) {
      graph_->addOutput(k.value);
      made.expected.emplace_back(k.tensor);
    }
  made.graph = std::move(graph_);
  made.inputs = std::move(inputs_);
  return made;
}

int64_t NetworkMaker::between(int64_t low, int64_t high) {
  return low + static_cast<int64_t>(c_.below(static_cast<uint64_t>(high - low + 1)));
}

Tensor NetworkMaker::random(DimSpan sizes, double scale, double offset) {
  Tensor t = Tensor::empty(DType::Float32, sizes);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(unit() * scale + offset);
  return t;
}

Tensor NetworkMaker::weight(const Dims& sizes, int64_t terms) {
  return constant(random(sizes, std::sqrt(3.0 / static_cast<double>(std::max<int64_t>(terms, 1)))));
}

Tensor NetworkMaker::constant(Tensor t) {
  t.storage()->makeReadOnly();
  return t;
}

Tensor NetworkMaker::laidOut(const Dims& sizes) {
  const size_t rank = sizes.size();
  Dims larger = sizes;
  switch (c_.below(5)) {
    case 0: {  // channels last, or any two dimensions exchanged
      const size_t a = c_.below(rank), b = c_.below(rank);
      std::swap(larger[a], larger[b]);
      Tensor t = random(larger);
      Dims strides(t.strides());
      std::swap(strides[a], strides[b]);
      return t.withGeometry(sizes, strides, t.offset());
    }
    case 1: {  // a part of a larger tensor, at no particular address
      const size_t d = c_.below(rank);
      larger[d] += 3;
      Tensor t = random(larger);
      return t.withGeometry(sizes, t.strides(), t.offset() + t.stride(static_cast<int>(d)));
    }
    case 2: {  // one image for the whole batch
      larger[0] = 1;
      Tensor t = random(larger);
      Dims strides(t.strides());
      strides[0] = 0;
      return t.withGeometry(sizes, strides, t.offset());
    }
    default:
      return random(sizes);
  }
}

Known NetworkMaker::addInput(const Dims& sizes) {
  Known k{graph_->addInput(types().tensor), laidOut(sizes)};
  inputs_.emplace_back(k.tensor);
  known_.push_back(k);
  return k;
}

bool NetworkMaker::isUseful(const Tensor& t, bool hidden, bool anyDType) {
  if (t.numel() > kMostElements || (!anyDType && t.dtype() != DType::Float32)) return false;
  for (int64_t i = 0; i < t.numel(); ++i)
    if (!(std::fabs(t.real(i)) < kLargest) && !(hidden && t.real(i) < 0)) return false;
  return true;
}

Value* NetworkMaker::valueOf(const Given& g) {
  for (Known& k : known_) k.used |= std::find(g.values.begin(), g.values.end(), k.value) != g.values.end();
  if (g.isList) return b_.list(g.values, types().tensor);
  return g.values.empty() ? b_.constant(g.known, g.type) : g.values[0];
}

// All memory that the tensor lies in.
static Tensor flatMemory(const Tensor& t) {
  const auto count = static_cast<int64_t>(t.storage()->bytes() / itemSize(t.dtype()));
  return t.withGeometry(Dims{count}, Dims{1}, 0);
}

std::vector<Known> NetworkMaker::calls(const std::string& name, std::vector<Given> arguments) {
  const Operator* op = registry_.find(name);
  TS_CHECK(op);
  const Schema& schema = op->schema();
  for (size_t i = arguments.size(); i < schema.arguments.size(); ++i)
    arguments.emplace_back(*schema.arguments[i].defaultValue,
                           schema.arguments[i].defaultValue->isNone() ? types().none : nullptr);
  std::vector<const IValue*> given;
  for (const Given& g : arguments) given.push_back(&g.known);
  const size_t count = schema.returns.size();
  std::vector<IValue> results(count);
  RunOptions options;
  RunContext context(options);
  RunScope scope(context);
  // A write that is not taken has not been.
  Tensor written, before;
  if (schema.isMutable()) {
    written = flatMemory(given[0]->toTensor());
    before = cloneTensor(written);
  }
  auto refused = [&] {
    if (before.defined()) copyTensor(written, before);
    return std::vector<Known>();
  };
  try {
    callOperator(*op, given.data(), given.size(), results.data(), count, context);
  } catch (const ExecutionError&) {
    return refused();
  }
  std::vector<Tensor> tensors;
  const bool isList = results[0].isList();
  if (isList)
    for (const IValue& v : results[0].toList().items) tensors.push_back(v.toTensor());
  else
    tensors.push_back(results[0].toTensor());
  auto useful = [&](const Tensor& t) { return isUseful(t, hidden_, anyDType_); };
  if (tensors.empty() || !std::all_of(tensors.begin(), tensors.end(), useful)) return refused();
  std::vector<Value*> inputs;
  for (const Given& g : arguments) inputs.push_back(valueOf(g));
  Node* n = b_.insert(Symbol::of(schema.name), inputs, count);
  if (isList) {
    n->output()->setType(types().tensorList);
    Value* list = n->output();
    n = b_.insert(sym::ListUnpack, {list}, tensors.size());
  }
  std::vector<Known> made;
  for (size_t i = 0; i < tensors.size(); ++i) {
    n->output(i)->setType(types().tensor);
    made.push_back({n->output(i), tensors[i]});
  }
  known_.insert(known_.end(), made.begin(), made.end());
  return made;
}

Known NetworkMaker::call(const std::string& name, const Known& otherwise, std::vector<Given> arguments) {
  std::vector<Known> made = calls(name, std::move(arguments));
  return made.empty() ? otherwise : made[0];
}

Known NetworkMaker::any() {
  const size_t reach = c_.oneIn(3) ? known_.size() : std::min<size_t>(known_.size(), 3);
  return known_[known_.size() - 1 - c_.below(reach)];
}

Known NetworkMaker::ofRank(int rank) {
  for (int tries = 0; tries < 4; ++tries)
    if (Known k = any(); k.rank() == rank) return k;
  Known k = any();
  while (k.rank() < rank) {
    Known more = call("aten::unsqueeze", k, {k, between(0, k.rank())});
    if (more.rank() == k.rank()) return k;
    k = more;
  }
  if (k.rank() > rank) {
    const int64_t first = between(0, rank - 1);
    k = call("aten::flatten.using_ints", k, {k, first, first + k.rank() - rank});
  }
  return k;
}

const Known* NetworkMaker::twin(const Known& k) {
  std::vector<const Known*> found;
  for (const Known& other : known_)
    if (std::ranges::equal(other.tensor.sizes(), k.tensor.sizes())) found.push_back(&other);
  return found[c_.below(found.size())];
}

void NetworkMaker::layer() {
  const size_t before = known_.size();
  static constexpr Make kLayers[] = {
      &NetworkMaker::convolution, &NetworkMaker::convolution, &NetworkMaker::convolution, &NetworkMaker::convolution,
      &NetworkMaker::pool,        &NetworkMaker::pool,        &NetworkMaker::adaptive,    &NetworkMaker::norm,
      &NetworkMaker::norm,        &NetworkMaker::activation,  &NetworkMaker::activation,  &NetworkMaker::linear,
      &NetworkMaker::product,     &NetworkMaker::attention,   &NetworkMaker::view,        &NetworkMaker::view,
      &NetworkMaker::view,        &NetworkMaker::cut,         &NetworkMaker::cut,         &NetworkMaker::join,
      &NetworkMaker::join,        &NetworkMaker::join,        &NetworkMaker::broadcast,   &NetworkMaker::broadcast,
      &NetworkMaker::broadcast,   &NetworkMaker::reduction,   &NetworkMaker::residual,    &NetworkMaker::pad,
      &NetworkMaker::resize,      &NetworkMaker::gather,      &NetworkMaker::recurrent,   &NetworkMaker::rearrange,
      &NetworkMaker::softmax,     &NetworkMaker::einsum,      &NetworkMaker::norms,       &NetworkMaker::sample,
      &NetworkMaker::resizeOther, &NetworkMaker::masked,      &NetworkMaker::elements,    &NetworkMaker::indexed,
      &NetworkMaker::windows,     &NetworkMaker::grouped,     &NetworkMaker::sums,        &NetworkMaker::scatter,
      &NetworkMaker::scatter,     &NetworkMaker::order,       &NetworkMaker::order,       &NetworkMaker::computed,
      &NetworkMaker::computed,    &NetworkMaker::moreViews,   &NetworkMaker::moreProducts};
  // Most networks are of a few kinds, which so meet more often.
  if (!std::exchange(isBegun_, true) && !c_.oneIn(3))
    for (int64_t count = between(2, 6); count > 0; --count) kinds_.push_back(c_.oneOf(kLayers));
  if (writes_ && c_.oneIn(4)) return written();
  (this->*(kinds_.empty() ? c_.oneOf(kLayers) : kinds_[c_.below(kinds_.size())]))();
  left_ -= std::min(left_, known_.size() - before);
}

RandomNetwork randomNetwork(Choices& choices, const OpRegistry& registry, size_t layers, bool writes) {
  return NetworkMaker(choices, registry, layers, writes).make();
}

}  // namespace tscompile::test
