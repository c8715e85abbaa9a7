# SPDX-License-Identifier: Apache-2.0
"""On PYTHONPATH of SGLang's processes: what its host pools take from builds for devices, in torch.

Scheduler, radix tree, cache controller and the calls to the storage are SGLang's own.
"""

import importlib.abc
import importlib.machinery
import sys

_POOLS = "sglang.srt.mem_cache.pool_host"


def _register_nothing(module):
    def register(buffer, registration_granularity_bytes=None):
        setattr(buffer, module._CUDA_HOST_REGISTERED_RANGES_ATTR, [])

    module._cuda_host_register = register


def _copy_with_torch(module):
    def transfer_kv_direct(src_layers, dst_layers, src_indices, dst_indices, page_size):
        for source, target in zip(src_layers, dst_layers):
            target[dst_indices] = source[src_indices]

    def transfer_kv_per_layer_direct_pf_lf(src_ptrs, dst_ptrs, src_indices, dst_indices, layer_id, page_size):
        for source, target in zip(src_ptrs, dst_ptrs):
            target[dst_indices] = source[src_indices // page_size, layer_id, src_indices % page_size]

    def transfer_kv_all_layer_direct_lf_pf(src_ptrs, dst_ptrs, src_indices, dst_indices, page_size):
        layers = len(src_ptrs) // len(dst_ptrs)
        for number, source in enumerate(src_ptrs):
            target = dst_ptrs[number // layers]
            target[dst_indices // page_size, number % layers, dst_indices % page_size] = source[src_indices]

    copies = transfer_kv_direct, transfer_kv_per_layer_direct_pf_lf, transfer_kv_all_layer_direct_lf_pf
    for copy in copies:
        setattr(module, copy.__name__, copy)


class _Patched(importlib.abc.MetaPathFinder):
    """Changes modules when they have been imported."""

    changes = {f"{_POOLS}.common": _register_nothing, f"{_POOLS}.mha": _copy_with_torch}

    def find_spec(self, name, path, target=None):
        change = self.changes.get(name)
        spec = importlib.machinery.PathFinder.find_spec(name, path) if change else None
        if spec is not None:
            execute = spec.loader.exec_module

            def execute_and_change(module):
                execute(module)
                change(module)

            spec.loader.exec_module = execute_and_change
        return spec


sys.meta_path.insert(0, _Patched())
