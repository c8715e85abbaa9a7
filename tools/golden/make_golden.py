# SPDX-License-Identifier: Apache-2.0
"""Makes the golden checkpoints of tests/data/golden: tiny random models and the logits that Hugging Face's
transformers computes for them in fp32; and rope.json, the RoPE frequencies of well-known checkpoints.

    pip install torch transformers safetensors
    python tools/golden/make_golden.py            # writes tests/data/golden/<name>/
    python tools/golden/make_golden.py --check    # recomputes the logits and compares with the files

A random model of the usual initialisation has keys and queries so small that attention is all but uniform and a
wrong rotation, norm or bias hardly shows. The weights here are drawn so that they do show, and this script proves
it: each checkpoint names alterations, and every one must move the logits by at least MIN_EFFECT.
"""
import argparse
import copy
import json
import os
import shutil
import sys

import torch
import transformers
from transformers.models.llama import modeling_llama
from transformers.models.phi3 import modeling_phi3
from safetensors.torch import load_file, save_file

# Llama's own function fails if only a part of a head is rotated. Phi-3's is equal if all of it is.
modeling_llama.apply_rotary_pos_emb = modeling_phi3.apply_rotary_pos_emb

TOKENS = 72
MIN_EFFECT = 1e-2  # A hundred times the tolerance of the decoder.
ROOT = os.path.normpath(os.path.join(os.path.dirname(__file__), "..", "..", "tests", "data", "golden"))

BASE = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, vocab_size=96, max_position_embeddings=128, rms_norm_eps=1e-5,
            bos_token_id=0, eos_token_id=1, pad_token_id=None, tie_word_embeddings=False, use_cache=False)

LLAMA3 = dict(rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
LINEAR = dict(rope_type="linear", rope_theta=10000.0, factor=4.0)
# Factors of the shape of Phi-3's.
LONGROPE = dict(rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=4096,
                short_factor=[1 + 0.04 * pair for pair in range(48)], long_factor=[1.05 ** pair for pair in range(48)])
TINY_LONGROPE = dict(rope_type="longrope", rope_theta=500.0, original_max_position_embeddings=32,
                     short_factor=[1 + 0.1 * pair for pair in range(4)], long_factor=[1.7 ** pair for pair in range(4)])
YARN = dict(rope_type="yarn", rope_theta=1000.0, factor=4.0, original_max_position_embeddings=32)
# Latent attention without routed experts.
LATENT = dict(num_key_value_heads=4, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=10, v_head_dim=12,
              first_k_dense_replace=2)


def plain(theta: float) -> dict:
    return dict(rope_type="default", rope_theta=theta)


def case(model: str, rope: dict, alterations: tuple = (), **options) -> dict:
    """`alterations`: names of ALTERATIONS that must change the logits."""
    storage = {key: options.pop(key) for key in ("dtype", "shard_bytes", "old_rope", "old_gemma") if key in options}
    return dict(model=model, config=BASE | options | dict(rope_parameters=rope), alterations=alterations, **storage)


CASES = {
    # Each of these depends on original_max_position_embeddings < TOKENS, or stretches all positions.
    "llama-llama3": case("Llama", LLAMA3, ("rope",), tie_word_embeddings=True),
    "llama-linear-bias": case("Llama", LINEAR, ("rope", "bias"), attention_bias=True, mlp_bias=True, old_rope=True),
    "llama-yarn": case("Llama", YARN, ("rope", "attention_factor"), num_key_value_heads=4),
    "llama-yarn-mscale": case("Llama", YARN | dict(beta_fast=2.0, beta_slow=0.5, mscale=1.0, mscale_all_dim=0.5),
                              ("rope", "betas"), old_rope=True, num_key_value_heads=1, head_dim=32),
    "mistral-sharded": case("Mistral", plain(10000.0), ("theta",), sliding_window=None, head_dim=16,
                            shard_bytes=24_000),
    "qwen2-bf16": case("Qwen2", plain(1e6), ("theta", "bias"), tie_word_embeddings=True, dtype=torch.bfloat16),
    "qwen3-head-dim": case("Qwen3", plain(1e6), ("theta", "qk_norm"), head_dim=12, tie_word_embeddings=True,
                           dtype=torch.float16),
    "llama-yarn-partial": case("Llama", YARN | dict(truncate=False, partial_rotary_factor=0.5, beta_fast=4.0),
                               ("rope", "truncate", "part"), head_dim=32),
    "mistral-window": case("Mistral", plain(10000.0), ("window",), sliding_window=20, tie_word_embeddings=True,
                           dtype=torch.bfloat16, shard_bytes=16_000),
    "qwen2-window": case("Qwen2", plain(1e6), ("window", "bias"), num_hidden_layers=3, use_sliding_window=True,
                         max_window_layers=1, sliding_window=17, dtype=torch.float16),
    "mixtral": case("Mixtral", plain(10000.0), ("window", "experts"), num_local_experts=4, num_experts_per_tok=2,
                    sliding_window=33, dtype=torch.float16),
    "mixtral-sharded": case("Mixtral", plain(10000.0), ("experts",), num_local_experts=3, num_experts_per_tok=1,
                            tie_word_embeddings=True, dtype=torch.bfloat16, shard_bytes=32_000),
    "qwen3-moe": case("Qwen3Moe", plain(1e6), ("theta", "qk_norm", "normalized"), num_experts=6, num_experts_per_tok=3,
                      moe_intermediate_size=16, norm_topk_prob=True, mlp_only_layers=[1], num_hidden_layers=3,
                      head_dim=12, dtype=torch.float16),
    "qwen3-moe-sharded": case("Qwen3Moe", plain(1e6), ("normalized",), num_experts=4, num_experts_per_tok=2,
                              moe_intermediate_size=24, norm_topk_prob=False, decoder_sparse_step=2,
                              tie_word_embeddings=True, dtype=torch.bfloat16, shard_bytes=24_000),
    # All 72 tokens are beyond the original context, so transformers takes the long factors too.
    "phi3-longrope": case("Phi3", TINY_LONGROPE, ("long_factor", "attention_factor", "window"),
                          original_max_position_embeddings=32, sliding_window=30, dtype=torch.float16),
    "phi3-sharded": case("Phi3", plain(10000.0) | dict(partial_rotary_factor=0.5), ("theta",), num_key_value_heads=1,
                         tie_word_embeddings=True, dtype=torch.bfloat16, shard_bytes=24_000, old_rope=True),
    "gemma2": case("Gemma2", plain(10000.0), ("window", "query_scale", "attention_cap", "logit_cap", "end_norms"),
                   num_hidden_layers=3, head_dim=12, sliding_window=18, query_pre_attn_scalar=7,
                   attn_logit_softcapping=3.0, final_logit_softcapping=2.0, dtype=torch.float16),
    "gemma2-sharded": case("Gemma2", plain(10000.0), ("window",), sliding_window=25, head_dim=16,
                           tie_word_embeddings=True, attention_bias=True, dtype=torch.bfloat16, shard_bytes=24_000),
    "gemma3": case("Gemma3", dict(full_attention=LINEAR | dict(rope_theta=1e6, factor=8.0),
                                  sliding_attention=plain(10000.0)),
                   ("window", "query_scale", "local_rope", "qk_norm", "end_norms"), num_hidden_layers=3, head_dim=12,
                   sliding_window=18, query_pre_attn_scalar=7,
                   layer_types=["sliding_attention", "full_attention", "sliding_attention"], dtype=torch.float16),
    "gemma3-sharded": case("Gemma3", dict(full_attention=LINEAR | dict(rope_theta=1e6), sliding_attention=plain(500.0)),
                           ("window", "local_rope"), num_hidden_layers=3, sliding_window=20, head_dim=16,
                           layer_types=["sliding_attention", "sliding_attention", "full_attention"],
                           tie_word_embeddings=True, dtype=torch.bfloat16, shard_bytes=24_000, old_gemma=3),
    "deepseek-v2": case("DeepseekV2", plain(1000.0), ("theta", "latent_norm"), **LATENT, q_lora_rank=None,
                        tie_word_embeddings=True),
    "deepseek-v3-bf16": case("DeepseekV3", YARN | dict(mscale=1.0, mscale_all_dim=1.0),
                             ("rope", "score_scale", "latent_norm", "bias", "interleave"), **LATENT, q_lora_rank=12,
                             attention_bias=True, dtype=torch.bfloat16, shard_bytes=12_000, old_rope=True),
    "deepseek-v3-halves": case("DeepseekV3", plain(1000.0), ("theta", "interleave"), **LATENT, q_lora_rank=12,
                               rope_interleave=False, dtype=torch.float16),
}


def drawn(name: str, tensor: torch.Tensor, generator: torch.Generator, gemma: bool) -> torch.Tensor:
    """Weights whose every part shows in the logits: peaked attention, uneven norms, biases like activations."""
    noise = torch.randn(tensor.shape, generator=generator)
    if name.endswith("norm.weight"):
        return (0.0 if gemma else 1.0) + 0.3 * noise  # Gemma adds the one itself.
    if name.endswith(".bias"):
        return 0.7 * noise
    if "embed_tokens" in name or "lm_head" in name:
        return 0.5 * noise
    peaked = any(part in name for part in ("q_proj", "k_proj", "q_b_proj", "kv_b_proj"))
    gain = 2.0 if peaked or name.endswith("gate.weight") else 1.0
    return gain * noise / tensor.shape[-1] ** 0.5


def build(spec: dict, seed: int):
    kind = "Gemma3Text" if spec["model"] == "Gemma3" else spec["model"]
    config = getattr(transformers, kind + "Config")(**copy.deepcopy(spec["config"]))
    config._attn_implementation = "eager"
    model = getattr(transformers, spec["model"] + "ForCausalLM")(config).eval().float()
    generator = torch.Generator().manual_seed(seed)
    dtype = spec.get("dtype", torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(drawn(name, parameter, generator, "Gemma" in spec["model"]).to(dtype))  # Rounded as in the file.
    return model


def logits_of(model, ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=ids[None]).logits[0].float()


def relative(a: torch.Tensor, b: torch.Tensor) -> float:
    return ((a - b).abs().max() / b.abs().max()).item()


def with_rope(spec: dict, change) -> dict:
    altered = copy.deepcopy(spec)
    change(altered["config"]["rope_parameters"])
    return altered


def with_weights(model, part: str, value: float):
    altered = copy.deepcopy(model)
    with torch.no_grad():
        for name, parameter in altered.named_parameters():
            if part in name:
                parameter.fill_(value)
    return altered


def with_config(spec: dict, **fields) -> dict:
    altered = copy.deepcopy(spec)
    altered["config"].update(fields)
    return altered


def to_plain(rope: dict) -> None:
    theta = rope["rope_theta"]
    rope.clear()
    rope.update(plain(theta))


# Typical mistakes of a decoder; a decoder with one would compute the altered model instead.
ALTERATIONS = {
    "rope": lambda spec, seed, model: build(with_rope(spec, to_plain), seed),
    "theta": lambda spec, seed, model: build(with_rope(spec, lambda r: r.update(rope_theta=500.0)), seed),
    "long_factor": lambda spec, seed, model: build(with_rope(spec, lambda r: r.update(long_factor=r["short_factor"])),
                                                   seed),
    "attention_factor": lambda spec, seed, model: build(with_rope(spec, lambda r: r.update(attention_factor=1.0)), seed),
    "betas": lambda spec, seed, model: build(with_rope(spec, lambda r: r.update(beta_fast=32.0, beta_slow=1.0)), seed),
    "truncate": lambda spec, seed, model: build(with_rope(spec, lambda r: r.update(truncate=True)), seed),
    "part": lambda spec, seed, model: build(with_rope(spec, lambda r: r.update(partial_rotary_factor=1.0)), seed),
    "window": lambda spec, seed, model: build(with_config(spec, sliding_window=TOKENS), seed),
    "experts": lambda spec, seed, model: build(
        with_config(spec, num_experts_per_tok=spec["config"]["num_experts_per_tok"] + 1), seed),
    "normalized": lambda spec, seed, model: build(
        with_config(spec, norm_topk_prob=not spec["config"]["norm_topk_prob"]), seed),
    "query_scale": lambda spec, seed, model: build(
        with_config(spec, query_pre_attn_scalar=spec["config"]["head_dim"]), seed),
    "attention_cap": lambda spec, seed, model: build(with_config(spec, attn_logit_softcapping=None), seed),
    "logit_cap": lambda spec, seed, model: build(with_config(spec, final_logit_softcapping=None), seed),
    "local_rope": lambda spec, seed, model: build(
        with_rope(spec, lambda r: r.update(sliding_attention=r["full_attention"])), seed),
    "end_norms": lambda spec, seed, model: with_weights(model, "post_feedforward_layernorm.weight", 0.0),
    "bias": lambda spec, seed, model: with_weights(model, ".bias", 0.0),
    "interleave": lambda spec, seed, model: build(
        spec | dict(config=spec["config"] | dict(rope_interleave=not spec["config"].get("rope_interleave", True))), seed),
    "latent_norm": lambda spec, seed, model: with_weights(model, "_a_layernorm.weight", 1.0),
    "score_scale": lambda spec, seed, model: build(
        with_rope(spec, lambda r: r.update(mscale_all_dim=0.0, attention_factor=1.0)), seed),
    "qk_norm": lambda spec, seed, model: with_weights(model, "_norm.weight", 1.0),
}


def check_alterations(name: str, spec: dict, seed: int, model, ids: torch.Tensor, logits: torch.Tensor) -> None:
    for alteration in spec["alterations"]:
        effect = relative(logits_of(ALTERATIONS[alteration](spec, seed, model), ids), logits)
        print(f"  {name}: without its {alteration} the logits differ by {effect:.3f}")
        if effect < MIN_EFFECT:
            sys.exit(f"{name}: the alteration {alteration} would go unnoticed")


def to_old_rope(folder: str) -> None:
    """Rewrites config.json to the spelling of transformers before version 5."""
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as f:
        config = json.load(f)
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    rope["type"] = rope.pop("rope_type")
    config["rope_scaling"] = rope
    with open(path, "w", encoding="utf-8") as f:
        json.dump(config, f, indent=2, sort_keys=True)
        f.write("\n")


def to_old_gemma(folder: str, pattern: int) -> None:
    """The same for Gemma 3, which had a base for each kind of layers, and a pattern of them."""
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as f:
        config = json.load(f)
    rope = config.pop("rope_parameters")
    config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
    config["rope_theta"] = rope["full_attention"].pop("rope_theta")
    config["rope_scaling"] = rope["full_attention"]
    config["sliding_window_pattern"] = pattern
    config.pop("_sliding_window_pattern")
    config.pop("layer_types")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(config, f, indent=2, sort_keys=True)
        f.write("\n")


def write(folder: str, spec: dict, model, ids: torch.Tensor, logits: torch.Tensor) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    stored = copy.deepcopy(model).to(spec.get("dtype", torch.float32))
    stored.save_pretrained(folder, max_shard_size=spec.get("shard_bytes", "1GB"))
    generation = os.path.join(folder, "generation_config.json")
    if os.path.exists(generation):
        os.remove(generation)
    if spec.get("old_rope"):
        to_old_rope(folder)
    if spec.get("old_gemma"):
        to_old_gemma(folder, spec["old_gemma"])
    save_file({"input_ids": ids, "logits": logits.contiguous()}, os.path.join(folder, "golden.safetensors"))
    for file in os.listdir(folder):
        os.chmod(os.path.join(folder, file), 0o644)
    check(folder, spec)


# RoPE parameters of well-known checkpoints; rope.json gets their frequencies.
ROPE_CASES = {
    "llama-2-7b": (128, 4096, plain(10000.0)),
    "llama-3.1-8b": (128, 131072, LLAMA3 | dict(rope_theta=500000.0, original_max_position_embeddings=8192)),
    "llama-3.2-1b": (64, 131072, LLAMA3 | dict(rope_theta=500000.0, factor=32.0,
                                               original_max_position_embeddings=8192)),
    "longchat-7b": (128, 16384, dict(rope_type="linear", rope_theta=10000.0, factor=8.0)),
    "qwen2.5-7b-yarn": (128, 131072, dict(rope_type="yarn", rope_theta=1e6, factor=4.0,
                                          original_max_position_embeddings=32768)),
    "yarn-llama-2-7b-64k": (128, 65536, dict(rope_type="yarn", rope_theta=10000.0, factor=16.0,
                                             original_max_position_embeddings=4096)),
    "yarn-mscale": (64, 163840, dict(rope_type="yarn", rope_theta=10000.0, factor=40.0, beta_fast=32.0, beta_slow=1.0,
                                     mscale=1.0, mscale_all_dim=0.7, original_max_position_embeddings=4096)),
    "yarn-attention-factor": (64, 32768, dict(rope_type="yarn", rope_theta=10000.0, factor=8.0, attention_factor=0.9,
                                              original_max_position_embeddings=4096)),
    "gpt-oss-20b": (64, 131072, dict(rope_type="yarn", rope_theta=150000.0, factor=32.0, beta_fast=32.0, beta_slow=1.0,
                                     truncate=False, original_max_position_embeddings=4096)),
    "yarn-partial": (128, 131072, dict(rope_type="yarn", rope_theta=10000.0, factor=32.0, truncate=False,
                                       partial_rotary_factor=0.75, original_max_position_embeddings=4096)),
    "dynamic": (64, 8192, dict(rope_type="dynamic", rope_theta=10000.0, factor=4.0)),
    "longrope": (96, 4096, LONGROPE | dict(factor=1.0)),
    "longrope-128k": (96, 131072, LONGROPE | dict(factor=32.0)),
}


def write_rope(path: str) -> None:
    """Frequencies and attention factor as transformers computes them, beside the config that gives them."""
    cases = {}
    for name, (head_dim, context, rope) in ROPE_CASES.items():
        shape = BASE | dict(head_dim=head_dim, max_position_embeddings=context, rope_parameters=dict(rope))
        config = transformers.LlamaConfig(**shape)
        rotary = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding(config)
        frequencies, factor = rotary.inv_freq, rotary.attention_scaling
        if rope["rope_type"] in ("dynamic", "longrope"):  # At the end of the context.
            scheme = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS[rope["rope_type"]]
            frequencies, factor = scheme(config, "cpu", seq_len=context)
        cases[name] = dict(config=shape | dict(architectures=["LlamaForCausalLM"], rope_parameters=rope),
                           inverse_frequencies=frequencies.tolist(), attention_factor=float(factor))
    with open(path, "w", encoding="utf-8") as f:
        json.dump(cases, f, indent=1)
        f.write("\n")


def check(folder: str, spec: dict) -> None:
    """The files give the logits they claim when transformers loads them afresh."""
    cls = getattr(transformers, spec["model"] + "ForCausalLM")
    model = cls.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    golden = load_file(os.path.join(folder, "golden.safetensors"))
    difference = relative(logits_of(model, golden["input_ids"]), golden["logits"])
    print(f"  {os.path.basename(folder)}: files reproduce the logits within {difference:.1e}")
    if difference > 1e-5:
        sys.exit(f"{folder}: the files do not give the golden logits")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare the files with transformers")
    parser.add_argument("--only", help="only cases whose names have this in them; not rope.json")
    parser.add_argument("--out", default=ROOT)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for seed, (name, spec) in enumerate(CASES.items(), start=1):
        if arguments.only and arguments.only not in name:
            continue
        folder = os.path.join(arguments.out, name)
        if arguments.check:
            check(folder, spec)
            continue
        model = build(spec, seed)
        ids = torch.randint(0, BASE["vocab_size"], (TOKENS,), generator=torch.Generator().manual_seed(seed))
        logits = logits_of(model, ids)
        check_alterations(name, spec, seed, model, ids, logits)
        write(folder, spec, model, ids, logits)
    if not arguments.check and not arguments.only:
        write_rope(os.path.join(arguments.out, "rope.json"))


if __name__ == "__main__":
    main()
