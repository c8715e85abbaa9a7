# SPDX-License-Identifier: Apache-2.0
"""HostWorker: a `quire worker` on this host, and documents that it reads. Knows nothing of Ray."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time
import typing

from quire import carried, errors, programs
from quire.client import Client
from quire.ray.report import Outcome
from quire.ray.source import SourceDocument

# Codes that say nothing of the document: another attempt may succeed, or no document would.
CONCERN_ALL = (
    errors.Unavailable,
    errors.DeadlineExceeded,
    errors.ResourceExhausted,
    errors.Cancelled,
    errors.Aborted,
    errors.Internal,
    errors.PermissionDenied,
    errors.Unauthenticated,
    errors.Unimplemented,
    errors.FailedPrecondition,
)
_WAIT_SECONDS = 600.0  # For an earlier attempt, which ends with its lease (30 s by default).
_POLL_SECONDS = 0.5


@dataclasses.dataclass(frozen=True)
class Setup:
    """What every host's worker and documents have in common."""

    server: str
    collection: str = "default"
    model: str | None = None  # Directory on each host; the bundled one when None.
    tenant: str | None = None
    token_file: str | None = None  # On each host.
    ttl_seconds: int | None = None
    split: bool = False
    jobs: int = 4  # Documents that a worker reads at a time.
    worker_options: tuple[str, ...] = ()  # Further arguments of `quire worker`.

    def command(self, *words: str) -> list[str]:
        """A command of `quire` that prints JSON, for the server and the tenant."""
        command = [programs.find("quire"), "--json", f"--server={self.server}"]
        if self.tenant is not None:
            command.append(f"--tenant={self.tenant}")
        if self.token_file is not None:
            command.append(f"--token-file={self.token_file}")
        return [*_ended_with_parent(), *command, *words]

    def connect(self) -> Client:
        """A client of the store."""
        token = None if self.token_file is None else pathlib.Path(self.token_file).read_text().strip()
        return Client(self.server, "control", tenant=self.tenant or "default", token=token)


class HostWorker:
    """Threads may share it. The worker is started by the first call, and again once it has ended."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._folder = tempfile.TemporaryDirectory(prefix="quire-ray-")
        self._log = pathlib.Path(self._folder.name) / "worker.log"
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._address = ""
        self._starts = 0

    def start(self) -> str:
        """Address of the worker, which runs. Raises what the worker says where it does not start."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._run()
            return self._address

    @property
    def pid(self) -> int | None:
        """Number of the worker's process; None before it is started."""
        return None if self._process is None else self._process.pid

    def ingest(self, document: SourceDocument, again: bool = False) -> Outcome:
        """Reads a document into the store, unless it is there.

        Args:
          again: an earlier attempt was lost. Its reserved version is waited for: it is ready soon, or fails with its
            lease. So one document does not become two versions.

        Raises one of CONCERN_ALL, or another quire.Error where the document is refused.
        """
        if again:
            self._await_earlier(document.name)
        words = [*document.arguments(), f"--worker={self._running()}", f"--collection={self._setup.collection}"]
        if self._setup.ttl_seconds is not None:
            words.append(f"--ttl={self._setup.ttl_seconds}s")
        if self._setup.split:
            words.append("--split")
        command = self._setup.command("docs", "add", *words)
        done = subprocess.run(
            command, input=document.input(), capture_output=True, env=carried.environment(), check=False
        )
        return _outcome_of(done)

    def close(self) -> None:
        """Ends the worker. Documents that it reads fail."""
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.wait()
                self._process.stdout.close()
            self._folder.cleanup()

    def _running(self) -> str:
        """As start(), for a document that is not to blame."""
        try:
            return self.start()
        except errors.Error as error:
            raise errors.Unavailable(error.message) from error

    def _run(self) -> None:
        if self._process is not None:
            self._process.stdout.close()
        self._starts += 1
        self._address = f"unix:{self._folder.name}/{self._starts}.sock"
        calls = f"--max-calls={max(8, self._setup.jobs)}"
        words = ["worker", f"--listen={self._address}", calls, *self._setup.worker_options]
        if self._setup.model is not None:
            words.append(f"--model={self._setup.model}")
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                self._setup.command(*words),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=carried.environment(),
            )
        line = self._process.stdout.readline()
        answer = _json_of(line)
        if "listening" not in answer:
            self._process.kill()
            self._process.wait()
            said = self._log.read_text(errors="replace") or line.decode(errors="replace")
            raise _error_in(answer, "the worker did not start", said)

    def _await_earlier(self, name: str) -> None:
        quoted = name.replace("\\", "\\\\").replace('"', '\\"')
        wanted = f'state=ingesting and name~"{quoted}"'
        until = time.monotonic() + _WAIT_SECONDS
        with self._setup.connect() as client:
            while any(
                _is_of(document.name.name, name)
                for document in client.list_documents(self._setup.collection, wanted)
            ):
                if time.monotonic() > until:
                    raise errors.Aborted(f"{name} is being read by others for more than {_WAIT_SECONDS:.0f} s")
                time.sleep(_POLL_SECONDS)


def _ended_with_parent() -> list[str]:
    """Words before a command that end it when its parent dies, also by SIGKILL."""
    setpriv = shutil.which("setpriv")
    return [] if setpriv is None else [setpriv, "--pdeathsig", "KILL"]


def _is_of(found: str, name: str) -> bool:
    """True for the document and its parts."""
    return found == name or found.startswith(name + "#")


def _outcome_of(done: subprocess.CompletedProcess[bytes]) -> Outcome:
    """What `quire docs add` of one document printed."""
    answer = _json_of(done.stdout)
    stored = answer.get("added", []) + answer.get("unchanged", [])
    if done.returncode == 0 and stored:
        return Outcome(
            unchanged=not answer["added"],
            tokens=sum(document["tokens"] for document in stored),
            reused_tokens=sum(document["reused_tokens"] for document in stored),
            bytes_sent=sum(document["bytes_sent"] for document in stored),
            warnings=tuple(document["warning"] for document in stored if document["warning"]),
        )
    for refused in answer.get("refused", []):
        raise errors.named(refused["code"], refused["message"])
    raise _error_in(answer, f"`quire docs add` ended with {done.returncode}", done.stderr.decode(errors="replace"))


def _json_of(printed: bytes) -> dict[str, typing.Any]:
    try:
        answer = json.loads(printed)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _error_in(answer: dict[str, typing.Any], what: str, said: str) -> errors.Error:
    if "error" in answer:
        return errors.named(answer["error"]["code"], answer["error"]["message"])
    return errors.Internal(f"{what}: {' / '.join(said.strip().splitlines()[-3:])}")
