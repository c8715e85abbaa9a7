# SPDX-License-Identifier: Apache-2.0
"""Report: what became of the documents of an ingest. Plain values."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A document that is stored. One that was split counts as one, with the tokens of all parts."""

    unchanged: bool  # It was there: nothing was computed or sent.
    tokens: int = 0
    reused_tokens: int = 0  # Found in the store, and not computed.
    bytes_sent: int = 0  # Of pages, to the store.
    warnings: tuple[str, ...] = ()  # Name data that could not be stored beside the pages.


@dataclasses.dataclass(frozen=True)
class Refused:
    """A document that was not stored.

    Attributes:
      row: its number in the dataset, from 0 on.
      name: its name; empty where the row has none.
      code: name of the status, such as "INVALID_ARGUMENT".
      message: what was wrong, and what to do.
    """

    row: int
    name: str
    code: str
    message: str


@dataclasses.dataclass
class Report:
    """Counts of documents, and why some were refused.

    Attributes:
      added: were computed and stored.
      unchanged: were stored already.
      refused: were not stored, in the order in which that became known.
      warnings: name and text of what could not be stored beside a document's pages.
      retried: attempts beyond the first of each document.
      lost_workers: actors that were lost with their process or host, or did not start, and were replaced.
      tokens, reused_tokens, bytes_sent: of the added ones.
      seconds: since the call began.
    """

    added: int = 0
    unchanged: int = 0
    refused: list[Refused] = dataclasses.field(default_factory=list)
    warnings: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    retried: int = 0
    lost_workers: int = 0
    tokens: int = 0
    reused_tokens: int = 0
    bytes_sent: int = 0
    seconds: float = 0.0

    @property
    def done(self) -> int:
        """Documents of which the outcome is known."""
        return self.added + self.unchanged + len(self.refused)

    def count(self, name: str, outcome: Outcome) -> None:
        """Adds a stored document."""
        self.warnings += [(name, warning) for warning in outcome.warnings]
        if outcome.unchanged:
            self.unchanged += 1
            return
        self.added += 1
        self.tokens += outcome.tokens
        self.reused_tokens += outcome.reused_tokens
        self.bytes_sent += outcome.bytes_sent

    def __str__(self) -> str:
        parts = [f"added {self.added}", f"unchanged {self.unchanged}", f"refused {len(self.refused)}"]
        if self.retried:
            parts.append(f"retried {self.retried}")
        if self.lost_workers:
            parts.append(f"workers lost {self.lost_workers}")
        return f"{', '.join(parts)}; {self.done / max(self.seconds, 1e-3):.1f} documents/s"
