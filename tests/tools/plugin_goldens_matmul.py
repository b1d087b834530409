"""Products, norms, quantisation and attention without a cache: see plugin_goldens.py."""
import math

import numpy as np
import torch

from plugin_goldens import Case, NAMES, plugin


def result_type(r, given):
    """The field type_id and the type that it means."""
    if r.chance(0.6):
        return None, given
    wanted = r.row_type()
    return NAMES[wanted], wanted


def width(r, most=70):
    return r.choice([1, 2, 3, 7, 8, 15, 16, 17, 31, 33, r.randint(1, most)])


@plugin("Gemm")
def gemm(r):
    dtype = torch.float64 if r.chance(0.15) else r.row_type()
    type_id, out = (None, dtype) if dtype == torch.float64 else result_type(r, dtype)
    transa, transb = r.chance(), r.chance()
    k = width(r) if r.chance(0.95) else 0
    m, n = r.sizes(most=7), r.sizes() if r.chance(0.2) else [width(r)]
    a = r.floats(*([k] + m if transa else m + [k]), dtype=dtype)
    b = r.floats(*(n + [k] if transb else [k] + n), dtype=dtype)
    alpha = r.choice([None, 0.5, -2.0])
    rows, columns = math.prod(m), math.prod(n)
    left = a.double().reshape(k, rows).T if transa else a.double().reshape(rows, k)
    right = b.double().reshape(columns, k).T if transb else b.double().reshape(k, columns)
    y = (alpha or 1) * (left @ right)
    return Case({"transa": transa, "transb": transb, "alpha": alpha, "type_id": type_id}, {"A": a, "B": b},
                [y.reshape(m + n).to(out)])


@plugin("SmoothQuantGemm")
def smooth_quant_gemm(r):
    m, n, k = r.sizes(most=6), r.choice([1, 3, 4, 9, 17]), r.choice([width(r), width(r), 130])
    token, channel = r.chance(), r.chance()
    a, b = r.ints(-128, 127, *m, k), r.ints(-128, 127, n, k)
    rows = math.prod(m)
    tokens = r.floats(rows if token else 1, 1).abs() * 0.02
    channels = r.floats(1, n if channel else 1).abs() * 0.02
    sums = a.long().reshape(rows, k) @ b.long().T
    fields = {"has_per_token_scaling": token, "has_per_channel_scaling": channel}
    if r.chance(0.2):
        fields["type_id"] = "int32"
        return Case(fields, {"mat1": a, "mat2": b, "scale_tokens": tokens, "scale_channels": channels},
                    [sums.reshape(m + [n]).int()])
    out = r.row_type()
    fields["type_id"] = NAMES[out]
    y = sums.double() * tokens.double() * channels.double()
    return Case(fields, {"mat1": a, "mat2": b, "scale_tokens": tokens, "scale_channels": channels},
                [y.reshape(m + [n]).to(out)])


def random_weight(r, k, n, kind):
    """What is stored, and the integers that it means."""
    if kind == "int8":
        w = r.ints(-128, 127, k, n)
        return w, w.double()
    values = r.ints(-8, 7, k, n).numpy()
    low, high = values[:, 0::2].astype(np.int16) & 15, values[:, 1::2].astype(np.int16) & 15
    stored = (low | high << 4).astype(np.uint8).view(np.int8)
    return torch.from_numpy(stored), torch.from_numpy(values).double()


@plugin("WeightOnlyQuantMatmul")
def weight_only_quant_matmul(r):
    kind, dtype = r.choice(["int8", "int4"]), r.row_type()
    type_id, out = result_type(r, dtype)
    m, k, n = r.sizes(), width(r, 50), r.choice([2, 8, 14, 16, 18, 34])
    w, values = random_weight(r, k, n, kind)
    x, scale = r.floats(*m, k, dtype=dtype), (r.floats(n).abs() * 0.02).to(r.row_type())
    y = x.double() @ values * scale.double()
    return Case({"weight_type_id": kind, "type_id": type_id},
                {"activation": x, "weight": w, "per_channel_scale": scale}, [y.to(out)])


@plugin("WeightOnlyGroupwiseQuantMatmul")
def weight_only_groupwise_quant_matmul(r):
    kind, dtype = r.choice(["int8", "int4", "int4"]), r.row_type()
    type_id, out = result_type(r, dtype)
    m, k, n, group = r.sizes(), width(r, 50), r.choice([2, 8, 14, 16, 18, 34]), r.choice([4, 8, 16, 32, 128])
    groups = (k + group - 1) // group
    w, values = random_weight(r, k, n, kind)
    x = r.floats(*m, k, dtype=dtype)
    scales = (r.floats(groups, n).abs() * 0.05).to(dtype)
    zeros = r.floats(groups, n, dtype=dtype, scale=0.3) if r.chance() else None
    biases = r.floats(n, dtype=dtype) if r.chance() else None
    pre = r.floats(*r.choice([[k], [1, k]]), dtype=dtype).abs() + 0.1 if r.chance() else None
    index = torch.arange(k) // group
    weights = values * scales.double()[index]
    if zeros is not None:
        weights = weights + zeros.double()[index]
    left = x.double() if pre is None else x.double() * pre.double().flatten()
    y = left @ weights
    if biases is not None:
        y = y + biases.double()
    return Case({"weight_type_id": kind, "type_id": type_id, "group_size": group},
                {"activation": x, "pre_quant_scale": pre, "weight": w, "scales": scales, "zeros": zeros,
                 "biases": biases}, [y.to(out)])


def special(r, x):
    """Some values that are no ordinary numbers."""
    if r.chance(0.15) and x.numel():
        flat = x.flatten().clone()
        for v in (math.nan, math.inf, -math.inf, 0.0, -0.0):
            flat[r.randrange(flat.numel())] = v
        return flat.reshape(x.shape)
    return x


def to_int8(x):
    """x: float32."""
    return torch.clamp(torch.round(torch.nan_to_num(x, nan=0.0)), -128, 127).to(torch.int8)


@plugin("QuantizeTensor")
def quantize_tensor(r):
    x = special(r, r.floats(*r.sizes((1, 2, 3)), width(r), dtype=r.row_type(), scale=r.choice([1, 3])))
    scale = torch.tensor([r.choice([1.0, 20.0, 40.0, 64.0])])
    if r.chance(0.3):
        bits = torch.tensor(encode_fp8((x.float() * scale).numpy()).astype(np.uint8))
        return Case({"type_id": "fp8"}, {"x": x, "scale": scale}, [bits.reshape(x.shape)])
    return Case({}, {"x": x, "scale": scale}, [to_int8(x.float() * scale)])


@plugin("QuantizePerToken")
def quantize_per_token(r):
    x = r.floats(*r.sizes(), width(r), dtype=r.row_type(), scale=r.choice([0, 1e-9, 1, 3]))
    if r.chance(0.15) and x.numel():
        x.view(-1)[r.randrange(x.numel())] = math.nan
    clamp, total, fp8 = r.chance(0.3), r.chance(0.3), r.chance(0.3)
    bounds = torch.tensor([-1.5, 1.25]) if clamp else None
    v = x.float()
    if clamp:
        v = torch.clamp(v, -1.5, 1.25)
    most = torch.nan_to_num(v, nan=0.0).abs().amax(-1, keepdim=True).clamp_min(1e-6)
    limit = 448 if fp8 else 127
    scaled = v * (torch.tensor(float(limit)) / most)
    q = torch.tensor(encode_fp8(scaled.numpy()).astype(np.uint8)).reshape(x.shape) if fp8 else to_int8(scaled)
    outputs = [q, most / limit]
    if total:
        outputs.append(v.double().sum(-1, keepdim=True).float())
    return Case({"clamp_enabled": clamp or None, "sum_per_token": total or None, "type_id": "fp8" if fp8 else None},
                {"x": x, "clamp_val": bounds}, outputs)


@plugin("Layernorm")
def layernorm(r):
    dtype = r.row_type()
    type_id, out = result_type(r, dtype)
    n = width(r, 100)
    x = r.floats(*r.sizes((1, 2)), n, dtype=dtype, scale=2) + r.choice([0, 1, 3])
    weight = r.floats(n, dtype=r.choice([dtype, torch.float32])) if r.chance(0.85) else None
    bias = r.floats(n, dtype=dtype) if r.chance(0.7) else None
    eps = r.choice([None, 1e-5, 1e-12, 0.1])
    double = lambda t: None if t is None else t.double()
    y = torch.nn.functional.layer_norm(x.double(), [n], double(weight), double(bias), eps or 1e-5)
    if n == 1 or (x.numel() and (x.double().var(-1, unbiased=False) < 1e-3).any()):
        return layernorm(r)  # nothing but rounding is left
    return Case({"eps": eps, "use_diff_of_squares": r.choice([None, True, False]), "type_id": type_id},
                {"x": x, "weight": weight, "bias": bias}, [y.to(out)])


@plugin("Rmsnorm")
def rmsnorm(r):
    dtype = r.row_type()
    type_id, out = result_type(r, dtype)
    n = width(r, 100)
    x = r.floats(*r.sizes((1, 2)), n, dtype=dtype, scale=r.choice([1, 30]))
    weight = r.floats(n, dtype=r.choice([dtype, torch.float32])) if r.chance(0.85) else None
    bias = r.floats(n, dtype=dtype) if r.chance(0.2) else None
    eps = r.choice([None, 1e-5, 0.1])
    y = x.double() / torch.sqrt((x.double() ** 2).mean(-1, keepdim=True) + (eps or 1e-6))
    if weight is not None:
        y = y * weight.double()
    if bias is not None:
        y = y + bias.double()
    return Case({"eps": eps, "type_id": type_id}, {"x": x, "weight": weight, "bias": bias}, [y.to(out)])


def t5_bucket(distance, buckets, longest):
    """Of key position - query position, as T5 has it."""
    half = buckets // 2
    first = half if distance > 0 else 0
    n, exact = abs(distance), half // 2
    if n < exact:
        return first + n
    far = exact + int(math.log(n / exact) / math.log(longest / exact) * (half - exact))
    return first + min(far, half - 1)


@plugin("BertAttention")
def bert_attention(r):
    dtype = r.row_type()
    heads, size, batch, longest = r.randint(1, 3), r.choice([1, 3, 4, 8, 16]), r.randint(1, 3), r.randint(1, 9)
    packed, relative = r.chance(), r.chance()
    lengths = [r.randint(1, longest) for _ in range(batch)]
    scaling, buckets, distance = r.choice([None, 0.5, 2.0]), r.choice([8, 16, 32]), r.choice([0, 6, 20, 128])
    if distance and distance <= buckets // 4:
        distance = 128
    side = longest + r.randint(0, 2)
    bias = r.floats(*([heads, buckets] if distance else [heads, side, side]), dtype=dtype) if relative else None
    sequences = [r.floats(n, 3, heads, size, dtype=dtype) for n in lengths]
    results = []
    for x in sequences:
        n = len(x)
        q, k, v = [x[:, i].double().transpose(0, 1) for i in range(3)]
        scores = q @ k.transpose(1, 2) / ((scaling or 1) * math.sqrt(size))
        if relative and distance:
            index = torch.tensor([[t5_bucket(j - i, buckets, distance) for j in range(n)] for i in range(n)])
            scores = scores + bias.double()[:, index]
        elif relative:
            scores = scores + bias.double()[:, :n, :n]
        results.append((scores.softmax(-1) @ v).transpose(0, 1).reshape(n, -1))
    if packed:
        qkv, y = torch.cat(sequences).reshape(sum(lengths), -1), torch.cat(results)
    else:
        qkv, y = r.floats(batch, longest, 3 * heads * size, dtype=dtype), torch.zeros(batch, longest, heads * size).double()
        for i, n in enumerate(lengths):
            qkv[i, :n], y[i, :n] = sequences[i].reshape(n, -1), results[i]
    inputs = {"qkv": qkv, "input_lengths": torch.tensor(lengths).int(),
              "max_input_length": torch.zeros(longest).int() if r.chance(0.3) else None, "relative_attention_bias": bias}
    return Case({"num_heads": heads, "head_size": size, "q_scaling": scaling, "do_relative_attention": relative or None,
                 "max_distance": distance if relative else None, "remove_padding": packed or None}, inputs, [y.to(dtype)])


FP8 = np.array([(-1) ** (b >> 7) * (math.nan if b & 127 == 127 else (b & 7) * 2.0 ** -9 if b >> 3 & 15 == 0 else
                                    (8 + (b & 7)) * 2.0 ** ((b >> 3 & 15) - 10)) for b in range(256)])


def encode_fp8(x):
    """The nearest e4m3, halves to even, saturating; NaN stays."""
    x = np.asarray(x, np.float64).reshape(-1)
    out = np.zeros(x.shape, np.int64)
    table = FP8[:127]
    for i, v in enumerate(x):
        sign = 128 if np.signbit(v) else 0
        if np.isnan(v):
            out[i] = sign | 127
            continue
        gaps = np.abs(table - min(abs(v), 448.0))
        best = np.flatnonzero(gaps == gaps.min())
        out[i] = sign | int(best[0] if len(best) == 1 or best[0] % 2 == 0 else best[1])
    return out
