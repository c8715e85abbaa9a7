# SPDX-License-Identifier: Apache-2.0
"""Link: a client whose server may be away. An engine never waits for a server that does not answer."""

from __future__ import annotations

import logging
import threading
import time
import typing

from quire import errors
from quire.client import Client
from quire.engines.settings import ServerSettings

# After these the server is taken to be away.
_AWAY = (errors.Unavailable, errors.DeadlineExceeded)


def connector_of(settings: ServerSettings, timeout: float, transport: str) -> typing.Callable[[], Client]:
    """Connects as the settings say; calls of the client take `timeout` at most."""
    return lambda: Client(
        settings.address,
        transport,
        tenant=settings.tenant,
        token=settings.token(),
        timeout=timeout,
        patience=settings.patience,
    )


class Link:
    """Threads may share a link."""

    def __init__(
        self,
        connect: typing.Callable[[], Client],
        retry_after: float,
        log: logging.Logger,
        clock: typing.Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect = connect
        self._retry_after = retry_after
        self._log = log
        self._clock = clock
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._attempt: threading.Thread | None = None
        self._next_attempt = 0.0
        self._closed = False

    def open(self) -> None:
        """Connects now, and waits for it, so that the first request finds what is stored."""
        self._try()

    def client(self) -> Client | None:
        """The client; None while the server is away. Does not wait: attempts run in a thread of their own."""
        with self._lock:
            if self._client is None and not self._closed and self._attempt is None:
                if self._clock() >= self._next_attempt:
                    self._attempt = threading.Thread(target=self._try, name="quire-connect", daemon=True)
                    self._attempt.start()
            return self._client

    def failed(self, client: Client, error: errors.Error) -> None:
        """Says that a call of `client` ended with `error`. The server may be away since."""
        if not isinstance(error, _AWAY):
            return
        with self._lock:
            if self._client is not client:
                return
            self._client = None
            self._next_attempt = self._clock() + self._retry_after
        self._log.warning("Quire is away, prefixes are computed meanwhile: %s", error)

    def close(self) -> None:
        """Lets the client go; there is no further one. Waits for an attempt that runs."""
        with self._lock:
            self._closed = True
            client, self._client = self._client, None
            attempt = self._attempt
        if attempt is not None:
            attempt.join()
        if client is not None:
            client.close()

    def _try(self) -> None:
        client = None
        try:
            client = self._connect()
            self._log.info("connected to Quire %s over %s", client.server_version, client.transport_summary)
        except (errors.Error, OSError) as error:
            self._log.warning("Quire cannot be reached, prefixes are computed meanwhile: %s", error)
        with self._lock:
            self._attempt = None
            self._next_attempt = self._clock() + self._retry_after
            if not self._closed:
                self._client, client = client, None
        if client is not None:
            client.close()
