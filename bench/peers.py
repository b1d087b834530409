#!/usr/bin/env python3
"""Sets tscompile beside ONNX Runtime, OpenVINO and PyTorch on whole models, measured in turns in one run.

    peers.py --tool build/release/tools/tscompile --shared DIR [--peer-python PYTHON] [--threads 2] [--rounds 2]
             [--readme README.md] [MODEL...]

DIR has the models and the peers' runners (perf/). LibTorch is Debian's, from C++ if libtorch-dev is there, else from
Python. The other peers are those that PYTHON has. Each side's least time of all rounds counts. Exits 1 if a model takes more than 1.3 times the best peer's time, or the
geometric mean of the ratios is above 1.
"""
import argparse
import json
import math
import os
import platform
import re
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--tool", default="build/release/tools/tscompile")
parser.add_argument("--shared", default=os.environ.get("TSCOMPILE_SHARED", "../shared"))
parser.add_argument("--cache", default="build/peers", help="folder for the peers and the models in their formats")
parser.add_argument("--models", help="folder of the models as export_ts.py writes them (default: in the cache)")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--rounds", type=int, default=2)
parser.add_argument("--duration", default="4s", help="of each of our measurements; the peers take four seconds")
parser.add_argument("--readme", help="replace the table in this file")
parser.add_argument("--peer-python", default=sys.executable, help="a Python that has onnxruntime, openvino, torch")
parser.add_argument("names", nargs="*", metavar="MODEL")
options = parser.parse_args()

perf = os.path.abspath(os.path.join(options.shared, "perf"))
cache = os.path.abspath(options.cache)
BAR, MEAN_BAR = 1.3, 1.0
BEGIN, END = "<!-- made by bench/peers.py -->", "<!-- end -->"
environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS=str(options.threads))
if options.threads == 1:
    environment["OPENBLAS_NUM_THREADS"] = "1"


def run(command, cwd=None, check=True):
    result = subprocess.run(command, cwd=cwd, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if check and result.returncode:
        sys.exit(f"{' '.join(command)}\n{result.stderr.strip()}")
    return result


def say(text):
    print(text, file=sys.stderr, flush=True)


def exported(script, folder, last_file, name):
    if not os.path.exists(os.path.join(folder, name, last_file)):
        say(f"exporting {name} with {script}")
        run([sys.executable, os.path.join(perf, script), folder, name])
    return os.path.join(folder, name)


class Ours:
    label = "tscompile"

    def __init__(self):
        self.version = run([options.tool, "version"]).stdout.split("\n")[0].replace("tscompile ", "")

    def measure(self, name):
        folder = exported("export_ts.py", options.models or os.path.join(cache, "ts"), "out0.npy", name)
        command = [options.tool, "bench", f"{folder}/frozen.ir", "--weights", f"{folder}/frozen.safetensors", "--threads",
                   str(options.threads), "--duration", options.duration, "--format", "json"]
        for f in sorted(os.listdir(folder)):
            if match := re.fullmatch(r"in(\d+)\.npy", f):
                command += ["--input", f"{match[1]}=@{folder}/{f}"]
        return json.loads(run(command).stdout)["results"][0]["latency_ms"]["min"]


class Pip:
    """A peer that perf/peers.py runs, on the ONNX file or on the archive."""

    def __init__(self, key, package, label):
        self.key, self.label = key, label
        command = f"import importlib.metadata as m; print(m.version({package!r}).split('+')[0])"
        self.version = run([options.peer_python, "-c", command]).stdout.strip()

    def measure(self, name):
        folder = exported("export_onnx.py", os.path.join(cache, "onnx"), "inputs.json", name)
        archive = os.path.join(folder, "model.pt")
        if self.key == "frozen" and not os.path.exists(archive):
            os.symlink(os.path.join(exported("export_pt.py", os.path.join(cache, "pt"), "inputs.pt", name), "model.pt"), archive)
        result = run([options.peer_python, os.path.join(perf, "peers.py"), folder, "--threads", str(options.threads),
                      "--seconds", "4", "--only", self.key])
        return json.loads(result.stdout).get(self.key, math.inf)


class LibTorch:
    def __init__(self, mode, label):
        self.mode, self.label = mode, label
        self.runner = os.path.join(cache, "libtorch_bench")
        if not os.path.exists(self.runner):
            os.makedirs(cache, exist_ok=True)
            run(["g++", "-O2", "-std=c++17", os.path.join(perf, "libtorch_bench.cpp"), "-o", self.runner,
                 "-I/usr/include/torch/csrc/api/include", "-ltorch", "-ltorch_cpu", "-lc10"])
        self.version = run(["dpkg-query", "-W", "-f=${Version}", "libtorch-dev"]).stdout.split("+")[0]

    def measure(self, name):
        folder = exported("export_pt.py", os.path.join(cache, "pt"), "inputs.pt", name)
        result = run([self.runner, f"{folder}/model.pt", f"{folder}/inputs.pt", str(options.threads), self.mode], check=False)
        return json.loads(result.stdout)["min_ms"] if result.returncode == 0 else math.inf


class PythonTorch:
    """PyTorch from Python: slower by its calls, so only where LibTorch's headers are missing."""
    label = "PyTorch"

    def __init__(self):
        self.version = run([sys.executable, "-c", "import torch; print(torch.__version__)"]).stdout.strip()

    def measure(self, name):
        environment["THREADS"] = str(options.threads)
        row = json.loads(run([sys.executable, os.path.join(perf, "torch_bench.py"), name]).stdout)
        return min(v["min_ms"] for k, v in row.items() if k.startswith("jit") and isinstance(v, dict))


def processor():
    with open("/proc/cpuinfo") as f:
        names = [line.split(":")[1].strip() for line in f if line.startswith("model name")]
    return names[0] if names else platform.machine()


def peers():
    if os.path.exists("/usr/include/torch/csrc/api/include/torch/torch.h"):
        torch = [LibTorch("frozen", "LibTorch, frozen"), LibTorch("ofi", "LibTorch, optimize_for_inference")]
    else:
        torch = [PythonTorch()]
    pip = [Pip("ort", "onnxruntime", "ONNX Runtime"), Pip("openvino", "openvino", "OpenVINO"), Pip("frozen", "torch", "PyTorch, frozen")]
    return [*pip, *torch]


def number(v):
    return "fails" if math.isinf(v) else f"{v:.3f}" if v < 1 else f"{v:.2f}" if v < 10 else f"{v:.1f}"


def main():
    sys.path.insert(0, perf)
    names = options.names
    if not names:
        names = run([sys.executable, "-c", f"import sys; sys.path.insert(0, {perf!r}); import models; print(*models.MODELS)"])
        names = names.stdout.split()
    sides = [Ours(), *peers()]
    lines = [f"Least milliseconds of a run with {options.threads} threads on {processor()}, in turns in one run; load average "
             f"before: {os.getloadavg()[0]:.1f}.", "",
             "| model | " + " | ".join(f"{s.label} {s.version}" for s in sides) + " | ratio to the best peer |",
             "|---|" + "---:|" * (len(sides) + 1)]
    ratios = {}
    for name in names:
        best = [math.inf] * len(sides)
        for _ in range(options.rounds):
            best = [min(b, s.measure(name)) for b, s in zip(best, sides)]
        ratios[name] = best[0] / min(best[1:])
        lines.append(f"| {name} | " + " | ".join(map(number, best)) + f" | {ratios[name]:.2f} |")
        say(lines[-1])
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    lines.append("| geometric mean |" + " |" * len(sides) + f" {mean:.2f} |")
    table = "\n".join(lines)
    print(table)
    if options.readme:
        with open(options.readme) as f:
            text = f.read()
        before, rest = text.split(BEGIN)
        with open(options.readme, "w") as f:
            f.write(f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}")
    return 1 if mean > MEAN_BAR or max(ratios.values()) > BAR else 0


if __name__ == "__main__":
    sys.exit(main())
