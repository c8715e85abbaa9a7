# SPDX-License-Identifier: Apache-2.0
"""What the scheduler's half of the connector asks of the worker's half in a step. Plain values, which are pickled."""

from __future__ import annotations

import dataclasses
import typing


@dataclasses.dataclass
class Load:
    """Brings tokens [first_token, end_token) of a stored chain to their blocks."""

    request: str
    spec: str  # JSON of the KvSpec.
    chain: bytes  # Key of the chain's last segment.
    first_token: int
    end_token: int
    blocks: list[int]  # Of the request, from its first token on.
    asynchronous: bool

    def targets(self, block_tokens: int) -> list[int]:
        """The blocks that it writes."""
        return self.blocks[self.first_token // block_tokens : -(-self.end_token // block_tokens)]


@dataclasses.dataclass
class Save:
    """Stores segments of a request's chain, from `first_segment` on, up to token `end_token`."""

    request: str
    spec: str
    stored_segments: int  # Of the chain, when the request came.
    stored_tip: bytes | None  # Key of the last of them.
    first_segment: int
    end_token: int
    tokens: list[int]  # From the first segment's first one to end_token.
    blocks: list[int]
    register_as: str = ""  # Name of a document that ends there.
    hints: dict[str, typing.Any] | None = None  # Arguments of quire.Hints.


@dataclasses.dataclass
class Work:
    """One step."""

    loads: list[Load] = dataclasses.field(default_factory=list)
    saves: list[Save] = dataclasses.field(default_factory=list)
    recomputed: set[int] = dataclasses.field(default_factory=set)  # Blocks whose failed load the scheduler knows.
    finished: list[str] = dataclasses.field(default_factory=list)
    prompts_go_on: bool = False  # The next step computes more of a prompt.
