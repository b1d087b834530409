#!/usr/bin/env python3
"""Puts what `./dev zoo --json RESULTS` measured into a document, as a table.

    model_table.py RESULTS README.md

Models that were exported from PyTorch as their users have them: least milliseconds of all rounds, the share of the time
in native layers, and the median over the rounds of our time beside the best peer's of the same round.
"""
import json
import math
import sys

BEGIN, END = "<!-- made by bench/model_table.py -->", "<!-- end of models -->"
PEERS = {"ONNX Runtime": ["ort"], "OpenVINO": ["openvino"], "PyTorch 2, frozen": ["frozen"],
         "PyTorch 1.13": ["torch_frozen", "torch_ofi"]}


def number(v):
    return "-" if math.isinf(v) else f"{v:.3f}" if v < 1 else f"{v:.2f}" if v < 10 else f"{v:.1f}"


def row_of(name, result):
    times = [min((result["ms"].get(k, math.inf) for k in keys)) for keys in PEERS.values()]
    native = 1 - result["interpreter"] - result["kernels"]
    cells = [number(result["ms"]["tscompile"]), *map(number, times), f"{100 * native:.0f} %", f"{result['ratio']:.2f}"]
    return f"| {name} | " + " | ".join(cells) + " |"


def main():
    results, document = sys.argv[1:]
    with open(results) as f:
        measured = {k: v for k, v in json.load(f).items() if "ratio" in v}
    ratios = [v["ratio"] for v in measured.values()]
    head = ["model", "tscompile", *PEERS, "in native layers", "ratio to the best peer"]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    lines += [row_of(k, v) for k, v in measured.items()]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    lines.append("| geometric mean |" + " |" * (len(head) - 2) + f" {mean:.2f} |")
    with open(document) as f:
        text = f.read()
    before, rest = text.split(BEGIN)
    with open(document, "w") as f:
        f.write(before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
