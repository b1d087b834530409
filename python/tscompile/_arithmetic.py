"""Elements, slices, arithmetic and comparisons of results: those of the NumPy array over the same memory."""

from collections.abc import Callable
from typing import Any

from tscompile._core import Tensor

_BINARY = (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul rmatmul "
    "divmod rdivmod and rand or ror xor rxor lshift rlshift rshift rrshift lt le gt ge eq ne"
)
_OTHERS = "neg pos abs invert iter contains getitem setitem"


def _as_array(name: str, is_binary: bool) -> Callable[..., Any]:
    def method(tensor: Tensor, *others: Any) -> Any:
        # A tensor of PyTorch makes one of theirs of both.
        if is_binary and hasattr(others[0], "__torch_function__") and not isinstance(others[0], Tensor):
            return NotImplemented
        try:
            array, *values = [v.numpy() if isinstance(v, Tensor) else v for v in (tensor, *others)]
        except (ImportError, TypeError):  # there is no NumPy, or no dtype of it
            if name in ("__eq__", "__ne__"):
                return NotImplemented
            raise
        return getattr(array, name)(*values)

    method.__name__ = name
    return method


def add_arithmetic() -> None:
    for word in f"{_BINARY} {_OTHERS}".split():
        name = f"__{word}__"
        setattr(Tensor, name, _as_array(name, word in _BINARY.split()))
    # Compared by elements, but a key of dicts by what it is, like tensors of PyTorch.
    Tensor.__hash__ = object.__hash__  # type: ignore[method-assign]
