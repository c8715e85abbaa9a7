# SPDX-License-Identifier: Apache-2.0
"""The connector's counts as vLLM's own statistics: its log line, and its metrics."""

from __future__ import annotations

import typing

from prometheus_client import Counter
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import KVConnectorPromMetrics, KVConnectorStats
from vllm.v1.metrics.utils import create_metric_per_engine

from quire.vllm.counts import HELP


class QuireStats(KVConnectorStats):
    """`data` has counts by name."""

    def reset(self) -> None:
        self.data = {}

    def aggregate(self, other: KVConnectorStats) -> KVConnectorStats:
        for name, value in other.data.items():
            self.data[name] = self.data.get(name, 0) + value
        return self

    def reduce(self) -> dict[str, int | float]:
        return {name: round(value, 3) for name, value in sorted(self.data.items())}

    def is_empty(self) -> bool:
        return not self.data


class QuirePromMetrics(KVConnectorPromMetrics):
    """A counter vllm:quire_NAME_total for each count."""

    def __init__(self, vllm_config, metric_types, labelnames, per_engine_labelvalues) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        self._counters = {
            name: create_metric_per_engine(
                metric_types[Counter](name=f"vllm:quire_{name}", documentation=text, labelnames=labelnames),
                per_engine_labelvalues,
            )
            for name, text in HELP.items()
        }

    def observe(self, transfer_stats_data: dict[str, typing.Any], engine_idx: int = 0) -> None:
        for name, value in transfer_stats_data.items():
            self._counters[name][engine_idx].inc(value)
