# SPDX-License-Identifier: Apache-2.0
"""QuireStorage: what SGLang 0.5.23 calls. It translates, and knows neither the server nor how pages lie."""

from __future__ import annotations

import logging
import typing

import torch
from sglang.srt.mem_cache.hicache_storage import HiCacheStorage, HiCacheStorageConfig, HiCacheStorageExtraInfo

import quire
from quire.sglang.settings import settings_of
from quire.sglang.store import PageStore

log = logging.getLogger("sglang.quire")


class QuireStorage(HiCacheStorage):
    """Pages from a Quire server, and to it. Use it with "interface_v1": pages then go straight to and from the pool."""

    def __init__(self, storage_config: HiCacheStorageConfig, kwargs: typing.Any = None) -> None:
        """Raises InvalidArgument for wrong settings. A server that is away is no error."""
        settings_of(storage_config.extra_config)
        if storage_config.should_split_heads:
            raise quire.Unimplemented("tp_lcm_size: pages are not split by heads; leave the setting out")
        self._config = storage_config
        self._store: PageStore | None = None

    def register_mem_pool_host(self, mem_pool_host: typing.Any) -> None:
        """Takes the pool that pages are loaded to. Its layout is a part of their names."""
        super().register_mem_pool_host(mem_pool_host)
        self.close()
        self._store = PageStore(self._config, mem_pool_host)

    def batch_exists(self, keys: list[str], extra_info: HiCacheStorageExtraInfo | None = None) -> int:
        """How many of the first keys are stored."""
        return self._pages().leading(keys)

    def batch_get_v1(
        self, keys: list[str], host_indices: torch.Tensor, extra_info: HiCacheStorageExtraInfo | None = None
    ) -> list[bool]:
        """Reads pages into the pool."""
        return self._pages().load(keys, host_indices)

    def batch_set_v1(
        self, keys: list[str], host_indices: torch.Tensor, extra_info: HiCacheStorageExtraInfo | None = None
    ) -> list[bool]:
        """Stores pages of the pool."""
        return self._pages().save(keys, host_indices)

    def exists(self, key: str) -> bool:
        """True when it is stored."""
        return self.batch_exists([key]) == 1

    def batch_get(
        self,
        keys: list[str],
        target_locations: typing.Any | None = None,
        target_sizes: typing.Any | None = None,
    ) -> list[torch.Tensor | None]:
        """Reads flat pages into `target_locations`, or into new tensors."""
        if target_locations is None:
            target_locations = [self.mem_pool_host.get_dummy_flat_data_page() for _ in keys]
        # A tensor as bytes: not every type of elements is known to numpy and DLPack.
        memory = [target.view(torch.uint8) for target in target_locations]
        came = self._pages().get(keys, memory)
        return [target if ok else None for target, ok in zip(target_locations, came, strict=True)]

    def get(
        self, key: str, target_location: typing.Any | None = None, target_sizes: typing.Any | None = None
    ) -> torch.Tensor | None:
        """Reads one flat page."""
        return self.batch_get([key], None if target_location is None else [target_location])[0]

    def batch_set(
        self,
        keys: list[str],
        values: typing.Any | None = None,
        target_locations: typing.Any | None = None,
        target_sizes: typing.Any | None = None,
    ) -> bool:
        """Stores flat pages."""
        return all(self._pages().put(keys, [value.contiguous().view(torch.uint8) for value in values]))

    def set(
        self,
        key: str,
        value: typing.Any | None = None,
        target_location: typing.Any | None = None,
        target_sizes: typing.Any | None = None,
    ) -> bool:
        """Stores one flat page."""
        return self.batch_set([key], [value])

    def clear(self) -> None:
        """Nothing: other engines use what is stored, and it leaves when room is needed."""
        log.warning("Quire keeps what is stored: pages leave when room is needed. Another `namespace` begins afresh")

    def close(self) -> None:
        """Lets the server go. SGLang may call it twice."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _pages(self) -> PageStore:
        if self._store is None:
            raise quire.FailedPrecondition("no pool of the host is registered")
        return self._store
