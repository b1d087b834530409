"""Trees of drafts, and sequences split among shards: see plugin_goldens.py."""
import torch

from plugin_goldens import Case, ints, plugin


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


@plugin("EagleDecodeDraftTokens")
def eagle_decode(r):
    all_trees, paths, drafts, length = trees(r)
    layer, vocabulary = r.randint(0, length - 2), r.randint(8, 12)
    before = r.ints(0, vocabulary - 1, len(all_trees), drafts, dtype=torch.int32)
    after, rows, counts = before.clone(), [], []
    for b, (parent, depth, _) in enumerate(all_trees):
        for node in sorted(n for n in parent if depth[n] == layer and n in parent.values()):
            rows.append(r.floats(vocabulary))
            best = torch.sort(rows[-1], descending=True, stable=True)[1]
            for i, child in enumerate(sorted(c for c in parent if parent[c] == node)):
                after[b, child - 1] = best[i]
        counts.append(sum(0 < depth[n] <= layer + 1 for n in parent))
    logits = torch.stack(rows) if rows else torch.zeros(0, vocabulary)
    return Case({"layer_idx": layer}, {"logits": logits, "paths": paths, "input_draft_token_ids": before},
                [after, ints(counts)], kernel_only=True)


@plugin("EagleSampleAndAcceptDraftTokens")
def eagle_accept(r):
    all_trees, paths, drafts, length = trees(r)
    vocabulary = r.randint(2, 4)
    tokens = r.ints(0, vocabulary - 1, len(all_trees), drafts, dtype=torch.int32)
    lens = [len(t[0]) - 1 for t in all_trees]
    logits = r.floats(sum(lens) + len(lens), vocabulary)
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
    return Case({}, {"logits": logits, "draft_tokens": tokens, "draft_lens": ints(lens), "paths": paths},
                [accepted, ints(counts), ints(chosen)], kernel_only=True)


@plugin("EaglePrepareDrafterInputs")
def eagle_prepare(r):
    all_trees, paths, _, length = trees(r)
    count = len(all_trees)
    chosen = [r.randrange(len(t[2])) for t in all_trees]
    counts = [r.randint(1, len(t[2][p])) for t, p in zip(all_trees, chosen)]
    tokens, seen = r.ints(0, 99, count, length, dtype=torch.int32), [r.randint(1, 50) for _ in range(count)]
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
    ends = [s + c for s, c in zip(seen, counts)]
    return Case({}, inputs, [ints(v) for v in (ids, positions, hidden, ends)], kernel_only=True)


@plugin("CpSplit")
def cp_split(r):
    ranks, lengths = r.randint(1, 4), [r.randint(0, 9) for _ in range(r.randint(1, 4))]
    rank, ids = r.randrange(ranks), r.ints(1, 99, sum(lengths), dtype=torch.int32)
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
    return Case({"cp_size": ranks, "cp_rank": rank}, {"input_ids": ids, "host_context_lengths": ints(lengths)},
                [ints(own), ints(places)], kernel_only=True)
