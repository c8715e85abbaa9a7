# SPDX-License-Identifier: Apache-2.0
"""On PYTHONPATH of processes that have vLLM and LMCache.

vLLM's worker looks at every module's objects. LMCache imports numba, and llvmlite's library object answers any
attribute, such as __dict__, with a function.
"""

import importlib.util

if importlib.util.find_spec("llvmlite") is not None:
    from llvmlite.binding import ffi

    _any_attribute = ffi._lib_wrapper.__getattr__

    def _no_dunder(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _any_attribute(self, name)

    ffi._lib_wrapper.__getattr__ = _no_dunder
