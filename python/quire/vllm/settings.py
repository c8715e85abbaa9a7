# SPDX-License-Identifier: Apache-2.0
"""Settings of the connector: vLLM's kv_connector_extra_config."""

from __future__ import annotations

import dataclasses
import pathlib
import typing

from quire.errors import InvalidArgument

LOADS = ("by_layer", "async")


@dataclasses.dataclass(frozen=True)
class Settings:
    """What kv_connector_extra_config may have. Times are seconds."""

    address: str = "127.0.0.1:7410"  # Of the server: "host:port" or "unix:/path".
    transport: str = "auto"  # Of loads: "auto", "shm", "ucx" or "grpc".
    tenant: str = "default"
    token_file: str = ""  # A file with the token that proves the tenant.
    collection: str = ""  # Whose codec prefixes are stored with; the server's default when empty.
    durability: str = "default"  # When a prefix counts as stored.
    load: str = "by_layer"  # A request waits for its prefix: layer by layer in its step, or outside of steps.
    save_output: bool = True  # Store what was generated, too: the prefix of the conversation's next turn.
    page_tokens: int = 32
    segment_pages: int = 8
    lookup_timeout: float = 1.0  # A request waits for a look-up at most this long.
    timeout: float = 10.0  # Likewise for one call of a load or a save.
    patience: float = 0.2  # A server that cannot be reached is away after this time.
    retry_after: float = 5.0  # It is tried again after this time.
    staged_bytes: int = 256 << 20  # Copies on their way to the server; what finds no room is not stored.

    @classmethod
    def of(cls, given: typing.Mapping[str, typing.Any]) -> Settings:
        """Raises InvalidArgument for a setting that is unknown, or of another type."""
        known = {field.name: field for field in dataclasses.fields(cls)}
        for name, value in given.items():
            if name not in known:
                raise InvalidArgument(
                    f"kv_connector_extra_config: '{name}' is unknown; there are: {', '.join(known)}"
                )
            wanted = type(known[name].default)
            if not isinstance(value, (int, float) if wanted is float else wanted) or (
                isinstance(value, bool) != (wanted is bool)
            ):
                raise InvalidArgument(f"kv_connector_extra_config: '{name}' must be a {wanted.__name__}")
        settings = cls(**given)
        if settings.load not in LOADS:
            raise InvalidArgument(f"kv_connector_extra_config: 'load' must be one of: {', '.join(LOADS)}")
        return settings

    @property
    def segment_tokens(self) -> int:
        """Tokens of a segment, the unit of what is found."""
        return self.page_tokens * self.segment_pages

    def token(self) -> str | None:
        """The token of the file, if there is one."""
        return pathlib.Path(self.token_file).read_text().strip() if self.token_file else None
