"""Tables, adapters, layers with states, experts, token by token in double precision: see plugin_goldens.py."""
import torch
import torch.nn.functional as F

from plugin_goldens import Case, NAMES, ints, plugin


def width_of(r):
    """Mostly small; sometimes more than a block of channels."""
    return r.randint(1, 9) if r.chance(0.85) else r.randint(10, 75)


@plugin("Lookup")
def lookup(r):
    rows, width, rank = r.randint(1, 9), r.randint(1, 20), r.choice([0, 0, 1, 2])
    shape = [r.randint(0, 4) for _ in range(r.randint(0, 2))] + [r.randint(1, 5)]
    ids = r.ints(-1, rows * (rank + 2), *shape, dtype=r.choice([torch.int32, torch.int64]))
    quantised, scaled = r.chance(0.3), r.chance(0.4)
    dtype = r.row_type()
    weight = r.ints(-128, 127, rows, width, dtype=torch.int8) if quantised else r.floats(rows, width, dtype=dtype)
    inputs = {"input": ids, "weight": weight}
    fields = {"rank": rank} if rank else {}
    scale = torch.ones(rows, dtype=torch.float64)
    if quantised or scaled:
        inputs["per_token_scale"] = r.floats(rows, dtype=dtype)
        scale = inputs["per_token_scale"].double()
    out = dtype
    if r.chance(0.3):
        out = r.row_type()
        fields["type_id"] = NAMES[out]
    y = torch.zeros(ids.numel(), width, dtype=torch.float64)
    for i, token in enumerate(ids.flatten().tolist()):
        local = token - rank * rows
        if 0 <= local < rows:
            y[i] = weight[local].double() * scale[local]
    return Case(fields, inputs, [y.reshape(shape + [width]).to(out)])


@plugin("CumsumLastDim")
def cumsum(r):
    shape = [r.randint(0, 3) for _ in range(r.randint(0, 2))] + [r.randint(0, 40)]
    dtype = r.choice([torch.float32, torch.float16, torch.bfloat16, torch.int32])
    x = r.ints(-1000, 1000, *shape, dtype=torch.int32) if dtype == torch.int32 else r.floats(*shape, dtype=dtype)
    return Case({}, {"x": x}, [x.to(torch.int64 if dtype == torch.int32 else torch.float64).cumsum(-1).to(dtype)])


@plugin("TopkLastDim")
def topk(r):
    shape = [r.randint(0, 3) for _ in range(r.randint(0, 2))] + [r.randint(1, 30)]
    k, largest = r.randint(1, shape[-1]), r.chance(0.6)
    dtype = r.choice([torch.float32, torch.float16, torch.bfloat16, torch.int32])
    x = r.ints(-5, 5, *shape, dtype=torch.int32) if dtype == torch.int32 else r.floats(*shape, dtype=dtype)
    if dtype != torch.int32 and r.chance():
        x = x.float().round().to(x.dtype)
    values, order = torch.sort(x.double(), dim=-1, descending=largest, stable=True)
    return Case({"k": k, "is_largest": largest}, {"x": x}, [values[..., :k].to(dtype), order[..., :k].to(torch.int32)])


def split_tokens(r, requests, packed):
    """Of each request: how many tokens; and how many there are in a tensor."""
    lengths = [r.randint(1 if packed else 0, 6) for _ in range(requests)]
    return lengths, (sum(lengths) + r.choice([0, 0, 2]) if packed else max(lengths + [1]) + r.choice([0, 1]))


@plugin("Lora")
def lora(r):
    requests, modules, most, width = r.randint(1, 4), r.randint(1, 3), r.randint(1, 6), r.randint(1, 17)
    widths = [r.randint(1, 12) for _ in range(modules)]
    packed, dtype = r.chance(), r.row_type()
    adapters = requests if r.chance() else r.randint(1, 5)
    ranks = r.ints(0, most, requests, modules, dtype=torch.int32)
    a = r.floats(adapters, modules, most, width, dtype=dtype)
    b = r.floats(adapters, sum(widths), most, dtype=dtype)
    fields = {"in_hidden_size": width, "out_hidden_sizes": widths, "num_lora_modules": modules, "max_low_rank": most,
              "remove_input_padding": packed}
    inputs = {"lora_ranks": ranks, "lora_a": a, "lora_b": b}
    chosen = list(range(requests))
    if adapters != requests or r.chance(0.3):
        chosen = [r.randrange(adapters) for _ in range(requests)]
        inputs["lora_adapters"] = ints(chosen)
    if packed:
        lengths, tokens = split_tokens(r, requests, True)
        inputs["host_context_lengths"] = ints(lengths)
        if r.chance():
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
    x = r.floats(*shape, width, dtype=dtype)
    inputs["input"] = x
    outputs, offset = [], 0
    for m in range(modules):
        y = torch.zeros(len(owner), widths[m], dtype=torch.float64)
        for t, q in enumerate(owner):
            rank = int(ranks[q, m]) if q >= 0 else 0
            if rank:
                am, bm = a[chosen[q], m, :rank].double(), b[chosen[q], offset:offset + widths[m], :rank].double()
                y[t] = bm @ (am @ x.reshape(-1, width)[t].double())
        outputs.append(y.reshape(shape + [widths[m]]).to(dtype))
        offset += widths[m]
    return Case(fields, inputs, outputs)


def requests_of(r, slot_name="state_slot_mapping"):
    """Layout of requests: fields, inputs, (first row, length, slot, fresh) of each, leading sizes, slots."""
    count, packed, paged = r.randint(1, 4), r.chance(), r.chance(0.4)
    fields, inputs = {"remove_input_padding": packed, "paged_state": paged}, {}
    lengths, rows = split_tokens(r, count, packed)
    if packed:
        ends = torch.tensor(lengths).cumsum(0).tolist()
        firsts = [e - n for e, n in zip(ends, lengths)]
        inputs["last_token_ids"] = ints(ends)
        leading = [rows]
    else:
        if r.chance(0.6):
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
    if r.chance(0.6):
        types = [r.randint(0, 1) for _ in range(count)]
        inputs["host_request_types"] = ints(types)
        fresh = [t == 0 for t in types]
    return fields, inputs, list(zip(firsts, lengths, chosen, fresh)), leading, slots


@plugin("MambaConv1d")
def mamba_conv1d(r):
    fields, inputs, requests, leading, slots = requests_of(r)
    dim, taps, before, after = width_of(r), r.randint(2, 5), r.choice([0, 0, 3]), r.choice([0, 0, 2])
    dtype, silu = r.row_type(), r.chance(0.6)
    x = r.floats(*leading, before + dim + after, dtype=dtype)
    state, weight = r.floats(slots, taps - 1, dim, dtype=dtype), r.floats(1, taps, dim, dtype=dtype)
    fields.update(dim=dim, dconv=taps, apply_silu=silu, pre_stride=before, post_stride=after)
    inputs.update(input_tensor=x, conv_state=state, weight=weight)
    bias = torch.zeros(dim, dtype=torch.float64)
    if r.chance(0.7):
        inputs["bias"] = r.floats(dim, dtype=dtype)
        bias = inputs["bias"].double()
    rows = x.reshape(-1, before + dim + after)[:, before:before + dim].double()
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
    return Case(fields, inputs, [y.reshape(leading + [dim]).to(dtype), new.to(dtype)])


@plugin("SelectiveScan")
def selective_scan(r):
    fields, inputs, requests, leading, slots = requests_of(r)
    mamba2, states, dtype = r.chance(0.4), r.randint(1, 9), r.row_type()
    heads = r.choice([1, 2, 4]) if mamba2 else 1
    groups = r.choice([g for g in (1, 2, 4) if heads % g == 0]) if mamba2 else 1
    width = width_of(r) if not mamba2 or r.chance(0.3) else r.randint(1, 6)
    dim, each = heads * width, heads if mamba2 else width
    softplus, gated = r.chance(0.7), r.chance()
    fields.update(dim=dim, dstate=states, delta_softplus=softplus, z_enabled=gated, is_mamba2=mamba2)
    if mamba2:
        fields.update(nheads=heads, ngroups=groups)
    state_type = r.choice([torch.float32, dtype])
    x = r.floats(*leading, dim, dtype=dtype)
    state = r.floats(*((slots, heads, states, width) if mamba2 else (slots, states, dim)), dtype=state_type)
    delta = r.floats(*leading, each, dtype=dtype, scale=0.5)
    if not softplus:
        delta = delta.abs()
    a = -r.floats(*((heads,) if mamba2 else (states, dim))).abs()
    bc = r.floats(*leading, 2 * groups * states, dtype=dtype)
    inputs.update(input_tensor=x, state=state, delta=delta, A=a, BC=bc)
    bias, d = torch.zeros(each, dtype=torch.float64), torch.zeros(each, dtype=torch.float64)
    if r.chance(0.7):
        inputs["delta_bias"] = r.floats(each, dtype=dtype) if softplus else r.floats(each, dtype=dtype).abs()
        bias = inputs["delta_bias"].double()
    if r.chance(0.7):
        inputs["D"] = r.floats(each, dtype=torch.float32)
        d = inputs["D"].double()
    if gated:
        inputs["z"] = r.floats(*leading, dim, dtype=dtype)
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
    return Case(fields, inputs, [y.reshape(leading + [dim]).to(dtype), new.reshape(state.shape).to(state_type)])


# ---- experts ----

ACTIVATIONS = {"gelu": F.gelu, "relu": F.relu, "silu": F.silu, "swiglu": F.silu, "geglu": F.gelu,
               "identity": lambda v: v}


@plugin("MixtureOfExperts")
def mixture_of_experts(r):
    experts, width, inner = r.choice([1, 2, 4, 6]), width_of(r), width_of(r)
    k, dtype, kind = r.randint(1, experts), r.row_type(), r.choice(list(ACTIVATIONS))
    gated, biased = kind in ("swiglu", "geglu"), r.chance(0.4)
    leading = [r.randint(0, 7)] if r.chance(0.6) else [r.randint(1, 3), r.randint(1, 4)]
    ranks = r.choice([n for n in (1, 1, 2) if experts % n == 0])
    rank, tensor_rank = r.randrange(ranks), r.choice([0, 0, 1])
    own = experts // ranks
    renormalised, scaled = r.chance(0.6), r.chance(0.9)
    fields = {"number_of_experts": experts, "experts_per_token": k, "expert_hidden_size": width,
              "expert_inter_size": inner, "activation_type": kind, "use_bias": biased, "ep_size": ranks,
              "ep_rank": rank, "tp_size": 2, "tp_rank": tensor_rank, "use_final_scales": scaled,
              "normalization_mode": "renormalize" if renormalised else "none"}
    x = r.floats(*leading, width, dtype=dtype)
    rows = 2 * inner if gated else inner
    up = r.floats(own, rows, width, dtype=dtype, scale=width ** -0.5)
    down = r.floats(own, width, inner, dtype=dtype, scale=inner ** -0.5)
    inputs = {"input": x, "expert_weights_1": up, "expert_weights_2": down}
    if biased:
        inputs["expert_bias_1"] = r.floats(own, rows, dtype=dtype)
        inputs["expert_bias_2"] = r.floats(own, width, dtype=dtype)
    if r.chance(0.7):
        scores = r.floats(*leading, experts, dtype=r.choice([torch.float32, dtype]))
        if r.chance(0.2):
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
        inputs["token_final_scales"] = r.floats(*leading, k)
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
    return Case(fields, inputs, [y.reshape(x.shape).to(dtype)])


@plugin("LRU")
def lru(r):
    fields, inputs, requests, leading, slots = requests_of(r)
    block = r.randint(1, 4)
    dim, dtype = block * r.randint(1, 4), r.row_type()
    has_y, fused, biased, y_biased = (r.chance() for _ in range(4))
    fields.update(dim=dim, block_size=block, y_enabled=has_y, y_bias_enabled=y_biased, fuse_gate_enabled=fused,
                  gate_bias_enabled=biased)
    new = lambda *shape: r.floats(*shape, dtype=dtype)
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
    rows, states = flat("x", dim), state.double().clone()
    out = torch.zeros_like(rows)
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
    return Case(fields, inputs, [out.reshape(x.shape).to(dtype), states.to(dtype)])


@plugin("Dora")
def dora(r):
    requests, modules, packed, dtype = r.randint(1, 4), r.randint(1, 3), r.chance(), r.row_type()
    widths = [r.randint(1, 6) for _ in range(modules)]
    fields = {"out_hidden_sizes": widths, "num_modules": modules, "remove_input_padding": packed}
    m = r.floats(requests, sum(widths), dtype=dtype)
    inputs = {"magnitudes": m}
    scale = m.double().clone()
    if r.chance():
        enabled = r.ints(0, 1, requests, modules, dtype=torch.int32)
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
        if r.chance():
            types = [r.choice([0, 0, 1]) for _ in range(requests)]
            inputs["host_request_types"] = ints(types)
            lengths = [1 if t else n for n, t in zip(lengths, types)]
        shape, owner = [tokens], sum(([q] * n for q, n in enumerate(lengths)), [])
    else:
        shape = [requests, r.randint(1, 4)]
        owner = [q for q in range(requests) for _ in range(shape[1])]
    x = r.floats(*shape, sum(widths), dtype=dtype)
    inputs["input"] = x
    y = x.double().reshape(-1, sum(widths)).clone()
    for t, q in enumerate(owner):
        y[t] *= scale[q]
    return Case(fields, inputs, [y.reshape(x.shape).to(dtype)])
