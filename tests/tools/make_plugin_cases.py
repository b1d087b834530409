"""Makes tests/data/plugins/cases/*.jsonl: random calls of plugins with what they must give, computed with PyTorch in
double precision, token by token, from the formulas in the plugins' tables.

With --count N --seed S --out FOLDER: N cases of each plugin, for `./dev soak`."""

import argparse
import json
import os
import random

import torch
import torch.nn.functional as F

FLOATS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
NAMES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int32: "i32", torch.int64: "i64",
         torch.int8: "i8", torch.bool: "bool"}
TYPE_IDS = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def any_type(r):
    return r.choice(["f32", "f32", "f32", "f16", "bf16"])


def numbers(r, shape, dtype="f32", scale=1.0):
    """Around 0; in steps of 1/64, which are short to write."""
    g = torch.Generator().manual_seed(r.getrandbits(31))
    return ((torch.randn(shape, generator=g, dtype=torch.float64) * scale * 64).round() / 64).to(FLOATS[dtype])


def width_of(r):
    """Mostly small; sometimes more than a block of channels."""
    return r.randint(1, 9) if r.random() < 0.85 else r.randint(10, 75)


def integers(r, shape, low, high, dtype=torch.int32):
    g = torch.Generator().manual_seed(r.getrandbits(31))
    return torch.randint(low, high + 1, shape, generator=g).to(dtype)


def ints(values, dtype=torch.int32):
    return torch.tensor(values, dtype=dtype)


def encoded(t):
    if t.dtype in (torch.int32, torch.int64, torch.int8, torch.bool):
        data = [int(v) for v in t.flatten().tolist()]
    else:
        data = [float("%.8g" % v) for v in t.double().flatten().tolist()]
    return {"dtype": NAMES[t.dtype], "shape": list(t.shape), "data": data}


def case(plugin, fields, inputs, outputs, tolerance=None, **more):
    """`outputs`: (tensor in double or integers, type it is rounded to)."""
    for name, t in inputs.items():
        assert t.dtype != torch.float64, name
    return dict(plugin=plugin, fields=fields, inputs={n: encoded(t) for n, t in inputs.items()},
                outputs=[encoded(t.to(FLOATS[d]) if d in FLOATS else t.to(torch.int32)) for t, d in outputs],
                tolerance=tolerance or {}, **more)


# ---- rows ----


def lookup(r):
    rows, width, rank = r.randint(1, 9), r.randint(1, 20), r.choice([0, 0, 1, 2])
    shape = [r.randint(0, 4) for _ in range(r.randint(0, 2))] + [r.randint(1, 5)]
    ids = integers(r, shape, -1, rows * (rank + 2), r.choice([torch.int32, torch.int64]))
    quantised, scaled = r.random() < 0.3, r.random() < 0.4
    dtype = any_type(r)
    weight = integers(r, (rows, width), -128, 127, torch.int8) if quantised else numbers(r, (rows, width), dtype)
    inputs = {"input": ids, "weight": weight}
    fields = {"rank": rank} if rank else {}
    scale = torch.ones(rows, dtype=torch.float64)
    if quantised or scaled:
        inputs["per_token_scale"] = numbers(r, (rows,), dtype)
        scale = inputs["per_token_scale"].double()
    out = dtype
    if r.random() < 0.3:
        out = any_type(r)
        fields["type_id"] = TYPE_IDS[out]
    y = torch.zeros(ids.numel(), width, dtype=torch.float64)
    for i, token in enumerate(ids.flatten().tolist()):
        local = token - rank * rows
        if 0 <= local < rows:
            y[i] = weight[local].double() * scale[local]
    return case("Lookup", fields, inputs, [(y.reshape(shape + [width]), out)])


def cumsum(r):
    shape = [r.randint(0, 3) for _ in range(r.randint(0, 2))] + [r.randint(0, 40)]
    dtype = r.choice(["f32", "f16", "bf16", "i32"])
    x = integers(r, shape, -1000, 1000) if dtype == "i32" else numbers(r, shape, dtype)
    return case("CumsumLastDim", {}, {"x": x}, [(x.to(torch.int64 if dtype == "i32" else torch.float64).cumsum(-1),
                                                  dtype)])


def topk(r):
    shape = [r.randint(0, 3) for _ in range(r.randint(0, 2))] + [r.randint(1, 30)]
    k, largest = r.randint(1, shape[-1]), r.random() < 0.6
    dtype = r.choice(["f32", "f16", "bf16", "i32"])
    x = integers(r, shape, -5, 5) if dtype == "i32" else numbers(r, shape, dtype)
    if dtype != "i32" and r.random() < 0.5:
        x = x.float().round().to(x.dtype)
    values, order = torch.sort(x.double(), dim=-1, descending=largest, stable=True)
    return case("TopkLastDim", {"k": k, "is_largest": largest}, {"x": x},
                [(values[..., :k], dtype), (order[..., :k], "i32")])


# ---- adapters ----


def split_tokens(r, requests, packed):
    """Of each request: how many tokens; and how many there are in a tensor."""
    lengths = [r.randint(1 if packed else 0, 6) for _ in range(requests)]
    return lengths, (sum(lengths) + r.choice([0, 0, 2]) if packed else max(lengths + [1]) + r.choice([0, 1]))


def lora(r):
    requests, modules, most, width = r.randint(1, 4), r.randint(1, 3), r.randint(1, 6), r.randint(1, 17)
    widths = [r.randint(1, 12) for _ in range(modules)]
    packed, dtype = r.random() < 0.5, any_type(r)
    adapters = requests if r.random() < 0.5 else r.randint(1, 5)
    ranks = integers(r, (requests, modules), 0, most)
    a = numbers(r, (adapters, modules, most, width), dtype)
    b = numbers(r, (adapters, sum(widths), most), dtype)
    fields = {"in_hidden_size": width, "out_hidden_sizes": widths, "num_lora_modules": modules, "max_low_rank": most,
              "remove_input_padding": packed}
    inputs = {"lora_ranks": ranks, "lora_a": a, "lora_b": b}
    chosen = list(range(requests))
    if adapters != requests or r.random() < 0.3:
        chosen = [r.randrange(adapters) for _ in range(requests)]
        inputs["lora_adapters"] = ints(chosen)
    if packed:
        lengths, tokens = split_tokens(r, requests, True)
        inputs["host_context_lengths"] = ints(lengths)
        if r.random() < 0.5:
            types = [r.choice([0, 0, 1]) for _ in range(requests)]
            inputs["host_request_types"] = ints(types)
            lengths = [1 if t else n for n, t in zip(lengths, types)]
        shape = [tokens]
        owner = sum(([q] * n for q, n in enumerate(lengths)), [])
        owner += [-1] * (tokens - len(owner))
    else:
        longest = r.randint(1, 5)
        shape = [requests, longest]
        owner = [q for q in range(requests) for _ in range(longest)]
    x = numbers(r, shape + [width], dtype)
    inputs["input"] = x
    outputs, offset = [], 0
    for m in range(modules):
        y = torch.zeros(len(owner), widths[m], dtype=torch.float64)
        for t, q in enumerate(owner):
            rank = int(ranks[q, m]) if q >= 0 else 0
            if rank:
                am, bm = a[chosen[q], m, :rank].double(), b[chosen[q], offset:offset + widths[m], :rank].double()
                y[t] = bm @ (am @ x.reshape(-1, width)[t].double())
        outputs.append((y.reshape(shape + [widths[m]]), dtype))
        offset += widths[m]
    return case("Lora", fields, inputs, outputs)


# ---- requests with states ----


def requests_of(r, slot_name="state_slot_mapping"):
    """Layout of requests: fields, inputs, (first row, length, slot, fresh) of each, leading sizes, slots."""
    count, packed, paged = r.randint(1, 4), r.random() < 0.5, r.random() < 0.4
    fields, inputs = {"remove_input_padding": packed, "paged_state": paged}, {}
    lengths, rows = split_tokens(r, count, packed)
    if packed:
        ends = torch.tensor(lengths).cumsum(0).tolist()
        firsts = [e - n for e, n in zip(ends, lengths)]
        inputs["last_token_ids"] = ints(ends)
        leading = [rows]
    else:
        if r.random() < 0.6:
            inputs["last_token_ids"] = ints(lengths)
        else:
            lengths = [rows] * count
        firsts = [b * rows for b in range(count)]
        leading = [count, rows]
    slots, chosen = count, list(range(count))
    if paged:
        slots = count + r.randint(0, 2)
        chosen = r.sample(range(slots), count)
        inputs[slot_name] = ints(chosen)
    fresh = [False] * count
    if r.random() < 0.6:
        types = [r.randint(0, 1) for _ in range(count)]
        inputs["host_request_types"] = ints(types)
        fresh = [t == 0 for t in types]
    return fields, inputs, list(zip(firsts, lengths, chosen, fresh)), leading, slots


def mamba_conv1d(r):
    fields, inputs, requests, leading, slots = requests_of(r)
    dim, taps, before, behind = width_of(r), r.randint(2, 5), r.choice([0, 0, 3]), r.choice([0, 0, 2])
    dtype, silu = any_type(r), r.random() < 0.6
    x = numbers(r, leading + [before + dim + behind], dtype)
    state, weight = numbers(r, (slots, taps - 1, dim), dtype), numbers(r, (1, taps, dim), dtype)
    fields.update(dim=dim, dconv=taps, apply_silu=silu, pre_stride=before, post_stride=behind)
    inputs.update(input_tensor=x, conv_state=state, weight=weight)
    bias = torch.zeros(dim, dtype=torch.float64)
    if r.random() < 0.7:
        inputs["bias"] = numbers(r, (dim,), dtype)
        bias = inputs["bias"].double()
    rows = x.reshape(-1, before + dim + behind)[:, before:before + dim].double()
    y, new, w = torch.zeros(rows.shape[0], dim, dtype=torch.float64), state.double().clone(), weight[0].double()
    for first, length, slot, fresh in requests:
        past = [torch.zeros(dim, dtype=torch.float64) if fresh else v for v in state[slot].double()]
        for t in range(first, first + length):
            window = torch.stack(past[-(taps - 1):] + [rows[t]])
            y[t] = bias + (w * window).sum(0)
            if silu:
                y[t] = F.silu(y[t])
            past.append(rows[t])
        new[slot] = torch.stack(past[-(taps - 1):])
    return case("MambaConv1d", fields, inputs, [(y.reshape(leading + [dim]), dtype), (new, dtype)])


def selective_scan(r):
    fields, inputs, requests, leading, slots = requests_of(r)
    mamba2, states, dtype = r.random() < 0.4, r.randint(1, 9), any_type(r)
    heads = r.choice([1, 2, 4]) if mamba2 else 1
    groups = r.choice([g for g in (1, 2, 4) if heads % g == 0]) if mamba2 else 1
    width = width_of(r) if not mamba2 or r.random() < 0.3 else r.randint(1, 6)
    dim, each = heads * width, heads if mamba2 else width
    softplus, gated = r.random() < 0.7, r.random() < 0.5
    fields.update(dim=dim, dstate=states, delta_softplus=softplus, z_enabled=gated, is_mamba2=mamba2)
    if mamba2:
        fields.update(nheads=heads, ngroups=groups)
    state_type = r.choice(["f32", dtype])
    x = numbers(r, leading + [dim], dtype)
    state = numbers(r, (slots, heads, states, width) if mamba2 else (slots, states, dim), state_type)
    delta = numbers(r, leading + [each], dtype, 0.5)
    if not softplus:
        delta = delta.abs()
    a = -numbers(r, (heads,) if mamba2 else (states, dim)).abs()
    bc = numbers(r, leading + [2 * groups * states], dtype)
    inputs.update(input_tensor=x, state=state, delta=delta, A=a, BC=bc)
    bias, d = torch.zeros(each, dtype=torch.float64), torch.zeros(each, dtype=torch.float64)
    if r.random() < 0.7:
        inputs["delta_bias"] = numbers(r, (each,), dtype) if softplus else numbers(r, (each,), dtype).abs()
        bias = inputs["delta_bias"].double()
    if r.random() < 0.7:
        inputs["D"] = numbers(r, (each,), "f32")
        d = inputs["D"].double()
    if gated:
        inputs["z"] = numbers(r, leading + [dim], dtype)
    flat = lambda t: t.double().reshape(-1, t.shape[-1])
    xs, ds, bcs = flat(x), flat(delta), flat(bc)
    y, new = torch.zeros_like(xs), state.double().clone().reshape(slots, heads, states, width)
    for first, length, slot, fresh in requests:
        h = torch.zeros_like(new[slot]) if fresh else new[slot].clone()
        for t in range(first, first + length):
            dt = ds[t] + bias
            if softplus:
                dt = torch.log1p(torch.exp(dt))
            for k in range(heads):
                g = k // (heads // groups)
                b = bcs[t, g * states:(g + 1) * states]
                c = bcs[t, (groups + g) * states:(groups + g + 1) * states]
                xk = xs[t, k * width:(k + 1) * width]
                dk, ak, skip = (dt[k], a[k].double(), d[k]) if mamba2 else (dt, a.double(), d)
                h[k] = torch.exp(dk * ak) * h[k] + torch.outer(b, dk * xk)
                y[t, k * width:(k + 1) * width] = c @ h[k] + skip * xk
            if gated:
                y[t] *= F.silu(flat(inputs["z"])[t])
        new[slot] = h
    return case("SelectiveScan", fields, inputs, [(y.reshape(leading + [dim]), dtype),
                                                  (new.reshape(state.shape), state_type)])


# ---- experts ----

ACTIVATIONS = {"gelu": F.gelu, "relu": F.relu, "silu": F.silu, "swiglu": F.silu, "geglu": F.gelu,
               "identity": lambda v: v}


def mixture_of_experts(r):
    experts, width, inner = r.choice([1, 2, 4, 6]), width_of(r), width_of(r)
    k, dtype, kind = r.randint(1, experts), any_type(r), r.choice(list(ACTIVATIONS))
    gated, biased = kind in ("swiglu", "geglu"), r.random() < 0.4
    leading = [r.randint(0, 7)] if r.random() < 0.6 else [r.randint(1, 3), r.randint(1, 4)]
    ranks = r.choice([n for n in (1, 1, 2) if experts % n == 0])
    rank, tensor_rank = r.randrange(ranks), r.choice([0, 0, 1])
    own = experts // ranks
    renormalised, scaled = r.random() < 0.6, r.random() < 0.9
    fields = {"number_of_experts": experts, "experts_per_token": k, "expert_hidden_size": width,
              "expert_inter_size": inner, "activation_type": kind, "use_bias": biased, "ep_size": ranks,
              "ep_rank": rank, "tp_size": 2, "tp_rank": tensor_rank, "use_final_scales": scaled,
              "normalization_mode": "renormalize" if renormalised else "none"}
    x = numbers(r, leading + [width], dtype)
    rows = 2 * inner if gated else inner
    up = numbers(r, (own, rows, width), dtype, width ** -0.5)
    down = numbers(r, (own, width, inner), dtype, inner ** -0.5)
    inputs = {"input": x, "expert_weights_1": up, "expert_weights_2": down}
    if biased:
        inputs["expert_bias_1"] = numbers(r, (own, rows), dtype)
        inputs["expert_bias_2"] = numbers(r, (own, width), dtype)
    if r.random() < 0.7:
        scores = numbers(r, leading + [experts], r.choice(["f32", dtype]))
        if r.random() < 0.2:
            scores = scores.float().round().to(scores.dtype)
        inputs["routing"] = scores
        p = torch.softmax(scores.double(), -1)
        scales, chosen = torch.sort(p, dim=-1, descending=True, stable=True)
        scales, chosen = scales[..., :k], chosen[..., :k]
        if renormalised:
            scales = scales / scales.sum(-1, keepdim=True)
    else:
        chosen = torch.stack([torch.tensor(r.sample(range(experts), k)) for _ in range(x[..., 0].numel())] or
                             [torch.zeros(k, dtype=torch.int64)])[:x[..., 0].numel()].reshape(leading + [k])
        inputs["token_selected_experts"] = chosen.to(torch.int32)
        inputs["token_final_scales"] = numbers(r, leading + [k])
        scales = inputs["token_final_scales"].double()
    y = torch.zeros(x.reshape(-1, width).shape, dtype=torch.float64)
    for t in range(y.shape[0]):
        for e, s in zip(chosen.reshape(-1, k)[t].tolist(), scales.reshape(-1, k)[t].tolist()):
            e -= rank * own
            if not 0 <= e < own:
                continue
            h = up[e].double() @ x.reshape(-1, width)[t].double()
            if biased:
                h = h + inputs["expert_bias_1"][e].double()
            h = h[:inner] * ACTIVATIONS[kind](h[inner:]) if gated else ACTIVATIONS[kind](h)
            h = down[e].double() @ h
            if biased and tensor_rank == 0:
                h = h + inputs["expert_bias_2"][e].double()
            y[t] += (s if scaled else 1.0) * h
    return case("MixtureOfExperts", fields, inputs, [(y.reshape(x.shape), dtype)])


# ---- composites ----


def lru(r):
    fields, inputs, requests, leading, slots = requests_of(r)
    block = r.randint(1, 4)
    dim, dtype = block * r.randint(1, 4), any_type(r)
    has_y, fused, biased, y_biased = (r.random() < 0.5 for _ in range(4))
    fields.update(dim=dim, block_size=block, y_enabled=has_y, y_bias_enabled=y_biased, fuse_gate_enabled=fused,
                  gate_bias_enabled=biased)
    new = lambda *shape: numbers(r, shape, dtype)
    x, a, state = new(*leading, dim), new(dim), new(slots, dim)
    inputs.update(x=x, A=a, state=state)
    flat = lambda name, width: inputs[name].double().reshape(-1, width)
    if fused:
        inputs["gate"] = new(*leading, 2 * dim)
        gates = flat("gate", 2 * dim)
        if biased:
            inputs["gate_bias"] = new(2 * dim)
            gates = gates + inputs["gate_bias"].double()
        # Columns: of each block, those of x, then those of a.
        of_x = [2 * (c // block) * block + c % block for c in range(dim)]
        gate_x, gate_a = gates[:, of_x], gates[:, [c + block for c in of_x]]
    else:
        inputs.update(gate_x=new(*leading, dim), gate_a=new(*leading, dim))
        gate_x, gate_a = flat("gate_x", dim), flat("gate_a", dim)
        if biased:
            inputs.update(gate_x_bias=new(dim), gate_a_bias=new(dim))
            gate_x, gate_a = gate_x + inputs["gate_x_bias"].double(), gate_a + inputs["gate_a_bias"].double()
    if has_y:
        inputs["y"] = new(*leading, dim)
        y = flat("y", dim)
        if y_biased:
            inputs["y_bias"] = new(dim)
            y = y + inputs["y_bias"].double()
    rows, out, states = flat("x", dim), torch.zeros(x.reshape(-1, dim).shape, dtype=torch.float64), state.double().clone()
    for first, length, slot, fresh in requests:
        h = torch.zeros(dim, dtype=torch.float64) if fresh else states[slot].clone()
        for t in range(first, first + length):
            decay = torch.exp(-8 * torch.sigmoid(gate_a[t]) * torch.log1p(torch.exp(a.double())))
            root = 1.0 if fresh and t == first else torch.sqrt(1 - decay * decay)
            h = decay * h + root * torch.sigmoid(gate_x[t]) * rows[t]
            out[t] = h
            if has_y:
                v = y[t]
                gelu = 0.5 * v * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (v + 0.044715 * v ** 3)))
                out[t] = h * gelu
        states[slot] = h
    return case("LRU", fields, inputs, [(out.reshape(x.shape), dtype), (states, dtype)])


def dora(r):
    requests, modules, packed, dtype = r.randint(1, 4), r.randint(1, 3), r.random() < 0.5, any_type(r)
    widths = [r.randint(1, 6) for _ in range(modules)]
    fields = {"out_hidden_sizes": widths, "num_modules": modules, "remove_input_padding": packed}
    m = numbers(r, (requests, sum(widths)), dtype)
    inputs = {"magnitudes": m}
    scale = m.double().clone()
    if r.random() < 0.5:
        enabled = integers(r, (requests, modules), 0, 1)
        inputs["enabled"] = enabled
        for q in range(requests):
            at = 0
            for i, w in enumerate(widths):
                if not enabled[q, i]:
                    scale[q, at:at + w] = 1
                at += w
    if packed:
        lengths, tokens = split_tokens(r, requests, True)
        inputs["host_context_lengths"] = ints(lengths)
        if r.random() < 0.5:
            types = [r.choice([0, 0, 1]) for _ in range(requests)]
            inputs["host_request_types"] = ints(types)
            lengths = [1 if t else n for n, t in zip(lengths, types)]
        shape, owner = [tokens], sum(([q] * n for q, n in enumerate(lengths)), [])
    else:
        shape = [requests, r.randint(1, 4)]
        owner = [q for q in range(requests) for _ in range(shape[1])]
    x = numbers(r, shape + [sum(widths)], dtype)
    inputs["input"] = x
    y = x.double().reshape(-1, sum(widths)).clone()
    for t, q in enumerate(owner):
        y[t] *= scale[q]
    return case("Dora", fields, inputs, [(y.reshape(x.shape), dtype)])


# ---- trees of drafts ----


def tree(r, drafts, length):
    """A random tree: the parent of each node, and the ways to its leaves."""
    used = r.randint(0, drafts)
    parent, depth = {0: None}, {0: 0}
    for node in range(1, used + 1):
        parent[node] = r.choice([n for n in parent if depth[n] < length - 1])
        depth[node] = depth[parent[node]] + 1
    paths = []
    for node in parent:
        if node not in parent.values():
            way = []
            while node is not None:
                way.insert(0, node)
                node = parent[node]
            paths.append(way)
    r.shuffle(paths)
    return parent, depth, paths


def trees(r):
    requests, drafts, length = r.randint(1, 3), r.randint(1, 8), r.randint(2, 4)
    all_trees = [tree(r, drafts, length) for _ in range(requests)]
    most = max(len(t[2]) for t in all_trees)
    paths = torch.full((requests, most, length), -1, dtype=torch.int32)
    for b, t in enumerate(all_trees):
        for p, way in enumerate(t[2]):
            paths[b, p, :len(way)] = ints(way)
    return all_trees, paths, drafts, length


def eagle_decode(r):
    all_trees, paths, drafts, length = trees(r)
    layer, vocabulary = r.randint(0, length - 2), r.randint(8, 12)
    before = integers(r, (len(all_trees), drafts), 0, vocabulary - 1)
    after, rows, counts = before.clone(), [], []
    for b, (parent, depth, _) in enumerate(all_trees):
        for node in sorted(n for n in parent if depth[n] == layer and n in parent.values()):
            rows.append(numbers(r, (vocabulary,)))
            best = torch.sort(rows[-1], descending=True, stable=True)[1]
            for i, child in enumerate(sorted(c for c in parent if parent[c] == node)):
                after[b, child - 1] = best[i]
        counts.append(sum(0 < depth[n] <= layer + 1 for n in parent))
    logits = torch.stack(rows) if rows else torch.zeros(0, vocabulary)
    return case("EagleDecodeDraftTokens", {"layer_idx": layer},
                {"logits": logits, "paths": paths, "input_draft_token_ids": before},
                [(after, "i32"), (ints(counts), "i32")], kernel_only=True)


def eagle_accept(r):
    all_trees, paths, drafts, length = trees(r)
    vocabulary = r.randint(2, 4)
    tokens = integers(r, (len(all_trees), drafts), 0, vocabulary - 1)
    lens = [len(t[0]) - 1 for t in all_trees]
    logits = numbers(r, (sum(lens) + len(lens), vocabulary))
    accepted = torch.full((len(all_trees), length), -1, dtype=torch.int32)
    counts, chosen, row = [], [], 0
    for b, (_, _, ways) in enumerate(all_trees):
        target = [int(torch.sort(v, descending=True, stable=True)[1][0]) for v in logits[row:row + lens[b] + 1]]
        row += lens[b] + 1
        lengths = []
        for way in ways:
            n = 1
            while n < len(way) and int(tokens[b, way[n] - 1]) == target[way[n - 1]]:
                n += 1
            lengths.append(n)
        best = lengths.index(max(lengths))
        accepted[b, :lengths[best]] = ints([target[n] for n in ways[best][:lengths[best]]])
        counts.append(lengths[best])
        chosen.append(best)
    return case("EagleSampleAndAcceptDraftTokens", {},
                {"logits": logits, "draft_tokens": tokens, "draft_lens": ints(lens), "paths": paths},
                [(accepted, "i32"), (ints(counts), "i32"), (ints(chosen), "i32")], kernel_only=True)


def eagle_prepare(r):
    all_trees, paths, _, length = trees(r)
    count = len(all_trees)
    chosen = [r.randrange(len(t[2])) for t in all_trees]
    counts = [r.randint(1, len(t[2][p])) for t, p in zip(all_trees, chosen)]
    tokens, seen = integers(r, (count, length), 0, 99), [r.randint(1, 50) for _ in range(count)]
    lens = [len(t[0]) - 1 for t in all_trees]
    ids, positions, hidden, base = [], [], [], 0
    for b in range(count):
        for i in range(counts[b]):
            ids.append(int(tokens[b, i]))
            positions.append(seen[b] + i)
            hidden.append(base + all_trees[b][2][chosen[b]][i])
        base += lens[b] + 1
    inputs = {"accepted_tokens": tokens, "num_accepted_tokens": ints(counts), "accepted_paths": ints(chosen),
              "paths": paths, "draft_lens": ints(lens), "sequence_lengths": ints(seen)}
    return case("EaglePrepareDrafterInputs", {}, inputs,
                [(ints(v), "i32") for v in (ids, positions, hidden, [s + c for s, c in zip(seen, counts)])],
                kernel_only=True)


def cp_split(r):
    ranks, lengths = r.randint(1, 4), [r.randint(0, 9) for _ in range(r.randint(1, 4))]
    rank, ids = r.randrange(ranks), integers(r, (sum(lengths),), 1, 99)
    own, first, every = [], 0, [[] for _ in range(ranks)]
    places = []
    for n in lengths:
        part = -(-n // ranks)
        for q in range(ranks):
            chunk = list(range(first + q * part, min(first + (q + 1) * part, first + n)))
            every[q] += chunk + [-1] * (part - len(chunk))
        first += n
    joined = sum(every, [])
    own = [int(ids[t]) if t >= 0 else 0 for t in every[rank]]
    places = [joined.index(t) for t in range(sum(lengths))]
    return case("CpSplit", {"cp_size": ranks, "cp_rank": rank}, {"input_ids": ids, "host_context_lengths": ints(lengths)},
                [(ints(own), "i32"), (ints(places), "i32")], kernel_only=True)


MAKERS = {"CpSplit": cp_split, "CumsumLastDim": cumsum, "Dora": dora, "EagleDecodeDraftTokens": eagle_decode,
          "EaglePrepareDrafterInputs": eagle_prepare, "EagleSampleAndAcceptDraftTokens": eagle_accept, "LRU": lru,
          "Lookup": lookup, "Lora": lora, "MambaConv1d": mamba_conv1d,
          "MixtureOfExperts": mixture_of_experts, "SelectiveScan": selective_scan, "TopkLastDim": topk}


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default=os.path.join(here, "..", "data", "plugins", "cases"))
    parser.add_argument("plugins", nargs="*")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    for name in args.plugins or MAKERS:
        with open(os.path.join(args.out, name + ".jsonl"), "w") as f:
            for i in range(args.count):
                r = random.Random("%s %d %d" % (name, args.seed, i))
                f.write(json.dumps(MAKERS[name](r), separators=(",", ":"), allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
