"""Live PyTorch modules: tscompile.compile(module, ...) and torch.compile(module, backend="tscompile").

Everything goes through torch.export. What tscompile does not have stays in PyTorch, and is told on the logger
"tscompile"; nothing here changes a result.
"""

from __future__ import annotations

import copy
import inspect
import io
import logging
import operator
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

import tscompile
from tscompile import _core
from tscompile._torch_graphs import Effects, Layout, Shared, autocast_dtype, autocasts, depends_on_mode, example_of, flat

log = logging.getLogger("tscompile")

# Engines of one compiled function: of other parameters, or other sizes that the graph is fixed to.
MOST_VARIANTS = 8
# Sizes of which is known that an engine is not for them.
MOST_SIZES = 256


def _sum_in_steps(program: torch.export.ExportedProgram) -> None:
    """torch.sym_sum, which torch.export.save does not know, as sums of two."""
    graph = program.graph
    for node in [n for n in graph.nodes if n.op == "call_function" and n.target is getattr(torch, "sym_sum", n)]:
        total, *terms = node.args[0]
        with graph.inserting_before(node):
            for term in terms:
                made = graph.call_function(operator.add, (total, term))
                made.meta = {**node.meta, "val": sum(t.meta["val"] if isinstance(t, torch.fx.Node) else t for t in made.args)}
                total = made
        node.replace_all_uses_with(total)
        if isinstance(total, torch.fx.Node):
            program.graph_signature.replace_all_uses(node.name, total.name)
        graph.erase_node(node)


def bytes_of(program: torch.export.ExportedProgram) -> bytes:
    _sum_in_steps(program)
    out = io.BytesIO()
    torch.export.save(program, out)
    return out.getvalue()


def _engine_of(program: torch.export.ExportedProgram, settings: Mapping[str, Any], name: str) -> tscompile.Engine:
    return tscompile.load(bytes_of(program), name=name).compile(**settings)


def _example(given: Any) -> Any:
    """Arrays of NumPy as tensors."""
    return torch.from_numpy(given) if type(given).__module__ == "numpy" and hasattr(given, "strides") else given


def compile_module(module: torch.nn.Module, inputs: Any, dynamic_shapes: Any, settings: Mapping[str, Any]) -> tscompile.Engine:
    if autocasts():
        raise RuntimeError("autocast is on, and engines do not follow it: compile outside of it, with precision=...")
    args, named = inputs, {}
    if hasattr(inputs, "shape"):  # its rows are no arguments
        args = (inputs,)
    elif isinstance(inputs, Mapping):  # by name, or the first argument
        is_named = bool(inputs) and set(inputs) <= set(inspect.signature(module.forward).parameters)
        args, named = ((), dict(inputs)) if is_named else ((inputs,), {})
    args, named = tuple(map(_example, args)), {name: _example(value) for name, value in named.items()}
    modes = [(m, m.training) for m in module.modules()]
    try:
        module.eval()
    except NotImplementedError:  # what torch.export made has one mode, which it was exported in
        modes = []
    try:
        with torch.no_grad():
            program = torch.export.export(module, args, named, dynamic_shapes=dynamic_shapes)
    finally:
        if modes:
            module.train(modes[0][1])  # what else the module does there
        for part, training in modes:
            part.training = training
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


def _from_torch(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach() if tensor.requires_grad else tensor
    # DLPack has no conjugates or negatives by flag.
    return tensor.resolve_conj().resolve_neg() if tensor.is_complex() or tensor.is_neg() else tensor


# What tensors of both have; results of other types stay in PyTorch as well.
_DTYPES = frozenset(
    getattr(torch, name)
    for name in "uint8 int8 int16 int32 int64 float16 float32 float64 bfloat16 complex64 complex128 bool".split()
)


def _dense(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.layout == torch.strided and tensor.dtype in _DTYPES


def _shareable(tensor: torch.Tensor) -> bool:
    return _dense(tensor) and type(tensor) in (torch.Tensor, torch.nn.Parameter)


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
        if not autocasts():
            return self._called(tensors)
        # Programs tell of regions, not of what is around them.
        with torch.autocast("cpu", autocast_dtype()):
            return self._called(tensors)

    def _called(self, tensors):
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
        out = self.graph_module(*arguments)
        return out if out else tensors[:1]  # torch.export saves nothing without results


def _symbols(
    examples: Sequence[Any],
) -> tuple[dict[int, tuple[int, int]], dict[int, dict[int, Any]], dict[Any, tuple[int, int | None]]]:
    """For each input that is a size, the tensor and dimension that has it; the open dimensions of each tensor; and where
    each symbol is read from: a dimension, or an input that is a number."""
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
    numbers = {e.node.expr: (i, None) for i, e in enumerate(examples) if isinstance(e, torch.SymInt)}
    return sizes, dynamic, {**numbers, **found}


def _static(graph: torch.fx.GraphModule) -> set[int]:
    """Inputs that are parameters and buffers of modules."""
    placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
    return {i for i, n in enumerate(placeholders) if "_dynamo_static_input_type" in (n.meta.get("tensor_dict") or {})}


def _numbers(graph: torch.fx.GraphModule) -> list[int]:
    """Inputs that Dynamo makes of open floats, as those of modules under dynamic=True: tensors that are read as numbers."""
    return [
        i
        for i, n in enumerate(n for n in graph.graph.nodes if n.op == "placeholder")
        if isinstance(e := example_of(n), torch.Tensor)
        and e.dim() == 0
        and e.dtype == torch.float64
        and n.users
        and all(u.op == "call_method" and u.target == "item" for u in n.users)
    ]


# Calls of a graph that say something of gradients alone.
_WRAPPERS = frozenset(
    op for name in ("tag_activation_checkpoint", "wrap") if (op := getattr(torch.ops.higher_order, name, None)) is not None
)


def _entered(*args: Any) -> torch.autocast:
    """torch.amp's own function for graphs only leaves a mark while torch.export traces: dtypes would be those outside."""
    return torch.autocast(*args).__enter__()


def _left(region: torch.autocast) -> None:
    region.__exit__(None, None, None)


_REGIONS = {torch.amp.autocast_mode._enter_autocast: _entered, torch.amp.autocast_mode._exit_autocast: _left}


def _prepared(graph: torch.fx.GraphModule, numbers: Mapping[int, float]) -> torch.fx.GraphModule:
    """The graph with these inputs as constants, graphs within it called as modules, and regions of autocast entered; those
    of branches and loops as well."""
    parts = {k: _prepared(part, {}) for k, part in graph.named_children() if isinstance(part, torch.fx.GraphModule)}
    changes = any(part is not getattr(graph, k) for k, part in parts.items())
    if not numbers and not changes and not any(n.target in _WRAPPERS or n.target in _REGIONS for n in graph.graph.nodes):
        return graph
    out = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
    for k, part in parts.items():
        setattr(out, k, part)
    placeholders = [n for n in out.graph.nodes if n.op == "placeholder"]
    for i, value in numbers.items():
        for item in list(placeholders[i].users):
            item.replace_all_uses_with(value)
            out.graph.erase_node(item)
    for node in out.graph.nodes:
        node.target = _REGIONS.get(node.target, node.target)
    for node in [n for n in out.graph.nodes if n.target in _WRAPPERS]:
        with out.graph.inserting_before(node):
            node.replace_all_uses_with(out.graph.call_module(node.args[0].target, node.args[1:]))
        out.graph.erase_node(node)
    out.recompile()
    return out


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
    return value._version if isinstance(value, torch.Tensor) else 0


class _Traced:
    """A program, and what it does to the inputs of its graph."""

    def __init__(
        self, program: torch.export.ExportedProgram, taken: list[int], fixed: dict[int, Any], numbers: dict[int, float]
    ):
        self.program, self.taken, self.fixed, self.numbers = program, taken, fixed, numbers
        self.effects = Effects(program)
        signature = program.graph_signature
        names = dict(zip(signature.user_inputs, taken))
        for name, target in {**signature.inputs_to_parameters, **signature.inputs_to_buffers}.items():
            if not target[1:].isdigit():
                self._refuse_attribute(name, target)
                continue
            names[name] = int(target[1:])
        self.written = {names[n] for n in self.effects.written if n in names}
        self.returned = {names[n] for n in self.effects.returned if n in names}
        self.same = {k: names[n] for k, n in self.effects.same.items() if n in names}

    def _refuse_attribute(self, name: str, target: str) -> None:
        if name in self.effects.written:
            raise _Unsupported(f"it writes to {target}")


class _Runner:
    """What runs for one set of parameters: an engine, or engines and PyTorch in turns."""

    def __init__(self, call: Callable[..., Any], traced: _Traced, layout: Layout):
        self.call, self.taken, self.layout = call, traced.taken, layout
        # Engines hold parameters as they were.
        self.fixed = [(i, v, _version(v)) for i, v in traced.fixed.items() if i not in traced.numbers]
        self.numbers = [(i, v.hex()) for i, v in traced.numbers.items()]
        self.held = {_memory(v) for v in traced.fixed.values() if isinstance(v, torch.Tensor)}
        # Inputs that a call writes, and the results that are these inputs themselves.
        self.written, self.same = sorted(traced.written), list(traced.same.items())
        # Sizes that its program is not for, though the graph is: torch.export makes more of its example's than Dynamo.
        self.refused: set[tuple[torch.Size, ...]] = set()

    def fits(self, args: Sequence[Any]) -> bool:
        if self.refused and _sizes(args) in self.refused:
            return False
        for i, value, version in self.fixed:
            arg = args[i]
            if arg is value:
                if _version(arg) != version:
                    return False
            elif isinstance(arg, torch.Tensor) or arg != value:
                return False
        return self.has_numbers(args)

    def has_numbers(self, args: Sequence[Any]) -> bool:
        return all(args[i].item().hex() == value for i, value in self.numbers)

    def writes_what_it_holds(self, args: Sequence[Any]) -> bool:
        return any(_memory(args[i]) in self.held for i in self.written)

    def __call__(self, args: Sequence[Any]) -> Any:
        out = self.call([args[i] for i in self.taken])
        if self.written:
            for i in self.written:  # which DLPack does not do
                torch.autograd.graph.increment_version(args[i])
            for k, i in self.same:
                out[k] = args[i]
        self.layout(args, out)
        return out


def _sizes(args: Sequence[Any]) -> tuple[torch.Size, ...]:
    return tuple(a.shape for a in args if isinstance(a, torch.Tensor))


def _refuses_sizes(error: BaseException) -> bool:
    return isinstance(error, tscompile.Error) and "but the program was exported for" in _first_line(error)


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _engine_call(engine: tscompile.Engine, count: int | None) -> Callable[[Sequence[Any]], list[Any]]:
    method = engine.method()

    def call(tensors: Sequence[Any]) -> list[Any]:
        out = flat(_to_torch(method(*map(_from_torch, tensors))))
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
            setattr(fused, node.target, _Called(_engine_call(engine, None), part.graph.output_node().args[0]))
            engines += 1
    if engines == 0:
        raise _Unsupported("no part of it can be compiled")
    log.info("%s: %d engines, the rest in PyTorch", what, engines)
    return fused


class _Called(torch.nn.Module):
    def __init__(self, call: Callable[[Sequence[Any]], list[Any]], outputs: Any):
        super().__init__()
        self.call, self.single = call, not isinstance(outputs, (tuple, list))
        self.layout = Layout(flat(outputs), {})

    def forward(self, *tensors):
        out = self.call(tensors)
        self.layout(tensors, out)
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
        known = [n.meta.get("example_value", e) for n, e in zip(placeholders, examples)]
        self.sizes, self.dynamic, self.symbols = _symbols(known)
        self.static = _static(graph)
        self.numbers, self.opens_numbers = _numbers(graph), True
        self.outputs = flat(graph.graph.output_node().args[0])
        self.runners: list[_Runner] = []
        self.in_torch = False
        self.sizes_in_torch: set[tuple[torch.Size, ...]] = set()
        self.told_gradients = self.told_refusal = False
        self.lock = threading.Lock()
        if why := depends_on_mode(graph, examples):
            self._leave(why)
        elif not all(_dense(e) for n in self.outputs if isinstance(e := example_of(n), torch.Tensor)):
            self._leave("it gives tensors that are not dense ones in the memory of the CPU, or of types that engines lack")

    def _leave(self, why: str) -> None:
        log.warning("%s stays in PyTorch: %s", self.what, why)
        self.in_torch = True

    def _leave_sizes(self, args: Sequence[Any], why: str) -> None:
        if not self.told_refusal:
            self.told_refusal = True
            log.warning("%s: calls with some sizes run in PyTorch, %s: %s", self.what, [list(s) for s in _sizes(args)], why)
        if len(self.sizes_in_torch) < MOST_SIZES:
            self.sizes_in_torch.add(_sizes(args))

    def _exported(
        self, args: Sequence[Any], taken: list[int], fixed: dict[int, Any], graph: torch.fx.GraphModule
    ) -> torch.export.ExportedProgram:
        bound = _Bound(graph, fixed, self.sizes, taken).eval()
        examples = tuple(_copy_of(args[i]) for i in taken)
        shapes = (tuple(self.dynamic.get(i) for i in taken),) if self.dynamic else None
        with torch.no_grad():
            return torch.export.export(bound, examples, dynamic_shapes=shapes)

    def _traced(self, args: Sequence[Any], numbers: dict[int, float]) -> _Traced:
        """The graph with its parameters as constants: but for those that it writes or returns, which have to stay
        PyTorch's memory."""
        args = [numbers.get(i, a) for i, a in enumerate(args)]
        graph = _prepared(self.graph, numbers)
        fixed = {i: a for i, a in enumerate(args) if i in self.static or not isinstance(a, torch.Tensor)}
        fixed = {i: a for i, a in fixed.items() if i not in self.sizes}
        tensors = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor)]
        if not tensors:
            raise _Unsupported("it takes no tensors")
        if all(i in fixed for i in tensors):
            fixed = {i: a for i, a in fixed.items() if i not in tensors}
        while True:
            taken = [i for i in tensors if i not in fixed]
            out = _Traced(self._exported(args, taken, fixed, graph), taken, fixed, numbers)
            stay = (out.written | out.returned) & fixed.keys()
            if not stay:
                return out
            fixed = {i: a for i, a in fixed.items() if i not in stay}

    def _make(self, args: Sequence[Any]) -> _Runner:
        """With the numbers as they are, as those of modules stay; once they change, for all numbers if that can be."""
        if self.opens_numbers and self.runners and not any(r.has_numbers(args) for r in self.runners):
            try:
                return self._made(args, {})
            except Exception as error:
                self.opens_numbers = False
                log.info("%s: one engine for each value of its numbers: %s", self.what, _first_line(error))
        return self._made(args, {i: args[i].item() for i in self.numbers})

    def _made(self, args: Sequence[Any], numbers: dict[int, float]) -> _Runner:
        traced = self._traced(args, numbers)
        if traced.effects.drawn is not None:
            raise _Unsupported(f"{traced.effects.drawn} draws random numbers, which have to be PyTorch's")
        if not self.outputs:
            traced.same = {}
        if any(isinstance(a, torch.Tensor) and a.is_inference() for a in traced.fixed.values()):
            raise _Unsupported("its parameters were made under inference_mode, where writes to them are not counted")
        if any(args[i].is_conj() or args[i].is_neg() for i in traced.written | traced.returned):
            raise _Unsupported("it writes or returns tensors that are conjugates or negatives by a flag")
        layout = Layout([None if k in traced.same else n for k, n in enumerate(self.outputs)], self.symbols)
        return _Runner(self._call_of(traced), traced, layout)

    def _call_of(self, traced: _Traced) -> Callable[[Sequence[Any]], list[Any]]:
        refused = _operators(traced.program)
        if not refused:
            try:
                engine = _engine_of(traced.program, self.settings, self.what)
                _coverage(engine, self.what)
                call = _engine_call(engine, max(len(self.outputs), 1))
                return call if self.outputs else lambda tensors: call(tensors)[:0]
            except tscompile.Error as error:
                log.info("%s cannot be one engine: %s", self.what, _first_line(error))
        for node in refused[:5]:
            log.warning("%s: %s stays in PyTorch, tscompile does not have it", self.what, node.target)
        if self.dynamic:
            raise _Unsupported("parts of graphs are compiled for fixed sizes alone")
        if traced.effects.writes_in_place:
            raise _Unsupported("parts of graphs that write in place would run in another order")
        with torch.no_grad():
            module = _cut(traced.program, self.settings, self.what)
        return lambda tensors: flat(module(*tensors))

    def _runner(self, args: Sequence[Any]) -> _Runner | None:
        for runner in self.runners:
            if runner.fits(args):
                return runner
        with self.lock:
            if self.in_torch or (self.sizes_in_torch and _sizes(args) in self.sizes_in_torch):
                return None
            # Another program for other sizes; without one only these stay in PyTorch.
            is_other = any(_sizes(args) in r.refused for r in self.runners)
            if is_other and len(self.runners) >= MOST_VARIANTS:
                self._leave_sizes(args, f"{MOST_VARIANTS} programs are for others")
                return None
            if len(self.runners) >= MOST_VARIANTS:
                self._leave(f"its parameters or numbers have changed {MOST_VARIANTS} times")
                return None
            if not all(_shareable(a) for a in args if isinstance(a, torch.Tensor)):
                self._leave("it takes tensors that are not dense ones in the memory of the CPU, or of types that engines lack")
                return None
            try:
                runner = self._make(args)
            except Exception as error:  # PyTorch has what the user asked for: the reason is told, not raised
                if is_other:
                    self._leave_sizes(args, _first_line(error))
                else:
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
        if runner is None or (runner.written and runner.writes_what_it_holds(args)):
            return self.graph(*args)
        try:
            return tuple(runner(args))
        except (tscompile.Error, TypeError, Shared) as error:
            refused = error
        return self._refused(args, runner, refused)

    def _refused(self, args: Sequence[Any], runner: _Runner, error: Exception) -> Any:
        """Where nothing was written, PyTorch gives the results, or its own error."""
        if self.dynamic and _refuses_sizes(error) and len(runner.refused) < MOST_SIZES and _sizes(args) not in runner.refused:
            runner.refused.add(_sizes(args))
            return self(*args)
        if isinstance(error, tscompile.Interrupted) or (runner.written and not isinstance(error, Shared)):
            raise error
        if not isinstance(error, tscompile.Error):
            with self.lock:
                self._leave(_first_line(error))
        elif not self.told_refusal:
            self.told_refusal = True
            log.warning("%s: calls that the engine refuses run in PyTorch: %s", self.what, _first_line(error))
        return tuple(error.results) if runner.written else self.graph(*args)


def backend(graph: torch.fx.GraphModule, examples: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """The backend "tscompile" of torch.compile. `options` are the settings of Module.compile."""
    settings = dict(options.get("options") or {})
    settings.update({k: v for k, v in options.items() if k not in ("options", "mode")})
    # What is misspelled would leave all graphs in PyTorch.
    tscompile._core.check_settings(
        tscompile._settings({k: v for k, v in settings.items() if k not in ("method", "bind", "calibrate", "calibration")})
    )
    return _Compiled(graph, examples, settings)
