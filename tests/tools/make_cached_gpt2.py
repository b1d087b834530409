#!/usr/bin/env python3
"""Writes a trace of transformers' GPT-2 that takes keys and values and returns them longer:
tests/data/language/gpt2_cached.pt; and prints its greedy tokens. Needs today's PyTorch and transformers (./dev oracle).

    cd tests/tools; PYTHON make_cached_gpt2.py
"""
import os

import torch
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel

from make_state_archives import FOLDER, PROMPTS, save


class Cached(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, keys, values):
        cache = DynamicCache()
        cache.update(keys, values, 0)
        out = self.model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
        layer = out.past_key_values.layers[0]
        return out.logits, layer.keys, layer.values


if __name__ == "__main__":
    torch.manual_seed(4)
    config = GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=13, n_positions=48, bos_token_id=None, eos_token_id=None)
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_()
        example = (torch.tensor([[5, 3, 7]]), torch.ones(1, 9, dtype=torch.long), *torch.rand(2, 1, 2, 6, 4))
        path = os.path.join(FOLDER, "gpt2_cached.pt")
        save(torch.jit.trace(Cached(model), example, check_trace=False, strict=False), path)
        for prompt in PROMPTS:
            ids = torch.tensor([prompt])
            while ids.size(1) < len(prompt) + 9:
                ids = torch.cat([ids, model(ids).logits[:, -1:].argmax(-1)], 1)
            print(ids[0, len(prompt) :].tolist())
