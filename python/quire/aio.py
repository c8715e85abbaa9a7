# SPDX-License-Identifier: Apache-2.0
"""asyncio: a client, its contexts, sessions and recalls, each method of which can be awaited.

    async with await quire.aio.connect("127.0.0.1:7410") as client:
        session = await client.open_session("doc", slots_per_head=8)
        recall = await session.recall(quire.Want(layer=0, pages=[1, 7]))
        async for event in client.watch():
            ...

The library blocks, so calls run in threads of a pool. Methods have the names, arguments and
results of their blocking twins. An awaitable that is cancelled leaves its call to end by itself.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import typing

from quire import _native
from quire.client import Client
from quire.embedded import EmbeddedServer

# Objects whose methods wait, so that they are wrapped where a call returns one.
_WAITING = (_native.Client, _native.Context, _native.Session, _native.Pending, EmbeddedServer)
# Methods that make an iterator, and do not wait themselves.
_ITERATING = ("watch", "list_documents", "follow_segments", "list_segments")
_END = object()


async def connect(
    *args: typing.Any, executor: concurrent.futures.Executor | None = None, **kwargs: typing.Any
) -> Waiter:
    """A client for asyncio; arguments are those of quire.Client.

    Args:
      executor: runs the calls; the loop's own when None. A call holds one of its threads.
    """
    return Waiter(await _run(executor, functools.partial(Client, *args, **kwargs)), executor)


class Waiter:
    """An object of Quire whose methods can be awaited."""

    def __init__(
        self, target: typing.Any, executor: concurrent.futures.Executor | None = None
    ) -> None:
        self._target = target
        self._executor = executor

    @property
    def blocking(self) -> typing.Any:
        """The object itself, for calls that do not wait."""
        return self._target

    def __getattr__(self, name: str) -> typing.Any:
        value = getattr(self._target, name)
        if not callable(value):
            return value
        if name in _ITERATING:
            return lambda *args, **kwargs: self._iterate(value(*args, **kwargs))
        return functools.partial(self._call, value)

    async def _call(
        self, method: typing.Callable[..., typing.Any], *args: typing.Any, **kwargs: typing.Any
    ) -> typing.Any:
        args = [_plain(value) for value in args]
        kwargs = {name: _plain(value) for name, value in kwargs.items()}
        result = await _run(self._executor, functools.partial(method, *args, **kwargs))
        return Waiter(result, self._executor) if isinstance(result, _WAITING) else result

    async def _iterate(
        self, iterator: typing.Iterator[typing.Any]
    ) -> typing.AsyncIterator[typing.Any]:
        while (item := await _run(self._executor, functools.partial(next, iterator, _END))) is not _END:
            yield item

    def __aiter__(self) -> typing.AsyncIterator[typing.Any]:
        return self._iterate(iter(self._target))

    async def __aenter__(self) -> Waiter:
        return self

    async def __aexit__(self, *exception: object) -> None:
        leave = getattr(self._target, "__exit__", None)
        if leave is not None:
            await _run(self._executor, functools.partial(leave, *exception))


def _plain(value: typing.Any) -> typing.Any:
    return value.blocking if isinstance(value, Waiter) else value


async def _run(
    executor: concurrent.futures.Executor | None, call: typing.Callable[[], typing.Any]
) -> typing.Any:
    return await asyncio.get_running_loop().run_in_executor(executor, call)
