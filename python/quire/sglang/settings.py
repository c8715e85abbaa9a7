# SPDX-License-Identifier: Apache-2.0
"""Settings of the backend: "quire" in SGLang's hicache_storage_backend_extra_config."""

from __future__ import annotations

import collections.abc
import dataclasses
import typing

from quire.engines.object_cache import ObjectSettings
from quire.errors import InvalidArgument


@dataclasses.dataclass(frozen=True)
class Settings(ObjectSettings):
    """What "quire" may have."""

    WHERE: typing.ClassVar[str] = "hicache_storage_backend_extra_config's 'quire'"


def settings_of(extra_config: collections.abc.Mapping[str, typing.Any] | None) -> Settings:
    """Raises InvalidArgument for wrong settings, and for those that stand beside "quire"."""
    given = extra_config or {}
    own = given.get("quire", {})
    if not isinstance(own, collections.abc.Mapping):
        raise InvalidArgument(f"{Settings.WHERE} must be an object of settings")
    beside = sorted({field.name for field in dataclasses.fields(Settings)} & set(given))
    if beside:
        raise InvalidArgument(f"'{beside[0]}' is a setting of Quire: give it as \"quire\": {{\"{beside[0]}\": ...}}")
    return Settings.of(own)
