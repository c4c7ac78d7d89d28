"""Writes ../serving/tests/fixtures/tokenizers.json: what llama.cpp makes of texts, by small vocabularies of each kind.

    pip install gguf tokenizers sentencepiece xllamacpp;  python tokenizers_fixture.py [TEXTS]

The vocabularies are trained here on the project's documents. For each case, a file of GGUF with a random model has the
vocabulary, and llama.cpp's server tokenizes the texts, with the tokens around them. `unigram` and `llama2` are
tokenizer.json of the same pieces, by the Python package tokenizers. With TEXTS, a number, random texts are added, and
the result goes to /tmp/tokenizers.json.
"""

import io
import json
import pathlib
import random
import sys
import tempfile
import urllib.request

import gguf
import numpy
import sentencepiece
import xllamacpp
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).parent
DOCUMENTS = ["README.md", "docs/serving.md", "docs/language.md", "docs/glossary.md"]
OTHERS = [
    "naïve café Zürich Größe über straße",
    "Привет, мир! Как дела?",
    "日本語のテキストと中文文本",
    "مرحبا بالعالم हिन्दी में पाठ",
    "🦀🦀 emoji 👩‍👩‍👧",
    "It's we're I'll DON'T you'VE 1234567890 3.14159 2026-11-28",
]
TEXTS = [
    "",
    " ",
    "Hello world",
    " Hello  world ",
    "   three\n\n\n  lines\r\n\tand tabs\t\t",
    "It's DON'T you'VE I'LLx 'tis ''s",
    "1 12 123 1234 12345678 3.14159 1e-9 ٣٤٥ ½",
    "naïve café Zürich GRÖSSE straße e\u0301 Ａ",
    "Привет, МИР! Как дела?",
    "日本語のテキスト、中文文本。한국어",
    "مرحبا بالعالم हिन्दी में पाठ ไทย",
    "🦀🦀 👩‍👩‍👧 \u200b\ufeff\u00a0x",
    "fn main() { let x = [1, 2]; // ok\n    println!(\"{x:?}\"); }",
    "a<|x|>b <|x|> c<s>d</s><unk> <0x41><think>",
    "<|begin|>Hello<|end|>\n<|end|> <|x|>",
    "https://example.org/a/b?c=d&e=f#g ~/.config/x_y-z",
    "CamelCaseWords HTTPServer iPhone éÉ ÀB",
    "▁ ▁▁ under_score __init__",
    "$5.00 + €3 = ? !! ... -- ==> `code` ^_^ |x|",
    "\x00\x01\x7f ends\n",
]


def alphabet():
    pieces = list("abcdefghijklmnopqrstuvwxyzABCDEFXYZ0123456789     \n\t.,!?'\"-_/()<>|$%éßüЖяש中文日本한🦀\u0301\u200b▁")
    return pieces + ["the", " the", "<|x|>", "<s>", "  ", "\r\n", "'s", "'LL", "<|end|>"]


def byte_level(lines):
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(r"\p{N}{1,3}| ?\p{L}+|[^\p{L}\p{N}]+"), "isolated")
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, level])
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=560, initial_alphabet=letters, show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    tokens = [token for token, _ in sorted(model["vocab"].items(), key=lambda item: item[1])]
    # A word whose merges are missing, for those that ignore them.
    tokens.append("Ġlayer!?")
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    types = [1] * len(tokens) + [3, 3, 3, 4]
    return {"tokens": tokens + ["<|begin|>", "<|end|>", "<|x|>", "<think>"], "types": types, "merges": merges}


def sentence_piece(lines):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=620, model_type="bpe", byte_fallback=True,
        character_coverage=0.98, normalization_rule_name="identity", remove_extra_whitespaces=False,
        user_defined_symbols=["<|x|>"], minloglevel=2,
    )
    of = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    ids = range(of.vocab_size())
    kind = lambda i: 2 if of.is_unknown(i) else 3 if of.is_control(i) else 6 if of.is_byte(i) else 4 if i == 3 else 1
    scores = [float(numpy.float32(of.get_score(i))) for i in ids]
    return {"tokens": [of.id_to_piece(i) for i in ids], "types": [kind(i) for i in ids], "scores": scores}


def write(path, model, vocabulary, pre, keys):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(4096)
    writer.add_embedding_length(32)
    writer.add_block_count(1)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model(model)
    if pre is not None:
        writer.add_tokenizer_pre(pre)
    writer.add_token_list(vocabulary["tokens"])
    writer.add_token_types(vocabulary["types"])
    if model == "gpt2":
        writer.add_token_merges(vocabulary["merges"])
        writer.add_bos_token_id(vocabulary["tokens"].index("<|begin|>"))
        writer.add_eos_token_id(vocabulary["tokens"].index("<|end|>"))
    else:
        writer.add_token_scores(vocabulary["scores"])
    for key, value in keys.items():
        writer.add_bool(f"tokenizer.ggml.{key}", value)
    writer.add_chat_template("{{ messages[0].content }}")
    tensor = lambda name, *shape: writer.add_tensor(name + ".weight", numpy.zeros(shape, numpy.float32))
    tensor("token_embd", len(vocabulary["tokens"]), 32)
    for name in ["output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"]:
        tensor(name, 32)
    for name in ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]:
        tensor(f"blk.0.{name}", 32, 32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def by_llama_cpp(path, texts):
    options = xllamacpp.CommonParams()
    options.model.path = str(path)
    options.n_ctx, options.warmup, options.fit_params, options.verbosity = 256, False, False, -1
    server = xllamacpp.Server(options)

    def tokens(text):
        body = json.dumps({"content": text, "add_special": True, "parse_special": True}).encode()
        request = urllib.request.Request(server.listening_address + "/tokenize", body, {"content-type": "application/json"})
        return json.load(urllib.request.urlopen(request))["tokens"]

    return [tokens(text) for text in texts]


def merges(vocabulary):
    """Pairs by the score of what they merge to, as transformers derives them."""
    tokens, scores = vocabulary["tokens"], vocabulary["scores"]
    ids = {token: id for id, token in enumerate(tokens)}
    pairs = []
    for token, score, kind in zip(tokens, scores, vocabulary["types"]):
        parts = [(token[:at], token[at:]) for at in range(1, len(token)) if kind == 1]
        parts = [pair for pair in parts if pair[0] in ids and pair[1] in ids]
        pairs += [(score, pair) for pair in sorted(parts, key=lambda pair: (ids[pair[0]], ids[pair[1]]))]
    return [pair for _, pair in sorted(pairs, key=lambda pair: -pair[0])]


def by_tokenizers(kind, vocabulary):
    tokens, scores = vocabulary["tokens"], vocabulary["scores"]
    if kind == "unigram":
        model = models.Unigram(list(zip(tokens, scores)), unk_id=0, byte_fallback=True)
        tokenizer = Tokenizer(model)
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        space = decoders.Replace("▁", " ")
    else:
        ids = {token: id for id, token in enumerate(tokens)}
        model = models.BPE(ids, merges(vocabulary), unk_token="<unk>", fuse_unk=True, byte_fallback=True)
        tokenizer = Tokenizer(model)
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        space = decoders.Replace("▁", " ")
    tokenizer.decoder = decoders.Sequence([space, decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    special = [AddedToken(token, special=True, normalized=False) for token in ["<unk>", "<s>", "</s>"]]
    tokenizer.add_special_tokens(special)
    return tokenizer


CASES = [
    *[("gpt2", pre, {}) for pre in [
        None, "default", "llama-bpe", "smaug-bpe", "qwen2", "qwen35", "tekken", "gpt-2", "smollm", "deepseek-coder",
        "deepseek-v3", "gpt-4o", "seed-coder", "minicpm5", "deepseek-llm", "viking",
    ]],
    ("gpt2", "llama-bpe", {"add_bos_token": False}),
    ("gpt2", "qwen2", {"add_bos_token": True, "add_eos_token": True}),
    ("llama", None, {}),
    ("llama", None, {"add_space_prefix": False, "add_bos_token": False}),
    ("llama", None, {"add_eos_token": True}),
]

lines = [line for name in DOCUMENTS for line in (HERE.parents[2] / name).read_text().splitlines()] + 20 * OTHERS
texts, path = TEXTS, HERE.parent / "serving/tests/fixtures/tokenizers.json"
if len(sys.argv) > 1:
    draw, path = random.Random(1), pathlib.Path("/tmp/tokenizers.json")
    texts = TEXTS + ["".join(draw.choices(alphabet(), k=draw.randrange(40))) for _ in range(int(sys.argv[1]))]
vocabularies = {"gpt2": byte_level(lines), "llama": sentence_piece(lines)}
cases = []
for model, pre, keys in CASES:
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "model.gguf"
        write(file, model, vocabularies[model], pre, keys)
        cases.append({"model": model, "pre": pre or "", "keys": keys, "tokens": by_llama_cpp(file, texts)})
    print(model, pre, keys, sum(map(len, cases[-1]["tokens"])))
files = {}
for kind in ["unigram", "llama2"]:
    tokenizer = by_tokenizers(kind, vocabularies["llama"])
    encoded = [tokenizer.encode(text).ids for text in texts]
    decoded = [tokenizer.decode(ids, skip_special_tokens=False) for ids in encoded]
    files[kind] = {"json": json.loads(tokenizer.to_str()), "tokens": encoded, "texts": decoded}
result = {"vocabularies": vocabularies, "texts": texts, "cases": cases, "files": files}
path.parent.mkdir(exist_ok=True)
path.write_text(json.dumps(result, ensure_ascii=False, separators=(",", ":")) + "\n")
