"""Writes ../fixtures/rotary.json: the frequencies and the scale that transformers makes of configurations.

    pip install numpy transformers;  python rotary.py        numpy 2.4, transformers 5.24

transformers computes them with torch. Its few functions are NumPy's here, in float32 as torch has them.
"""

import json
import pathlib
import types

import numpy
from transformers import LlamaConfig, modeling_rope_utils


class Tensor(numpy.ndarray):
    def to(self, device=None, dtype=None):
        return self.astype(dtype or self.dtype)


def arange(*bounds, dtype=numpy.int64, device=None):
    return numpy.arange(*bounds, dtype=dtype).view(Tensor)


modeling_rope_utils.torch = types.SimpleNamespace(
    arange=arange, clamp=numpy.clip, where=numpy.where, int64=numpy.int64, float=numpy.float32, float32=numpy.float32
)

YARN = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 32768}
LLAMA_3 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 8192}
# Of Qwen 2.5 and 3, and with each further parameter; of Llama 3.1 and 3.2; of older models.
CONFIGURATIONS = [
    {"head_dim": 128, "max_position_embeddings": 131072, "rope_parameters": YARN},
    {"head_dim": 64, "max_position_embeddings": 40960, "rope_parameters": YARN},
    {"head_dim": 32, "max_position_embeddings": 4096, "rope_parameters": {**YARN, "rope_theta": 1e4, "factor": 32.0, "original_max_position_embeddings": 4096}},
    {"head_dim": 64, "max_position_embeddings": 131072, "rope_parameters": {**YARN, "beta_fast": 16.0, "beta_slow": 2.0}},
    {"head_dim": 64, "max_position_embeddings": 131072, "rope_parameters": {**YARN, "attention_factor": 1.25}},
    {"head_dim": 64, "max_position_embeddings": 131072, "rope_parameters": {**YARN, "mscale": 1.0, "mscale_all_dim": 0.707}},
    {"head_dim": 64, "max_position_embeddings": 131072, "rope_parameters": {**YARN, "truncate": False}},
    {"head_dim": 64, "max_position_embeddings": 131072, "rope_parameters": {**YARN, "partial_rotary_factor": 0.5}},
    {"head_dim": 64, "max_position_embeddings": 131072, "rope_parameters": {**YARN, "factor": None}},
    {"head_dim": 128, "max_position_embeddings": 131072, "rope_parameters": LLAMA_3},
    {"head_dim": 64, "max_position_embeddings": 131072, "rope_parameters": {**LLAMA_3, "factor": 32.0}},
    {"head_dim": 64, "max_position_embeddings": 8192, "rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.5}},
    {"head_dim": 64, "max_position_embeddings": 8192, "rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}},
]


def golden(configuration):
    function = modeling_rope_utils.ROPE_INIT_FUNCTIONS[configuration["rope_parameters"]["rope_type"]]
    frequencies, scale = function(LlamaConfig(**configuration), None)
    frequencies = [float(f"{float(frequency):.8g}") for frequency in frequencies]
    return {"configuration": configuration, "scale": float(scale), "frequencies": frequencies}


lines = ",\n".join(json.dumps(golden(configuration)) for configuration in CONFIGURATIONS)
(pathlib.Path(__file__).parent.parent / "fixtures/rotary.json").write_text(f"[\n{lines}\n]\n")
