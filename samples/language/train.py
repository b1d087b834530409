#!/usr/bin/env python3
"""Trains the GPT of bytes on the project's own documentation and writes its weights.

    train.py [--out FILE] [--steps N] [--more-steps N] [--start FILE]       (Debian: python3-torch)

The same seed, text and number of steps give the same weights on the same machine; about a quarter of an hour on one core.
"""
import argparse
import glob
import math
import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import export_torchscript  # noqa: E402
import language_models as models  # noqa: E402
import make_language_models  # noqa: E402

ROWS, LENGTH = 16, 256


def documentation():
    """README.md and docs/*.md as one row of bytes."""
    root = os.path.dirname(os.path.dirname(HERE))
    data = b""
    for path in [os.path.join(root, "README.md"), *sorted(glob.glob(os.path.join(root, "docs", "*.md")))]:
        with open(path, "rb") as f:
            data += f.read() + b"\n"
    return torch.tensor(list(data), dtype=torch.long)


def initialise(model):
    for name, p in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.zeros_(p)
        elif name == "pos.weight":
            # Waves: what is near is alike from the start.
            place = torch.arange(p.shape[0])[:, None] * 10000**(-torch.arange(0, p.shape[1], 2) / p.shape[1])
            p.data = 0.14 * torch.cat([place.sin(), place.cos()], dim=1)
        elif p.dim() == 2:
            into_sum = ".proj." in name or ".out." in name
            torch.nn.init.normal_(p, std=0.1 if "tok" in name else
                                  p.shape[1]**-0.5 / (math.sqrt(2 * model.layers) if into_sum else 1))


def train(model, data, steps, peak, anywhere):
    """`anywhere`: rows begin at any position, so that all are seen; else all of them at 0, as texts do."""
    torch.manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, betas=(0.9, 0.95), weight_decay=0.05)
    started = time.process_time()
    positions = torch.arange(LENGTH).expand(ROWS, LENGTH)
    for step in range(steps):
        # A start, then a long way down along a cosine.
        rate = min(1.0, (step + 1) / 50) * (0.05 + 0.95 * (0.5 + 0.5 * math.cos(math.pi * step / steps)))
        for group in optimizer.param_groups:
            group["lr"] = peak * rate
        at = torch.randint(len(data) - LENGTH - 1, [ROWS])
        rows = torch.stack([data[i:i + LENGTH + 1] for i in at])
        first = int(torch.randint(512 - LENGTH + 1, [1])) if anywhere else 0
        logits = model(rows[:, :-1], positions + first)
        loss = F.cross_entropy(logits.reshape(-1, 256), rows[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 20 == 0 or step == steps - 1:
            print(f"step {step}: loss {loss.item():.3f} after {(time.process_time() - started) / 60:.1f} minutes", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=os.path.join(HERE, "documentation_gpt", "weights.safetensors"))
    parser.add_argument("--steps", type=int, default=1500, help="with rows at any position")
    parser.add_argument("--more-steps", type=int, default=300, help="with rows that begin at 0")
    parser.add_argument("--start", metavar="FILE", help="weights to start from, instead of random ones")
    a = parser.parse_args()
    torch.manual_seed(0)
    data, model = documentation(), models.documentation_gpt()
    if a.start:
        make_language_models.load_safetensors(model, a.start)
    else:
        initialise(model)
    train(model, data, a.steps, 2e-3, True)
    train(model, data, a.more_steps, 1e-3, False)
    os.makedirs(os.path.dirname(os.path.abspath(a.out)), exist_ok=True)
    export_torchscript.save_safetensors(a.out, model.state_dict())
    print(a.out)


if __name__ == "__main__":
    main()
