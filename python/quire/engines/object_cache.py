# SPDX-License-Identifier: Apache-2.0
"""ObjectCache: an engine's own bytes as objects of Quire, under names that its model decides."""

from __future__ import annotations

import collections.abc
import dataclasses
import hashlib
import logging
import typing

from quire import errors
from quire.engines.link import Link, connector_of
from quire.engines.settings import ServerSettings
from quire.engines.weights import weights_hash

_MAX_KEY_BYTES = 1024


@dataclasses.dataclass(frozen=True)
class ObjectSettings(ServerSettings):
    """Settings of a connector that stores objects."""

    model: str = ""  # A folder: the hash of its weights goes into all keys.
    namespace: str = ""  # So does this text.


class ObjectCache:
    """Calls raise errors.Unavailable at once while the server is away, and errors.Error as the client does.

    Threads may share a cache.
    """

    def __init__(self, settings: ObjectSettings, prefix: str, log: logging.Logger) -> None:
        """`prefix` begins every key. Raises NotFound for a model whose weights are not there."""
        names = [prefix, settings.namespace]
        if settings.model:
            names.append(weights_hash(settings.model))
        self.prefix = "/".join(name for name in names if name) + "/"
        self._durability = settings.durability
        self._retry_after = settings.retry_after
        self._log = log
        self._link = Link(connector_of(settings, settings.timeout, settings.transport), settings.retry_after, log)
        self._link.open()

    def exists(self, keys: collections.abc.Sequence[str]) -> list[bool]:
        """Which of them are stored."""
        return [size is not None for size in self._call("stat_objects", self._named(keys))]

    def put(self, keys: collections.abc.Sequence[str], values: collections.abc.Sequence[object]) -> None:
        """Stores arrays or HostPieces. What is stored under a key already stays."""
        objects = list(zip(self._named(keys), values, strict=True))
        self._call("put_objects", objects, durability=self._durability)

    def get(self, keys: collections.abc.Sequence[str], memory: collections.abc.Sequence[typing.Any]) -> list[bool]:
        """Reads into arrays or HostPieces; False for what is not stored, or has another size than its memory.

        The memory of such a key has unspecified bytes, and so has all memory after an error.
        """
        named = self._named(keys)
        got = [size is not None for size in self._call("get_objects_into", named, list(memory), exact=True)]
        self._warn_of_strangers([key for key, came in zip(named, got, strict=True) if not came])
        return got

    def delete(self, keys: collections.abc.Sequence[str]) -> list[bool]:
        """Removes objects; True for those that were stored."""
        return self._call("delete_objects", self._named(keys))

    def close(self) -> None:
        """Lets the client go."""
        self._link.close()

    def _named(self, keys: collections.abc.Sequence[str]) -> list[str]:
        return [self._name(key) for key in keys]

    def _name(self, key: str) -> str:
        name = self.prefix + key
        if len(name.encode()) <= _MAX_KEY_BYTES:
            return name
        return hashlib.sha256(name.encode()).hexdigest()

    def _warn_of_strangers(self, missed: list[str]) -> None:
        """Says so when keys that were asked for name something else: it is a mistake of whoever runs the engines."""
        sizes = self._call("stat_objects", missed) if missed else []
        strangers = [(key, size) for key, size in zip(missed, sizes, strict=True) if size is not None]
        if strangers:
            self._log.warning(
                "Quire has %d of %d objects with another size than the engine's, as %s of %d bytes. Another model, "
                "type or shard wrote them under the same name: give each a `namespace` or its `model`",
                len(strangers),
                len(missed),
                *strangers[0],
            )

    def _call(self, method: str, *args: typing.Any, **kwargs: typing.Any) -> typing.Any:
        client = self._link.client()
        if client is None:
            raise errors.Unavailable(f"Quire is away; it is tried again every {self._retry_after:g} s")
        try:
            return getattr(client, method)(*args, **kwargs)
        except errors.Error as error:
            self._link.failed(client, error)
            raise
