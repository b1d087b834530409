"""Makes tests/data/llm/word_encodings.json: what Hugging Face's `tokenizers` makes of texts with small vocabularies of words, parts
of words and pieces with scores, and their normalizers. Needs the packages `tokenizers` and `sentencepiece`, whose trainer writes
the table of characters."""

import itertools
import json
import os
import tempfile

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "llm", "word_encodings.json")
TEXTS = ["the graph, it isn't", "  A\tÉTÉ\n\nGraph's  ", "ﬁt 中文 graphs ½", "a\u0301 İx Å\u0323 \u200bq\u00a0the", "", "  ",
         "<s>the </s> <mask> graph the", "thegraph the.graph _a1 23 4", "a" * 12, "▁the ▁▁graph", "क्षि Σς 😀 xthe graph",
         "a\x0bt\x0cthe\x85graph\tn\x1f"]
WORDS = ["<unk>", "<s>", "</s>", "the", "graph", "a", "it", "is", "##n", "'", "t", "##s", "##graph", "fit", "##fit", "中", ",", "ete",
         "É", "##T", "##a", "2", "3", "4", ".", "_", "i", "x", "A", "s", "Graph", "n", "fi", "##t", "ﬁt"]
PIECES = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), ("▁", -2.0), ("▁the", -3.0), ("▁graph", -3.5), ("t", -5.0), ("h", -5.5),
          ("e", -4.0), ("a", -4.5), ("th", -6.0), ("the", -9.5), ("graph", -7.0), ("gr", -6.0), ("aph", -6.5), ("s", -5.0),
          ("▁a", -4.0), ("fi", -5.0), ("'", -5.0), ("it", -6.0), ("▁it", -5.5), ("is", -6.0), ("n", -5.0), ("aa", -7.0),
          ("i", -6.0), ("x", -6.0), ("<0xC3>", -8.0), ("<0x89>", -8.0), ("▁▁", -5.0), ("A", -6.0), ("q", -7.0), (",", -4.0)]


def character_table():
    """Of SentencePiece, as its models have it."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2
    rules = {"\ufb01": "fi", "\u0041\u0301": "\u00c1", "\u00bd": "1/2", "\u3000": " ", "\u00a0": " ", "\u200b": "",
             "\u0061\u0301": "a", "\u00c5": "a"}
    with tempfile.TemporaryDirectory() as folder:
        table, text, model = (os.path.join(folder, n) for n in ("rules.tsv", "text", "model"))
        with open(table, "w", encoding="utf-8") as out:
            for a, b in rules.items():
                out.write("%s\t%s\n" % (" ".join(f"{ord(c):X}" for c in a), " ".join(f"{ord(c):X}" for c in b)))
        with open(text, "w", encoding="utf-8") as out:
            out.write("the graph of the tests\n" * 20)
        sentencepiece.SentencePieceTrainer.train(input=text, model_prefix=model, vocab_size=20, model_type="char",
                                                 normalization_rule_tsv=table, minloglevel=2)
        read = sentencepiece_model_pb2.ModelProto()
        with open(model + ".model", "rb") as file:
            read.ParseFromString(file.read())
        return read.normalizer_spec.precompiled_charsmap


def words(model, normalizer=None, cut=None, decoder=None, frame=None):
    t = Tokenizer(model)
    if normalizer:
        t.normalizer = normalizer
    if cut:
        t.pre_tokenizer = cut
    if decoder:
        t.decoder = decoder
    t.add_special_tokens(["<s>", "</s>", AddedToken("<mask>", lstrip=True, rstrip=True, special=True)])
    if frame:
        t.post_processor = frame
    return t


def kinds():
    numbers = {w: i for i, w in enumerate(WORDS)}
    table = normalizers.Precompiled(character_table())
    for lowers, strips in ((True, None), (True, False), (False, True)):
        yield words(models.WordPiece(numbers, unk_token="<unk>"), normalizers.BertNormalizer(lowercase=lowers, strip_accents=strips),
                    pre_tokenizers.BertPreTokenizer(), decoders.WordPiece(), processors.BertProcessing(("</s>", 2), ("<s>", 1)))
    yield words(models.WordPiece(numbers, unk_token="<unk>", max_input_chars_per_word=5),
                normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()]),
                pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)]),
                decoders.WordPiece(cleanup=False))
    ends = {t: i for i, t in enumerate(["<unk>", "<s>", "</s>", "t", "h", "e", "e</w>", "a", "a</w>", "g", "r", "p", "s</w>", "it</w>",
                                        "i", "t</w>", "th", "the</w>", "gr", "gra", "ph", "h</w>", "ph</w>", "graph</w>", ",</w>"])}
    yield words(models.BPE(ends, [("t", "h"), ("th", "e</w>"), ("g", "r"), ("gr", "a"), ("p", "h</w>"), ("gra", "ph</w>"),
                                  ("i", "t</w>")], unk_token="<unk>", end_of_word_suffix="</w>"),
                normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer(), decoders.BPEDecoder(suffix="</w>"))
    yield words(models.WordLevel(numbers, unk_token="<unk>"), normalizers.NFKC(),
                pre_tokenizers.Sequence([pre_tokenizers.Punctuation(), pre_tokenizers.WhitespaceSplit()]))
    for bytes_, cut in ((False, pre_tokenizers.Metaspace()), (True, pre_tokenizers.Metaspace(prepend_scheme="first", split=False))):
        yield words(models.Unigram(PIECES, 0, bytes_),
                    normalizers.Sequence([table, normalizers.Strip(False, True), normalizers.Replace(Regex(" {2,}"), "▁")]), cut,
                    decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                       decoders.Strip(" ", 1, 0)]), processors.TemplateProcessing("$A </s>",
                                                                                                 special_tokens=[("</s>", 2)]))
    metaspace = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    yield words(models.Unigram(PIECES, 0, False),
                normalizers.Sequence([normalizers.Nmt(), normalizers.Replace("''", '"'), normalizers.NFKD(),
                                      normalizers.StripAccents()]), metaspace,
                decoders.Metaspace())
    yield words(models.Unigram(PIECES, 0, False), normalizers.Strip(), pre_tokenizers.Metaspace(prepend_scheme="first"),
                decoders.Metaspace(prepend_scheme="first"))
    single = words(models.Unigram(PIECES, 0, False), None, metaspace, decoders.Metaspace())
    single.add_tokens([AddedToken("the", single_word=True), AddedToken("graph", rstrip=True, normalized=True)])
    yield single


def cuts():
    """Several pre_tokenizers one after the other, as Falcon, StarCoder, DeepSeek and CLIP have them, and others."""
    p = pre_tokenizers
    bytes_ = p.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = sorted({c for part, _ in bytes_.pre_tokenize_str(" ".join(TEXTS[:5] + TEXTS[6:8])) for c in part})

    def of_bytes(cut, end="", begin=""):
        texts = ["<unk>", "<s>", "</s>"] + [x for c in alphabet for x in dict.fromkeys((c, c + end, begin + c))]
        merges = [("t", begin + "h"), ("th", begin + "e" + end), ("Ġ", begin + "t"), ("2", begin + "3" + end), ("Ġ", begin + "Ġ")]
        texts += [a + b[len(begin):] for a, b in merges]
        model = models.BPE({t: i for i, t in enumerate(texts)}, merges, unk_token="<unk>",
                           **({"end_of_word_suffix": end} if end else {}), **({"continuing_subword_prefix": begin} if begin else {}))
        return words(model, None, cut, decoders.ByteLevel())

    yield of_bytes(p.Sequence([p.Punctuation("contiguous"), p.ByteLevel(add_prefix_space=False), p.Digits(),
                               p.Split(Regex("[0-9][0-9][0-9]"), "isolated")]))
    yield of_bytes(p.Sequence([p.Split(Regex("[\r\n]"), "isolated"), p.Split(Regex(r"\s?\p{L}+"), "isolated"),
                               p.Split(Regex(r"\s?\p{P}+"), "isolated"), p.Digits(individual_digits=True), bytes_]))
    yield of_bytes(p.Sequence([p.Split(Regex(r"'s|'t|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True),
                               p.ByteLevel(add_prefix_space=False)]), end="</w>")
    yield of_bytes(p.ByteLevel(), begin="##")
    yield of_bytes(p.Sequence([p.WhitespaceSplit(), p.ByteLevel(add_prefix_space=True)]))
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        yield of_bytes(p.Sequence([p.Split(Regex(r"\W|\x{74}"), behavior, invert=behavior == "isolated"), p.Punctuation(behavior), bytes_]))
        yield of_bytes(p.Sequence([p.Split(" ", behavior), p.Split("h", behavior, invert=behavior != "removed"), bytes_]))
    yield of_bytes(p.Sequence([p.CharDelimiterSplit("t"), p.FixedLength(3), bytes_]))


def main():
    rows = []
    for t in itertools.chain(kinds(), cuts()):
        encoded = [t.encode(text).ids for text in TEXTS]
        rows.append({"tokenizer": t.to_str(), "texts": [{"text": text, "tokens": tokens,
                                                         "decoded": t.decode(tokens, skip_special_tokens=False)}
                                                        for text, tokens in zip(TEXTS, encoded)]})
    with open(OUT, "w", encoding="utf-8") as out:
        out.write("[\n" + ",\n".join(json.dumps(r, separators=(",", ":"), ensure_ascii=False) for r in rows) + "\n]\n")


main()
