"""Elements, slices, arithmetic and comparisons of results: those of the NumPy array over the same memory."""

from collections.abc import Callable
from typing import Any

from tscompile._core import Tensor

_BINARY = (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul rmatmul "
    "and rand or ror xor rxor lshift rlshift rshift rrshift lt le gt ge eq ne getitem"
)
_UNARY = "neg pos abs invert iter"


def _as_array(name: str) -> Callable[..., Any]:
    def method(tensor: Tensor, *others: Any) -> Any:
        # A tensor of PyTorch makes one of theirs of both.
        if name != "__getitem__" and any(
            hasattr(other, "__torch_function__") and not isinstance(other, Tensor) for other in others
        ):
            return NotImplemented
        return getattr(tensor.numpy(), name)(*others)

    method.__name__ = name
    return method


def add_arithmetic() -> None:
    for word in f"{_BINARY} {_UNARY}".split():
        name = f"__{word}__"
        setattr(Tensor, name, _as_array(name))
    # Compared by elements, but a key of dicts by what it is, like tensors of PyTorch.
    Tensor.__hash__ = object.__hash__  # type: ignore[method-assign]
