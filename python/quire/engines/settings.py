# SPDX-License-Identifier: Apache-2.0
"""Settings that every connector has: where the server is, who asks, and how long it waits."""

from __future__ import annotations

import dataclasses
import pathlib
import typing

from quire.errors import InvalidArgument


@dataclasses.dataclass(frozen=True)
class ServerSettings:
    """Connectors derive theirs from this. Times are seconds."""

    WHERE: typing.ClassVar[str] = "settings"  # What an engine calls them.

    address: str = "127.0.0.1:7410"  # Of the server: "host:port" or "unix:/path".
    transport: str = "auto"  # Of loads: "auto", "shm", "ucx" or "grpc".
    tenant: str = "default"
    token_file: str = ""  # A file with the token that proves the tenant.
    durability: str = "default"  # When something counts as stored.
    timeout: float = 10.0  # Limit of one call of a load or a save.
    patience: float = 0.2  # A server that cannot be reached is away after this time.
    retry_after: float = 5.0  # It is tried again after this time.

    @classmethod
    def of(cls, given: typing.Mapping[str, typing.Any]) -> typing.Self:
        """Raises InvalidArgument for a setting that is unknown, or of another type."""
        known = {field.name: field for field in dataclasses.fields(cls)}
        for name, value in given.items():
            if name not in known:
                raise InvalidArgument(f"{cls.WHERE}: '{name}' is unknown; there are: {', '.join(known)}")
            wanted = type(known[name].default)
            if not isinstance(value, (int, float) if wanted is float else wanted) or (
                isinstance(value, bool) != (wanted is bool)
            ):
                raise InvalidArgument(f"{cls.WHERE}: '{name}' must be a {wanted.__name__}")
        settings = cls(**given)
        if "," in settings.address:
            raise InvalidArgument(f"{cls.WHERE}: 'address' names several servers; give one")
        return settings

    def token(self) -> str | None:
        """The token of the file, if there is one."""
        return pathlib.Path(self.token_file).read_text().strip() if self.token_file else None
