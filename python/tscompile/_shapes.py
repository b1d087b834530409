"""What shape functions of operators are given and give: dtypes and sizes, some of which nobody knows before the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


_ANY = (-1, -(2**63))  # a size, an integer that may be any


class NotKnown(Exception):
    """A shape function asked for what is not known before the run: so its results are not, either."""


class _Open:
    """A size, or a number that is an argument, that is not known yet. It can be computed with and passed on; to ask for
    its value ends the shape function."""

    __slots__ = ("_number",)

    def __init__(self, number: int = -1):
        self._number = number  # the same one stands for the same size; -1 for any

    def _sum(self, other: Any) -> _Open:
        return self if isinstance(other, int) and other == 0 else _Open()

    def _multiple(self, other: Any) -> _Open:
        return self if isinstance(other, int) and other == 1 else _Open()

    def _any(self, *_: Any) -> _Open:
        return _Open()

    __add__ = __radd__ = __sub__ = _sum
    __mul__ = __rmul__ = __floordiv__ = _multiple
    __rsub__ = __rfloordiv__ = __mod__ = __rmod__ = __neg__ = __abs__ = __truediv__ = __rtruediv__ = _any
    __pow__ = __rpow__ = _any

    def __eq__(self, other: object) -> bool:
        if other is self or (isinstance(other, _Open) and other._number == self._number and self._number not in _ANY):
            return True
        raise NotKnown

    def _ask(self, *_: Any) -> Any:
        raise NotKnown

    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __int__ = __index__ = __float__ = __hash__ = _ask
    __iter__ = __len__ = __getitem__ = __contains__ = __round__ = __floor__ = __ceil__ = _ask

    def __repr__(self) -> str:
        return "?"


class TensorType:
    """Sizes and dtype of a tensor. While a model is analysed sizes may be open: they can be computed with and passed on,
    but whatever asks for their values, or for a shape or dtype that is not known, ends the shape function."""

    __slots__ = ("_shape", "_dtype")

    def __init__(self, shape: Sequence[Any], dtype: Any):
        self._shape: tuple[Any, ...] | None = tuple(shape)
        self._dtype: str | None = _name(dtype)

    @property
    def shape(self) -> tuple[Any, ...]:
        if self._shape is None:
            raise NotKnown
        return self._shape

    @property
    def dtype(self) -> str:
        if self._dtype is None:
            raise NotKnown
        return self._dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"tscompile.TensorType({'?' if self._shape is None else self._shape}, {self._dtype or '?'})"


def _name(dtype: Any) -> str:
    """Of a dtype's name, or a dtype of NumPy or PyTorch."""
    if isinstance(dtype, type):  # numpy.float32
        dtype = dtype.__name__
    return str(dtype).removeprefix("torch.")


def _given(argument: Any) -> Any:
    kind, value = argument
    if kind == "tensor":
        if value is None:
            return None
        dtype, sizes = value
        out = TensorType.__new__(TensorType)
        out._dtype = dtype or None
        out._shape = None if sizes is None else tuple(s if s >= 0 else _Open(s) for s in sizes)
        return out
    if kind == "list":
        return [_given(item) for item in value]
    if kind == "integers":
        return [_number(i) for i in value]
    if kind == "integer":
        return _number(value)
    return value if kind == "known" else _Open()


def _number(n: int) -> Any:
    return n if n >= -(2**63) + 2**32 else _Open(n)  # those below stand for integers that are not known


def _size(s: Any) -> int:
    if isinstance(s, _Open):
        return s._number
    if s.__index__() < 0:
        raise ValueError(f"a size is {s}")
    return int(s.__index__())


def _told(result: Any) -> tuple[str, Any]:
    if isinstance(result, TensorType):
        return "tensor", (result._dtype or "", None if result._shape is None else [_size(s) for s in result._shape])
    if hasattr(result, "shape") and hasattr(result, "dtype"):
        return "tensor", (_name(result.dtype), [_size(s) for s in result.shape])
    if isinstance(result, _Open) or (isinstance(result, int) and not isinstance(result, bool) and result >= 0):
        return "integers", [_size(result)]
    if isinstance(result, (list, tuple)):
        items = [_told(item) for item in result]
        for all_are in ("tensor", "integers"):
            if all(kind == all_are for kind, _ in items):
                return (all_are, [v[0] for _, v in items]) if all_are == "integers" else ("tensors", [v for _, v in items])
    if result is None or isinstance(result, (bool, int, float, complex, str, list, tuple, dict)):
        return "unknown", None
    raise TypeError(f"a shape function gives a tscompile.TensorType, not {type(result).__name__}")


def infer(function: Callable[..., Any], arguments: list[Any], results: int) -> list[Any]:
    """What a shape function tells of each result."""
    given = [_given(a) for a in arguments]
    out = function(*given)
    if results == 1:
        return [_told(out)]
    if out is None:
        return [("unknown", None)] * results
    return [_told(r) for r in out]
