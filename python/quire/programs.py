# SPDX-License-Identifier: Apache-2.0
"""The programs of the package: `quire`, the command line, and `quired`, the server."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
import typing

from quire import carried
from quire.errors import NotFound


def find(name: str) -> str:
    """Path of a program: the package's own, or the one that PATH has."""
    packaged = pathlib.Path(__file__).parent / "bin" / name
    if packaged.is_file():
        return str(packaged)
    # The console script of this package has the same name, and would call itself.
    ours = pathlib.Path(sys.argv[0]).resolve().parent
    others = [p for p in os.get_exec_path() if pathlib.Path(p).resolve() != ours]
    found = shutil.which(name, path=os.pathsep.join(others))
    if found is None:
        raise NotFound(
            f"the package was built without `{name}`, and PATH has none; build it with "
            "-DQUIRE_BUILD_APPS=ON, or install the server"
        )
    return found


def run(name: str, arguments: list[str]) -> typing.NoReturn:
    """Becomes the program."""
    try:
        program = find(name)
    except NotFound as error:
        sys.exit(f"{name}: {error}")
    os.execve(program, [name, *arguments], carried.environment())


def quire() -> typing.NoReturn:
    """The console script `quire`."""
    run("quire", sys.argv[1:])


def quired() -> typing.NoReturn:
    """The console script `quired`."""
    run("quired", sys.argv[1:])
