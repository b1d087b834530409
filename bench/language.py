#!/usr/bin/env python3
"""Sets a built language model of GPT-2-small's shape beside ONNX Runtime, measured in turns in one run.

    language.py --build build/release --shared DIR [--rounds 2]

Builds the model twice (float32 and int8 weights) and measures the prompt of 128 tokens, one token after 256, and the
same for 8 requests together. ONNX Runtime runs gpt2_prefill_128 and gpt2_decode_256 of DIR/perf. Each side's least time
of all rounds counts.
"""
import argparse
import json
import os
import re
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--build", default="build/release")
parser.add_argument("--shared", default=os.environ.get("TSCOMPILE_SHARED", "../shared"))
parser.add_argument("--cache", default="build/peers")
parser.add_argument("--peer-python", default=sys.executable, help="a Python that has onnxruntime")
parser.add_argument("--rounds", type=int, default=2)
options = parser.parse_args()
cache, perf = os.path.abspath(options.cache), os.path.abspath(os.path.join(options.shared, "perf"))
tool = os.path.join(options.build, "tools", "tscompile")


def run(command, **more):
    result = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    if result.returncode:
        sys.exit(f"{' '.join(command)}\n{result.stderr.strip()}")
    return result.stdout


def built(precision):
    source = os.path.join(cache, "language", "gpt2_small")
    if not os.path.exists(os.path.join(source, "weights.safetensors")):
        run([sys.executable, "samples/language/make_language_models.py", "gpt2_small", "--out",
             os.path.join(cache, "language"), "--no-goldens"], env=dict(os.environ, OMP_NUM_THREADS="1"))
    folder = os.path.join(cache, "language", "built_" + precision)
    run([tool, "build", f"{source}/model.ir", "-w", f"{source}/weights.safetensors", "-o", folder, "--set",
         f"weight_precision={precision}"])
    return folder


def ours(folder):
    out = run([os.path.join(options.build, "bench", "benchmarks"), "--benchmark_filter=^language", "--benchmark_format=json",
               "--benchmark_min_time=3"], env=dict(os.environ, TSCOMPILE_LANGUAGE_MODEL=folder))
    rows = json.loads(out[out.index("{"):])["benchmarks"]
    return {re.sub(r"/.*", "", r["name"]): r["min_ms"] for r in rows if "min_ms" in r}


def peer(name):
    folder = os.path.join(cache, "onnx", name)
    if not os.path.exists(os.path.join(folder, "inputs.json")):
        run([sys.executable, os.path.join(perf, "export_onnx.py"), os.path.join(cache, "onnx"), name])
    return json.loads(run([options.peer_python, os.path.join(perf, "peers.py"), folder, "--only", "ort"]))["ort"]


best = {}


def note(key, milliseconds):
    best[key] = min(best.get(key, 1e9), milliseconds)


folders = {p: built(p) for p in ("float32", "int8")}
for _ in range(options.rounds):
    for name in ("gpt2_prefill_128", "gpt2_decode_256"):
        note(name, peer(name))
    for precision, folder in folders.items():
        for name, value in ours(folder).items():
            note(f"{precision} {name}", value)
prefill, decode = best["float32 languagePrefill128"], best["float32 languageDecode256"]
rows8, int8 = best["float32 languageDecode256Rows8"], best["int8 languageDecode256"]
print(f"prompt of 128 tokens   {prefill:8.2f} ms   ONNX Runtime {best['gpt2_prefill_128']:8.2f} ms   ratio "
      f"{prefill / best['gpt2_prefill_128']:.2f}")
print(f"a token after 256     {decode:8.2f} ms   ONNX Runtime {best['gpt2_decode_256']:8.2f} ms   ratio "
      f"{decode / best['gpt2_decode_256']:.2f}")
print(f"  with int8 weights    {int8:8.2f} ms   of float32 {int8 / decode:.2f}")
print(f"  8 requests together  {rows8:8.2f} ms   {8 * decode / rows8:.1f} times the tokens of one")
