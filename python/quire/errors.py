# SPDX-License-Identifier: Apache-2.0
"""Exceptions of Quire: one class for each code of a status, all of them `Error`."""

from __future__ import annotations


class Error(Exception):
    """A call that failed.

    Attributes:
      code: name of the status, such as "NOT_FOUND".
      message: what was wrong and what to do, as the client or the server said it.
    """

    code = "UNKNOWN"

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message


class Cancelled(Error):
    """The call was given up."""

    code = "CANCELLED"


class Unknown(Error):
    """An error without a kind."""


class InvalidArgument(Error, ValueError):
    """Malformed input: a wrong shape, type or name, or a KvSpec that does not match."""

    code = "INVALID_ARGUMENT"


class DeadlineExceeded(Error, TimeoutError):
    """The time of the call passed first."""

    code = "DEADLINE_EXCEEDED"


class NotFound(Error, LookupError):
    """The segment, context, document or session is not there."""

    code = "NOT_FOUND"


class AlreadyExists(Error):
    """Other bytes are stored under a key that is known."""

    code = "ALREADY_EXISTS"


class PermissionDenied(Error):
    """The tenant may not do it."""

    code = "PERMISSION_DENIED"


class ResourceExhausted(Error):
    """A limit was reached: memory, disk, sessions or a queue."""

    code = "RESOURCE_EXHAUSTED"


class FailedPrecondition(Error):
    """The object is in another state."""

    code = "FAILED_PRECONDITION"


class Aborted(Error):
    """Another change came first."""

    code = "ABORTED"


class OutOfRange(Error):
    """A position that is not there any more."""

    code = "OUT_OF_RANGE"


class Unimplemented(Error):
    """The server has no such call."""

    code = "UNIMPLEMENTED"


class Internal(Error):
    """A fault of Quire, or a reply that cannot be parsed."""

    code = "INTERNAL"


class Unavailable(Error, ConnectionError):
    """The server cannot be reached, or units were held for too long. Trying again may help."""

    code = "UNAVAILABLE"


class DataLoss(Error):
    """Bytes that do not match their checksum. They are not handed out."""

    code = "DATA_LOSS"


class Unauthenticated(Error):
    """The token proves no tenant."""

    code = "UNAUTHENTICATED"


# By the number of gRPC's code.
_BY_NUMBER: dict[int, type[Error]] = {
    1: Cancelled,
    2: Unknown,
    3: InvalidArgument,
    4: DeadlineExceeded,
    5: NotFound,
    6: AlreadyExists,
    7: PermissionDenied,
    8: ResourceExhausted,
    9: FailedPrecondition,
    10: Aborted,
    11: OutOfRange,
    12: Unimplemented,
    13: Internal,
    14: Unavailable,
    15: DataLoss,
    16: Unauthenticated,
}


def error_of(number: int, message: str) -> Error:
    """The exception for a status; the native part calls it."""
    return _BY_NUMBER.get(number, Unknown)(message)


def named(code: str, message: str) -> Error:
    """The exception for a code by its name, as programs print it."""
    return next((kind for kind in _BY_NUMBER.values() if kind.code == code), Unknown)(message)
