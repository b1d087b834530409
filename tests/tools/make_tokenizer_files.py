"""Makes tests/data/llm: a small byte-level BPE vocabulary in both of its file formats, trained on the project's
documentation, and what an independent encoder makes of some texts.

The encoder follows the description of GPT-2's public one: cut by a regular expression, write bytes as characters, merge
the pair of lowest rank everywhere in the word until no pair is left.
"""

import collections
import glob
import json
import os
import random
import re
import sys
import unicodedata

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
OUT = os.path.join(ROOT, "tests", "data", "llm")
MERGES = 400
END = "<|endoftext|>"


def char_class(first):
    """A regular expression class of the characters whose category begins with a letter; `re` knows no \\p."""
    out, start, last = [], None, None
    for c in range(0x110000):
        if 0xD800 <= c < 0xE000 or not unicodedata.category(chr(c)).startswith(first):
            continue
        if last is not None and c == last + 1:
            last = c
            continue
        if start is not None:
            out.append((start, last))
        start = last = c
    out.append((start, last))
    return "".join(f"\\U{a:08x}-\\U{b:08x}" for a, b in out)


L, N = char_class("L"), char_class("N")
# \s of the `regex` module: the property White_Space, which leaves out 1c to 1f.
S = "\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"
GPT2 = re.compile(f"'s|'t|'re|'ve|'m|'ll|'d| ?[{L}]+| ?[{N}]+| ?[^{S}{L}{N}]+|[{S}]+(?![^{S}])|[{S}]+")


def words(digits):
    return re.compile(f"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\\r\\n{L}{N}]?[{L}]+|{digits}"
                      f"| ?[^{S}{L}{N}]+[\\r\\n]*|[{S}]*[\\r\\n]+|[{S}]+(?![^{S}])|[{S}]+")


PATTERNS = {"gpt2": GPT2, "word_digit": words(f"[{N}]"), "word_digits3": words(f"[{N}]{{1,3}}")}


def alphabet():
    plain = list(range(ord("!"), ord("~") + 1)) + list(range(0xA1, 0xAC + 1)) + list(range(0xAE, 0xFF + 1))
    table, n = {b: chr(b) for b in plain}, 0
    for b in range(256):
        if b not in table:
            table[b] = chr(256 + n)
            n += 1
    return table


ALPHABET = alphabet()


def write_bytes(word):
    return tuple(ALPHABET[b] for b in word.encode("utf-8"))


def join(symbols, pair):
    out, i = [], 0
    while i < len(symbols):
        if symbols[i:i + 2] == pair:
            out.append(pair[0] + pair[1])
            i += 2
        else:
            out.append(symbols[i])
            i += 1
    return tuple(out)


def train(text):
    counts = collections.Counter(write_bytes(w) for w in GPT2.findall(text))
    merges = []
    while len(merges) < MERGES:
        pairs = collections.Counter()
        for symbols, n in counts.items():
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] += n
        best = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(best)
        joined = collections.Counter()
        for symbols, n in counts.items():
            joined[join(symbols, best)] += n
        counts = joined
    return merges


def encode(text, vocab, ranks, pattern, specials=True):
    ids = []
    for i, part in enumerate(text.split(END) if specials else [text]):
        if i:
            ids.append(vocab[END])
        for word in pattern.findall(part):
            symbols = write_bytes(word)
            while len(symbols) > 1:
                pair = min(zip(symbols, symbols[1:]), key=lambda p: ranks.get(p, sys.maxsize))
                if pair not in ranks:
                    break
                symbols = join(symbols, pair)
            ids += [vocab[s] for s in symbols]
    return ids


def random_texts(count):
    rng = random.Random(7)
    pieces = ["the", " graph", "Tensor", "'s", "'re", "'VE", "'ll", "'", "''d", " ", "  ", "   ", "\n", "\r\n", "\n\n", "\t", " \n ",
              "1", "12", "12345", " 7", "½", "Ⅷ", "٣", "é", "e\u0301", "Ünï", "ß", "中文", "日本語", "한국", "Ω", "ǅ", "ʰ",
              "🙂", "👩‍👩‍👧", "\u00a0", "\u3000", "\u2028", "\u200b", "\x1c", "\x85", "_", "%x.1", "::", "->", "()", "...",
              "!", "?!", "#", "aaaaaaa", "abababab", END, "<|endof", "\u07ff", "\uffff", "\U0010ffff", "ﬁ", "ª"]
    return ["".join(rng.choice(pieces) for _ in range(rng.randint(1, 14))) for _ in range(count)]


def main():
    os.makedirs(OUT, exist_ok=True)
    docs = sorted(glob.glob(os.path.join(ROOT, "docs", "*.md")))[:6]
    text = "".join(open(d, encoding="utf-8").read() for d in docs)
    merges_file = os.path.join(OUT, "merges.txt")
    if "--train" in sys.argv or not os.path.exists(merges_file):
        merges = train(text)
        with open(merges_file, "w", encoding="utf-8") as out:
            out.write("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    else:  # documents change, the tests do not
        lines = open(merges_file, encoding="utf-8").read().split("\n")[1:-1]
        merges = [tuple(line.split(" ")) for line in lines]
    tokens = [ALPHABET[b] for b in sorted(ALPHABET, key=lambda b: ALPHABET[b])] + [a + b for a, b in merges] + [END]
    vocab = {t: i for i, t in enumerate(tokens)}
    with open(os.path.join(OUT, "vocab.json"), "w", encoding="utf-8") as out:
        json.dump(vocab, out, ensure_ascii=False)
    plain = {t: i for t, i in vocab.items() if t != END}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": vocab[END], "content": END, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True}],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                  "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "vocab": plain,
                  "merges": [f"{a} {b}" for a, b in merges]},
    }
    with open(os.path.join(OUT, "tokenizer.json"), "w", encoding="utf-8") as out:
        json.dump(tokenizer, out, ensure_ascii=False, indent=0)

    ranks = {m: i for i, m in enumerate(merges)}
    texts = ["", "Hello, world!", "I'm sure they'll say we've 1234 tokens.", f"one{END}two{END}", text[:1500], text[-600:]]
    texts += random_texts(150)
    cases = []
    for t in texts:
        case = {"text": t, "plain": encode(t, vocab, ranks, GPT2, specials=False)}
        for name, pattern in PATTERNS.items():
            case[name] = encode(t, vocab, ranks, pattern)
        cases.append(case)
    with open(os.path.join(OUT, "encodings.json"), "w", encoding="utf-8") as out:
        out.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")


main()
