# SPDX-License-Identifier: Apache-2.0
"""Counts of the connector, which vLLM logs and exports as its own metrics."""

from __future__ import annotations

import collections
import threading

# Every count, and what it counts. vLLM exports each as vllm:quire_NAME_total.
HELP = {
    "prefill_tokens_saved": "Tokens that were loaded instead of computed.",
    "lookups": "Requests whose prefix was looked up.",
    "lookup_failures": "Look-ups that ended with an error; the requests are computed.",
    "loads": "Prefixes that were loaded.",
    "load_failures": "Loads that ended with an error; the requests are computed.",
    "load_seconds": "Time of loads, from their start to the last layer.",
    "segments_saved": "Segments that were sent to the server.",
    "segments_known": "Of them, those that the server had.",
    "segments_dropped": "Segments that were not sent: no room for the copy, or an error.",
    "documents_registered": "Prompts that were registered as documents.",
    "documents_refused": "Documents that a request named and that do not begin its prompt, or are of another model.",
    "hints_refused": "Requests whose hints were not understood, and that went on without.",
    "conversations_released": "Conversations that a request ended.",
    "requests_passed": "Requests that token ids do not describe: with pictures, embeddings or adapters.",
}


class Counts:
    """Counts since the last `take`. Threads may share them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: collections.Counter[str] = collections.Counter()

    def add(self, name: str, value: float = 1) -> None:
        """Adds to the count of that name, one of HELP."""
        assert name in HELP, name
        with self._lock:
            self._values[name] += value

    def take(self) -> dict[str, float]:
        """The counts, which start again; those that are not 0."""
        with self._lock:
            values, self._values = self._values, collections.Counter()
        return dict(values)
