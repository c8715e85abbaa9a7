# SPDX-License-Identifier: Apache-2.0
"""Which pages an engine computes: their KvSpec, or why they cannot be stored."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import typing

import quire
from quire.engines.weights import files_hash
from quire.models import fields_of_model, spec_of_fields

DTYPES = {"torch.float32": "f32", "torch.float16": "f16", "torch.bfloat16": "bf16"}


def refusal(vllm_config: typing.Any, kv_cache_config: typing.Any) -> str:
    """Why this engine's pages are not stored; empty when they are."""
    groups = kv_cache_config.kv_cache_groups
    if len(groups) != 1:
        return f"the model has {len(groups)} groups of caches, and prefixes have one"
    cache = groups[0].kv_cache_spec
    return (
        _divided(vllm_config.parallel_config)
        or _other_attention(cache)
        or _other_type(vllm_config.cache_config.cache_dtype, cache)
    )


def _divided(parallel: typing.Any) -> str:
    """Workers may divide heads, and not layers or tokens: a page has those of all."""
    for size, what in (("pipeline_parallel_size", "layers"), ("decode_context_parallel_size", "tokens")):
        count = getattr(parallel, size, 1)
        if count != 1:
            return (
                f"{count} workers divide the model's {what}, and a page has those of all; "
                "OffloadingConnector with QuireOffloadingSpec serves such engines"
            )
    return ""


@dataclasses.dataclass(frozen=True)
class Shard:
    """KV heads [first, end) of `total`, which a worker has. Their pages have keys of their own.

    Keys do not depend on the number of workers: two that have the same heads find each other's pages.
    """

    first: int
    end: int
    total: int

    def of(self, fields: str) -> str:
        """The spec of the shard's pages. `fields` is that of all heads."""
        if (self.first, self.end) == (0, self.total):
            return fields
        known = json.loads(fields)
        heads = self.end - self.first
        known["num_query_heads"] = known["num_query_heads"] // self.total * heads
        known["num_kv_heads"] = heads
        known["attention"] = "mha" if known["num_query_heads"] == heads else "mqa" if heads == 1 else "gqa"
        text = f"{known['weights_hash']}\0quire.heads\0{self.first}-{self.end}/{self.total}"
        known["weights_hash"] = hashlib.sha256(text.encode()).hexdigest()
        return json.dumps(known)


def shards(total_kv_heads: int, workers: int) -> list[Shard]:
    """The shard of each worker, as vLLM divides heads. With more workers than heads several have the same."""
    parts = min(total_kv_heads, workers)
    heads = total_kv_heads // parts
    owners = (worker * parts // workers for worker in range(workers))
    return [Shard(part * heads, (part + 1) * heads, total_kv_heads) for part in owners]


def _other_attention(cache: typing.Any) -> str:
    name = type(cache).__name__
    if "MLA" in name:
        return f"its attention is latent ({name})"
    if "Window" in name or getattr(cache, "sliding_window", None) is not None:
        return "its attention has a sliding window"
    if name != "FullAttentionSpec":
        return f"its attention is {name}"
    if cache.attention_chunk_size is not None:
        return "its attention is divided into chunks"
    if getattr(cache, "head_size_v", cache.head_size) != cache.head_size:
        return "keys and values have different sizes"
    return ""


def _other_type(asked: str, cache: typing.Any) -> str:
    """`asked`: vLLM's --kv-cache-dtype."""
    if str(cache.dtype) in DTYPES and asked in ("auto", str(cache.dtype).removeprefix("torch.")):
        return ""
    return f"keys and values are {asked if asked != 'auto' else cache.dtype}; give --kv-cache-dtype auto"


def spec_fields(
    model_config: typing.Any, cache_spec: typing.Any, page_tokens: int, segment_pages: int, workers: int = 1
) -> str:
    """JSON of the KvSpec of all heads, as `quire spec --json` prints it. `workers` divide them.

    It is that of Quire's own worker where that computes the model, so that each finds the other's pages. For another
    model the weights' files and vLLM's shapes decide it.
    """
    directory = _directory(model_config)
    dtype = DTYPES[str(cache_spec.dtype)]
    kv_heads = model_config.get_total_num_kv_heads()
    try:
        fields = fields_of_model(directory, dtype, page_tokens, segment_pages)
    except quire.Error as error:
        if isinstance(error, (quire.Internal, quire.Unavailable)):
            raise
        fields = _own_fields(directory, model_config, cache_spec, kv_heads, page_tokens, segment_pages)
    shape = (fields["num_kv_heads"], fields["head_dim"])
    if shape != (kv_heads, cache_spec.head_size):
        raise quire.InvalidArgument(
            f"the checkpoint has {shape} KV heads and channels, and the engine {(kv_heads, cache_spec.head_size)}"
        )
    share = shards(kv_heads, workers)[0]
    if cache_spec.num_kv_heads != share.end - share.first:
        raise quire.InvalidArgument(
            f"a worker's cache has {cache_spec.num_kv_heads} of {kv_heads} KV heads, and there are {workers} workers"
        )
    return json.dumps(fields)


def salted(fields: str, salt: str | None) -> str:
    """The spec of requests with a cache salt: other keys, which nobody finds without the salt."""
    if not salt:
        return fields
    known = json.loads(fields)
    text = known["weights_hash"].encode() + b"\0quire.cache_salt\0" + salt.encode()
    known["weights_hash"] = hashlib.sha256(text).hexdigest()
    return json.dumps(known)


@functools.lru_cache(maxsize=256)
def spec_of(fields: str) -> quire.KvSpec:
    """The KvSpec of such JSON."""
    return spec_of_fields(json.loads(fields))


def _directory(model_config: typing.Any) -> str:
    if os.path.isdir(model_config.model):
        return model_config.model
    import huggingface_hub

    return huggingface_hub.snapshot_download(
        model_config.model, revision=model_config.revision, local_files_only=True
    )


def _own_fields(
    directory: str,
    model_config: typing.Any,
    cache_spec: typing.Any,
    kv_heads: int,
    page_tokens: int,
    segment_pages: int,
) -> dict[str, typing.Any]:
    config = model_config.hf_text_config
    query_heads = config.num_attention_heads
    return {
        "model": pathlib.Path(model_config.model).name[:200] + " (vLLM)",
        "weights_hash": files_hash(directory),
        "attention": "mha" if query_heads == kv_heads else "mqa" if kv_heads == 1 else "gqa",
        "dtype": DTYPES[str(cache_spec.dtype)],
        "num_layers": config.num_hidden_layers,
        "num_query_heads": query_heads,
        "num_kv_heads": kv_heads,
        "head_dim": cache_spec.head_size,
        "page_tokens": page_tokens,
        "segment_pages": segment_pages,
        "rope": {"rotary_dim": cache_spec.head_size},
    }
