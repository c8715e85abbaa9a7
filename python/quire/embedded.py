# SPDX-License-Identifier: Apache-2.0
"""A server of one's own: a `quired` as a child of this process, on a Unix socket."""

from __future__ import annotations

import atexit
import os
import pathlib
import subprocess
import tempfile
import threading
import typing

from quire import carried, programs
from quire.client import Client
from quire.errors import Unavailable

# A path of a Unix socket has at most 107 bytes, so the socket lies in a short folder of its own.
_SOCKET = "quired.sock"
_ANNOUNCED = "quired listening on "


def embedded(
    path: str | os.PathLike[str],
    *,
    dram_bytes: int | str = "256MiB",
    arguments: typing.Sequence[str] = (),
    start_timeout: float = 60.0,
) -> EmbeddedServer:
    """Starts the packaged server on the store in the directory `path`, which is made when missing.

    The server ends with `close`, with the `with` block, or when this process exits. It is a
    process of its own: what it has acknowledged as persisted stays when it is killed.

    Args:
      dram_bytes: size of its DRAM tier, such as 1 << 30 or "1GiB".
      arguments: further ones of `quired`; `quired --help` lists them.
      start_timeout: seconds until it must listen. A large store takes longer to open.

    Raises Unavailable, with the server's last words, when it does not start.
    """
    return EmbeddedServer(path, dram_bytes, arguments, start_timeout)


class EmbeddedServer:
    """A running server. Its log is `quired.log` in the directory of the store."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        dram_bytes: int | str,
        arguments: typing.Sequence[str],
        start_timeout: float,
    ) -> None:
        self.path = pathlib.Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self._folder = tempfile.TemporaryDirectory(prefix="quire-")
        self.address = f"unix:{self._folder.name}/{_SOCKET}"
        self._log = self.path / "quired.log"
        command = [programs.find("quired"), "--data-dir", str(self.path), "--listen", self.address]
        command += ["--shm-socket", f"{self._folder.name}/shm.sock"]
        command += ["--dram-bytes", str(dram_bytes), *arguments]
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=carried.environment(),
            )
        atexit.register(self.close)
        self._await_start(start_timeout)

    def _await_start(self, timeout: float) -> None:
        """Reads the line by which the server says that it listens."""
        late = threading.Timer(timeout, self._process.kill)
        late.start()
        try:
            line = self._process.stdout.readline().decode(errors="replace")
        finally:
            late.cancel()
        if not line.startswith(_ANNOUNCED):
            self._process.kill()
            self._process.wait()
            words = self._log.read_text(errors="replace").strip().splitlines()[-3:]
            self.close()
            raise Unavailable("the server did not start: " + (" / ".join(words) or line.strip()))

    @property
    def pid(self) -> int:
        """Number of the server's process."""
        return self._process.pid

    def connect(self, transport: str = "auto", **options: typing.Any) -> Client:
        """A client of this server; arguments are those of quire.Client."""
        return Client(self.address, transport, **options)

    def kill(self) -> None:
        """Ends the server at once, as a crash does."""
        self._process.kill()
        self._process.wait()

    def close(self, timeout: float = 30.0) -> None:
        """Ends the server: calls that run are finished, and the store is closed."""
        atexit.unregister(self.close)
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
        self._process.stdout.close()
        self._folder.cleanup()

    def __enter__(self) -> EmbeddedServer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
