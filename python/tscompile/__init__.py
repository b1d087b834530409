"""Reads TorchScript and torch.export models and runs them on CPUs, without LibTorch. The guide is docs/python.md."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Number
from operator import index as operator_index
from typing import Any, TypeVar


def _check_cpu() -> None:
    """The library is built for x86-64-v3: elsewhere the first vector instruction would end the process."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
            flags = next((line.split() for line in f if line.startswith("flags")), None)
    except OSError:
        return
    missing = [] if flags is None else [f for f in ("avx2", "bmi2", "f16c", "fma", "movbe") if f not in flags]
    if missing:
        raise ImportError("this build of tscompile needs a processor with " + ", ".join(missing))


_check_cpu()

from tscompile import _core  # noqa: E402
from tscompile._arithmetic import add_arithmetic  # noqa: E402
from tscompile._core import Method, Tensor  # noqa: E402
from tscompile._errors import (  # noqa: E402
    Error,
    IncompatibleError,
    InputError,
    Interrupted,
    IoError,
    LimitError,
    ModelError,
    UnsupportedError,
)
from tscompile._language import LanguageModel  # noqa: E402
from tscompile._shapes import TensorType  # noqa: E402

__version__ = _core.version()
__all__ = [
    "Engine",
    "Error",
    "IncompatibleError",
    "Input",
    "InputError",
    "Interrupted",
    "IoError",
    "LanguageModel",
    "LimitError",
    "Method",
    "ModelError",
    "Module",
    "Partition",
    "Session",
    "Tensor",
    "TensorType",
    "UnsupportedError",
    "compile",
    "load",
    "operator",
]


def _dim_text(dim: Any) -> str:
    if isinstance(dim, str):
        return dim
    if isinstance(dim, (tuple, list)) and len(dim) == 2:
        return f"{dim[0]}..{dim[1]}"
    try:
        return str(operator_index(dim))
    except TypeError:
        raise ValueError(
            f"a dimension is a number, its least and its most such as (1, 8) where it is not fixed, or a name, not {dim!r}"
        ) from None


@dataclass(frozen=True)
class Input:
    """What an input will be: dimensions are a number, a pair (least, most), or a text such as "N" of a size that inputs
    share, whose range compile() is given beside them; `opt` are the usual sizes, to tune for."""

    shape: Sequence[int | tuple[int, int] | str]
    dtype: str | None = None
    opt: Sequence[int] | None = None

    def _range(self) -> str:
        dims = "x".join(_dim_text(d) for d in self.shape)
        return dims + (f":{self.dtype}" if self.dtype else "")


def _dtype_name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _as_input(given: Any) -> Input | str:
    if isinstance(given, (Input, str)):
        return given
    if hasattr(given, "shape") and hasattr(given, "dtype"):
        return Input(tuple(given.shape), _dtype_name(given.dtype))
    return Input(tuple(given))


def _is_one(inputs: Any) -> bool:
    """Whether it is what one input is like, not a list of such: an array, an Input, a text, or dimensions."""
    if isinstance(inputs, (Input, str)) or (hasattr(inputs, "shape") and hasattr(inputs, "dtype")):
        return True
    return (
        isinstance(inputs, (list, tuple))
        and any(isinstance(d, Integral) for d in inputs)
        and all(
            isinstance(d, Integral)
            or d is None  # which is told to be no dimension
            or (isinstance(d, str) and "x" not in d)  # else it is all sizes of an input
            or (isinstance(d, (list, tuple)) and len(d) == 2)
            for d in inputs
        )
    )


def _size_names(given: Any) -> set[str]:
    """Names of sizes among the dimensions: N of "Nx3:f32" and of ("N", 3)."""
    if isinstance(given, str):
        return set(re.findall(r"[^\W\d]\w*", given.split("=")[-1].split(":")[0].replace("x", " ")))
    shape = given.shape if isinstance(given, Input) else given
    return {n for d in shape if isinstance(d, str) for n in _size_names(d)} if isinstance(shape, (list, tuple)) else set()


def _is_container(given: Any) -> bool:
    """Whether it is a dict, list or tuple of what has sizes, not dimensions."""
    items = list(given.values()) if isinstance(given, Mapping) else given if isinstance(given, (list, tuple)) else []
    return bool(items) and all(
        (hasattr(i, "shape") and not isinstance(i, Number)) or isinstance(i, Input) or _is_container(i) for i in items
    )


def _parts(name: str, given: Any) -> list[tuple[str, Any]]:
    """Names of the tensors in it, as "row.cat" and "images.0", each with its sizes."""
    if not _is_container(given):
        return [(name, given)]
    items = given.items() if isinstance(given, Mapping) else enumerate(given)
    return [part for key, item in items for part in _parts(f"{name}.{key}", item)]


def _is_tensor(type: str) -> bool:
    return type.removesuffix("?").split("(")[0] in _TENSOR_TYPES


def _holds_tensors(type: str) -> bool:
    return "Tensor" in type and not _is_tensor(type)


def _is_part(name: str, types: Mapping[str, str]) -> bool:
    """Whether it is of a tensor in an input, as "row.cat" is in "row"."""
    return name not in types and any(name.startswith(i + ".") and _holds_tensors(types[i]) for i in types)


def _no_sizes(name: str, given: Any, method: Method) -> ValueError | None:
    """What is wrong with a number or None as the sizes of an input."""
    if given is not None and not isinstance(given, (bool, int, float)):
        return None
    type = next((i["type"] for i in method.inputs if i["name"] == name), "Tensor")
    if _is_tensor(type):
        return ValueError(f"sizes of input '{name}' are dimensions, such as (1, 3, 224, 224), or an array, not {given!r}")
    return ValueError(
        f"input '{name}' is {type} and has no shape: without it, it stays an input, and bind={{{name!r}: {given!r}}} makes it "
        "a constant"
    )


def _full_name(name: str, method: Method) -> str:
    """The name of an input; also without the ".1" that PyTorch appends, where that is one input's."""
    names = [i["name"] for i in method.inputs]
    like = [n for n in names if n.rstrip("0123456789") == name + "."]
    return name if name in names or len(like) != 1 else like[0]


def _ranges(inputs: Any, method: Method) -> tuple[list[str], list[str]]:
    """Sizes as texts, and settings that go with them."""
    if inputs is None:
        return [], []
    if _is_one(inputs):
        inputs = [inputs]
    types = {i["name"]: i["type"] for i in method.inputs}
    ranges, settings = [], []
    alone = [i["name"] for i in method.inputs if not i["optional"]]
    if isinstance(inputs, Mapping) and len(alone) == 1 and alone[0] not in inputs and _is_container(inputs):
        inputs = {alone[0]: inputs}  # the only argument is such a dict
    if isinstance(inputs, Mapping):
        sizes = {n for value in inputs.values() for n in _size_names(value)} - set(types)
        named = [(_full_name(name, method), value) for name, value in inputs.items() if name not in sizes]
        ranges = [f"{name}={_dim_text(value)}" for name, value in inputs.items() if name in sizes]
    else:
        given = list(inputs)
        sizes = {n for value in given for n in _size_names(value)} - set(types)
        said = [g for g in given if isinstance(g, str) and g.partition("=")[1] and g.partition("=")[0] in sizes]
        said += [g for g in given if isinstance(g, str) and _is_part(g.partition("=")[0], types)]
        given = [g for g in given if not (isinstance(g, str) and g in said)]
        ranges = list(said)
        tensors = [name for name, type in types.items() if type.split("(")[0] in _TENSOR_TYPES]
        if len(given) > len(tensors):  # those that may be left out, too
            tensors = [name for name, type in types.items() if _is_tensor(type)]
        others = [name for name in types if name not in tensors]
        number = next((g for g in given if isinstance(g, (bool, int, float))), None)
        if number is not None and others:
            raise ValueError(
                f"{number!r} has no shape: sizes are given for tensors alone, which are {', '.join(tensors)}; "
                f"bind={{{others[0]!r}: {number!r}}} makes an input a constant"
            )
        if any(_is_container(g) for g in given):  # in the order of arguments
            tensors = [name for name, type in types.items() if _is_tensor(type) or _holds_tensors(type)]
        if len(given) > len(tensors):
            holders = [name for name, type in types.items() if _holds_tensors(type)]
            raise ValueError(
                f"sizes were given for {len(given)} inputs, and the method has {len(tensors)} that are tensors: {', '.join(tensors)}"
                + ("; others have none: they are left out here, or bind= makes them constants" if others else "")
                + (f"; those of {holders[0]!r}, {types[holders[0]]}, have names: {holders[0] + '.0'!r} or a key" if holders else "")
            )
        named = list(zip(tensors, given))
    named = [part for name, value in named for part in _parts(name, value)]
    for name, value in named:
        if wrong := _no_sizes(name, value, method):
            raise wrong
        value = _as_input(value)
        if isinstance(value, str):
            ranges.append(value if "=" in value else f"{name}={value}")
            continue
        ranges.append(f"{name}={value._range()}")
        if value.opt is not None:
            settings.append(f"opt-shape={name}=" + "x".join(str(int(d)) for d in value.opt))
    return ranges, settings


_TENSOR_TYPES = {
    "Tensor", "Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double", "ComplexFloat", "ComplexDouble", "Bool",
    "BFloat16",
}


_PRECISIONS = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "int8": "int8"}
# What settings of other tools are called here.
_WORDS = {
    "dtype": "precision", "int8": 'precision="int8"', "quantize": 'precision="int8"', "quantise": 'precision="int8"',
    "quantization": 'precision="int8"', "fp16": 'precision="f16"', "half": 'precision="f16"', "bf16": 'precision="bf16"',
    "enabled_precisions": "precision", "num_threads": "threads", "input_shape": "inputs", "input_shapes": "inputs",
    "example_inputs": "inputs", "shapes": "inputs",
}


def _settings(settings: Mapping[str, Any]) -> list[str]:
    """min_block_size=5 as the command line has it, without its dashes; lists are said several times."""
    out = []
    for name, value in settings.items():
        if name in _WORDS:
            raise ValueError(f"there is no setting {name!r}, did you mean '{_WORDS[name]}'?")
        key = name.replace("_", "-")
        if name == "precision" and not isinstance(value, (str, list, tuple)):  # a dtype of PyTorch or NumPy
            dtype = value.__name__ if isinstance(value, type) else _dtype_name(value)
            value = _PRECISIONS.get(dtype, value)
        for v in value if isinstance(value, (list, tuple)) else [value]:
            if v is True:
                out.append(key)
            elif v is not False and v is not None:
                out.append(f"{key}={v}")
    return out


def _bound(given: Mapping[str, Any] | str | Iterable[str] | None) -> dict[str, Any]:
    """Inputs that become constants, by name; a text is as the command line has it, "length=24"."""
    if given is None or isinstance(given, Mapping):
        return dict(given or {})
    out = {}
    for text in [given] if isinstance(given, str) else given:
        name, equal, value = text.partition("=") if isinstance(text, str) else ("", "", "")
        if not equal:
            raise ValueError(f"bind takes a dict of values by the names of inputs, not {given!r}")
        out[name] = value
    return out


def _examples(given: Any) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arguments by position and by name, of each call."""
    if given is None:
        return []
    if isinstance(given, (str, bytes, os.PathLike, Mapping)) or (hasattr(given, "shape") and hasattr(given, "dtype")):
        raise TypeError(
            "calibrate takes a list of example inputs: arrays, tuples of arguments, or dicts by name, not "
            + ("a path" if isinstance(given, (str, bytes, os.PathLike)) else f"one {type(given).__name__}")
        )
    out: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    for example in given:
        if isinstance(example, Mapping):
            out.append(((), dict(example)))
        else:
            out.append((tuple(example) if isinstance(example, (tuple, list)) else (example,), {}))
    if not out:
        raise ValueError("calibrate holds no example inputs")
    return out


class Partition:
    """How a method would be cut: which nodes run in engines, which do not and why."""

    def __init__(self, text: str):
        self._text = text

    def to_dict(self) -> dict[str, Any]:
        return json.loads(self._text)

    def to_json(self) -> str:
        return self._text

    @property
    def coverage(self) -> float:
        """Part of the nodes that run in engines, from 0 to 1."""
        return self.to_dict()["coverage"]

    def __repr__(self) -> str:
        d = self.to_dict()
        return f"tscompile.Partition({len(d['segments'])} segments, {100 * d['coverage']:.1f} % of the nodes in engines)"


class Module:
    """A model. Calling it runs its method forward; any number of threads may do that at once."""

    def __init__(self, core: Any):
        self._core = core
        self._prepared: dict[str, Method] = {}

    @property
    def methods(self) -> list[str]:
        return self._core.methods

    def __getattr__(self, name: str) -> Method:
        """Methods by their names, as PyTorch has them: model.encode is model.method("encode")."""
        if not name.startswith("_") and name in self.methods:
            return self.method(name)
        hint = ": compile() makes an engine, which save() writes" if name == "save" else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=self)

    def method(self, name: str = "forward") -> Method:
        """A method, verified and ready to run."""
        found = self._prepared.get(name)
        if found is None:
            found = self._prepared[name] = self._core.prepare(name)
        return found

    @property
    def inputs(self) -> list[dict[str, Any]]:
        return self.method().inputs

    @property
    def outputs(self) -> list[dict[str, Any]]:
        return self.method().outputs

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.method()(*args, **named)

    def run(self, *args: Any, **options: Any) -> Any:
        """The same with `threads`, `seed`, `time_limit` (seconds, or "500ms"), `memory_limit` (bytes, or "512M")."""
        return self.method().run(*args, **options)

    def session(self) -> Session:
        """Calls that go on where the last one ended: each sees what those before wrote to buffers and attributes."""
        return Session(self)

    def compile(
        self,
        inputs: Any = None,
        *,
        method: str = "forward",
        bind: Mapping[str, Any] | str | Iterable[str] | None = None,
        calibrate: Iterable[Any] | None = None,
        calibration: str = "minmax",
        **settings: Any,
    ) -> Engine:
        """A method with engines for all that engines can take.

        `inputs`: sizes of the tensors in order, or by name in a dict: arrays, tuples of dimensions, Input, or texts such
        as "1..8x3x224x224:f32"; one of them alone is that of the first. Without them engines adapt to what comes. A size
        that inputs share has a name, and a range beside them: {"x": "Nx3", "y": ("N", 4), "N": (1, 16)}, or
        ["Nx3", "Nx4", "N=1..16"].
        `bind` makes constants of inputs: {"length": 24}. `calibrate` are example inputs for precision="int8", from which
        fixed grids of the values between layers are found: arrays, tuples of arguments, or dicts by name; `calibration`
        is "minmax" or "entropy". `settings` are settings of the command line's compile: precision="f16",
        min_block_size=5, torch_executed_op=["aten::relu"].
        """
        if not isinstance(calibration, str):
            raise TypeError('calibration is "minmax" or "entropy"; example inputs are given as calibrate')
        given = self._given(inputs, method, settings, bind)
        return Engine(self._core.compile(*given, _examples(calibrate), calibration))

    def _given(self, inputs: Any, method: str, settings: Mapping[str, Any], bind: Any) -> tuple[Any, ...]:
        ranges, more = _ranges(inputs, self.method(method)) if inputs is not None else ([], [])
        return method, ranges, more + _settings(settings), _bound(bind)

    def partition(
        self,
        inputs: Any = None,
        *,
        method: str = "forward",
        bind: Mapping[str, Any] | str | Iterable[str] | None = None,
        **settings: Any,
    ) -> Partition:
        """How compile() would cut the method."""
        return Partition(self._core.partition(*self._given(inputs, method, settings, bind)))

    def explain(
        self,
        node: str,
        inputs: Any = None,
        *,
        method: str = "forward",
        bind: Mapping[str, Any] | str | Iterable[str] | None = None,
        **settings: Any,
    ) -> dict[str, Any]:
        """Where nodes run and why: "%value", or "aten::operator" for all of them."""
        return json.loads(self._core.explain(node, *self._given(inputs, method, settings, bind)))

    def profile(self, *args: Any, runs: int = 0, threads: int = 0, method: str = "forward", **named: Any) -> dict[str, Any]:
        """Runs it on these inputs, as often as fits in a second or `runs` times, and tells where the time goes."""
        return json.loads(self.method(method)._profile(*args, runs=runs, threads=threads, **named))

    def build(
        self, folder: str | os.PathLike[str], *, config: str | os.PathLike[str] = "", **settings: Any
    ) -> LanguageModel:
        """Makes a folder that serves a decoder, as `tscompile build` does, and loads it.

        `settings` are those of docs/language_models.md, max_seq_len=512; `config` is a file of them.
        """
        texts = [f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in settings.items() if v is not None]
        self._core.build(os.fspath(folder), os.fspath(config), texts)
        return LanguageModel(folder)

    @property
    def unused_weights(self) -> list[str]:
        return self._core.unused_weights

    def __repr__(self) -> str:
        return f"tscompile.{type(self).__name__}(methods={self.methods})"


class Session:
    """Calls of a module, one after the other, that keep what it writes to its buffers and attributes, as in PyTorch.

    Calls of the module itself each begin with what was loaded. A module that was compiled needs the setting keep_state.
    Outputs may share memory with what is kept: copy what is to stay.
    """

    def __init__(self, module: Module):
        self._module = module
        self._state = _core._State()

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.run(*args, **named)

    def run(self, *args: Any, method: str = "forward", **options: Any) -> Any:
        """Another method than forward, or with options of Module.run."""
        return self._module.method(method).run(*args, _state=self._state, **options)

    def reset(self) -> None:
        """The next call begins with what was loaded."""
        self._state.clear()


class Engine(Module):
    """A compiled method."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes an engine file, which load() reads."""
        self._core.save(os.fspath(path))

    @property
    def info(self) -> dict[str, Any]:
        """How it was made: version, sizes, options, features of the processor that it needs."""
        return self._core.info


def _texts(given: Any) -> list[str]:
    if given is None:
        return []
    if isinstance(given, (str, os.PathLike)):
        return [os.fspath(given)]
    return [os.fspath(g) for g in given]


def _saved(program: Any) -> bytes | None:
    """What torch.jit.save or torch.export.save would write of a program that PyTorch has made; None of anything else."""
    if hasattr(program, "save_to_buffer"):
        return bytes(program.save_to_buffer())
    if hasattr(program, "graph_module") and hasattr(program, "graph_signature"):
        from tscompile import torch_backend

        return torch_backend.bytes_of(program)
    return None


def load(
    path_or_text: str | os.PathLike[str] | bytes | Any,
    weights: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | Mapping[str, Any] | None = None,
    *,
    name: str = "<memory>",
    plugins: Iterable[str | os.PathLike[str]] = (),
    rules: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    limits: Mapping[str, int] | None = None,
) -> Module:
    """Loads graph text or a module dump (with `weights`: safetensors files or checkpoints, or a dict of arrays or
    tensors by name), a TorchScript archive or a file of torch.export.save (`weights` are loaded into it, as
    load_state_dict does), or an engine file, which gives an Engine.

    A str with a line break is the text itself, and bytes are those of any such file; `name` then stands for the path in
    messages. A scripted or traced module and an ExportedProgram are loaded as what PyTorch would save of them. `rules` are files of rewrite rules, or their text, that compile() and partition() apply.
    """
    tensors = dict(weights) if isinstance(weights, Mapping) else {}
    bounds = [f"{k}={v}" for k, v in (limits or {}).items()]
    rest = [] if tensors else _texts(weights), tensors, _texts(plugins), _texts(rules), bounds
    if isinstance(path_or_text, (bytes, bytearray, memoryview)):
        core = _core.load_memory(bytes(path_or_text), name, *rest)
    elif isinstance(path_or_text, str) and "\n" in path_or_text:
        core = _core.load_memory(path_or_text.encode("utf-8", "surrogateescape"), name, *rest)
    elif isinstance(path_or_text, (str, os.PathLike)):
        core = _core.load_path(os.fspath(path_or_text), *rest)
    elif (saved := _saved(path_or_text)) is not None:
        return load(saved, weights, name=name, plugins=plugins, rules=rules, limits=limits)
    else:
        given = type(path_or_text).__name__
        raise TypeError(f"load() takes a path, a text or bytes, not {given}; compile() takes modules of PyTorch")
    return Engine(core) if core.is_compiled else Module(core)


def _torch_function(
    cls: Any, function: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> Any:
    """Functions of PyTorch take results as tensors of theirs, over the same memory."""
    import torch

    def theirs(value: Any) -> Any:
        if isinstance(value, Tensor):
            return torch.from_dlpack(value)
        if type(value) in (list, tuple):
            return type(value)(theirs(v) for v in value)
        return value

    return function(*theirs(tuple(args)), **{k: theirs(v) for k, v in (kwargs or {}).items()})


Tensor.__torch_function__ = classmethod(_torch_function)  # type: ignore[attr-defined]


def _no_attribute(tensor: Any, name: str) -> Any:
    """Tells who has what users look for in a result."""
    hint = ""
    if not name.startswith("_"):
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        if torch is not None and hasattr(torch.Tensor, name):
            hint = f": torch.from_dlpack(y).{name} has the same memory"
        elif numpy is not None and hasattr(numpy.ndarray, name):
            hint = f": y.numpy().{name} has the same memory"
    raise AttributeError(f"'tscompile.Tensor' object has no attribute {name!r}{hint}", name=name, obj=tensor)


Tensor.__getattr__ = _no_attribute  # type: ignore[attr-defined]
add_arithmetic()

_Function = TypeVar("_Function", bound=Callable[..., Any])


def operator(schema: str, shapes: Callable[..., Any] | None = None) -> Callable[[_Function], _Function]:
    """Makes a function an operator of yours, for all that is loaded from then on:

        @tscompile.operator("mylib::foo(Tensor x, float by=1.5) -> Tensor")
        def foo(x, by):
            return np.asarray(x) * by

    It is called with all arguments of the schema by position, tensors as tscompile.Tensor, and gives one result, or a
    tuple of them. It writes to arguments that the schema says are written, `Tensor(a!) x`, and to no others.

    `shapes` tells what the results will be, so that engines can hold the operator and plan what follows:

        @tscompile.operator("mylib::pairs(Tensor x) -> Tensor",
                            shapes=lambda x: tscompile.TensorType((x.shape[0] // 2, *x.shape[1:]), x.dtype))

    It is called with the same arguments, tensors as TensorType. `x` itself is a result like x, and None one that is
    known only when the function has run. While a model is analysed sizes and numbers may be open: they can be computed
    with and passed on, and a shape function that asks for their values ends there.
    """

    if shapes is not None and not callable(shapes):
        raise TypeError(f"shapes takes a function, not {type(shapes).__name__}")

    def register(function: _Function) -> _Function:
        if not callable(function):
            raise TypeError(f"an operator is a function, not {type(function).__name__}")
        _core.register_operator(schema, function, shapes)
        return function

    return register


def _sized(module: Any, inputs: Any) -> Any:
    """The tensors of an example of what PyTorch has scripted or traced; an exported program has sizes of its own."""
    if hasattr(module, "graph_signature"):
        return []
    if isinstance(inputs, Mapping):
        named = {a.name for a in module.forward.schema.arguments}.issuperset(inputs)
        return {k: v for k, v in inputs.items() if hasattr(v, "shape")} if named else []
    return [i for i in ([inputs] if hasattr(inputs, "shape") else inputs) if hasattr(i, "shape")]


def _are_sizes(inputs: Any) -> bool:
    """Whether they say sizes of tensors, as Module.compile takes them, and no values."""
    if isinstance(inputs, Mapping):
        inputs = list(inputs.values())
    items = [inputs] if _is_one(inputs) else list(inputs) if isinstance(inputs, (list, tuple)) else []
    return bool(items) and all(not hasattr(i, "dtype") or isinstance(i, Input) for i in items) and any(map(_is_one, items))


def compile(module: Any, inputs: Sequence[Any], dynamic_shapes: Any = None, **settings: Any) -> Engine:
    """An Engine of a live torch.nn.Module, through torch.export (PyTorch 2.1 or later must be there).

    `inputs` are an example of its arguments in order, or in a dict by name; a tensor alone is that of the first, and a
    dict whose keys are no names of arguments, too. `dynamic_shapes` are torch.export's. A scripted or traced module is
    compiled for the sizes of `inputs`, and an ExportedProgram for those that it was exported for.
    """
    if (saved := _saved(module)) is not None:
        if dynamic_shapes is not None:
            raise TypeError("dynamic_shapes are of modules that are exported here: "
                            "load(program).compile([((1, 8), 3)]) takes ranges of sizes")
        name = getattr(module, "original_name", type(module).__name__)
        return load(saved, name=name).compile(_sized(module, inputs), **settings)
    if not hasattr(module, "named_parameters"):
        if isinstance(module, Module):
            raise TypeError("compile() takes modules of PyTorch; what is loaded already has a method compile()")
        of_functions = 'torch.compile(function, backend="tscompile") takes functions'
        other = of_functions if callable(module) else "load() opens files and texts"
        raise TypeError(f"compile() takes modules of PyTorch, not {type(module).__name__}; {other}")
    from tscompile import torch_backend

    try:
        return torch_backend.compile_module(module, inputs, dynamic_shapes, settings)
    except Exception as e:
        if not _are_sizes(inputs):
            raise
        raise TypeError(
            "compile() of a module takes example arguments, such as [torch.randn(1, 3, 224, 224)], not sizes; "
            "dynamic_shapes tells which dimensions vary, as for torch.export"
        ) from e
