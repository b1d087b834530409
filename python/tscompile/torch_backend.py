"""Live PyTorch modules: tscompile.compile(module, ...) and torch.compile(module, backend="tscompile").

Everything goes through torch.export. What tscompile does not have stays in PyTorch, and is told on the logger
"tscompile"; nothing here changes a result.
"""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

import tscompile
from tscompile import _core

log = logging.getLogger("tscompile")

# Engines of one compiled function: of other parameters, or other sizes that the graph is fixed to.
MOST_VARIANTS = 8


def _bytes_of(program: torch.export.ExportedProgram) -> bytes:
    out = io.BytesIO()
    torch.export.save(program, out)
    return out.getvalue()


def _engine_of(program: torch.export.ExportedProgram, settings: Mapping[str, Any], name: str) -> tscompile.Engine:
    return tscompile.load(_bytes_of(program), name=name).compile(**settings)


def compile_module(
    module: torch.nn.Module, inputs: tuple[Any, ...], dynamic_shapes: Any, settings: Mapping[str, Any]
) -> tscompile.Engine:
    was_training = module.training
    module.eval()
    try:
        with torch.no_grad():
            program = torch.export.export(module, inputs, dynamic_shapes=dynamic_shapes)
    finally:
        module.train(was_training)
    return _engine_of(program, settings, type(module).__name__)


# ---- between tensors ----


def _to_torch(value: Any) -> Any:
    if isinstance(value, _core.Tensor):
        return torch.from_dlpack(value.__dlpack__())  # what cannot be written is copied
    if isinstance(value, (list, tuple)):
        return type(value)(*map(_to_torch, value)) if hasattr(value, "_fields") else type(value)(map(_to_torch, value))
    if isinstance(value, dict):
        return {k: _to_torch(v) for k, v in value.items()}
    return value


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [x for v in value for x in _flat(v)]
    return [value]


def _from_torch(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach() if tensor.requires_grad else tensor
    # DLPack has no conjugates or negatives by flag.
    return tensor.resolve_conj().resolve_neg() if tensor.is_complex() or tensor.is_neg() else tensor


def _shareable(tensor: Any) -> bool:
    return (
        isinstance(tensor, torch.Tensor)
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and not tensor.is_quantized
        and type(tensor) in (torch.Tensor, torch.nn.Parameter)
    )


# ---- one graph of tensors ----


class _Bound(torch.nn.Module):
    """A graph with its parameters as attributes, that takes the tensors among the other inputs; sizes among the inputs are
    taken from these tensors."""

    def __init__(self, graph: torch.fx.GraphModule, fixed: dict[int, Any], sizes: dict[int, tuple[int, int]], taken: list[int]):
        super().__init__()
        self.graph_module = graph
        self.count = len(fixed) + len(sizes) + len(taken)
        self.others: dict[int, Any] = {}
        for i, value in fixed.items():
            if isinstance(value, torch.nn.Parameter):
                self.register_parameter(f"p{i}", value)
            elif isinstance(value, torch.Tensor):
                self.register_buffer(f"p{i}", value)
            else:
                self.others[i] = value
        self.fixed, self.sizes, self.taken = fixed, sizes, taken

    def forward(self, *tensors):
        by_index = dict(zip(self.taken, tensors))
        arguments = []
        for i in range(self.count):
            if i in by_index:
                arguments.append(by_index[i])
            elif i in self.sizes:
                of, dim = self.sizes[i]
                arguments.append(by_index[of].shape[dim])
            else:
                arguments.append(self.others[i] if i in self.others else getattr(self, f"p{i}"))
        return self.graph_module(*arguments)


def _symbols(examples: Sequence[Any]) -> tuple[dict[int, tuple[int, int]], dict[int, dict[int, Any]]]:
    """For each input that is a size, the tensor and dimension that has it; and the open dimensions of each tensor."""
    found: dict[Any, tuple[int, int]] = {}
    dynamic: dict[int, dict[int, Any]] = {}
    for i, e in enumerate(examples):
        if not isinstance(e, torch.Tensor):
            continue
        for d, size in enumerate(e.shape):
            if isinstance(size, torch.SymInt):
                dynamic.setdefault(i, {})[d] = torch.export.Dim.AUTO
                found.setdefault(size.node.expr, (i, d))
    sizes = {i: found[e.node.expr] for i, e in enumerate(examples) if isinstance(e, torch.SymInt) and e.node.expr in found}
    return sizes, dynamic


def _static(graph: torch.fx.GraphModule) -> set[int]:
    """Inputs that are parameters and buffers of modules."""
    placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
    return {i for i, n in enumerate(placeholders) if "_dynamo_static_input_type" in (n.meta.get("tensor_dict") or {})}


def _copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """An example to trace with; it may be written."""
    return tensor.detach().clone()


class _Unsupported(Exception):
    pass


def _operators(program: torch.export.ExportedProgram) -> list[torch.fx.Node]:
    return [n for n in program.graph.nodes if n.op == "call_function" and not _is_supported(n)]


def _is_supported(node: torch.fx.Node) -> bool:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return True  # getitem, arithmetic of sizes, control flow: the reader says whether it has them
    name = target._schema.name
    overload = target._schema.overload_name
    return _core.has_operator(f"{name}.{overload}" if overload else name)


def _version(value: Any) -> int:
    """Counts writes in place that autograd sees."""
    return value._version if isinstance(value, torch.Tensor) and not value.is_inference() else 0


class _Runner:
    """What runs for one set of parameters: an engine, or engines and PyTorch in turns."""

    def __init__(self, call: Callable[..., Any], taken: list[int], fixed: dict[int, Any]):
        self.call, self.taken = call, taken
        # Engines hold parameters as they were.
        self.fixed = [(i, v, _version(v)) for i, v in fixed.items()]

    def fits(self, args: Sequence[Any]) -> bool:
        for i, value, version in self.fixed:
            arg = args[i]
            if arg is value:
                if _version(arg) != version:
                    return False
            elif isinstance(arg, torch.Tensor) or arg != value:
                return False
        return True

    def __call__(self, args: Sequence[Any]) -> Any:
        return self.call([args[i] for i in self.taken])


def _engine_call(engine: tscompile.Engine, count: int | None) -> Callable[[Sequence[Any]], list[Any]]:
    method = engine.method()

    def call(tensors: Sequence[Any]) -> list[Any]:
        out = _flat(_to_torch(method(*map(_from_torch, tensors))))
        if count is not None and len(out) != count:
            raise RuntimeError(f"the engine gave {len(out)} results, not {count}")
        return out

    return call


def _coverage(engine: tscompile.Engine, what: str) -> None:
    log.info("%s: compiled; inputs %s", what, [i["name"] for i in engine.inputs])


def _cut(program: torch.export.ExportedProgram, settings: Mapping[str, Any], what: str) -> torch.nn.Module:
    """The program with engines for what tscompile has, the rest in PyTorch."""
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import OperatorSupportBase

    class Support(OperatorSupportBase):
        def is_node_supported(self, submodules, node):
            return node.op == "call_function" and _is_supported(node) and isinstance(node.target, torch._ops.OpOverload)

    graph = program.module()
    partitioner = CapabilityBasedPartitioner(graph, Support(), allows_single_node_partition=False)
    fused = partitioner.fuse_partitions(partitioner.propose_partitions())
    engines = 0
    for node in list(fused.graph.nodes):
        if node.op != "call_module" or not node.target.startswith("fused_"):
            continue
        part = getattr(fused, node.target)
        examples = []
        for n in node.args:
            value = n.meta.get("val") if isinstance(n, torch.fx.Node) else n
            if not isinstance(value, torch.Tensor) or any(isinstance(s, torch.SymInt) for s in value.shape):
                break
            examples.append(torch.zeros(value.shape, dtype=value.dtype))
        else:
            try:
                with torch.no_grad():
                    engine = _engine_of(torch.export.export(part, tuple(examples)), settings, f"{what}.{node.target}")
            except Exception as error:
                log.info("%s.%s stays in PyTorch: %s", what, node.target, _first_line(error))
                continue
            single = not isinstance(part.graph.output_node().args[0], (tuple, list))
            setattr(fused, node.target, _Called(_engine_call(engine, None), single))
            engines += 1
    if engines == 0:
        raise _Unsupported("no part of it can be compiled")
    log.info("%s: %d engines, the rest in PyTorch", what, engines)
    return fused


class _Called(torch.nn.Module):
    def __init__(self, call: Callable[[Sequence[Any]], list[Any]], single: bool):
        super().__init__()
        self.call, self.single = call, single

    def forward(self, *tensors):
        out = self.call(tensors)
        return out[0] if self.single else tuple(out)


def _first_line(error: BaseException) -> str:
    text = getattr(error, "message", None) or str(error) or type(error).__name__
    return text.splitlines()[0]


class _Compiled:
    """What torch.compile calls for one graph. Compiles at the first call, when parameters have their values."""

    _count = 0

    def __init__(self, graph: torch.fx.GraphModule, examples: Sequence[Any], settings: Mapping[str, Any]):
        _Compiled._count += 1
        self.graph, self.settings = graph, settings
        self.what = f"graph {_Compiled._count}"
        # What Dynamo knows of the inputs, where open sizes are symbols.
        placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
        self.sizes, self.dynamic = _symbols([n.meta.get("example_value", e) for n, e in zip(placeholders, examples)])
        self.static = _static(graph)
        self.runners: list[_Runner] = []
        self.in_torch = False
        self.told_gradients = False
        self.lock = threading.Lock()

    def _leave(self, why: str) -> None:
        log.warning("%s stays in PyTorch: %s", self.what, why)
        self.in_torch = True

    def _make(self, args: Sequence[Any]) -> _Runner | None:
        fixed = {i: a for i, a in enumerate(args) if i in self.static or not isinstance(a, torch.Tensor)}
        fixed = {i: a for i, a in fixed.items() if i not in self.sizes}
        taken = [i for i in range(len(args)) if i not in fixed and i not in self.sizes]
        bound = _Bound(self.graph, fixed, self.sizes, taken).eval()
        examples = tuple(_copy_of(args[i]) for i in taken)
        shapes = None
        if self.dynamic:
            shapes = (tuple(self.dynamic.get(i) for i in taken),)
        count = len(_flat(self.graph.graph.output_node().args[0]))
        with torch.no_grad():
            program = torch.export.export(bound, examples, dynamic_shapes=shapes)
            refused = _operators(program)
            if not refused:
                try:
                    engine = _engine_of(program, self.settings, self.what)
                    _coverage(engine, self.what)
                    return _Runner(_engine_call(engine, count), taken, fixed)
                except tscompile.Error as error:
                    log.info("%s cannot be one engine: %s", self.what, _first_line(error))
            for node in refused[:5]:
                log.warning("%s: %s stays in PyTorch, tscompile does not have it", self.what, node.target)
            if self.dynamic:
                raise _Unsupported("parts of graphs are compiled for fixed sizes alone")
            module = _cut(program, self.settings, self.what)
            return _Runner(lambda tensors: _flat(module(*tensors)), taken, fixed)

    def _runner(self, args: Sequence[Any]) -> _Runner | None:
        for runner in self.runners:
            if runner.fits(args):
                return runner
        with self.lock:
            if self.in_torch:
                return None
            if len(self.runners) >= MOST_VARIANTS:
                self._leave(f"its parameters have changed {MOST_VARIANTS} times")
                return None
            if not all(_shareable(a) for a in args if isinstance(a, torch.Tensor)):
                self._leave("it takes tensors that are not dense ones in the memory of the CPU")
                return None
            try:
                runner = self._make(args)
            except Exception as error:  # PyTorch has what the user asked for: the reason is told, not raised
                self._leave(_first_line(error))
                return None
            self.runners.append(runner)
            return runner

    def __call__(self, *args: Any) -> Any:
        if torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in args):
            if not self.told_gradients:
                self.told_gradients = True
                log.warning("%s runs in PyTorch while gradients are recorded: call it under torch.inference_mode()", self.what)
            return self.graph(*args)
        runner = None if self.in_torch else self._runner(args)
        return self.graph(*args) if runner is None else tuple(runner(args))


def backend(graph: torch.fx.GraphModule, examples: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """The backend "tscompile" of torch.compile. `options` are the settings of Module.compile."""
    settings = dict(options.get("options") or {})
    settings.update({k: v for k, v in options.items() if k not in ("options", "mode")})
    return _Compiled(graph, examples, settings)
