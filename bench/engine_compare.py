#!/usr/bin/env python3
"""Sets the engine's convolutions and matrix products beside PyTorch's oneDNN and OpenBLAS, measured in turns.

    engine_compare.py --build build/release [--threads 1] [--filter TEXT] [--rounds 3] [--peak GFLOPS]

With one thread processor time is measured, so that other work on the machine matters less; with more, wall time. The
best of all rounds counts. `peak` is what one core can do in f32; without it the best rate seen stands for it.
"""
import argparse
import json
import os
import subprocess
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--build", default="build/release")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--filter", default="")
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--peak", type=float)
options = parser.parse_args()

os.environ["OMP_NUM_THREADS"] = str(options.threads)
os.environ["OPENBLAS_NUM_THREADS"] = str(options.threads)
import torch  # noqa: E402
from torch.utils import mkldnn  # noqa: E402

torch.set_num_threads(options.threads)
torch.set_grad_enabled(False)
clock = time.thread_time if options.threads == 1 else time.perf_counter


def ours():
    """{(kind, name): (label, {tactic: microseconds})}"""
    command = [os.path.join(options.build, "bench/benchmarks"), "--benchmark_format=json", "--benchmark_min_time=0.03",
               "--benchmark_repetitions=3", f"--benchmark_filter=^engine_(conv|gemm)/.*{options.filter}.*/{options.threads}/"]
    result = {}
    for b in json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["benchmarks"]:
        if b.get("run_type") == "aggregate":
            continue
        parts = b["name"].split("/")
        tactic = parts[2] if parts[0] == "engine_conv" else "packed"
        label, times = result.setdefault((parts[0], parts[1]), (b["label"], {}))
        value = b["cpu_time"] if options.threads == 1 else b["real_time"]
        times[tactic] = min(value, times.get(tactic, float("inf")))
    return result


def theirs(kind, label):
    n = [int(v) for v in label.split()]
    if kind == "engine_conv":
        x = torch.randn(n[0], n[1], n[2], n[2]).to_mkldnn()
        f = mkldnn.to_mkldnn(torch.nn.Conv2d(n[1], n[3], n[4], n[5], n[6], groups=n[7]).eval())
    else:
        x = torch.randn(n[0], n[2])
        f = torch.nn.Linear(n[2], n[1]).eval()
    best, end = float("inf"), time.perf_counter() + 0.15
    while time.perf_counter() < end:
        start = clock()
        f(x)
        best = min(best, clock() - start)
    return best * 1e6


def flops(kind, label):
    n = [int(v) for v in label.split()]
    if kind == "engine_gemm":
        return 2 * n[0] * n[1] * n[2]
    out = (n[2] + 2 * n[6] - n[4]) // n[5] + 1
    return 2 * n[0] * n[3] * out * out * (n[1] // n[7]) * n[4] ** 2


best, peers = {}, {}
for _ in range(options.rounds):
    for key, (label, times) in ours().items():
        kept = best.setdefault(key, (label, {}))[1]
        for tactic, value in times.items():
            kept[tactic] = min(value, kept.get(tactic, float("inf")))
        peers[key] = min(theirs(key[0], label), peers.get(key, float("inf")))
if not best:
    sys.exit("no benchmark matches")
rates = {key: flops(key[0], label) / min(times.values()) / 1e3 for key, (label, times) in best.items()}
direct = [flops(k[0], label) / t / 1e3 for k, (label, times) in best.items() for n, t in times.items() if n != "winograd"]
peak = (options.peak or max(direct) / options.threads) * options.threads
print(f"| shape | tactic | us | GFLOP/s | of {peak:.0f} | PyTorch us | ratio |\n|---|---|---|---|---|---|---|")
for key, (label, times) in best.items():
    tactic = min(times, key=times.get)
    print(f"| {key[1]} | {tactic} | {times[tactic]:.1f} | {rates[key]:.0f} | {rates[key] / peak:.0%} | {peers[key]:.1f} "
          f"| {times[tactic] / peers[key]:.2f} |")
