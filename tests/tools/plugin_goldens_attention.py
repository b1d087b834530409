"""Cases of GPTAttention: rows of attention one by one, in float64, from the formulas in runtime/plugin/attention."""
import math

import torch

from plugin_goldens import Case, NAMES, ints, plugin


class Request:
    def __init__(self, past, new, generates):
        self.past, self.new, self.generates = past, new, generates
        self.total = past + new


def slopes(heads):
    c = 2 ** int(math.floor(math.log2(heads)))
    return [2.0 ** (-8 * (h + 1) / c) if h < c else 2.0 ** (-4 * (2 * (h - c) + 1) / c) for h in range(heads)]


def frequencies(fields, rotary, length):
    base, scaling = fields.get("rotary_embedding_base", 10000.0), fields.get("rotary_embedding_scale_type", "none")
    scale, longest = fields.get("rotary_embedding_scale", 1.0), fields.get("rotary_embedding_max_positions", 1024)
    if scaling == "dynamic" and length > longest and rotary > 2:
        base *= (scale * length / longest - (scale - 1)) ** (rotary / (rotary - 2))
    f = [base ** (-2 * i / rotary) for i in range(rotary // 2)]
    if scaling == "linear":
        f = [v / scale for v in f]
    if scaling == "llama3":
        low, high = 1.0, 4.0
        old = fields["rotary_embedding_original_max_positions"]

        def stretched(v):
            wave = 2 * math.pi / v
            if wave < old / high:
                return v
            if wave > old / low:
                return v / scale
            t = (old / wave - low) / (high - low)
            return (1 - t) * v / scale + t * v
        f = [stretched(v) for v in f]
    return f


def rotated(x, position, fields, rotary, length):
    """x: [heads, D]"""
    out = x.clone()
    start, shared = fields.get("vision_start", -1), fields.get("vision_length", -1)
    if start >= 0 and shared > 0 and position > start:
        position = start + 1 if position <= start + shared else position - (shared - 1)
    for i, f in enumerate(frequencies(fields, rotary, length)):
        c, s = math.cos(position * f), math.sin(position * f)
        a, b = (2 * i, 2 * i + 1) if fields["position_embedding_type"] == "rope_gptj" else (i, i + rotary // 2)
        out[:, a], out[:, b] = x[:, a] * c - x[:, b] * s, x[:, a] * s + x[:, b] * c
    return out


def bucket(distance, buckets, longest, unidirectional):
    """Of query position - key position."""
    base = 0
    if unidirectional:
        distance = max(0, distance)
    else:
        buckets //= 2
        base = buckets if distance < 0 else 0
        distance = abs(distance)
    exact = buckets // 2
    if distance < exact:
        return base + distance
    far = exact + int(math.floor(math.log(distance / exact) / math.log(longest / exact) * (buckets - exact)))
    return base + min(far, buckets - 1)


def sees(fields, window, sinks, head, heads, queries, keys, row, column, given):
    """Whether a query sees a key, both counted in this pass; the keys end where the queries do. `given`: its row of a
    custom mask."""
    position = row + keys - queries
    if window and position >= window and column <= position:
        if column >= sinks and column <= position - (window - sinks):
            return False
    mask = fields["mask_type"]
    if mask == "padding":
        return True
    if mask == "custom_mask":
        return bool(given[column])
    if mask in ("bidirectional", "bidirectionalglm"):
        return column < keys - 1 or row == queries - 1
    if column > position:
        return False
    if mask != "blocksparse":
        return True
    size, local = fields["block_sparse_block_size"], fields["block_sparse_num_local_blocks"]
    stride = fields["block_sparse_vertical_stride"]
    step = 0 if fields["block_sparse_homo_head_pattern"] else max(1, stride // heads)
    return position // size - column // size < local or (column // size + head * step + 1) % stride == 0


def positions_of(r, fields, inputs, heads, width, most):
    kind = r.choice(["learned_absolute", "rope_gptj", "rope_gpt_neox", "rope_gpt_neox", "alibi", "alibi_with_scale",
                     "relative"])
    fields["position_embedding_type"] = kind
    if kind.startswith("rope") and width < 2:
        kind = fields["position_embedding_type"] = "learned_absolute"
    if kind.startswith("rope"):
        fields["rotary_embedding_dim"] = 2 * r.randint(1, width // 2)
        fields["rotary_embedding_base"] = r.choice([10000.0, 500000.0, 100.0])
        scaling = fields["rotary_embedding_scale_type"] = r.choice(["none", "none", "linear", "dynamic", "llama3"])
        if scaling != "none":
            fields["rotary_embedding_scale"] = float(r.randint(2, 8))
            fields["rotary_embedding_max_positions"] = r.randint(2, most)
            fields["rotary_embedding_original_max_positions"] = r.randint(4, 64)
        if r.chance(0.15) and scaling != "dynamic":
            fields.update(vision_start=r.randint(0, 4), vision_length=r.randint(1, 4))
    if kind.startswith("alibi") and r.chance(0.4):
        inputs["alibi_slopes"] = r.floats(heads).abs()
    if kind == "relative":
        if r.chance():
            inputs["relative_attention_bias"] = r.floats(heads, most, most)
        else:
            fields.update(max_distance=r.randint(8, 40), unidirectional=int(r.chance()))
            inputs["relative_attention_bias"] = r.floats(heads, 2 * r.randint(2, 6))


def requests_of(r, cached):
    contexts = r.randint(0 if cached else 1, 3)
    out = [Request(r.choice([0, 0, r.randint(1, 9)]) if cached else 0, r.randint(1, 9), False) for _ in range(contexts)]
    generating = r.randint(0 if contexts else 1, 3) if cached else 0
    return out + [Request(r.randint(1, 16), 1, True) for _ in range(generating)]


def slot(token, window, sinks, bubble):
    return token if not window or token < sinks else sinks + bubble + (token - sinks) % (window - sinks)


@plugin("GPTAttention")
def gpt_attention(r):
    kv, group, width = r.randint(1, 3), r.randint(1, 3), r.choice([r.randint(1, 12), 8, 16])
    heads, dtype, cached = kv * group, r.row_type(), r.chance(0.7)
    paged = cached and r.chance()
    requests = requests_of(r, cached)
    if not paged and any(q.generates for q in requests):
        # Requests of both kinds need packed rows and pages.
        requests = [q for q in requests if q.generates]
    packed = paged and any(q.generates for q in requests) or r.chance()
    most = max(q.total for q in requests) + 2
    fields = dict(layer_idx=r.randint(0, 2), num_heads=heads, num_kv_heads=kv, head_size=width, type_id=NAMES[dtype],
                  remove_input_padding=int(packed), use_cache=int(cached))
    inputs = {}
    fields["mask_type"] = r.choice(["causal", "causal", "causal", "padding", "bidirectional", "bidirectionalglm",
                                    "blocksparse", "sliding_window_causal", "custom_mask"])
    if fields["mask_type"] == "blocksparse":
        fields.update(block_sparse_block_size=r.randint(1, 4), block_sparse_num_local_blocks=r.randint(1, 3),
                      block_sparse_vertical_stride=r.randint(1, 4), block_sparse_homo_head_pattern=r.chance())
    window, sinks = 0, 0
    # Masks that look ahead are about the whole prompt: only a ring that forgets narrows them.
    if fields["mask_type"] == "sliding_window_causal" or (r.chance(0.2) and (cached or fields["mask_type"] == "causal")):
        window = r.randint(2, 12)
        sinks = r.choice([0, 0, r.randint(1, window - 1)])
        for q in requests:
            # Of a prompt that goes on in a ring, its beginning may be gone.
            q.past = q.past if q.generates else 0
            q.total = q.past + q.new
    positions_of(r, fields, inputs, heads, width, most)
    if r.chance(0.3):
        fields["q_scaling"] = r.choice([0.5, 2.0, 1.25])
    if r.chance(0.25):
        fields["attn_logit_softcapping_scale"] = r.choice([0.5, 2.0, 5.0])
    if r.chance(0.2):
        inputs["logn_scaling"] = r.floats(most).abs()
        fields["use_logn_scaling"] = 1
    if r.chance(0.25):
        inputs["attention_sinks"] = r.floats(heads)
    rotary = fields.get("rotary_embedding_dim", 0)

    # The rows.
    all_heads, count = heads + 2 * kv, len(requests)
    longest = max(q.new for q in requests)
    rows = [r.floats(q.new, all_heads * width, dtype=dtype) for q in requests]
    if packed:
        inputs["qkv"] = torch.cat(rows)
    else:
        inputs["qkv"] = torch.zeros(count, longest, all_heads * width, dtype=dtype)
        for b, row in enumerate(rows):
            inputs["qkv"][b, :row.shape[0]] = row
    bias = torch.zeros(all_heads * width, dtype=torch.float64)
    if r.chance(0.3):
        inputs["qkv_bias"] = r.floats(all_heads * width, dtype=dtype)
        fields["qkv_bias_enabled"] = 1
        bias = inputs["qkv_bias"].double()
    first = [sum(q.new for q in requests[:b]) if packed else b * longest for b in range(count)]
    given = None
    if fields["mask_type"] == "custom_mask":
        given = inputs["attention_mask"] = r.ints(0, 2, sum(q.new for q in requests) if packed else count * longest,
                                                  most, dtype=torch.bool)
        fields["has_full_attention_mask"] = 1
    inputs["context_lengths"] = ints([r.randint(1, q.past) if q.generates else q.new for q in requests])
    inputs["host_context_lengths"] = inputs["context_lengths"].clone()
    inputs["host_request_types"] = ints([int(q.generates) for q in requests])
    if cached:
        inputs["sequence_length"] = ints([q.total for q in requests])
        inputs["host_past_key_value_lengths"] = ints([q.past for q in requests])
    if window:
        inputs["host_max_attention_window_sizes"] = ints([window + (i != fields["layer_idx"]) for i in range(3)])
        inputs["host_sink_token_length"] = ints([sinks])

    # The cache: store(b, which, token) is where a row of keys (0) or values (1) stands.
    eighths = dtype == torch.float32 and r.chance(0.3)  # which 8 bits hold exactly
    kind, scale = dtype, 1.0
    if cached and eighths:
        kind, scale = torch.int8, 8.0
        fields["kv_cache_quant_mode"] = 64
        inputs["kv_cache_quantization_scale"] = torch.tensor([scale])
        inputs["kv_cache_dequantization_scale"] = torch.tensor([1 / scale])
        if rotary:
            fields["position_embedding_type"], rotary = "learned_absolute", 0
        for row in [inputs["qkv"]] + rows + ([inputs["qkv_bias"]] if "qkv_bias" in inputs else []):
            row.copy_((row * 8).round().clamp(-60, 60) / 8)
        bias = inputs["qkv_bias"].double() if "qkv_bias" in inputs else bias

    def cells(*sizes):
        return r.ints(-128, 127, *sizes) if kind == torch.int8 else r.floats(*sizes, dtype=kind)
    cache, store, bubble = None, None, 0
    if paged:
        tokens = r.choice([1, 2, 4, 8])
        bubble = (tokens - sinks % tokens) % tokens if window else 0
        capacity = min(most, window + bubble) if window else most
        blocks = -(-(window + bubble if window else most) // tokens)
        cache = cells(count * 2 * blocks + 2, kv, tokens, width)
        order = list(range(cache.shape[0]))
        r.shuffle(order)
        offsets = torch.tensor(order[:count * 2 * blocks], dtype=torch.int32).reshape(count, 2, blocks)
        fields.update(paged_kv_cache=1, tokens_per_block=tokens)
        inputs["kv_cache_block_offsets"], inputs["kv_cache_pool"] = offsets, cache
        store = lambda c, b, which, at: c[int(offsets[b, which, at // tokens]), :, at % tokens]
    elif cached:
        capacity = window if window and r.chance() else max(window, most)
        cache = cells(count, 2, kv, capacity, width)
        inputs["past_key_value"] = cache
        store = lambda c, b, which, at: c[b, which, :, at]
    if cached:
        if not paged:
            inputs["cache_indirection"] = torch.zeros(count, 1, capacity, dtype=torch.int32)
        if not any(q.generates for q in requests):
            inputs.pop("cache_indirection", None)
    new_cache = cache.clone() if cached else None

    unit = 1 / (fields.get("q_scaling", 1.0) * math.sqrt(width))
    cap, linear = fields.get("attn_logit_softcapping_scale", 0), inputs.get("alibi_slopes")
    slope = linear.tolist() if linear is not None else slopes(heads)
    results = []
    for b, q in enumerate(requests):
        x = rows[b].double() + bias
        x = x.reshape(q.new, all_heads, width)
        keys, values = {}, {}
        for t in range(q.past):
            if window and t >= sinks and t < q.past - (window - sinks):
                continue  # gone
            at = slot(t, window, sinks, bubble)
            keys[t], values[t] = (store(cache, b, which, at).double() / scale for which in (0, 1))
        queries = []
        for i in range(q.new):
            p = q.past + i
            query, key, value = x[i, :heads], x[i, heads:heads + kv], x[i, heads + kv:]
            if rotary:
                query, key = (rotated(v, p, fields, rotary, q.total) for v in (query, key))
            if "use_logn_scaling" in fields:
                query = query * float(inputs["logn_scaling"][p])
            queries.append(query)
            keys[p], values[p] = key, value
            if cached:
                at = slot(p, window, sinks, bubble)
                for which, v in ((0, key), (1, value)):
                    store(new_cache, b, which, at).copy_((v * scale).round() if scale != 1 else v.to(kind))
        out = torch.zeros(q.new, heads, width, dtype=torch.float64)
        for i in range(q.new):
            p = q.past + i
            for h in range(heads):
                row = None if given is None else given[first[b] + i]
                seen = [j for j in keys if sees(fields, window, sinks, h, heads, q.new, q.total, i, j, row)]
                logits = []
                for j in seen:
                    v = float(queries[i][h] @ keys[j][h // group]) * unit
                    if cap:
                        v = cap * math.tanh(v / cap)
                    if fields["position_embedding_type"] == "alibi":
                        v += slope[h] * (j - p)
                    if fields["position_embedding_type"] == "alibi_with_scale":
                        v += unit * slope[h] * (j - p)
                    if fields["position_embedding_type"] == "relative":
                        table = inputs["relative_attention_bias"]
                        if "max_distance" in fields:
                            v += float(table[h, bucket(p - j, table.shape[1], fields["max_distance"],
                                                       fields["unidirectional"])])
                        else:
                            v += float(table[h, p, j])
                    logits.append(v)
                if not seen:
                    continue
                if "attention_sinks" in inputs:
                    logits.append(float(inputs["attention_sinks"][h]))
                weights = torch.softmax(torch.tensor(logits, dtype=torch.float64), 0)
                for j, w in zip(seen, weights.tolist()):
                    out[i, h] += w * values[j][h // group]
        results.append(out.reshape(q.new, heads * width))
    if packed:
        context = torch.cat(results)
    else:
        context = torch.zeros(count, longest, heads * width, dtype=torch.float64)
        for b, out in enumerate(results):
            context[b, :out.shape[0]] = out
    outputs = [context.to(dtype)] + ([new_cache] if cached else [])
    return Case(fields, inputs, outputs, slack=0.6, kernel_only=True)
