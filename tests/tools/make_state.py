"""Writes modules that keep state between calls, and what PyTorch returns for one call after the other:

    python3 make_state.py ../data/state

NAME.txt has a line "call: METHOD" for each call, then its inputs and outputs in the notation of docs/values.md.
"""
import os
import sys
from pathlib import Path
from typing import Dict, List

import torch

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "samples"))
from torch_values import text_of  # noqa: E402


class Stream(torch.nn.Module):
    """State of every kind: set, written in place, a number, lists that grow and hold inputs, views of one memory."""

    counts: Dict[str, int]
    seen: List[torch.Tensor]

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("h", torch.zeros(2, 4))
        self.register_buffer("n", torch.zeros((), dtype=torch.int64))
        self.register_buffer("ring", torch.zeros(3, 2, 4))
        self.register_buffer("first", self.ring[0])
        self.calls = 0
        self.counts = {"all": 0}
        self.seen = []
        self.last = torch.zeros(2, 4)

    def forward(self, x):
        self.h = torch.tanh(self.linear(x) + self.h * 0.5)
        self.ring[self.calls % 3] = self.h
        self.n += 1
        self.calls += 1
        self.counts["all"] = self.counts["all"] + 1
        self.seen.append(x)
        before, self.last = self.last, x
        total = torch.stack(self.seen).sum(0)
        return self.h * 1.0, self.n.clone(), self.calls, self.counts["all"], total, before.clone(), self.first.clone()

    @torch.jit.export
    def reset(self, n: int):
        self.h = torch.zeros_like(self.h)
        self.ring.zero_()
        self.n.fill_(n)
        self.calls = 0
        self.seen.clear()
        return self.counts["all"]


class Program(torch.nn.Module):
    """What torch.export takes: buffers that are written in place, one of them statistics."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.register_buffer("h", torch.zeros(2, 4))
        self.register_buffer("n", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.h.copy_(torch.tanh(self.linear(self.norm(x)) + self.h * 0.5))
        self.n += 1
        return self.h * 1.0, self.n.clone(), self.norm.running_mean * 1.0


def record(path, calls, run):
    with open(path, "w") as f:
        for method, inputs in calls:
            f.write(f"call: {method}\n")
            f.writelines(f"in: {text_of(v)}\n" for v in inputs)
            out = run(method, inputs)
            f.writelines(f"out: {text_of(v)}\n" for v in (out if isinstance(out, tuple) else (out,)))


def main(folder):
    torch.manual_seed(0)
    x = [torch.randn(2, 4) for _ in range(4)]
    module = torch.jit.script(Stream().eval())
    module.save(str(folder / "stream.pt"))
    calls = [("forward", [x[0]]), ("forward", [x[1]]), ("reset", [5]), ("forward", [x[2]]), ("forward", [x[3]])]
    with torch.no_grad():
        record(folder / "stream.txt", calls, lambda method, inputs: getattr(module, method)(*inputs))
        program = torch.export.export(Program().train(), (x[0],))
        torch.export.save(program, folder / "program.pt2")
        live = program.module()
        record(folder / "program.txt", [("forward", [v]) for v in x], lambda _, inputs: live(*inputs))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
