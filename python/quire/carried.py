# SPDX-License-Identifier: Apache-2.0
"""Libraries that a wheel carries. UCX of a wheel must not load the machine's modules of another UCX."""

from __future__ import annotations

import contextlib
import os
import pathlib
import typing

_VARIABLE = "UCX_MODULE_DIR"
# auditwheel puts libraries there; a build of the machine itself has none.
_LIBRARIES = pathlib.Path(__file__).parent.parent / "quire.libs"


def environment() -> dict[str, str]:
    """Variables for programs of the package."""
    if not _LIBRARIES.is_dir() or _VARIABLE in os.environ:
        return dict(os.environ)
    return {**os.environ, _VARIABLE: str(_LIBRARIES / "ucx")}


@contextlib.contextmanager
def loading() -> typing.Iterator[None]:
    """Sets the variables while the native part is loaded, when UCX reads them, and no longer."""
    before = os.environ.get(_VARIABLE)
    os.environ.update(environment())
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_VARIABLE, None)
