"""Writes a tiny Llama into a folder: random weights, and a tokenizer of single bytes.

The files are identical to the byte wherever this runs, so that a study can pin them. It needs only
Python. Usage: python3 tiny_llama.py FOLDER [--words]

A model of single bytes has no text for half of the tokens that it generates. With --words, each of them is a word.
"""
import json
import pathlib
import random
import struct
import sys

HIDDEN, FEED, LAYERS, HEADS, VOCABULARY = 256, 512, 4, 4, 512


def letters():
    """Returns the letter for each byte in byte-level tokenizers."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(others)}}


def tensors():
    """Returns the name and the shape of every tensor."""
    yield "model.embed_tokens.weight", (VOCABULARY, HIDDEN)
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        yield layer + "input_layernorm.weight", (HIDDEN,)
        yield layer + "post_attention_layernorm.weight", (HIDDEN,)
        for one in "qkvo":
            yield f"{layer}self_attn.{one}_proj.weight", (HIDDEN, HIDDEN)
        yield layer + "mlp.gate_proj.weight", (FEED, HIDDEN)
        yield layer + "mlp.up_proj.weight", (FEED, HIDDEN)
        yield layer + "mlp.down_proj.weight", (HIDDEN, FEED)
    yield "model.norm.weight", (HIDDEN,)
    yield "lm_head.weight", (VOCABULARY, HIDDEN)


def weights():
    """Returns a safetensors file: norms are 1, all other weights are drawn between -0.06 and 0.06."""
    draw = random.Random(7)
    header, parts, at = {}, [], 0
    for name, shape in tensors():
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        if len(shape) == 1:
            data = struct.pack("<H", 0x3F80) * count
        else:
            # bfloat16: sign, exponents 118 to 122 (up to 2**-4), and a mantissa.
            bits = draw.randbytes(2 * count)
            data = b"".join(
                struct.pack("<H", (b & 1) << 15 | (118 + (b >> 1) % 5) << 7 | a & 0x7F)
                for a, b in zip(bits[::2], bits[1::2])
            )
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
        parts.append(data)
    header["__metadata__"] = {"format": "pt"}
    text = json.dumps(header, sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(parts)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    special = ["<s>", "</s>"]
    tokens = [*special, *letters().values()]
    if "--words" in sys.argv[2:]:
        tokens += [f"{letters()[32]}w{i}" for i in range(len(tokens), VOCABULARY)]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    documents = {
        "config.json": {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16",
            "hidden_size": HIDDEN, "intermediate_size": FEED, "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "head_dim": HIDDEN // HEADS,
            "vocab_size": VOCABULARY, "max_position_embeddings": 4096, "rms_norm_eps": 1e-05,
            "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False,
            "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1,
        },
        "generation_config.json": {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1},
        "tokenizer.json": {
            "version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [
                {"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
                 "normalized": False, "special": True}
                for i, token in enumerate(special)
            ],
            "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                      "vocab": vocabulary, "merges": []},
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
            "pad_token": "</s>", "model_max_length": 4096, "clean_up_tokenization_spaces": False,
            "chat_template": "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
                             "{% if add_generation_prompt %}assistant: {% endif %}",
        },
    }
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    (folder / "model.safetensors").write_bytes(weights())


main()
