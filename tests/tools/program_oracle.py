"""What PyTorch does with a random program (check_programs.py): as it runs it, as it is written, and without what it drops."""
import re

import torch
from torch import _sources

from program_values import plain, same

# The sources of the programs that were made from text, by the file that they say they come from: PyTorch reads them from here.
SOURCES = {}


def source_lines(function, error_msg=None, read=_sources.get_source_lines_and_file):
    """In place of PyTorch's, which reads and cuts the whole file again for each function."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_filename not in SOURCES:
        return read(function, error_msg)
    first = code.co_firstlineno
    lines = SOURCES[code.co_filename][first - 1 :]
    end = next((i for i, line in enumerate(lines[1:], 1) if line[:1].strip()), len(lines))
    return lines[:end], first, code.co_filename


_sources.get_source_lines_and_file = source_lines


def script(source, path):
    """The function `f` of a text, which says that it is in this file; None if it is no program."""
    SOURCES[path] = source.splitlines(keepends=True)
    space = {"__name__": path}
    try:
        exec(compile(source, path, "exec"), space)  # noqa: S102: the text is ours
        return torch.jit.script(space["f"])
    except Exception:  # noqa: BLE001
        return None
    finally:
        del SOURCES[path]

# Where PyTorch 2 refuses what 1.13 computes, and other faults of its own.
OTHERWISE = ("report a bug", "codec can't decode", "source tensor shape must match self tensor shape", "only supports boolean masks", "Can't detach views in-place", "BComplex32", "unresolved conjugated tensors")


def by_pytorch(function, inputs):
    try:
        return "value", plain(function(*inputs.values()))
    except Exception as e:  # noqa: BLE001: whatever it raises is the answer
        lines = [line for line in str(e).splitlines() if re.match(r"(\w+\.)*\w*(Error|Exception|Interrupt)\b", line.strip())]
        return "raises", (lines[-1] if lines else str(e).splitlines()[0] if str(e) else "").strip()


def copied(function, *passes):
    graph = function.graph.copy()
    for one in passes:
        one(graph)
    return torch._C._create_function_from_graph("f", graph)


def as_written(function, inputs):
    """What a program does without PyTorch's optimisations."""
    with torch.jit.optimized_execution(False):
        return by_pytorch(copied(function), inputs)


def without_dead_code(function, inputs):
    """What a program does where PyTorch drops dead code before its first run: its passes, and its older executor."""
    c = torch._C
    kind, value = by_pytorch(copied(function, c._jit_pass_inline, c._jit_pass_remove_mutation, c._jit_pass_constant_propagation, c._jit_pass_dce), inputs)
    if kind == "raises":
        before = c._jit_set_profiling_executor(False)
        kind, value = by_pytorch(copied(function), inputs)
        c._jit_set_profiling_executor(before)
    return kind, value


def without_lines(source, inputs, load, got):
    """Whether a program without the statements that raise gives these values: engines drop them, as nothing reads what they write."""
    lines = source.split("\n")
    for _ in range(12):
        function, path = load("\n".join(lines))
        if function is None:
            return False
        try:
            return same(plain(function(*inputs.values())), got)
        except Exception as e:  # noqa: BLE001
            at = re.findall(rf'File "{re.escape(path)}", line (\d+)', str(e))
        if not at:  # in a function of PyTorch's own
            return any(without_line(lines, i, inputs, load, got) for i in range(len(lines)) if can_go(lines[i]))
        line = int(at[-1]) - 1
        if not can_go(lines[line]):
            return False
        lines = next((new for new in without(lines, line) if load("\n".join(new))[0] is not None), lines[:0])
    return False


def can_go(line):
    return line.startswith("    ") and not line.strip().startswith(("return", "raise", "else", "for", "while", "assert", "break", "continue", "pass"))


def without(lines, i):
    """The lines without one; if its variable or its branches have to be there, with another value."""
    target = lines[i].split("=")[0].strip()
    branches = lines[i].strip().startswith("if")
    values = ["x, x", "x, 0", "0, 0"] if "," in target else ["x", "0"]
    for instead in ["if False:", "if True:"] if branches else ["pass", *(f"{target} = {v}" for v in values)]:
        yield lines[:i] + [re.match(" *", lines[i])[0] + instead] + lines[i + 1 :]


def without_line(lines, i, inputs, load, got):
    for rest in without(lines, i):
        function, _ = load("\n".join(rest))
        kind, value = by_pytorch(function, inputs) if function else ("raises", None)
        if kind == "value" and same(value, got):
            return True
    return False
