"""Makes tests/data/llm/sampling.json and beams.json: probabilities of next tokens, and beam searches, computed with numpy
from the formulas of runtime/llm/sampling.h and beam_search.h."""

import json
import os

import numpy as np

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "llm")
rng = np.random.default_rng(5)


def softmax(x):
    e = np.exp(x - np.max(x))
    return e / e.sum()


def processed(logits, c, history, prompt):
    l = logits.astype(np.float64)
    if c.get("temperature", 1) > 0:
        l = l / c.get("temperature", 1)
    r = c.get("repetitionPenalty", 1)
    for t in sorted(set(history)):
        l[t] = l[t] / r if l[t] > 0 else l[t] * r
    counted = history[min(c.get("promptIgnoreLength", 0), prompt):]
    for t in sorted(set(counted)):
        l[t] = l[t] - c.get("presencePenalty", 0) - c.get("frequencyPenalty", 0) * counted.count(t)
    if len(history) - prompt < c.get("minLength", 0):
        for t in [c.get("endId", -1)] + c.get("stopIds", []):
            if t >= 0:
                l[t] = -np.inf
    n = c.get("noRepeatNgramSize", 0)
    if n > 0:
        grams = [tuple(history[i:i + n]) for i in range(len(history) - n + 1)]
        for t in range(len(l)):
            if tuple((history + [t])[-n:]) in grams and len(history) + 1 >= n:
                l[t] = -np.inf
    for word in c.get("badWords", []):
        for t in range(len(l)):
            if (history + [t])[-len(word):] == word:
                l[t] = -np.inf
    return l


def distribution(logits, c, history, prompt):
    l = processed(logits, c, history, prompt)
    top_k, top_p, min_p = c.get("topK", 0), c.get("topP", 0), c.get("minP", 0)
    if c.get("temperature", 1) == 0 or (top_k == 0 and top_p == 0 and min_p == 0):
        return {int(np.argmax(l)): 1.0}
    for t in history[prompt:]:
        p0 = c.get("topP", 0)
        top_p = p0 if t == c.get("topPResetIds", -1) else max(top_p * c.get("topPDecay", 1), c.get("topPMin", 1e-6))
    if c.get("topP", 0) == 0:
        top_p = 1
    order = sorted(range(len(l)), key=lambda t: (-l[t], t))
    order = [t for t in order if l[t] > -np.inf]
    if top_k:
        order = order[:top_k]
    p = softmax(l[order])
    keep = len(order)
    if top_p < 1:
        keep = int(np.searchsorted(np.cumsum(p), top_p, side="right")) + 1
    kept = [i for i in range(min(keep, len(order))) if p[i] >= min_p * p[0]]
    q = p[kept] / p[kept].sum()
    return {order[i]: float(x) for i, x in zip(kept, q)}


def sampling_cases():
    configs = [
        {}, {"temperature": 0.0, "topK": 5}, {"topK": 1}, {"topK": 4}, {"topK": 100}, {"topP": 0.3}, {"topP": 0.8},
        {"topP": 1.0}, {"topP": 1.0, "temperature": 0.5}, {"topP": 1.0, "temperature": 3.0}, {"topK": 6, "topP": 0.7},
        {"minP": 0.2}, {"topP": 0.9, "minP": 0.3}, {"topK": 5, "topP": 0.9, "minP": 0.1},
        {"topP": 1.0, "repetitionPenalty": 1.7}, {"topP": 1.0, "repetitionPenalty": 0.6},
        {"topP": 1.0, "presencePenalty": 0.9}, {"topP": 1.0, "frequencyPenalty": 0.4},
        {"topP": 1.0, "presencePenalty": -0.5, "frequencyPenalty": -0.2},
        {"topP": 1.0, "presencePenalty": 0.9, "frequencyPenalty": 0.3, "promptIgnoreLength": 3},
        {"topP": 1.0, "presencePenalty": 0.9, "promptIgnoreLength": 100},
        {"topP": 1.0, "minLength": 100, "endId": 3, "stopIds": [5, 7]}, {"topP": 1.0, "minLength": 1, "endId": 3},
        {"topP": 1.0, "noRepeatNgramSize": 1}, {"topP": 1.0, "noRepeatNgramSize": 2},
        {"topP": 1.0, "noRepeatNgramSize": 3}, {"topP": 1.0, "noRepeatNgramSize": 50},
        {"topP": 1.0, "badWords": [[2], [1, 4], [0, 1, 2, 3]]},
        {"topP": 0.9, "topPDecay": 0.8}, {"topP": 0.9, "topPDecay": 0.5, "topPMin": 0.4},
        {"topP": 0.9, "topPDecay": 0.5, "topPResetIds": 2},
        {"topK": 7, "topP": 0.95, "minP": 0.05, "temperature": 0.7, "repetitionPenalty": 1.2, "presencePenalty": 0.3,
         "frequencyPenalty": 0.1, "noRepeatNgramSize": 3, "minLength": 20, "endId": 1, "badWords": [[6, 6]]},
    ]
    cases = []
    for config in configs:
        for _ in range(6):
            logits = rng.normal(0, 2, 12).astype(np.float32)
            if rng.integers(3) == 0:
                logits[rng.integers(12)] = logits[rng.integers(12)]  # a tie
            history = [int(t) for t in rng.integers(0, 8, rng.integers(1, 12))]
            prompt = int(rng.integers(1, len(history) + 1))
            if np.all(processed(logits, config, history, prompt) == -np.inf):
                continue
            d = distribution(logits, config, history, prompt)
            cases.append({"config": config, "logits": [float(x) for x in logits], "history": history, "prompt": prompt,
                          "tokens": list(d), "probabilities": list(d.values())})
    return cases


# Beam search step by step, by the definition; the model is a table of logits by the last two tokens.
def beam_search(table, c, prompt, most):
    width, penalty = c["beamWidth"], c.get("lengthPenalty", 0)
    rate, early = c.get("beamSearchDiversityRate", 0), c.get("earlyStopping", 1)

    def score(total, n):
        return total / n ** penalty

    live, finished = [(list(prompt), 0.0)], []
    for step in range(1, most + 1):
        candidates = []
        for b, (tokens, total) in enumerate(live):
            l = processed(table[tokens[-2], tokens[-1]], c, tokens, len(prompt))
            p = l - (np.max(l) + np.log(np.sum(np.exp(l - np.max(l)))))
            order = sorted(range(len(p)), key=lambda t: (-p[t], t))
            candidates += [(-(total + p[t] - rate * rank), b, t, total + p[t]) for rank, t in enumerate(order)
                           if p[t] > -np.inf]
        candidates.sort()
        nxt = []
        for place, (_, b, t, total) in enumerate(candidates):
            if len(nxt) == width:
                break
            tokens = live[b][0] + [t]
            if t == c.get("endId", -1) or t in c.get("stopIds", []):
                if place < width:
                    finished.append((score(total, step), tokens[len(prompt):], True))
                    finished.sort(key=lambda f: -f[0])
                    finished = finished[:width]
            else:
                nxt.append((tokens, total))
        live = nxt
        if not live:
            break
        if len(finished) == width:
            n = most if early not in (0, 1) and penalty > 0 else step
            if early == 1 or finished[-1][0] >= max(score(total, n) for _, total in live):
                break
        if step == most:
            finished += [(score(total, step), tokens[len(prompt):], False) for tokens, total in live]
            finished.sort(key=lambda f: -f[0])
            finished = finished[:width]
    return finished


def beam_cases():
    cases = []
    for i in range(60):
        vocabulary = int(rng.integers(3, 7))
        table = rng.normal(0, 1.5, (vocabulary, vocabulary, vocabulary)).astype(np.float32)
        c = {"beamWidth": int(rng.integers(2, 5)), "endId": 0, "lengthPenalty": float(rng.choice([0, 0.5, 1, 2, -0.5])),
             "earlyStopping": int(rng.integers(0, 3)), "beamSearchDiversityRate": float(rng.choice([0, 0, 0.5, 2]))}
        if i % 4 == 0:
            c["repetitionPenalty"] = 1.5
        if i % 4 == 1:
            c["minLength"] = 3
        if i % 4 == 2:
            c["stopIds"] = [1]
        prompt, most = [1, 2], int(rng.integers(1, 9))
        found = beam_search(table, c, prompt, most)
        cases.append({"config": c, "vocabulary": vocabulary, "table": [float(x) for x in table.ravel()], "most": most,
                      "scores": [f[0] for f in found], "texts": [f[1] for f in found], "ended": [f[2] for f in found]})
    return cases


def write(name, cases):
    with open(os.path.join(OUT, name), "w") as out:
        out.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")


os.makedirs(OUT, exist_ok=True)
write("sampling.json", sampling_cases())
write("beams.json", beam_cases())
