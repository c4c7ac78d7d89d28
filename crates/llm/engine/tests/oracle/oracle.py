"""Writes what transformers computes in float32 for the models of ../fixtures.

    python oracle.py        torch 2.15, transformers 5.23, on the CPU

Each folder of fixtures has a config.json. Weights are random: src/weights/random.rs makes the same
numbers. The result is expected.json: greedy tokens of each prompt, their log-probabilities, and the
log-probabilities of the prompt's own tokens. A left-padded batch of all prompts has to give the same tokens.
Of Qwen 3.5, it also has two drafts after each of the first tokens, by the MTP layer, which transformers
leaves out: it is a decoder layer of transformers between the norms and the product that the checkpoints have.
`bf16` is the mean difference of the log-probabilities of torch's own bf16.
`of_prompt_fp8` and `of_prompt_int4` are log-probabilities with weights that were quantised and dequantised.
"""

import copy
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
# Tokens after which drafts are recorded.
DRAFTED = 6


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


def rounded_up(scales):
    """The least numbers of bf16 that are not less; 1 for 0."""
    bits = (scales.numpy().view(numpy.uint32) + numpy.uint32(0xFFFF)) & numpy.uint32(0xFFFF0000)
    return torch.from_numpy(numpy.where(scales > 0, bits.view(numpy.float32), numpy.float32(1)))


def fp8(weights):
    """e4m3 with a scale for each 128 x 128."""
    weights = weights.clone()
    for row in range(0, weights.shape[0], 128):
        for column in range(0, weights.shape[1], 128):
            block = weights[row : row + 128, column : column + 128]
            scale = rounded_up(block.abs().max()[None] / 448)
            block.copy_((block / scale).to(torch.float8_e4m3fn).float() * scale)
    return weights


def int4(weights):
    """0 to 15 with a scale and a zero point for each 32 of a row."""
    groups = weights.reshape(-1, 32)
    least, most = groups.amin(1, True).clamp(max=0), groups.amax(1, True).clamp(min=0)
    scale = rounded_up((most - least) / 15)
    away = lambda x: x.sign() * (x.abs() + 0.5).floor()
    zero = away(-least / scale).clamp(max=15)
    return (((away(groups / scale) + zero).clamp(0, 15) - zero) * scale).reshape(weights.shape)


# Projections of one input are one matrix.
FUSED = [
    ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    ["self_attn.o_proj"],
    ["linear_attn.in_proj_qkv", "linear_attn.in_proj_z"],
    ["linear_attn.out_proj"],
    ["mlp.gate_proj", "mlp.up_proj"],
    ["mlp.down_proj"],
    ["mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj"],
    ["mlp.shared_expert.down_proj"],
]


def quantized(model, quantize):
    """The model with quantised weights. The embedding stays as it is, and rows that have no whole groups."""
    model, in_groups = copy.deepcopy(model), quantize
    quantize = lambda matrix: matrix.clone() if matrix.shape[-1] % 32 else in_groups(matrix)
    model.lm_head.weight = torch.nn.Parameter(quantize(model.lm_head.weight.detach()))
    for layer in model.model.layers:
        for names in FUSED:
            try:
                parts = [layer.get_submodule(name).weight for name in names]
            except AttributeError:
                continue
            matrix = quantize(torch.cat(list(parts)))
            for part, rows in zip(parts, matrix.split([len(part) for part in parts])):
                part.copy_(rows)
        experts = getattr(layer.mlp, "experts", None)
        for matrix in [] if experts is None else [*experts.gate_up_proj, *experts.down_proj]:
            matrix.copy_(quantize(matrix))
    return model


def in_bf16(model):
    """The model in bf16, but for the parameters of decays and of the gated norm."""
    model = copy.deepcopy(model)
    for name, parameter in model.named_parameters():
        if not name.endswith(("A_log", "dt_bias", "linear_attn.norm.weight")):
            parameter.data = parameter.data.to(torch.bfloat16)
    return model


def padded(model, prompts):
    """Tokens of a left-padded batch, with the cache."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    cache, tokens = None, []
    for _ in range(TOKENS):
        positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        result = model(ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True)
        cache = result.past_key_values
        ids = result.logits[:, -1].argmax(-1)[:, None]
        tokens.append(ids)
        mask = torch.cat([mask, torch.ones_like(ids)], -1)
    return torch.cat(tokens, -1).tolist()


class Mtp:
    """The MTP layer of a Qwen 3.5 model."""

    def __init__(self, model, config):
        self.model = model
        attention = config.layer_types.index("full_attention")
        self.layer = type(model.model.layers[0])(config, attention).eval()
        norm = type(model.model.norm)
        self.norms = {
            name: norm(config.hidden_size, eps=config.rms_norm_eps)
            for name in ["pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"]
        }
        for name, parameter in self.layer.named_parameters():
            parameter.copy_(random(f"mtp.layers.0.{name}", tuple(parameter.shape)))
        for name, layer in self.norms.items():
            layer.weight.copy_(random(f"mtp.{name}.weight", tuple(layer.weight.shape)))
        self.fc = random("mtp.fc.weight", (config.hidden_size, 2 * config.hidden_size))

    def rows(self, tokens, hidden):
        """Rows after the layer's norm, of hidden rows that the tokens follow."""
        embedded = self.norms["pre_fc_norm_embedding"](self.model.model.embed_tokens(tokens))
        x = torch.cat([embedded, self.norms["pre_fc_norm_hidden"](hidden)], -1) @ self.fc.T
        positions = torch.arange(len(tokens))[None]
        angles = self.model.model.rotary_emb(x[None], positions[None].expand(3, 1, -1))
        mask = torch.full((len(tokens), len(tokens)), -torch.inf).triu(1)[None, None]
        x = self.layer(x[None], position_embeddings=angles, attention_mask=mask, position_ids=positions)
        return self.norms["norm"](x[0] if isinstance(x, tuple) else x)[0]

    def drafts(self, tokens):
        """Two tokens after the given ones."""
        ids = torch.tensor(tokens)
        hidden = self.model.model(ids[None]).last_hidden_state[0, :-1]
        rows = self.rows(ids[1:], hidden)
        first = self.model.lm_head(rows[-1]).argmax()
        again = self.rows(torch.cat([ids[1:], first[None]]), torch.cat([hidden, rows[-1:]]))
        return [int(first), int(self.model.lm_head(again[-1]).argmax())]


def expected(folder):
    config = AutoConfig.from_pretrained(folder)
    config = config.get_text_config()
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    for name, parameter in model.named_parameters():
        parameter.copy_(random(canonical(name), tuple(parameter.shape)))
    model.tie_weights()
    mtp = Mtp(model, config) if config.model_type.startswith("qwen3_5") else None
    results, together = [], padded(model, PROMPTS)
    for prompt, of_batch in zip(PROMPTS, together):
        tokens, log_probabilities = greedy(model, prompt)
        whole = model(torch.tensor([prompt + tokens])).logits[0].log_softmax(-1)
        assert tokens == of_batch, f"{folder.name}: a left-padded batch has other tokens"
        again = [int(row.argmax()) for row in whole[len(prompt) - 1 : -1]]
        margins = whole[len(prompt) - 1 : -1].topk(2).values
        print(folder.name, len(prompt), again == tokens, float((margins[:, 0] - margins[:, 1]).min()))
        given = [whole[at, token] for at, token in enumerate(prompt[1:])]
        result = {"prompt": prompt, "tokens": tokens, "logprobs": rounded(log_probabilities)}
        result["of_prompt"] = rounded(given)
        if prompt is PROMPTS[0]:
            given = [whole[at, token] for at, token in enumerate(prompt[1:])]
            of_bf16 = in_bf16(model)(torch.tensor([prompt])).logits[0].float().log_softmax(-1)
            differences = [abs(of_bf16[at, token] - given[at]) for at, token in enumerate(prompt[1:])]
            result["bf16"] = round(float(sum(differences) / len(differences)), 5)
            for quantize in [fp8, int4]:
                whole = quantized(model, quantize)(torch.tensor([prompt])).logits[0].log_softmax(-1)
                given = [whole[at, token] for at, token in enumerate(prompt[1:])]
                result[f"of_prompt_{quantize.__name__}"] = rounded(given)
        if mtp:
            result["drafts"] = [mtp.drafts(prompt + tokens[: at + 1]) for at in range(DRAFTED)]
        results.append(result)
    return results


torch.manual_seed(0)
with torch.no_grad():
    for folder in sorted((pathlib.Path(__file__).parent.parent / "fixtures").glob("*/")):
        (folder / "expected.json").write_text(json.dumps(expected(folder)) + "\n")
