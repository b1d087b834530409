#!/usr/bin/env python3
"""Times exported benchmark models cut by each strategy: that of `cost` is to be within 3 % of the best.

    check_strategies.py TOOL DIR [--without OP] [--rounds N] [MODEL...]

DIR is as for check_models.py. --without keeps an operator of each model out of engines, "most" the one that occurs most
often: without that most models are one engine whatever the strategy. Cuts that are the same are timed once. Times are
the least of N short measurements in turns. Exits 1 if a model is above the bar.
"""
import argparse
import collections
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

STRATEGIES = ("greedy", "dependency", "minimal", "cost")
BAR = 1.03


def run(command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def shapes(text, count):
    """The sizes that the graph's header gives its tensors, as --shape takes them."""
    header = text[:text.index("):\n")]
    out = []
    for name, dtype, dims in re.findall(r"%([\w.]+) : (Float|Long)\(([\d, ]+)", header)[:count]:
        sizes = "x".join(d.strip() for d in dims.split(",") if d.strip())
        out += ["--shape", f"{name}={sizes}:{'f32' if dtype == 'Float' else 'i64'}"]
    return out


def check(tool, root, model, without, rounds):
    folder = os.path.join(root, model)
    text = open(os.path.join(folder, "model.ir")).read()
    inputs = sorted(glob.glob(os.path.join(folder, "in*.npy")))
    options = shapes(text, len(inputs)) + ["--min-block-size", "1"]
    if without == "most":
        kinds = collections.Counter(re.findall(r"= (aten::\w+)\(", text))
        for cheap in ("aten::size", "aten::Int", "aten::detach", "aten::ScalarImplicit"):
            kinds.pop(cheap, None)
        without = kinds.most_common(1)[0][0]
    if without:
        options += ["--torch-executed-op", without]
    with tempfile.TemporaryDirectory() as out:
        engines, same = {}, {}
        for strategy in STRATEGIES:
            path = os.path.join(out, strategy + ".tse")
            done = run([tool, "compile", "-q", os.path.join(folder, "model.ir"), "--weights",
                        os.path.join(folder, "weights.safetensors"), "-o", path, "--strategy", strategy, *options])
            if done.returncode:
                return False, f"{strategy}: exit {done.returncode}: {done.stderr.strip()[:300]}"
            same[strategy] = next((s for s in engines if run([tool, "diff", engines[s], path]).returncode == 0), strategy)
            if same[strategy] == strategy:
                engines[strategy] = path
            else:
                os.remove(path)
        if len(engines) == 1:
            return True, f"the same cut for all, without {without or 'nothing'}"
        given = sum((["--input", f"{i}=@{p}"] for i, p in enumerate(inputs)), [])
        best = {}
        for _ in range(rounds):
            for strategy, path in engines.items():
                done = run([tool, "bench", "-q", path, *given, "--duration", "300ms", "--format", "json"])
                if done.returncode:
                    return False, f"{strategy}: exit {done.returncode}: {done.stderr.strip()[:300]}"
                least = json.loads(done.stdout)["results"][0]["latency_ms"]["min"]
                best[strategy] = min(best.get(strategy, least), least)
        ratio = best[same["cost"]] / min(best.values())
        told = ", ".join(f"{s} {best[same[s]]:.3f}" for s in STRATEGIES)
        return ratio <= BAR, f"{ratio:.3f} of the best without {without}: {told} ms"


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("tool")
    p.add_argument("root")
    p.add_argument("models", nargs="*")
    p.add_argument("--without")
    p.add_argument("--rounds", type=int, default=5)
    args = p.parse_intermixed_args()
    failed = 0
    for model in args.models or sorted(os.listdir(args.root)):
        if not os.path.exists(os.path.join(args.root, model, "model.ir")):
            continue
        good, told = check(os.path.abspath(args.tool), args.root, model, args.without, args.rounds)
        failed += not good
        print(f"{'ok  ' if good else 'FAIL'} {model:18} {told}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
