#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/golden/text: small tokenizers of the kinds that models come with, and what Hugging Face's
`tokenizers` makes of texts with them. gpuworker/text is tested against them.

    pip install tokenizers
    python tools/golden/make_text_golden.py              # writes the files
    python tools/golden/make_text_golden.py --check PROGRAM
        # compares PROGRAM (build/release/bin/tokenize_lines) with the package on 20,000 other texts of each kind
    python tools/golden/make_text_golden.py --speed PROGRAM    # megabytes a second on one core, and the package's
    python tools/golden/make_text_golden.py --unicode    # prints the ranges of gpuworker/text/hf/new_characters.cc
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import textwrap
import time
import unicodedata
import zlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests/data/golden/text"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
MISTRAL_NEMO = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PHRASES = [
    "the quick brown fox jumps over lazy dogs and it's what we'll do I'VE don't store pages of keys and values",
    "Быстрая коричневая лиса прыгает через ленивую собаку",
    "敏捷的棕色狐狸跳过懒狗 数据 存储 系统 中文",
    "素早い茶色の狐が怠け者の犬を飛び越える カタカナ ひらがな",
    "빠른 갈색 여우가 게으른 개를 뛰어넘는다",
    "الثعلب البني السريع يقفز فوق الكلب الكسول",
    "השועל החום המהיר קופץ מעל הכלב העצלן",
    "तेज़ भूरी लोमड़ी आलसी कुत्ते के ऊपर कूदती है",
    "สุนัขจิ้งจอกสีน้ำตาลกระโดดข้ามสุนัขขี้เกียจ",
    "γρήγορη καφέ αλεπού πηδά πάνω από",
    "café déjà vu naïve Ångström é ﬁ ½ ① ２３",
    "0 1 22 333 4444 55555 3.14159 1,000,000 2026-11-28",
    "def f(x):\n    return x+1  # comment\n\tif (a==b){c;}\r\n",
    "🙂 👍🏽 👨‍👩‍👧‍👦 🇩🇪 ❤️ ✨",
    "<|im_end|> <s> </s> [INST] <|im_start|>",
    " \t  \n\n   \r\n \u00a0 \u2003 \u3000 \u0085 \u200b \u2028",
]
EDGES = [
    "", " ", "  ", "\n", "▁", "▁▁ a", " ▁", " " * 70, "a" * 300, "ab" * 200, "\u00e9" * 100, "e\u0301" * 20, "<s>",
    "<s> x </s>", " hello hello! xhello", " <mask>  <mask> b", "'S 'LL '\u017f", "\x00\x01\x7f", "\u1c89\U00031350\u0897",
    "a\U00011a34\u0335 \u1abf\u0301",
]  # fmt: skip


def sentence(rng):
    words = [rng.choice(rng.choice(PHRASES).split(" ")) for _ in range(rng.randint(1, 12))]
    return rng.choice([" ", " ", "  ", "\n"]).join(words)


def noise(rng):
    kinds = [
        lambda: chr(rng.randint(32, 126)), lambda: chr(rng.randint(0, 31)), lambda: chr(rng.randint(0xA0, 0x24F)),
        lambda: chr(rng.randint(0x300, 0x36F)), lambda: chr(rng.randint(0x370, 0xD7FF)),
        lambda: chr(rng.randint(0xE000, 0xFFFD)), lambda: chr(rng.randint(0x10000, 0x323FF)), lambda: " ", lambda: "\n",
        lambda: rng.choice(["<|im_start|>", "<s>", " <mask> ", "<think>", "hello", "'s", "'LL", "e\u0301"]),
    ]  # fmt: skip
    return "".join(rng.choice(kinds)() for _ in range(rng.randint(0, 40)))


def texts(seed, count):
    rng = random.Random(seed)
    return EDGES + PHRASES + [rng.choice([sentence, noise])(rng) for _ in range(count)]


def special(*names):
    return [AddedToken(name, normalized=False, special=True) for name in names]


def bos_template(tokenizer, bos):
    return processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, tokenizer.token_to_id(bos))]
    )


def byte_level(corpus, size, pre, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def split_bytes(expression):
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(expression), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def characters(corpus, size):
    """A vocabulary as SentencePiece makes them: characters, with bytes for those that are none."""
    names = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    trainer = trainers.BpeTrainer(vocab_size=size, limit_alphabet=120, special_tokens=names, show_progress=False)
    lines = [line for text in corpus for line in text.splitlines()]  # SentencePiece reads lines: no token has an end
    trained.train_from_iterator(lines, trainer)
    model = json.loads(trained.to_str())["model"]
    merges = [tuple(merge) for merge in model["merges"]]
    tokenizer = Tokenizer(
        models.BPE(vocab=model["vocab"], merges=merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(special("<unk>", "<s>", "</s>"))
    tokenizer.post_processor = bos_template(tokenizer, "<s>")
    return tokenizer


def families():
    rng = random.Random(5)
    corpus = [sentence(rng) for _ in range(8000)]
    made = {}

    llama3 = byte_level(corpus, 900, split_bytes(LLAMA3), ignore_merges=True)
    llama3.add_special_tokens(special("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"))
    llama3.post_processor = processors.Sequence(
        [processors.ByteLevel(trim_offsets=False), bos_template(llama3, "<|begin_of_text|>")]
    )
    made["llama3"] = llama3

    qwen = byte_level(corpus, 900, split_bytes(QWEN))
    qwen.normalizer = normalizers.NFC()
    qwen.add_special_tokens(special("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    qwen.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    made["qwen"] = qwen

    nemo = byte_level(corpus, 900, split_bytes(MISTRAL_NEMO), ignore_merges=True)
    nemo.add_special_tokens(special("<s>", "</s>", "[INST]", "[/INST]"))
    nemo.post_processor = bos_template(nemo, "<s>")
    made["mistral_nemo"] = nemo

    gpt2 = byte_level(corpus, 700, pre_tokenizers.ByteLevel(add_prefix_space=True))
    gpt2.add_special_tokens(special("<|endoftext|>"))
    gpt2.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=True, special=True)])
    gpt2.add_tokens([AddedToken("hello", single_word=True, normalized=True)])
    made["gpt2"] = gpt2

    llama2 = characters(corpus, 900)
    llama2.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made["llama2"] = llama2

    mistral = characters(corpus, 900)
    mistral.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    made["mistral"] = mistral
    return made


def encode(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


def crc(ids):
    return zlib.crc32(",".join(map(str, ids)).encode())


def write():
    GOLDEN.mkdir(parents=True, exist_ok=True)
    cases = texts(seed=7, count=180)
    long_text = " ".join(text.replace("\n", " ") for text in cases) * 60
    golden = {"texts": cases, "long_repeats": 60, "long_bytes": len(long_text.encode()), "families": {}}
    for name, tokenizer in families().items():
        tokenizer.save(str(GOLDEN / f"{name}.json"), pretty=False)
        ids = [encode(tokenizer, text) for text in cases]
        long_ids = encode(tokenizer, long_text)
        golden["families"][name] = {
            "ids": ids,
            "decoded": [tokenizer.decode(i) for i in ids],
            "with_special": tokenizer.encode("a text").ids,
            "long_count": len(long_ids),
            "long_crc32": crc(long_ids),
        }
    (GOLDEN / "encodings.json").write_text(json.dumps(golden, separators=(",", ":")))


def check(program):
    """Compares a program that reads texts in hexadecimal, a line each, and prints ids and decoded text."""
    cases = texts(seed=11, count=20000)
    lines = "\n".join(text.encode().hex() for text in cases) + "\n"
    for name, tokenizer in families().items():
        out = subprocess.run(
            [program, str(GOLDEN / f"{name}.json")], input=lines, capture_output=True, text=True, check=True
        )
        got = out.stdout.split("\n")
        for text, line in zip(cases, got, strict=False):
            ids = encode(tokenizer, text)
            want = " ".join(map(str, ids)) + "\t" + tokenizer.decode(ids).encode().hex()
            assert line == want, f"{name}: {text!r}: {line} instead of {want}"
        print(f"{name}: {len(cases)} texts, {sum(len(text.encode()) for text in cases)} bytes: equal")


def speed(program):
    """Texts of 64 KiB in all scripts. Both take the shortest of five times on one thread."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    rng, cases = random.Random(17), []
    while len(cases) < 128:
        text = ""
        while len(text.encode()) < 1 << 16:
            text += "".join(sentence(rng) + ". " for _ in range(40))
        cases.append(text)
    megabytes = sum(len(text.encode()) for text in cases) / 1e6
    lines = "\n".join(text.encode().hex() for text in cases) + "\n"
    for name, tokenizer in families().items():
        command = [program, str(GOLDEN / f"{name}.json"), "--seconds"]
        ours = float(subprocess.run(command, input=lines, capture_output=True, text=True, check=True).stdout)
        theirs = []
        for _ in range(5):
            begin = time.perf_counter()
            for text in cases:
                tokenizer.encode(text, add_special_tokens=False)
            theirs.append(time.perf_counter() - begin)
        print(f"{name}: {megabytes / ours:.1f} MB/s, tokenizers {megabytes / min(theirs):.1f} MB/s")


def print_ranges(name, codes):
    ranges = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    words = [f"{low:X}-{high:X}" if low != high else f"{low:X}" for low, high in ranges]
    print(name, *textwrap.wrap(" ".join(words), width=84), sep="\n  ")


def is_new_mark(code):
    """Python 3.11 knows Unicode 14, as utf8proc 2.8 does."""
    character, other = chr(code), "\u0335" if unicodedata.combining(chr(code)) > 1 else "\u0301"
    text = "a" + character + other if other == "\u0335" else "a" + other + character
    moves = unicodedata.combining(character) > 0
    return moves and normalizers.NFC().normalize_str(text) != unicodedata.normalize("NFC", text)


def print_unicode():
    print_ranges("new marks", [code for code in range(0x110000) if is_new_mark(code)])
    for category in ["L", "Lu", "Ll", "Lm", "Lo", "M", "N", "Nd"]:
        splitter = pre_tokenizers.Split(Regex(rf"\p{{{category}}}"), "removed")
        codes = (code for code in range(0x110000) if not 0xD800 <= code < 0xE000)
        codes = (code for code in codes if not unicodedata.category(chr(code)).startswith(category))
        print_ranges(category, (code for code in codes if not splitter.pre_tokenize_str(chr(code))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", metavar="PROGRAM")
    parser.add_argument("--speed", metavar="PROGRAM")
    parser.add_argument("--unicode", action="store_true")
    args = parser.parse_args()
    if args.unicode:
        print_unicode()
    elif args.check:
        check(args.check)
    elif args.speed:
        speed(args.speed)
    else:
        write()


if __name__ == "__main__":
    main()
