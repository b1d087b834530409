// Lookup: rows of an embedding table, of which each rank may have a part.
#include "runtime/trtllm/builtin/floats.h"
#include "runtime/trtllm/builtin/graph_text.h"

#include <algorithm>

namespace tscompile {
namespace {

struct Lookup {
  tsc_dtype type = TSC_NONE;
  int64_t rank = 0;

  static void describe(tsc::Description<Lookup>& d) {
    d.key("tensorrt_llm", "Lookup", "1",
          "y[.., :] = weight[input - rank * rows, :] * per_token_scale, and 0 for rows that another rank has");
    d.choice("type_id", &Lookup::type, kTypeNames, typeValues(),
             "type of y; auto: that of the weight, of int8 weights that of the scales");
    d.field("rank", &Lookup::rank, "which part of the table it is: its first row is rank * rows").range(0, 1 << 20);
    d.input("input", kIndices, "row numbers of the whole table, any sizes");
    d.input("weight", kFloatsOfPlugins | tsc::kI8, "[rows, width]");
    d.input("per_token_scale", kFloatsOfPlugins, "[rows], one factor a row; int8 weights need it").optional();
    d.output("y", kFloatsOfPlugins, "[.., width]");
  }
  static std::string_view example() {
    return "graph(%ids : Int(2, 3), %weight : Float(5, 4)):\n"
           "  %y : Tensor = tensorrt_llm::Lookup(%ids, %weight)\n"
           "  return (%y)\n";
  }

  tsc_dtype typeFor(tsc_dtype weight, tsc_dtype scale) const {
    return type != TSC_NONE ? type : weight == TSC_I8 ? scale : weight;
  }

  void shapes(tsc::Shapes& s) const {
    tsc::Shape ids = s.input(0), weight = s.input(1);
    expectShape(s, weight, "weight", {-1, -1});
    bool isScaled = s.has(2);
    if (weight.dtype == TSC_I8 && !isScaled) tsc::invalid("int8 weights need the input per_token_scale");
    if (isScaled) {
      expectShape(s, s.input(2), "per_token_scale", {-1});
      expectEqual(s, s.input(2).dims[0], weight.dims[0], "size 0 of per_token_scale");
    }
    std::vector<tsc::Dim> dims = ids.dims;
    dims.push_back(weight.dims[1]);
    s.output(0, typeFor(weight.dtype, isScaled ? s.input(2).dtype : TSC_NONE), dims);
  }

  void run(tsc::Run& r) const {
    tsc::Tensor ids = r.input(0), weight = r.input(1), y = r.output(0);
    int64_t rows = weight.size(0), width = weight.size(1);
    Floats scale(r.input(2));
    r.parallelFor(static_cast<size_t>(ids.numel()), 64, [&](size_t begin, size_t end) {
      std::vector<float> row(static_cast<size_t>(width));
      for (size_t i = begin; i < end; ++i) {
        auto at = static_cast<int64_t>(i);
        int64_t local = 0;
        bool isHere = !__builtin_sub_overflow(integerAt(ids, at), rank * rows, &local) && local >= 0 && local < rows;
        if (!isHere)
          std::fill(row.begin(), row.end(), 0.0f);
        else if (weight.dtype() == TSC_I8)
          std::copy_n(weight.data<int8_t>() + local * width, width, row.data());
        else
          loadFloats(weight, local * width, width, row.data());
        if (isHere && scale.data())
          for (float& v : row) v *= scale[local];
        storeFloats(row.data(), width, y, at * width);
      }
    });
  }

  std::string decompose(const tsc::Tensors& in) const {
    GraphText g;
    ValueText ids = g.toLong(g.input("ids")), weight = g.input("weight");
    bool isScaled = in.inputs() > 2 && in.input(2).present();
    ValueText rows = g.size(weight, 0);
    ValueText local = g.sub(ids, g.typed("int", "aten::mul", {rows, rank}));
    ValueText isHere = g.op("aten::logical_and", {g.op("aten::ge", {local, 0}), g.op("aten::lt", {local, rows})});
    ValueText safe = g.op("aten::masked_fill", {local, g.op("aten::logical_not", {isHere}), 0});
    ValueText y = g.toFloat(g.index(weight, {safe}));
    if (isScaled) {
      ValueText scale = g.toFloat(g.input("scale"));
      y = g.mul(y, g.unsqueeze(g.index(scale, {safe}), -1));
    }
    y = g.op("aten::masked_fill", {y, g.op("aten::logical_not", {g.unsqueeze(isHere, -1)}), 0});
    y = g.to(y, typeFor(in.input(1).dtype(), isScaled ? in.input(2).dtype() : TSC_NONE));
    return g.finish({y});
  }
};

}  // namespace

const tsc_plugin* makeLookup() { return tsc::Definition<Lookup>::table(); }

}  // namespace tscompile
