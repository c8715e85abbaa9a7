# SPDX-License-Identifier: Apache-2.0
"""Settings of the connector: vLLM's kv_connector_extra_config."""

from __future__ import annotations

import dataclasses
import typing

from quire.engines.settings import ServerSettings
from quire.errors import InvalidArgument

LOADS = ("by_layer", "async")


@dataclasses.dataclass(frozen=True)
class Settings(ServerSettings):
    """What kv_connector_extra_config may have. Times are seconds."""

    WHERE: typing.ClassVar[str] = "kv_connector_extra_config"

    collection: str = ""  # Whose codec prefixes are stored with; the server's default when empty.
    load: str = "by_layer"  # A request waits for its prefix: layer by layer in its step, or outside of steps.
    save_output: bool = True  # Store what was generated, too: the prefix of the conversation's next turn.
    save_tail: bool = False  # Store the end of a prompt, too, which is no whole segment: the same prompt finds it.
    page_tokens: int = 32
    segment_pages: int = 8
    lookup_timeout: float = 1.0  # A request waits for a look-up at most this long.
    staged_bytes: int = 256 << 20  # Copies on their way to the server; what finds no room is not stored.

    @classmethod
    def of(cls, given: typing.Mapping[str, typing.Any]) -> Settings:
        """Raises InvalidArgument for a setting that is unknown, of another type, or not among its words."""
        settings = super().of(given)
        if settings.load not in LOADS:
            raise InvalidArgument(f"kv_connector_extra_config: 'load' must be one of: {', '.join(LOADS)}")
        return settings

    @property
    def segment_tokens(self) -> int:
        """Tokens of a segment, the unit of what is found."""
        return self.page_tokens * self.segment_pages
