"""Write a LoRA adapter with random weights for a model of Llama's shape.

    python3 random-adapter.py MODEL FOLDER

The adapter changes the projections of queries and values, with rank 16.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

RANK = 16
model, target = Path(sys.argv[1]), Path(sys.argv[2])
config = json.loads((model / "config.json").read_text())
hidden, head = config["hidden_size"], config["head_dim"]
outputs = {"q_proj": config["num_attention_heads"] * head, "v_proj": config["num_key_value_heads"] * head}
torch.manual_seed(2)
weights = {}
for layer in range(config["num_hidden_layers"]):
    for name, size in outputs.items():
        prefix = f"base_model.model.model.layers.{layer}.self_attn.{name}"
        weights[f"{prefix}.lora_A.weight"] = torch.randn(RANK, hidden, dtype=torch.bfloat16) * 0.1
        weights[f"{prefix}.lora_B.weight"] = torch.randn(size, RANK, dtype=torch.bfloat16) * 0.1
target.mkdir(parents=True, exist_ok=True)
save_file(weights, str(target / "adapter_model.safetensors"))
adapter = {
    "peft_type": "LORA",
    "task_type": "CAUSAL_LM",
    "base_model_name_or_path": str(model),
    "r": RANK,
    "lora_alpha": 2 * RANK,
    "lora_dropout": 0.0,
    "target_modules": sorted(outputs),
    "bias": "none",
}
(target / "adapter_config.json").write_text(json.dumps(adapter, indent=2))
print(sum(tensor.numel() for tensor in weights.values()), "parameters")
