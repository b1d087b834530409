def f(x: Tensor, n: int=3) -> Tensor:
  if torch.gt(n, 0):
    y = torch.add(x, 1)
  else:
    y = x
  for i in range(n):
    y = torch.mul(y, 2.)
  return y
class A(Module):
  __parameters__ = ["w", ]
  w : Tensor
  k : Final[int] = 3
  def forward(self: __torch__.A,
    x: Optional[Tensor]=None) -> Tuple[Tensor, int]:
    _0 = annotate(List[Tensor], [])
    _1 = (self).forward(x, )
    return (self.w, self.k)
