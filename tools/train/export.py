# SPDX-License-Identifier: Apache-2.0
"""Writes a checkpoint as a Hugging Face LlamaForCausalLM folder: config.json, model.safetensors, tokenizer.json."""
import argparse
import json
import os

import torch
from safetensors.torch import save_file

import tokenizer
from model import Config, Llama

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load(path: str) -> Llama:
    saved = torch.load(path, weights_only=False)
    model = Llama(Config(**saved["config"]))
    model.load_state_dict(saved["model"])
    return model.eval()


def load_exported(folder: str) -> Llama:
    """The plain-torch model with the weights of an exported folder, in fp32."""
    from safetensors.torch import load_file
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        c = json.load(f)
    fields = {k: c[k] for k in Config.__dataclass_fields__ if k in c}
    fields["rope_theta"] = c["rope_theta"]
    model = Llama(Config(**fields))
    weights = load_file(os.path.join(folder, "model.safetensors"))
    model.load_state_dict({k.removeprefix("model."): v.float() for k, v in weights.items()})
    return model.eval()


def export(model: Llama, folder: str, dtype: str) -> None:
    os.makedirs(folder, exist_ok=True)
    c = model.cfg
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": c.vocab_size,
        "hidden_size": c.hidden_size, "intermediate_size": c.intermediate_size,
        "num_hidden_layers": c.num_hidden_layers, "num_attention_heads": c.num_attention_heads,
        "num_key_value_heads": c.num_key_value_heads, "head_dim": c.head_dim, "rope_theta": c.rope_theta,
        "rms_norm_eps": c.rms_norm_eps, "max_position_embeddings": c.max_position_embeddings, "hidden_act": "silu",
        "attention_bias": False, "mlp_bias": False, "attention_dropout": 0.0, "tie_word_embeddings": True,
        "bos_token_id": 0, "eos_token_id": 1, "torch_dtype": dtype, "use_cache": True}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f, indent=2)
        f.write("\n")
    tensors = {"model." + k: v.to(_DTYPES[dtype]).contiguous() for k, v in model.state_dict().items()}
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    tok = tokenizer.build()
    assert len(tok) == c.vocab_size
    tok.save(os.path.join(folder, "tokenizer.json"))


def compare(folder: str) -> float:
    """Largest relative difference of the logits to those of transformers' own implementation, both in fp32."""
    from transformers import LlamaForCausalLM
    ours = load_exported(folder)
    theirs = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = torch.randint(0, ours.cfg.vocab_size, (2, 777), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        a = ours.logits(ours(ids))
        b = theirs(ids).logits
    return ((a - b).abs().max() / b.abs().max()).item()


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("checkpoint")
    p.add_argument("folder")
    p.add_argument("--dtype", choices=list(_DTYPES), default="bfloat16")
    p.add_argument("--compare", action="store_true", help="compare with transformers")
    a = p.parse_args()
    torch.set_num_threads(1)
    export(load(a.checkpoint), a.folder, a.dtype)
    print("bytes", os.path.getsize(os.path.join(a.folder, "model.safetensors")))
    if a.compare:
        difference = compare(a.folder)
        print(f"largest relative difference to transformers: {difference:.2e}")
        assert difference < 1e-4


if __name__ == "__main__":
    main()
