# SPDX-License-Identifier: Apache-2.0
"""A stand-in for SGLang's kernels, of which PyPI has no build for CPUs: SGLang imports them, and computes with torch."""

__version__ = "0.0"


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*args, **kwargs):
        raise NotImplementedError(f"sgl_kernel.{name} is not here")

    return missing
