#include "frontend/source/upgraders.h"

#include <algorithm>

namespace tscompile::source {
namespace {

// Sorted by kind. PyTorch lists more, which change no meaning: aten::gelu got an argument with a default, and
// aten::full.names gives integers in old files too.
constexpr Upgrader kUpgraders[] = {
    {"aten::div", "Tensor", 4, "div"},          {"aten::div", "Scalar", 4, "div_number"},
    {"aten::div", "out", 4, "div_out"},         {"aten::div_", "Tensor", 4, "div_"},
    {"aten::div_", "Scalar", 4, "div_number_"}, {"aten::full", "", 5, "full"},
    {"aten::linspace", "", 8, "linspace"},      {"aten::linspace", "out", 8, "linspace_out"},
    {"aten::logspace", "", 9, "logspace"},      {"aten::logspace", "out", 9, "logspace_out"},
};

// Division of integers cut off the fraction, a tensor filled with an integer was float32, and the number of steps could
// be left out.
constexpr std::string_view kSource = R"(
def div(self: Tensor, other: Tensor) -> Tensor:
  if torch.is_floating_point(self) or torch.is_floating_point(other):
    quotient = torch.true_divide(self, other)
  else:
    quotient = torch.divide(self, other, rounding_mode="trunc")
  return quotient
def div_number(self: Tensor, other: number) -> Tensor:
  if torch.is_floating_point(self) or isinstance(other, float):
    quotient = torch.true_divide(self, other)
  else:
    quotient = torch.divide(self, other, rounding_mode="trunc")
  return quotient
def div_out(self: Tensor, other: Tensor, *, out: Tensor) -> Tensor:
  if torch.is_floating_point(self) or torch.is_floating_point(other) or torch.is_floating_point(out):
    quotient = torch.true_divide(self, other, out=out)
  else:
    quotient = torch.divide(self, other, rounding_mode="trunc", out=out)
  return quotient
def div_(self: Tensor, other: Tensor) -> Tensor:
  if torch.is_floating_point(self) or torch.is_floating_point(other):
    quotient = torch.true_divide_(self, other)
  else:
    quotient = torch.divide_(self, other, rounding_mode="trunc")
  return quotient
def div_number_(self: Tensor, other: number) -> Tensor:
  if torch.is_floating_point(self) or isinstance(other, float):
    quotient = torch.true_divide_(self, other)
  else:
    quotient = torch.divide_(self, other, rounding_mode="trunc")
  return quotient
def full(size: List[int], fill_value: number, *, dtype: Optional[int]=None, layout: Optional[int]=None, device: Optional[Device]=None, pin_memory: Optional[bool]=None) -> Tensor:
  value = fill_value
  if dtype is None:
    value = float(fill_value)
  return torch.full(size, value, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)
def linspace(start: number, end: number, steps: Optional[int]=None, *, dtype: Optional[int]=None, layout: Optional[int]=None, device: Optional[Device]=None, pin_memory: Optional[bool]=None) -> Tensor:
  count = 100
  if steps is not None:
    count = steps
  return torch.linspace(start, end, count, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)
def linspace_out(start: number, end: number, steps: Optional[int]=None, *, out: Tensor) -> Tensor:
  count = 100
  if steps is not None:
    count = steps
  return torch.linspace(start, end, count, out=out)
def logspace(start: number, end: number, steps: Optional[int]=None, base: float=10.0, *, dtype: Optional[int]=None, layout: Optional[int]=None, device: Optional[Device]=None, pin_memory: Optional[bool]=None) -> Tensor:
  count = 100
  if steps is not None:
    count = steps
  return torch.logspace(start, end, count, base, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)
def logspace_out(start: number, end: number, steps: Optional[int]=None, base: float=10.0, *, out: Tensor) -> Tensor:
  count = 100
  if steps is not None:
    count = steps
  return torch.logspace(start, end, count, base, out=out)
)";

}  // namespace

std::span<const Upgrader> upgradersOf(std::string_view kind) {
  auto [begin, end] = std::equal_range(std::begin(kUpgraders), std::end(kUpgraders), Upgrader{kind, {}, 0, {}},
                                       [](const Upgrader& a, const Upgrader& b) { return a.kind < b.kind; });
  return {begin, end};
}

SourcePtr upgraderSource() { return SourceFile::make("<operators before>", std::string(kSource)); }

}  // namespace tscompile::source
