#include "ir/analysis/context_kind.h"

namespace tscompile {

ContextKind contextKindOf(std::string_view name) {
  auto isOf = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (isOf("torch.autograd.grad_mode.")) return ContextKind::Gradients;
  if (isOf("torch.autograd.profiler.") || isOf("torch.classes.profiler.")) return ContextKind::Profiler;
  const bool isAutocast = name.starts_with("__torch__.torch.") && isOf("autocast_mode.") && name.ends_with(".autocast");
  return isAutocast ? ContextKind::Autocast : ContextKind::Other;
}

}  // namespace tscompile
