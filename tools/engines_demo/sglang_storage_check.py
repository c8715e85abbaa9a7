# SPDX-License-Identifier: Apache-2.0
"""Loads the backend by SGLang's factory, and moves pages of every layout of its host pool, without an engine.

The argument is the server's address. Prints what was compared; exit code 1 and the reason when something differs.
"""

import sys
import types

import torch
from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig
from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost
from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory

PAGE, PAGES, LAYERS, HEADS, CHANNELS = 16, 8, 3, 2, 64
SHAPES = {
    "layer_first": (2, LAYERS, PAGE * PAGES, HEADS, CHANNELS),
    "page_first": (2, PAGE * PAGES, LAYERS, HEADS, CHANNELS),
    "page_first_direct": (2, PAGES, LAYERS, PAGE, HEADS, CHANNELS),
    "page_head": (2, PAGES, HEADS, PAGE, LAYERS, CHANNELS),
}
BORROWED = "get_data_page", "get_dummy_flat_data_page", "set_from_flat_data_page", "get_page_buffer_meta"


def pool_of(layout, filled):
    """Memory of a host pool, with the methods of SGLang's own. Its constructor needs a pool on a device."""
    make = torch.randn if filled else torch.zeros
    pool = types.SimpleNamespace(
        layout=layout, page_size=PAGE, size=PAGE * PAGES, layer_num=LAYERS, head_num=HEADS, head_dim=CHANNELS,
        dtype=torch.bfloat16, device="cpu", pin_memory=False, kv_buffer=make(SHAPES[layout]).bfloat16(),
    )
    for name in BORROWED:
        setattr(pool, name, types.MethodType(getattr(MHATokenToKVPoolHost, name), pool))
    return pool


def backend_of(address, pool, namespace):
    extra = {"backend_name": "quire", "module_path": "quire.sglang", "class_name": "QuireStorage", "interface_v1": 1}
    config = HiCacheStorageConfig(
        tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1, is_mla_model=False,
        enable_storage_metrics=False, is_page_first_layout=pool.layout == "page_first", model_name="check",
        extra_config={**extra, "quire": {"address": address, "namespace": namespace}},
    )
    backend = StorageBackendFactory.create_backend("dynamic", config, None)
    backend.register_mem_pool_host(pool)
    return backend


def indices(pages):
    return torch.cat([torch.arange(page * PAGE, (page + 1) * PAGE) for page in pages])


def check(condition, *what):
    if not condition:
        sys.exit(" ".join(str(part) for part in what))


def same(source, target, pairs):
    return all(
        torch.equal(source.get_data_page(here * PAGE), target.get_data_page(there * PAGE)) for here, there in pairs
    )


def exchange(address, writes, reads):
    """Writes pages with one layout, and reads them with another, in both ways that SGLang has."""
    source, target, flat = pool_of(writes, True), pool_of(reads, False), pool_of(reads, False)
    namespace = f"{writes}-{reads}"
    writer, reader = backend_of(address, source, namespace), backend_of(address, target, namespace)
    keys, pairs = ["a", "b", "c"], [(1, 6), (4, 0), (7, 3)]
    check(all(writer.batch_set_v1(keys, indices(here for here, _ in pairs))), namespace, "not stored")
    check(reader.batch_exists([*keys, "no"]) == 3 and not reader.exists("no"), namespace, "not found")
    check(reader.batch_get_v1([*keys, "no"], indices([6, 0, 3, 5])) == [True] * 3 + [False], namespace, "not read")
    check(same(source, target, pairs), namespace, "pages differ")
    pages = reader.batch_get([*keys, "no"])
    check(pages[3] is None, namespace, "a page that is not there was read")
    for (_, there), page in zip(pairs, pages):
        flat.set_from_flat_data_page(there * PAGE, page)
    check(same(source, flat, pairs), namespace, "flat pages differ")
    check(reader.set("d", source.get_data_page(0)), namespace, "a flat page was not stored")
    check(torch.equal(reader.get("d"), source.get_data_page(0)), namespace, "a flat page differs")
    for backend in (writer, reader):
        backend.close()


def main():
    torch.manual_seed(1)
    pairs = [(layout, layout) for layout in SHAPES]
    pairs += [("layer_first", "page_first_direct"), ("page_first_direct", "layer_first")]
    for writes, reads in pairs:
        exchange(sys.argv[1], writes, reads)
    print(f"{len(pairs)} pairs of layouts")


if __name__ == "__main__":
    main()
