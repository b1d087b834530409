"""What graphs of PyTorch do beside giving results: write, draw random numbers, change modes; and how results lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

# Flags of operators that write statistics, or draw, only in training.
_TRAINING = ("train", "training", "use_input_stats")
_STATISTICS = ("running_mean", "running_var")


def flat(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [x for v in value for x in flat(v)]
    return [value]


# ---- nodes ----


def _nodes(module: torch.nn.Module) -> Iterator[torch.fx.Node]:
    """Those of a graph, and of the graphs in it."""
    for part in module.modules():
        if isinstance(part, torch.fx.GraphModule):
            yield from part.graph.nodes


def _is_operator(node: torch.fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload)


def _tagged(node: torch.fx.Node, name: str) -> bool:
    tag = getattr(torch.Tag, name, None)  # older PyTorch does not have them all
    return tag is not None and tag in node.target.tags


def _arguments(node: torch.fx.Node) -> list[tuple[Any, Any]]:
    """What the schema says of each argument, and its value."""
    return [
        (a, node.args[i] if i < len(node.args) else node.kwargs.get(a.name, a.default_value))
        for i, a in enumerate(node.target._schema.arguments)
    ]


def _trains(values: dict[str, Any]) -> bool:
    return not any(name in values and not values[name] for name in _TRAINING)


def _draws(node: torch.fx.Node) -> bool:
    if not _is_operator(node) or not _tagged(node, "nondeterministic_seeded"):
        return False
    values = {a.name: value for a, value in _arguments(node)}
    if not _trains(values):
        return False
    # Dropout of nothing draws nothing.
    rates = ("dropout_p", "dropout", *(("p",) if any(name in values for name in _TRAINING) else ()))
    return not any(name in values and values[name] == 0 for name in rates)


def _writes(node: torch.fx.Node) -> list[Any]:
    """Arguments that an operator writes."""
    arguments = _arguments(node)
    declared = [v for a, v in arguments if a.alias_info is not None and a.alias_info.is_write]
    if not _trains({a.name: value for a, value in arguments}):
        return declared
    return declared + [v for a, v in arguments if a.name in _STATISTICS]  # schemas do not say it


def _viewed(node: torch.fx.Node) -> list[Any]:
    """Arguments whose memory its results may be."""
    if not _is_operator(node):
        return [] if node.op != "call_function" else [node.args, node.kwargs]
    if _tagged(node, "maybe_aliasing_or_mutating"):
        arguments = _arguments(node)
        return [] if any(a.name in _STATISTICS for a, _ in arguments) else [v for _, v in arguments]
    if not any(r.alias_info is not None for r in node.target._schema.returns):
        return []
    return [v for a, v in _arguments(node) if a.alias_info is not None]


def _graph_of(value: Any) -> torch.fx.GraphModule | None:
    if not isinstance(value, torch.fx.Node) or value.op != "get_attr":
        return None
    part = getattr(value.graph.owning_module, str(value.target), None)
    return part if isinstance(part, torch.fx.GraphModule) else None


def _nodes_in(value: Any) -> list[torch.fx.Node]:
    found: list[torch.fx.Node] = []
    torch.fx.node.map_arg(value, found.append)
    return found


# ---- programs ----


class Effects:
    """What an exported program does to its inputs, which are named as its placeholders are."""

    def __init__(self, program: torch.export.ExportedProgram):
        self.drawn = next((n.target for n in _nodes(program.graph_module) if _draws(n)), None)
        self.writes_in_place = False
        self.written: set[str] = set()
        self._roots: dict[torch.fx.Node, set[str]] = {}
        # Inputs that results may be views of.
        self.returned = self._follow(program.graph, {n: {n.name} for n in program.graph.nodes if n.op == "placeholder"})
        self._of_signature(program.graph_signature)
        outputs = flat(program.graph.output_node().args[0])
        self.same = {k: name for k, n in enumerate(outputs) if (name := _input_itself(n)) in self.written}

    def _roots_of(self, value: Any) -> set[str]:
        return set().union(*(self._roots.get(n, set()) for n in _nodes_in(value)))

    def _follow(self, graph: torch.fx.Graph, given: dict[torch.fx.Node, set[str]]) -> set[str]:
        """What its results may be views of."""
        self._roots.update(given)
        for node in graph.nodes:
            if node.op == "output":
                return self._roots_of(node.args)
            if node.op == "call_function":
                self._roots[node] = self._of_call(node)
        return set()

    def _of_call(self, node: torch.fx.Node) -> set[str]:
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            return self._of_graphs_in(node)
        if _is_operator(node) and (written := _writes(node)):
            self.writes_in_place = True
            self.written |= self._roots_of(written)
        return self._roots_of(_viewed(node))

    def _of_graphs_in(self, node: torch.fx.Node) -> set[str]:
        parts = [(i, part) for i, a in enumerate(node.args) if (part := _graph_of(a)) is not None]
        if len(parts) == 1:  # a region of another mode: its inputs follow it
            at, part = parts[0]
            places = [n for n in part.graph.nodes if n.op == "placeholder"]
            given = node.args[at + 1 :]
            if len(places) == len(given):
                return self._follow(part.graph, {p: self._roots_of(g) for p, g in zip(places, given)})
        all_given = self._roots_of([node.args, node.kwargs])
        if any(_is_operator(n) and _writes(n) for _, part in parts for n in _nodes(part)):
            self.writes_in_place = True
            self.written |= all_given
        return all_given

    def _of_signature(self, signature: Any) -> None:
        """What older exporters write as results."""
        inputs = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        targets = set(signature.buffers_to_mutate.values())
        self.written |= {name for name, target in inputs.items() if target in targets}
        self.written |= set(getattr(signature, "user_inputs_to_mutate", {}).values())


def _input_itself(node: Any) -> str | None:
    """The input that x.add_(1) and torch.add(x, 1, out=y) give."""
    while isinstance(node, torch.fx.Node):
        if node.op == "placeholder":
            return node.name
        if not _is_operator(node) or len(node.target._schema.returns) != 1:
            return None
        result = node.target._schema.returns[0].alias_info
        written = _writes(node) if result is not None and result.is_write else []
        node = written[0] if len(written) == 1 else None
    return None


# ---- what Dynamo says ----


def example_of(node: Any) -> Any:
    return node.meta.get("example_value", node.meta.get("val")) if isinstance(node, torch.fx.Node) else None


def _name(target: Any) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", str(target))


def _enables_gradients(node: torch.fx.Node) -> bool:
    return _name(node.target).endswith("set_grad_enabled") and node.args[:1] == (True,)


def autocasts() -> bool:
    try:
        return torch.is_autocast_enabled("cpu")
    except TypeError:
        return torch.is_autocast_cpu_enabled()


def autocast_dtype() -> torch.dtype:
    try:
        return torch.get_autocast_dtype("cpu")
    except AttributeError:
        return torch.get_autocast_cpu_dtype()


def depends_on_mode(graph: torch.fx.GraphModule, examples: Sequence[Any]) -> str | None:
    """Why what a graph gives depends on more than its operators."""
    needs = any(isinstance(e, torch.Tensor) and e.requires_grad for e in examples)
    if torch.is_grad_enabled() and needs:
        return None  # its calls record gradients, which is seen then
    results = [example_of(n) for n in flat(graph.graph.output_node().args[0])]
    if any(isinstance(r, torch.Tensor) and r.requires_grad for r in results):
        return "results of it have gradients"
    if needs and any(_enables_gradients(n) for n in _nodes(graph)):
        return "it records gradients by itself"
    return None


# ---- how results lie ----


def _extent(t: torch.Tensor) -> tuple[int, int]:
    """Where its elements begin and end."""
    start = t.data_ptr()
    reach = sum((n - 1) * s for n, s in zip(t.shape, t.stride())) if t.numel() else -1
    return start, start + (reach + 1) * t.element_size()


def _overlaps(a: torch.Tensor, b: Any) -> bool:
    if not isinstance(b, torch.Tensor):
        return False
    (a0, a1), (b0, b1) = _extent(a), _extent(b)
    return a0 < b1 and b0 < a1


def _laid(t: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """A copy with these strides."""
    once = t[tuple(slice(0, 1) if s == 0 and n > 1 else slice(None) for n, s in zip(t.shape, strides))]
    out = torch.empty_strided(once.shape, strides, dtype=t.dtype)
    try:
        out.copy_(once)
    except RuntimeError:
        return t  # elements of it overlap
    return out if once.shape == t.shape else out.expand(t.shape)


class Shared(Exception):
    """A result that would have to be copied is memory of something else."""

    def __init__(self, results: list[Any]):
        super().__init__("results that share memory lie otherwise than in PyTorch")
        self.results = results


class Layout:
    """Gives results the strides that they have in PyTorch, which is what Dynamo saw."""

    def __init__(self, outputs: Sequence[Any], symbols: dict[Any, tuple[int, int | None]]):
        self._examples = {k: e for k, n in enumerate(outputs) if isinstance(e := example_of(n), torch.Tensor) and e.dim() > 0}
        self._symbols = symbols  # to an input that is a number, or to a dimension of one
        self._open = any(not isinstance(s, int) for e in self._examples.values() for s in (*e.shape, *e.stride()))
        self._wanted: dict[tuple[Any, ...], dict[int, tuple[int, ...]]] = {}
        self._safe: set[int] = set()
        if not self._open:
            self._wanted[()] = {k: tuple(e.stride()) for k, e in self._examples.items()}

    def _evaluated(self, args: Sequence[Any], results: Sequence[Any]) -> dict[int, tuple[int, ...]]:
        known = {s.node.expr if hasattr(s, "node") else s: n for s, n in self._sizes_of(results)}
        for expr, (i, dim) in self._symbols.items():
            known[expr] = args[i] if dim is None else args[i].shape[dim]
        out = {}
        for k, example in self._examples.items():
            strides = [s if isinstance(s, int) else s.node.expr.subs(known) for s in example.stride()]
            if all(isinstance(s, int) or s.is_Integer for s in strides):
                out[k] = tuple(map(int, strides))
        return out

    def _sizes_of(self, results: Sequence[Any]) -> Iterator[tuple[Any, int]]:
        """Of results: the only ones that sizes found on the way, as those of nonzero, are seen in."""
        for k, example in self._examples.items():
            yield from ((s, n) for s, n in zip(example.shape, results[k].shape) if not isinstance(s, int))

    def _strides(self, args: Sequence[Any], results: Sequence[Any]) -> dict[int, tuple[int, ...]]:
        if not self._open:
            return self._wanted[()]
        key = (
            *(args[i] if dim is None else args[i].shape[dim] for i, dim in self._symbols.values()),
            *(results[k].shape for k in self._examples),
        )
        if key not in self._wanted:
            if len(self._wanted) > 1000:
                self._wanted.clear()
            self._wanted[key] = self._evaluated(args, results)
        return self._wanted[key]

    def __call__(self, args: Sequence[Any], results: list[Any]) -> None:
        for k, strides in self._strides(args, results).items():
            if results[k].stride() != strides:
                results[k] = self._moved(k, strides, args, results)

    def _moved(self, k: int, strides: tuple[int, ...], args: Sequence[Any], results: Sequence[Any]) -> torch.Tensor:
        t = results[k]
        if all(n == 1 or a == b for n, a, b in zip(t.shape, t.stride(), strides)):
            return t.as_strided(t.shape, strides)
        if k not in self._safe:
            if any(_overlaps(t, other) for other in (*args, *results[:k], *results[k + 1 :])):
                raise Shared(results)
            self._safe.add(k)
        return _laid(t, strides)
