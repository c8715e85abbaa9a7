# SPDX-License-Identifier: Apache-2.0
"""PageStore: SGLang's pages as objects, without SGLang. A server that is away is a cache that has nothing."""

from __future__ import annotations

import collections.abc
import dataclasses
import logging
import typing

from quire import errors
from quire.engines.object_cache import ObjectCache
from quire.sglang.pages import Pages, is_folder, shard
from quire.sglang.settings import settings_of

log = logging.getLogger("sglang.quire")

_T = typing.TypeVar("_T")


class PageStore:
    """Threads may share a store."""

    def __init__(self, config: typing.Any, pool: typing.Any) -> None:
        """`config` and `pool` are SGLang's HiCacheStorageConfig and HostKVCache.

        Raises InvalidArgument for wrong settings, NotFound for a `model` without weights.
        """
        settings = settings_of(config.extra_config)
        if not settings.model and is_folder(config.model_name):
            settings = dataclasses.replace(settings, model=config.model_name)
        names = ["sglang"]
        if not settings.model:
            names.append(config.model_name or "")
            log.warning("the name '%s' alone tells its pages from others: give its folder as `model`", names[1])
        self._pages = Pages(pool, config.is_mla_model)
        names += [shard(config), self._pages.format]
        self._cache = ObjectCache(settings, "/".join(names), log)
        log.info("pages are stored as %s...", self._cache.prefix)

    def leading(self, keys: list[str]) -> int:
        """How many of the first keys are stored, without a gap."""
        found = self._attempt(lambda: self._cache.exists(keys), [])
        return found.index(False) if False in found else len(found)

    def load(self, keys: list[str], host_indices: typing.Any) -> list[bool]:
        """Reads pages into the pool; False for those that did not come."""
        return self._attempt(
            lambda: self._cache.get(keys, self._pages.at(host_indices, len(keys))), [False] * len(keys)
        )

    def save(self, keys: list[str], host_indices: typing.Any) -> list[bool]:
        """Stores pages of the pool."""
        return self._attempt(
            lambda: self._stored(keys, self._pages.at(host_indices, len(keys))), [False] * len(keys)
        )

    def get(self, keys: list[str], memory: list[typing.Any]) -> list[bool]:
        """Reads pages into arrays; False for those that did not come."""
        return self._attempt(lambda: self._cache.get(keys, memory), [False] * len(keys))

    def put(self, keys: list[str], values: collections.abc.Sequence[object]) -> list[bool]:
        """Stores arrays as pages."""
        return self._attempt(lambda: self._stored(keys, values), [False] * len(keys))

    def close(self) -> None:
        """Lets the client go."""
        self._cache.close()

    def _stored(self, keys: list[str], values: collections.abc.Sequence[object]) -> list[bool]:
        self._cache.put(keys, values)
        return [True] * len(keys)

    def _attempt(self, call: collections.abc.Callable[[], _T], otherwise: _T) -> _T:
        try:
            return call()
        except errors.Error as error:
            if not isinstance(error, errors.Unavailable):  # Of that the link has told.
                log.warning("pages are computed instead: %s", error)
            return otherwise
