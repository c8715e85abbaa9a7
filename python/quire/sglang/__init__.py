# SPDX-License-Identifier: Apache-2.0
"""Quire as the storage behind SGLang's HiCache: pages that another process, or an earlier one, has computed.

    --hicache-storage-backend dynamic --hicache-storage-backend-extra-config '{"backend_name": "quire",
        "module_path": "quire.sglang", "class_name": "QuireStorage", "interface_v1": 1,
        "quire": {"address": "127.0.0.1:7410"}}'

docs/engines.md has the settings. SGLang is imported when the class is asked for.
"""

from __future__ import annotations

import typing


def __getattr__(name: str) -> typing.Any:
    if name == "QuireStorage":
        from quire.sglang.storage import QuireStorage

        return QuireStorage
    raise AttributeError(name)
