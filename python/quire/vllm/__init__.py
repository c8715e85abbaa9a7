# SPDX-License-Identifier: Apache-2.0
"""Quire for vLLM: prefixes that another process, or an earlier one, has computed.

    --kv-transfer-config '{"kv_connector": "QuireConnector", "kv_connector_module_path": "quire.vllm",
                           "kv_role": "kv_both", "kv_connector_extra_config": {"address": "127.0.0.1:7410"}}'

docs/engines.md has the settings. vLLM is imported when the connector is asked for.
"""

from __future__ import annotations

import typing


def __getattr__(name: str) -> typing.Any:
    if name == "QuireConnector":
        from quire.vllm.connector import QuireConnector

        return QuireConnector
    raise AttributeError(name)
