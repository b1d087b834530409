#include "runtime/reference/pytorch_words.h"

#include <fmt/core.h>

#include <unordered_map>

namespace tscompile {
namespace {

std::string ofDType(DType dtype) { return fmt::format("not implemented for '{}'", graphName(dtype)); }

// An operator's name without what marks its variants: `__ilshift__`, `silu_`.
std::string_view plainName(std::string_view op) {
  while (op.starts_with('_')) op.remove_prefix(1);
  while (op.ends_with('_')) op.remove_suffix(1);
  return op;
}

const std::unordered_map<std::string_view, std::string_view>& kernels() {
  static const auto* table = [] {
    auto* made = new std::unordered_map<std::string_view, std::string_view>;
    auto add = [&](std::string_view kernel, std::string_view names) {
      while (!names.empty()) {
        const size_t end = std::min(names.find(' '), names.size());
        made->emplace(names.substr(0, end), kernel);
        names.remove_prefix(std::min(end + 1, names.size()));
      }
    };
#define KERNEL(kernel, operators) add(kernel, operators);
#include "runtime/reference/pytorch_kernels.def"
#undef KERNEL
    return made;
  }();
  return *table;
}

// What PyTorch checks before it looks for a kernel.
struct Sentence {
  std::string_view operators;
  bool (*about)(DType);
  std::string_view words;  // {}: the operator
};
bool isBool(DType d) { return d == DType::Bool; }
bool isInteger(DType d) { return isIntegral(d, true); }
constexpr Sentence kSentences[] = {
    {" relu ", isBool, "Boolean inputs not supported for {}"},
    {" hardtanh relu6 ", isBool, "Bool inputs not supported for hardtanh"},
    {" neg negative ", isBool,
     "negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` "
     "or "
     "`logical_not()` operator instead."},
    {" std var ", isInteger, "std and var only support floating point and complex dtypes"},
    {" std_mean var_mean ", isInteger, "{} only support floating point and complex dtypes"},
    {" floor ceil trunc ", isComplex, "{} is not supported for complex inputs"},
    {" clamp clamp_min clamp_max ", isComplex, "clamp is not supported for complex types"},
    {" sign ", isComplex,
     "unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."},
    {" sort argsort ", isComplex, "sort does not support complex dtypes on CPU"},
    {" nanmean ", isComplex, "nansum on CPU does not support complex inputs"},
    {" topk ", isComplex, " topk does not support complex dtypes on CPU"},
};

}  // namespace

DTypeRefused::DTypeRefused(DType dtype) : ExecutionError(ErrorKind::Model, ofDType(dtype)), dtype_(dtype) {}

std::string refusalWords(std::string_view op, DType dtype) {
  const std::string_view name = plainName(op);
  for (const Sentence& s : kSentences)
    if (s.about(dtype) && s.operators.find(fmt::format(" {} ", name)) != std::string_view::npos)
      return fmt::format(fmt::runtime(s.words), name);
  if (name.starts_with("linalg_") || name == "inverse" || name == "det" || name == "slogdet" || name == "matrix_exp")
    if (isInteger(dtype))
      return fmt::format("{}: Expected a floating point or complex tensor as input. Got {}", linalgName(op),
                         graphName(dtype));
  const auto kernel = kernels().find(name);
  return kernel == kernels().end() ? ofDType(dtype) : fmt::format("\"{}\" {}", kernel->second, ofDType(dtype));
}

std::string linalgName(std::string_view op) {
  std::string_view name = plainName(op);
  if (name.ends_with("_ex")) name.remove_suffix(3);
  if (name.starts_with("linalg_")) name.remove_prefix(7);
  if (name == "inverse") name = "inv";
  if (name == "eigvalsh") name = "eigh";
  if (name == "svdvals") name = "svd";
  return (name == "logdet" || name == "cholesky_inverse" ? "" : "linalg.") + std::string(name);
}

}  // namespace tscompile
