#!/usr/bin/env python3
"""Engine files of exported benchmark models: smaller weights within their bounds, ranges of sizes, half inputs.

    check_engines.py TOOL DIR [--precisions] [--ranges MODEL] [MODEL...]

DIR is as for check_models.py. --precisions compiles each model with weights in f16, bf16 and int8 and compares with
PyTorch's results in f32: the largest difference of an output, as part of its largest magnitude, stays within BOUNDS.
--ranges compiles one model that takes images for 1x3x224..1024x224..1024 and compares it with the interpreter at 20
sizes; sizes outside are refused (exit code 8). Exits 1 if something does not hold.
"""
import argparse
import glob
import json
import os
import random
import re
import subprocess
import sys
import tempfile

import numpy

# docs/engines.md states them.
BOUNDS = {"f32": 5e-5, "f16": 2e-3, "bf16": 1e-2, "int8": 5e-2}


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return done.returncode, done.stderr.strip()


def outputs(folder):
    values = json.load(open(os.path.join(folder, "outputs.json")))
    flat = [v for value in values for v in (value["items"] if value["type"] == "Tuple" else [value])]
    return [numpy.load(os.path.join(folder, v["file"])).astype(numpy.float64) for v in flat]


def largest(got, want):
    """The largest difference of an output as part of its largest magnitude."""
    if len(got) != len(want) or any(g.shape != w.shape for g, w in zip(got, want)):
        return float("inf")
    return max(float(numpy.abs(g - w).max(initial=0)) / max(float(numpy.abs(w).max(initial=0)), 1e-30)
               for g, w in zip(got, want))


class Checker:
    def __init__(self, tool, root):
        self.tool, self.root, self.failed = tool, root, 0

    def tell(self, good, text):
        self.failed += not good
        print(("ok   " if good else "FAIL ") + text, flush=True)

    def compile(self, model, out, *options):
        folder = os.path.join(self.root, model)
        code, told = run([self.tool, "compile", "-q", os.path.join(folder, "model.ir"), "--weights",
                          os.path.join(folder, "weights.safetensors"), "-o", out, *options])
        if code:
            self.tell(False, f"{model}: compile {' '.join(options)}: exit {code}: {told[:300]}")
        return code == 0

    def precisions(self, model):
        folder = os.path.join(self.root, model)
        inputs = sorted(glob.glob(os.path.join(folder, "in*.npy")))
        want = [numpy.load(p).astype(numpy.float64) for p in sorted(glob.glob(os.path.join(folder, "out*.npy")))]
        for precision, bound in BOUNDS.items():
            with tempfile.TemporaryDirectory() as out:
                engine = os.path.join(out, "model.tse")
                if not self.compile(model, engine, "--precision", precision):
                    continue
                given = [["--input", f"{i}=@{p}"] for i, p in enumerate(inputs)]
                code, told = run([self.tool, "run", "-q", engine, "--outputs", out] + sum(given, []))
                if code:
                    self.tell(False, f"{model} {precision}: exit {code}: {told[:300]}")
                    continue
                worst = largest(outputs(out), want)
                self.tell(worst <= bound, f"{model:18} {precision:5} {worst:.2e} of at most {bound:g}")
                self.half(model, precision, engine, inputs, want, out)

    def half(self, model, precision, engine, inputs, want, out):
        """Inputs in f16 where the engine's weights are smaller than f32."""
        tensors = [numpy.load(p) for p in inputs]
        if precision == "f32" or not any(t.dtype == numpy.float32 for t in tensors):
            return
        given = []
        for i, t in enumerate(tensors):
            path = os.path.join(out, f"in{i}.npy")
            numpy.save(path, t.astype(numpy.float16) if t.dtype == numpy.float32 else t)
            given += ["--input", f"{i}=@{path}"]
        code, told = run([self.tool, "run", "-q", engine, "--outputs", out] + given)
        if code:
            self.tell(False, f"{model} {precision} with inputs in f16: exit {code}: {told[:300]}")
            return
        worst, bound = largest(outputs(out), want), BOUNDS[precision] + BOUNDS["f16"]
        self.tell(worst <= bound, f"{model:18} {precision:5} {worst:.2e} of at most {bound:g}, with inputs in f16")

    def ranges(self, model):
        folder = os.path.join(self.root, model)
        text, weights = os.path.join(folder, "model.ir"), os.path.join(folder, "weights.safetensors")
        name = re.search(r"graph\(%\S+ : \S+,\s*%(\S+) :", open(text).read()).group(1)
        sizes = [(224, 224), (512, 512), (1024, 1024), (224, 1024), (1024, 224)]
        choose = random.Random(0)
        while len(sizes) < 20:
            sizes.append((choose.randint(224, 1024), choose.randint(224, 1024)))
        with tempfile.TemporaryDirectory() as out:
            engine = os.path.join(out, "model.tse")
            if not self.compile(model, engine, "--shape", f"{name}=1x3x224..1024x224..1024", "--opt-shape",
                                f"{name}=1x3x512x512"):
                return
            for h, w in sizes:
                got = self.image(engine, [], name, h, w, out)
                want = self.image(text, ["--weights", weights, "--executor", "interpreter"], name, h, w, out)
                worst = largest(got, want) if got and want else float("inf")
                self.tell(worst <= BOUNDS["f32"], f"{model} at 1x3x{h}x{w}: {worst:.2e}")
            for h, w in ((223, 224), (512, 1025)):
                code, told = run([self.tool, "run", engine, "--input", f"{name}=1x3x{h}x{w}:f32:zeros"])
                good = code == 8 and f"%{name}" in told and "dimension" in told
                self.tell(good, f"{model} at 1x3x{h}x{w}: exit {code}: {told.splitlines()[0] if told else ''}")

    def image(self, file, options, name, h, w, out):
        code, told = run([self.tool, "run", "-q", file, *options, "--outputs", out, "--input",
                          f"{name}=1x3x{h}x{w}:f32:randn(seed=7)"])
        if code:
            self.tell(False, f"{file} at 1x3x{h}x{w}: exit {code}: {told[:300]}")
            return None
        return outputs(out)


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("tool")
    p.add_argument("root")
    p.add_argument("models", nargs="*")
    p.add_argument("--precisions", action="store_true")
    p.add_argument("--ranges")
    args = p.parse_intermixed_args()
    checker = Checker(os.path.abspath(args.tool), args.root)
    if args.precisions:
        for model in args.models or sorted(os.listdir(args.root)):
            if os.path.exists(os.path.join(args.root, model, "model.ir")):
                checker.precisions(model)
    if args.ranges:
        checker.ranges(args.ranges)
    return 1 if checker.failed else 0


if __name__ == "__main__":
    sys.exit(main())
