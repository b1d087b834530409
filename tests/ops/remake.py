#!/usr/bin/env python3
"""Runs the rows of .cases files with PyTorch and writes what it returns into them.

    remake.py [--check] FILE.cases...

A row with neither `out:` nor `err:` gets `out:` lines, and a row whose results differ from PyTorch's by more than the
tolerances gets new ones; the others stay as they are, so that PyTorch may be a later one than wrote them. With --check
nothing is written, and results that differ are listed. A case whose graph starts with a line
`# not PyTorch's: REASON` is left alone.
"""
import os
import re
import sys
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
try:
    import torch  # noqa: E402
except ImportError:
    sys.exit("error: this Python has no PyTorch; run the script with one that has, on Debian /usr/bin/python3")
try:
    import torchvision  # noqa: E402,F401  for its operators
except ImportError:
    pass

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../samples"))
import torch_values  # noqa: E402

TOLERANCES = {torch.float16: (1e-3, 1e-5), torch.bfloat16: (1.6e-2, 1e-5), torch.float32: (1.3e-6, 1e-5),
              torch.complex64: (1.3e-6, 1e-5)}


def converted(v, type_text):
    """Numbers as the graph's input has them: an int is a float where a float is expected."""
    t = type_text
    if t.startswith("Optional["):
        return None if v is None else converted(v, t[len("Optional["):-1])
    if t == "float" and isinstance(v, int) and not isinstance(v, bool):
        return float(v)
    if t.startswith("List[") and isinstance(v, list):
        return [converted(i, t[5:-1]) for i in v]
    return v


def close(a, b, tolerance):
    if isinstance(a, torch.Tensor):
        if not isinstance(b, torch.Tensor) or a.dtype != b.dtype or a.shape != b.shape:
            return False
        rtol, atol = tolerance or TOLERANCES.get(a.dtype, (1e-7, 1e-7))
        return torch.allclose(a, b, rtol, atol, equal_nan=True)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(close(x, y, tolerance) for x, y in zip(a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(close(a[k], b[k], tolerance) for k in a)
    if isinstance(a, complex) and isinstance(b, complex):
        return close(a.real, b.real, tolerance) and close(a.imag, b.imag, tolerance)
    if isinstance(a, float) and isinstance(b, (float, int)):
        return a == b or a != a and b != b or abs(a - b) <= 1e-5 + 1.3e-6 * abs(b)
    return a == b and isinstance(a, bool) == isinstance(b, bool)


class Case:
    def __init__(self, graph_lines):
        text = "\n".join(l for l in graph_lines if not l.startswith(("# ", "tol:")))
        self.tolerance = next((tuple(map(float, l[4:].split())) for l in graph_lines if l.startswith("tol:")), None)
        self.skipped = any(l.startswith("# not PyTorch's") for l in graph_lines)
        self.error = None
        # The engine whose rounding is ours; it alone reduces no range where dynamic quantisation is told to.
        self.engine = "onednn" if "_dynamic" in text else "qnnpack"
        if self.skipped:
            return
        graph = torch._C.parse_ir(text)
        self.types = [v.type().annotation_str for v in graph.inputs()]
        outputs = list(graph.outputs())
        self.outputs = len(outputs)
        if self.outputs != 1:  # functions return one value
            node = graph.appendNode(graph.create("prim::TupleConstruct", outputs, 1))
            node.output().setType(torch._C.TupleType([v.type() for v in outputs]))
            for i in reversed(range(self.outputs)):
                graph.eraseOutput(i)
            graph.registerOutput(node.output())
        self.function = torch._C._create_function_from_graph("case", graph)

    def run(self, inputs):
        values = [converted(torch_values.value(i), t) for i, t in zip(inputs, self.types)]
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            torch.backends.quantized.engine = self.engine
            result = self.function(*values)
        results = [result] if self.outputs == 1 else list(result)
        return results, values


def rows_of(lines):
    """Pieces of the file: (kind, lines), of kind 'case', 'row' or 'other'."""
    pieces, piece, kind = [], [], "other"
    for line in lines:
        starts = re.match(r"(in:|out:|err:|after\d+:)", line)
        if line.startswith("== "):
            pieces.append((kind, piece))
            piece, kind = [], "case"
        elif line == "":
            pieces.append((kind, piece))
            pieces.append(("other", [line]))
            piece, kind = [], "other"
            continue
        elif starts and kind in ("case", "other"):
            pieces.append((kind, piece))
            piece, kind = [], "row"
        elif not starts and kind == "other" and not line.startswith("#"):
            kind = "case"  # a graph with an empty line in it
        piece.append(line)
    pieces.append((kind, piece))
    return [p for p in pieces if p[1]]


def remake(path, check):
    with open(path) as f:
        lines = f.read().split("\n")
    out, case, graph, failures, name = [], None, [], 0, ""

    def complain(message):
        nonlocal failures
        failures += 1
        print(f"{path}: {name}: {message}", file=sys.stderr)

    for kind, piece in rows_of(lines):
        if kind == "case":
            if piece[0].startswith("== "):
                name, graph, case = piece[0][3:], [], None
                graph += piece[1:]
            else:
                graph += piece
        if kind != "row":
            out += piece
            continue
        if case is None:
            try:
                case = Case(graph)
            except Exception as e:
                complain(f"PyTorch does not read the graph: {str(e).splitlines()[0]}")
                out += piece
                continue
        if case.skipped:
            out += piece
            continue
        inputs = [l[3:].strip() for l in piece if l.startswith("in:")]
        told = [l[4:].strip() for l in piece if l.startswith("out:")]
        error = [l for l in piece if l.startswith("err:")]
        after = [int(re.match(r"after(\d+):", l)[1]) for l in piece if l.startswith("after")]
        try:
            results, values = case.run(inputs)
        except Exception as e:
            if not error:
                complain(f"PyTorch fails for {inputs}: {str(e).strip().splitlines()[-1]}")
            out += piece
            continue
        if error:
            complain(f"PyTorch does not fail for {inputs}")
            out += piece
            continue
        differing = [(got, want) for want, got in zip(told, results)
                     if not close(got, converted(torch_values.value(want), "float" if isinstance(got, float) else ""),
                                  case.tolerance)]
        if check:
            if len(told) != len(results):
                complain(f"{len(results)} results, not {len(told)}, for {inputs}")
            for got, want in differing:
                complain(f"for {inputs} PyTorch returns {torch_values.text_of(got)}, the file has {want}")
            continue
        if len(told) == len(results) and not differing and not after:
            out += piece
            continue
        out += [l for l in piece if l.startswith("in:")]
        out += ["out: " + torch_values.text_of(r) for r in results]
        out += [f"after{i}: " + torch_values.text_of(values[i]) for i in after]
    if not check:
        with open(path, "w") as f:
            f.write("\n".join(out))
    return failures


def main():
    arguments = sys.argv[1:]
    check = "--check" in arguments
    files = [a for a in arguments if a != "--check"]
    if not files:
        sys.exit(__doc__)
    return 1 if sum(remake(f, check) for f in files) else 0


if __name__ == "__main__":
    sys.exit(main())
