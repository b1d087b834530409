#include "frontend/export/composites.h"

#include "frontend/export/composite_text.h"
#include "frontend/text/parse.h"
#include "ir/support/check.h"
#include "ir/support/text.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace tscompile::exported {
namespace {

constexpr CompositeText kComposites[] = {
    // Its weight has the rank of the input.
    {"aten::_prelu_kernel(Tensor self, Tensor weight) -> Tensor",
     R"(
  %all : int[] = prim::Constant[value=[-1]]()
  %slopes = aten::reshape(%weight, %all)
  %y = aten::prelu(%self, %slopes)
  return (%y))"},
    {"aten::_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "
     "Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
     R"(
  %no : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %zero : int[] = prim::Constant[value=[0]]()
  %y = aten::batch_norm(%input, %weight, %bias, %running_mean, %running_var, %no, %momentum, %eps, %no)
  %empty = aten::new_zeros(%input, %zero, %none, %none, %none, %none)
  return (%y, %empty, %empty))"},
    {"aten::_batch_norm_no_update(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? "
     "running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
     R"(
  %no : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %zero : int[] = prim::Constant[value=[0]]()
  %y = aten::batch_norm(%input, %weight, %bias, %running_mean, %running_var, %no, %momentum, %eps, %no)
  %empty = aten::new_zeros(%input, %zero, %none, %none, %none, %none)
  return (%y, %empty, %empty, %empty))"},
    {"aten::_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "
     "Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
     R"(
  %none : NoneType = prim::Constant()
  %m = aten::clone(%running_mean, %none)
  %v = aten::clone(%running_var, %none)
  %y, %mean, %rstd = aten::native_batch_norm(%input, %weight, %bias, %m, %v, %training, %momentum, %eps)
  return (%y, %mean, %rstd, %m, %v))"},
    {"aten::_batch_norm_with_update_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "
     "Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
     R"(
  %yes : bool = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %zero : int[] = prim::Constant[value=[0]]()
  %m = aten::clone(%running_mean, %none)
  %v = aten::clone(%running_var, %none)
  %y, %mean, %rstd = aten::native_batch_norm(%input, %weight, %bias, %m, %v, %yes, %momentum, %eps)
  %empty = aten::new_zeros(%input, %zero, %none, %none, %none, %none)
  return (%y, %mean, %rstd, %empty, %m, %v))"},
    {"aten::_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float "
     "momentum, float eps) -> (Tensor, Tensor, Tensor)",
     R"(
  %none : NoneType = prim::Constant()
  %no : bool = prim::Constant[value=0]()
  %y = aten::batch_norm(%input, %weight, %bias, %none, %none, %training, %momentum, %eps, %no)
  %same, %mean, %rstd = aten::native_batch_norm(%input, %weight, %bias, %none, %none, %training, %momentum, %eps)
  return (%y, %mean, %rstd))"},
    {"aten::rrelu_with_noise_functional(Tensor self, Tensor noise, Scalar lower=0.125, Scalar "
     "upper=0.33333333333333331, bool training=False, "
     "Generator? generator=None) -> (Tensor, Tensor)",
     R"(
  %y = aten::rrelu_with_noise(%self, %noise, %lower, %upper, %training, %generator)
  return (%y, %noise))"},
    {"aten::native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> "
     "(Tensor, Tensor, Tensor)",
     R"(
  %no : bool = prim::Constant[value=0]()
  %y = aten::layer_norm(%input, %normalized_shape, %weight, %bias, %eps, %no)
  %same, %mean, %rstd = aten::native_layer_norm(%input, %normalized_shape, %weight, %bias, %eps)
  return (%y, %mean, %rstd))"},
    {"aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, int N, int C, int HxW, int group, float eps) "
     "-> (Tensor, Tensor, Tensor)",
     R"(
  %no : bool = prim::Constant[value=0]()
  %y = aten::group_norm(%input, %group, %weight, %bias, %eps, %no)
  %same, %mean, %rstd = aten::native_group_norm(%input, %weight, %bias, %N, %C, %HxW, %group, %eps)
  return (%y, %mean, %rstd))"},
    {"aten::_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)",
     R"(
  %y = aten::rms_norm(%input, %normalized_shape, %weight, %eps)
  return (%y))"},
    {"aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
     R"(
  %none : NoneType = prim::Constant()
  %y = aten::softmax(%self, %dim, %none)
  return (%y))"},
    {"aten::_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
     R"(
  %none : NoneType = prim::Constant()
  %y = aten::log_softmax(%self, %dim, %none)
  return (%y))"},
    // Rows that are hidden as a whole are 0.
    {"aten::_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
     R"(
  %hidden : float = prim::Constant[value=-inf]()
  %zero : int = prim::Constant[value=0]()
  %yes : bool = prim::Constant[value=1]()
  %s = aten::softmax(%self, %dim, %dtype)
  %low = aten::eq(%self, %hidden)
  %rows = aten::all(%low, %dim, %yes)
  %y = aten::masked_fill(%s, %rows, %zero)
  return (%y))"},
    {"aten::convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, bool "
     "transposed, int[] output_padding, int groups) -> Tensor",
     R"(
  %no : bool = prim::Constant[value=0]()
  %y = aten::_convolution(%input, %weight, %bias, %stride, %padding, %dilation, %transposed, %output_padding, %groups, %no, %no, %no, %no)
  return (%y))"},
    {"aten::max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] "
     "dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
     R"(
  %y = aten::max_pool2d(%self, %kernel_size, %stride, %padding, %dilation, %ceil_mode)
  %same, %at = aten::max_pool2d_with_indices(%self, %kernel_size, %stride, %padding, %dilation, %ceil_mode)
  return (%y, %at))"},
    {"aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0.0, "
     "bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)",
     R"(
  %no : bool = prim::Constant[value=0]()
  %y = aten::scaled_dot_product_attention(%query, %key, %value, %attn_mask, %dropout_p, %is_causal, %scale, %no)
  return (%y))"},
    {"aten::_scaled_dot_product_flash_attention(Tensor query, Tensor key, Tensor value, float dropout_p=0.0, bool "
     "is_causal=False, bool return_debug_mask=False, *, float? scale=None) -> Tensor output",
     R"(
  %no : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %y = aten::scaled_dot_product_attention(%query, %key, %value, %none, %dropout_p, %is_causal, %scale, %no)
  return (%y))"},
    {"aten::_scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool "
     "compute_log_sumexp, float dropout_p=0.0, bool is_causal=False, *, float? scale=None) -> Tensor output",
     R"(
  %no : bool = prim::Constant[value=0]()
  %y = aten::scaled_dot_product_attention(%query, %key, %value, %attn_bias, %dropout_p, %is_causal, %scale, %no)
  return (%y))"},
    // What transformers calls for mixtures of experts where PyTorch itself has no such product.
    {"transformers::grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor",
     R"(
  %none : NoneType = prim::Constant()
  %y = aten::_grouped_mm(%input, %weight, %offs, %none, %none)
  return (%y))"},
    // Memory that PyTorch can see with other sizes may lie otherwise here.
    {"aten::view(Tensor self, int[] size) -> Tensor",
     R"(
  %y = aten::reshape(%self, %size)
  return (%y))"},
};

constexpr OtherName kOtherNames[] = {
    {"aten::sym_size.int", "aten::size.int"},
    {"aten::sym_size", "aten::size"},
    {"aten::sym_stride.int", "aten::stride.int"},
    {"aten::sym_stride", "aten::stride"},
    {"aten::sym_numel", "aten::numel"},
    {"aten::sym_storage_offset", "aten::storage_offset"},
    {"aten::_unsafe_index.Tensor", "aten::index.Tensor"},
    {"aten::_unsafe_index_put", "aten::index_put"},
    {"aten::_native_batch_norm_legit", "aten::native_batch_norm"},
    {"aten::_neg_view", "aten::neg"},
    {"aten::_is_all_true", "aten::all"},
    {"aten::_is_any_true", "aten::any"},
    {"aten::_adaptive_avg_pool2d", "aten::adaptive_avg_pool2d"},
    {"aten::_adaptive_avg_pool3d", "aten::adaptive_avg_pool3d"},
};

bool isPrimitive(std::string_view fullName) { return fullName.starts_with("prims::"); }
std::string_view nameOf(std::string_view schema) { return schema.substr(0, schema.find('(')); }

std::unique_ptr<Composite> makeComposite(const CompositeText& text) {
  auto composite = std::make_unique<Composite>();
  Diagnostics problems;
  Result<Schema> schema = parseSchema(text.schema, problems);
  TS_CHECK(schema.ok());
  composite->schema = std::move(*schema);
  std::string inputs = join(composite->schema.arguments, ", ",
                            [](const Argument& a) { return "%" + a.name + " : " + typeText(a.type); });
  Result<std::unique_ptr<Graph>> graph = parseGraph("graph(" + inputs + "):" + std::string(text.body), problems);
  TS_CHECK(graph.ok());
  composite->graph = std::move(*graph);
  return composite;
}

}  // namespace

const Composite* findComposite(std::string_view fullName) {
  static std::mutex mutex;
  static std::map<std::string_view, std::unique_ptr<Composite>> made;
  std::span<const CompositeText> texts = kComposites;
  if (isPrimitive(fullName)) texts = primitiveTexts();
  auto at =
      std::find_if(texts.begin(), texts.end(), [&](const CompositeText& c) { return nameOf(c.schema) == fullName; });
  if (at == texts.end()) return nullptr;
  std::lock_guard lock(mutex);
  std::unique_ptr<Composite>& composite = made[nameOf(at->schema)];
  if (!composite) composite = makeComposite(*at);
  return composite.get();
}

std::string_view otherName(std::string_view fullName) {
  std::span<const OtherName> names = kOtherNames;
  if (isPrimitive(fullName)) names = primitiveNames();
  for (const OtherName& o : names)
    if (o.from == fullName) return o.to;
  return fullName;
}

bool isCopyOf(std::string_view fullName, std::string& base) {
  constexpr std::string_view kEnd = "_copy";
  if (fullName == "aten::_reshape_copy") {
    base = "aten::reshape";
    return true;
  }
  std::string_view kind = fullName.substr(0, fullName.find('.'));
  if (!endsWith(kind, kEnd)) return false;
  base = std::string(kind.substr(0, kind.size() - kEnd.size())) + std::string(fullName.substr(kind.size()));
  return true;
}

}  // namespace tscompile::exported
