"""Write a model of Llama-3.2-1B's shape with random weights, for engines that cannot make weights up themselves.

    python3 random-weights.py TOKENIZER FOLDER

TOKENIZER is a folder with a tokenizer of at most 49,152 tokens; its files are copied. The same version of torch writes the same
bytes each time.
"""

import shutil
import sys
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

source, target = Path(sys.argv[1]), Path(sys.argv[2])
torch.manual_seed(1)
config = LlamaConfig(
    hidden_size=2048,
    num_hidden_layers=16,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=64,
    intermediate_size=8192,
    vocab_size=49152,
    max_position_embeddings=16384,
    rms_norm_eps=1e-5,
    rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
    bos_token_id=1,
    eos_token_id=2,
    tie_word_embeddings=False,
)
model = LlamaForCausalLM(config).to(torch.bfloat16)
model.save_pretrained(target)
for name in ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]:
    if (source / name).exists():
        shutil.copyfile(source / name, target / name)
print(sum(weights.numel() for weights in model.parameters()), "parameters")
