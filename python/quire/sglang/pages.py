# SPDX-License-Identifier: Apache-2.0
"""Pages: where SGLang's pages lie in its host pool, and the part of their names that says how."""

from __future__ import annotations

import os
import typing

import quire

# In both, a page's bytes are [2][layer][token][head][channel] when its pieces are put in this order.
_BY_LAYER = ("layer_first", "page_first_direct")


class Pages:
    """Pages of a host pool. Nothing is copied: SGLang's memory is described by its addresses."""

    def __init__(self, pool: typing.Any, has_one_buffer: bool) -> None:
        """`has_one_buffer`: keys and values are one (MLA), as HiCacheStorageConfig.is_mla_model says."""
        self._pool = pool
        # The pool has keys and values of a layer side by side there.
        self._splits = pool.layout == "layer_first" and not has_one_buffer

    @property
    def format(self) -> str:
        """How bytes lie in a page. Pools of one format read each other's pages."""
        layout = "by_layer" if self._pool.layout in _BY_LAYER else self._pool.layout
        names = [str(self._pool.dtype).removeprefix("torch."), layout, f"{self._pool.page_size}_tokens"]
        tag = getattr(self._pool, "storage_format_tag", None)
        return ".".join([*names, *([str(tag)] if tag else [])])

    def at(self, host_indices: typing.Any, count: int) -> list[quire.HostPieces]:
        """The memory of `count` pages, whose tokens have these indices."""
        addresses, sizes = self._pool.get_page_buffer_meta(host_indices)
        pieces, rest = divmod(len(addresses), max(count, 1))
        if rest:
            raise quire.InvalidArgument(f"SGLang's pool has {len(addresses)} pieces for {count} pages")
        pages = []
        for first in range(0, len(addresses), pieces or 1):
            where = slice(first, first + pieces)
            pages.append(quire.HostPieces(self._ordered(addresses[where]), self._ordered(sizes[where])))
        return pages

    def _ordered(self, pieces: list[int]) -> list[int]:
        return pieces[0::2] + pieces[1::2] if self._splits else pieces


def shard(config: typing.Any) -> str:
    """Which part of each page this process has: of a HiCacheStorageConfig."""
    parts = [("pp", config.pp_rank, config.pp_size), ("cp", config.attn_cp_rank, config.attn_cp_size)]
    if not config.is_mla_model:  # Of those every rank has all.
        parts.append(("tp", config.tp_rank, config.tp_size))
    parts.append(("dcp", config.dcp_rank, config.dcp_size))
    return ".".join(f"{name}{rank}of{size}" for name, rank, size in parts if size > 1) or "whole"


def is_folder(model_name: str | None) -> bool:
    """True when a model's name is where its weights are, so that they can tell it from others."""
    return bool(model_name) and os.path.isdir(model_name)
