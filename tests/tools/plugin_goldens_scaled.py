"""Norms with quantisation, products in fp8 and fp4: see plugin_goldens.py."""
import math

import numpy as np
import torch

from plugin_goldens import Case, NAMES, plugin
from plugin_goldens_matmul import FP8, encode_fp8, result_type, to_int8, width

FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def norm(x, centered, eps, weight, bias):
    x = x.double()
    if centered:
        x = x - x.mean(-1, keepdim=True)
    y = x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps)
    if weight is not None:
        y = y * weight.double()
    return y if bias is None else y + bias.double()


def per_token(y):
    most = y.abs().amax(-1, keepdim=True).clamp_min(1e-6)
    return to_int8((y * (torch.tensor(127.0).double() / most)).float()), (most / 127).float()


def is_flat(x):
    """Whether nothing but rounding is left of a row without its mean."""
    return x.numel() and (x.double().var(-1, unbiased=False) < 1e-3).any()


def norm_inputs(r):
    dtype, n = r.row_type(), width(r, 60) + 1
    x = r.floats(*r.sizes((1, 2), 3), n, dtype=dtype, scale=2)
    if is_flat(x):
        return norm_inputs(r)
    return x, r.floats(n, dtype=dtype), r.floats(n, dtype=dtype) if r.chance() else None


def norm_quantization(r, centered):
    x, weight, bias = norm_inputs(r)
    eps, dynamic, clamp, total = r.choice([1e-5, 0.1]), r.chance(), r.chance(0.3), r.chance(0.3)
    y = norm(x, centered, eps, weight, bias)
    bounds = torch.tensor([-1.25, 1.5]) if clamp else None
    if clamp:
        y = y.clamp(-1.25, 1.5)
    scale = None if dynamic else torch.tensor([r.choice([16.0, 50.0, 100.0])])
    outputs = list(per_token(y)) if dynamic else [to_int8((y * scale.double()).float())]
    if total:
        outputs.append(y.sum(-1, keepdim=True).float())
    return Case({"eps": eps, "dyn_act_scaling": dynamic or None, "clamp_enabled": clamp or None,
                 "sum_per_token": total or None},
                {"x": x, "weight": weight, "bias": bias, "scale": scale, "clamp_val": bounds}, outputs, slack=1)


@plugin("LayernormQuantization")
def layernorm_quantization(r):
    return norm_quantization(r, True)


@plugin("RmsnormQuantization")
def rmsnorm_quantization(r):
    return norm_quantization(r, False)


@plugin("FusedLayernorm")
def fused_layernorm(r):
    x, weight, bias = norm_inputs(r)
    residual, rms, quantize = r.floats(*x.shape, dtype=x.dtype), r.chance(), r.choice(["none", "tensor", "token"])
    total = x.double() + residual.double()
    if is_flat(total):
        return fused_layernorm(r)
    y = norm(total, not rms, 1e-5, weight, bias)
    outputs = [y.to(x.dtype), total.to(x.dtype)]
    scale = torch.tensor([20.0]) if quantize == "tensor" else None
    if quantize == "tensor":
        outputs[0] = to_int8((y * 20).float())
    if quantize == "token":
        q, scales = per_token(y)
        outputs = [q, outputs[1], scales]
    return Case({"use_rms": rms, "quantize": quantize},
                {"input": x, "residual": residual, "weight": weight, "bias": bias, "scale": scale}, outputs, slack=1)


def nibbles(values):
    """[.., K] codes from 0 to 15 -> [.., K / 2] bytes, the first one in the lower half."""
    return torch.from_numpy((values[..., 0::2] | values[..., 1::2] << 4).astype(np.uint8))


@plugin("QServeGemm")
def qserve_gemm(r):
    m, n, k, out = r.sizes(), r.choice([1, 3, 8, 17]), 2 * width(r, 24), r.row_type()
    group = r.choice([-1, 4, 8, 16])
    q = r.ints(0, 15, n, k, dtype=torch.int64).numpy()
    a, rows = r.ints(-127, 127, *m, k), math.prod(m)
    dtype = r.row_type()
    s1, act = (r.floats(n).abs() * 0.02).to(dtype), (r.floats(rows, 1).abs() * 0.02).to(dtype)
    inputs = {"activation": a, "weight": nibbles(q), "s1_scales": s1, "act_scales": act}
    weights = q.astype(np.int64)
    if r.chance():
        inputs["weight"] = inputs["weight"].view(torch.int8)
    if group > 0:
        groups = (k + group - 1) // group
        s2, z2 = r.ints(1, 8, groups, n), r.ints(-60, 0, groups, n)
        inputs.update(s2_scales=s2, s2_zeros=z2)
        index = np.arange(k) // group
        weights = weights * s2.long().numpy()[index].T + z2.long().numpy()[index].T
    sums = a.long().reshape(rows, k) @ torch.from_numpy(weights).T
    y = sums.double() * act.double() * s1.double()
    if group < 0:
        zeros, totals = r.floats(n, dtype=dtype, scale=0.1), r.floats(rows, 1, dtype=dtype)
        inputs.update(s1_szeros=zeros, act_sums=totals)
        y = y - totals.double() * zeros.double()
    return Case({"group_size": group, "type_id": NAMES[out]}, inputs, [y.reshape(m + [n]).to(out)], kernel_only=False)


def fp8_matrix(r, *sizes):
    """Codes without NaN, and their values."""
    codes = r.ints(0, 255, *sizes, dtype=torch.int64).numpy()
    codes = np.where(codes & 127 >= 120, codes & 135, codes)  # not the largest: sums of f16 results must fit
    return torch.from_numpy(codes.astype(np.uint8)), torch.from_numpy(FP8[codes])


def operand(r, *sizes):
    if r.chance():
        return fp8_matrix(r, *sizes)
    t = r.floats(*sizes, dtype=r.row_type())
    return t, t.double()


@plugin("LowLatencyGemm")
def low_latency_gemm(r):
    m, n, k, out = r.sizes(), r.choice([1, 5, 16, 19, 40]), width(r, 50), r.row_type()
    (a, left), (b, right) = operand(r, *m, k), operand(r, n, k)
    alpha = r.choice([1.0, 2.0 ** -12, 0.001])
    y = alpha * (left @ right.T)
    if out == torch.float16 and y.numel() and y.abs().max() > 6e4:
        return low_latency_gemm(r)
    return Case({"alpha": alpha, "type_id": NAMES[out]}, {"mat1": a, "mat2": b}, [y.to(out)])


@plugin("Fp8RowwiseGemm")
def fp8_rowwise_gemm(r):
    m, n, k, out = r.sizes(), r.choice([1, 5, 16, 19, 40]), width(r, 50), r.row_type()
    (a, left), (b, right) = fp8_matrix(r, *m, k), fp8_matrix(r, n, k)
    token, channel = r.chance(), r.chance()
    tokens = r.floats(math.prod(m) if token else 1, 1).abs() * 0.01
    channels = r.floats(1, n if channel else 1).abs() * 0.01
    y = (left.reshape(math.prod(m), k) @ right.T) * tokens.double() * channels.double()
    return Case({"has_per_token_scaling": token, "has_per_channel_scaling": channel, "type_id": NAMES[out]},
                {"mat1": a, "mat2": b, "scale_tokens": tokens, "scale_channels": channels},
                [y.reshape(m + [n]).to(out)])


@plugin("Fp8BlockScalingGemm")
def fp8_block_scaling_gemm(r):
    m, n, k, out, block = r.sizes(), r.choice([1, 5, 16, 19, 40]), width(r, 50), r.row_type(), r.choice([4, 8, 16, 128])
    (a, left), (b, right) = operand(r, *m, k), fp8_matrix(r, n, k)
    down, across = -(-n // block), -(-k // block)
    weights = r.floats(down, across).abs() * 0.01
    right = right * weights.double().repeat_interleave(block, 0)[:n].repeat_interleave(block, 1)[:, :k]
    rows = None
    if a.dtype == torch.uint8 or r.chance():
        rows = r.floats(*m, across).abs() * 0.01
        left = left * rows.double().repeat_interleave(block, -1)[..., :k]
    return Case({"block_size": block, "type_id": NAMES[out]},
                {"mat1": a, "mat2": b, "mat2_scale": weights, "mat1_scale": rows}, [(left @ right.T).to(out)])


@plugin("Fp8CurrentScalingGemm")
def fp8_current_scaling_gemm(r):
    m, n, k, dtype = r.sizes(), r.choice([1, 5, 16, 19, 40]), width(r, 50), r.row_type()
    type_id, out = result_type(r, dtype)
    x, (b, right) = r.floats(*m, k, dtype=dtype, scale=3), fp8_matrix(r, n, k)
    scale = torch.tensor([0.003])
    most = x.float().abs().max().clamp_min(1e-6) if x.numel() else torch.tensor(1e-6)
    left = torch.from_numpy(FP8[encode_fp8((x.float() * (torch.tensor(448.0) / most)).numpy())]).reshape(x.shape)
    y = (left @ right.T) * most.double() / 448 * scale.double()
    return Case({"type_id": type_id}, {"activation": x, "weight": b, "weight_scale": scale}, [y.to(out)])


def swiglu(r, has_bias):
    m, n, k = r.sizes(), r.choice([1, 5, 16, 19]), width(r, 50)
    (a, left), (b, right) = operand(r, *m, k), operand(r, 2 * n, k)
    small = a.dtype == torch.uint8 or b.dtype == torch.uint8
    d0, d1, d2 = (2.0 ** -9, 2.0 ** -10, 0.5) if small else r.choice([(1.0, 1.0, 1.0), (0.5, 2.0, 3.0)])
    bias = r.floats(2 * n, dtype=r.row_type()) if has_bias else None
    u = left @ right.T
    if has_bias:
        u = u + bias.double()
    gate = u[..., :n] * d0
    y = gate * torch.sigmoid(gate) * u[..., n:] * d1 * d2
    out = a.dtype
    type_id = None
    if r.chance():
        out = r.row_type()
        type_id = NAMES[out]
    if out == torch.uint8:
        if r.chance():
            type_id = "fp8"
        y = torch.from_numpy(encode_fp8(y.float().numpy()).astype(np.uint8)).reshape(y.shape)
    return Case({"scale_d0": d0, "scale_d1": d1, "scale_output": d2, "type_id": type_id,
                 "has_bias": True if has_bias else None}, {"mat1": a, "mat2": b, "bias": bias}, [y.to(out)], slack=1)


@plugin("GemmSwiglu")
def gemm_swiglu(r):
    return swiglu(r, r.chance())


@plugin("LowLatencyGemmSwiglu")
def low_latency_gemm_swiglu(r):
    return swiglu(r, False)


def encode_fp4(x):
    x = np.asarray(x, np.float64)
    gaps = np.abs(FP4 - np.minimum(np.abs(x), 6)[..., None])
    best = gaps.argmin(-1)
    tie = (best < 7) & (np.take_along_axis(gaps, np.minimum(best + 1, 7)[..., None], -1)[..., 0] == gaps.min(-1))
    return (best + (tie & (best % 2 == 1)) + 8 * np.signbit(x)).astype(np.int64)


@plugin("QuantizeToFP4")
def quantize_to_fp4(r):
    x = r.floats(*r.sizes(), 16 * r.randint(1, 4), dtype=r.row_type(), scale=r.choice([0, 1, 5]))
    scale = torch.tensor([r.choice([1.0, 100.0, 448 * 6 / 16.0])])
    blocks = x.float().reshape(*x.shape[:-1], x.shape[-1] // 16, 16)
    codes = encode_fp8((blocks.abs().amax(-1) / 6 * scale).numpy()).reshape(blocks.shape[:-1])
    stored = torch.from_numpy(FP8[codes]).float()[..., None]
    factor = torch.where(stored != 0, scale / stored, torch.zeros(1))
    q = encode_fp4((blocks * factor).numpy()).reshape(x.shape)
    return Case({}, {"x": x, "global_scale": scale}, [nibbles(q), torch.from_numpy(codes.astype(np.uint8))])


@plugin("Fp4Gemm")
def fp4_gemm(r):
    m, n, k, out = r.sizes(), r.choice([1, 5, 16, 19]), 16 * r.randint(1, 4), r.row_type()

    def side(*sizes):
        codes = r.ints(0, 15, *sizes, k, dtype=torch.int64).numpy()
        scales = r.ints(0, 100, *sizes, k // 16, dtype=torch.uint8)
        values = np.where(codes & 8, -1, 1) * FP4[codes & 7]
        return nibbles(codes), scales, torch.from_numpy(values * np.repeat(FP8[scales.numpy()], 16, -1))

    (a, sa, left), (b, sb, right) = side(*m), side(n)
    alpha = torch.tensor([2.0 ** -8])
    y = left @ right.T * alpha.double()
    if out == torch.float16 and y.numel() and y.abs().max() > 6e4:
        return fp4_gemm(r)
    return Case({"type_id": NAMES[out]}, {"mat1": a, "mat2": b, "mat1_scale": sa, "mat2_scale": sb, "alpha": alpha},
                [y.to(out)])
