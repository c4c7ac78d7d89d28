"""Writes what transformers computes in float32 for the models of ../fixtures.

    python oracle.py        torch 2.15, transformers 5.23, on the CPU

Each folder of fixtures has a config.json. Weights are random: src/weights/random.rs makes the same
numbers. The result is expected.json: greedy tokens of each prompt, their log-probabilities, and the
log-probabilities of the prompt's own tokens.
"""

import json
import pathlib

import numpy
import torch
from transformers import AutoConfig, AutoModelForCausalLM

SEED = 1
MASK = (1 << 64) - 1
PERIOD = 1 << 22
PROMPTS = [[7 * i * i % 509 for i in range(1, 38)], [3, 1, 4, 1, 5], [400]]
TOKENS = 24


def mix(x):
    x = (x + numpy.uint64(0x9E3779B97F4A7C15)) & numpy.uint64(MASK)
    x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return x ^ (x >> numpy.uint64(31))


def random(name, shape):
    key = 0xCBF29CE484222325
    for byte in name.encode():
        key = ((key ^ byte) * 0x100000001B3) & MASK
    key = mix(numpy.array([key ^ SEED], numpy.uint64))[0]
    scale, offset = numpy.sqrt(numpy.float32(3) / numpy.float32(shape[-1])), 0
    if name.endswith(("A_log", "dt_bias")):
        scale = 1
    elif name.endswith(("norm.weight", "layernorm.weight")):
        scale, offset = 0.5, 1
    elif name.endswith("conv1d.weight"):
        scale = 0.5
    at = numpy.arange(numpy.prod(shape), dtype=numpy.uint64) % numpy.uint64(PERIOD)
    bits = mix(key + at) >> numpy.uint64(40)
    unit = bits.astype(numpy.float32) * numpy.float32(2**-23) - numpy.float32(1)
    return torch.from_numpy((numpy.float32(offset) + numpy.float32(scale) * unit).reshape(shape))


def canonical(name):
    for prefix in ["model.language_model.", "model."]:
        if name.startswith(prefix):
            return name[len(prefix) :]
    return name


def rounded(values):
    return [round(float(value), 5) for value in values]


def greedy(model, prompt):
    """Tokens and log-probabilities, with the cache."""
    ids, cache = torch.tensor([prompt]), None
    tokens, log_probabilities = [], []
    for _ in range(TOKENS):
        result = model(ids, past_key_values=cache, use_cache=True)
        cache = result.past_key_values
        row = result.logits[0, -1].log_softmax(-1)
        tokens.append(int(row.argmax()))
        log_probabilities.append(row[tokens[-1]])
        ids = torch.tensor([tokens[-1:]])
    return tokens, log_probabilities


def expected(folder):
    config = AutoConfig.from_pretrained(folder)
    config = config.get_text_config()
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    for name, parameter in model.named_parameters():
        parameter.copy_(random(canonical(name), tuple(parameter.shape)))
    model.tie_weights()
    results = []
    for prompt in PROMPTS:
        tokens, log_probabilities = greedy(model, prompt)
        whole = model(torch.tensor([prompt + tokens])).logits[0].log_softmax(-1)
        again = [int(row.argmax()) for row in whole[len(prompt) - 1 : -1]]
        margins = whole[len(prompt) - 1 : -1].topk(2).values
        print(folder.name, len(prompt), again == tokens, float((margins[:, 0] - margins[:, 1]).min()))
        given = [whole[at, token] for at, token in enumerate(prompt[1:])]
        results.append(
            {"prompt": prompt, "tokens": tokens, "logprobs": rounded(log_probabilities), "of_prompt": rounded(given)}
        )
    return results


torch.manual_seed(0)
with torch.no_grad():
    for folder in sorted((pathlib.Path(__file__).parent.parent / "fixtures").iterdir()):
        (folder / "expected.json").write_text(json.dumps(expected(folder)) + "\n")
