# SPDX-License-Identifier: Apache-2.0
"""SourceDocument: a row of a dataset, checked, and as `quire docs add` takes it. Pure."""

from __future__ import annotations

import collections.abc
import dataclasses
import math
import os
import typing

from quire.errors import InvalidArgument

Tags: typing.TypeAlias = "collections.abc.Mapping[str, str | int | float | bool]"

_FIELDS = frozenset(("name", "text", "path", "tags"))
_KINDS = (str, bool, int, float)


@dataclasses.dataclass(frozen=True)
class SourceDocument:
    """A document to read: a text, or the path of a file that every host has under that path."""

    row: int  # Its number in the dataset, from 0 on.
    name: str
    text: str | None
    path: str | None
    tags: tuple[str, ...]  # KEY=VALUE, as the command line takes them.

    def arguments(self) -> list[str]:
        """Those of `quire docs add` that say what is read, and its name."""
        what = ["-", "--as=text"] if self.path is None else [self.path]
        return [*what, f"--name={self.name}", *(f"--tag={tag}" for tag in self.tags)]

    def input(self) -> bytes:
        """Standard input of the command."""
        return (self.text or "").encode()


def document_of(number: int, row: object, tags: Tags) -> SourceDocument:
    """Checks a row. `tags` are those of all documents; the row's own win.

    Raises InvalidArgument, which says what a row has.
    """
    if not isinstance(row, collections.abc.Mapping):
        raise InvalidArgument(f"a row is a {type(row).__name__}; give mappings with name, and text or path")
    unknown = sorted(str(field) for field in row if field not in _FIELDS)
    if unknown:
        raise InvalidArgument(f"rows have no field {unknown[0]!r}; they have name, text or path, and tags")
    name, text, path = row.get("name"), row.get("text"), row.get("path")
    if not isinstance(name, str) or not name:
        raise InvalidArgument("a row has no name; give a text of one character or more")
    if (text is None) == (path is None):
        raise InvalidArgument("a row has a text or a path, and not both")
    own_tags = row.get("tags") or {}
    if not isinstance(own_tags, collections.abc.Mapping):
        raise InvalidArgument(f"the tags of a row are a {type(own_tags).__name__}; give a mapping")
    if text is not None:
        _check_text(text)
    elif not isinstance(path, (str, os.PathLike)):
        raise InvalidArgument(f"the path of a row is a {type(path).__name__}; give a text or a pathlib.Path")
    return SourceDocument(
        row=number,
        name=name,
        text=text,
        path=None if path is None else os.path.abspath(path),
        tags=tuple(tag_text(key, value) for key, value in {**tags, **own_tags}.items()),
    )


def tag_text(key: object, value: object) -> str:
    """KEY=VALUE, which the command line reads back with the same type. Raises InvalidArgument."""
    if not isinstance(key, str) or "=" in key:
        raise InvalidArgument(f"{key!r} is no key of a tag: give a text without '='")
    if not isinstance(value, _KINDS):
        raise InvalidArgument(f"tag {key!r} is a {type(value).__name__}; give a text, a number or a truth value")
    if isinstance(value, bool):
        return f"{key}={str(value).lower()}"
    if isinstance(value, str):
        return f"{key}='{value}'"
    fits = math.isfinite(value) if isinstance(value, float) else -(1 << 63) <= value < 1 << 63
    if not fits:
        raise InvalidArgument(f"tag {key!r} is {value}; give a finite number of 64 bits")
    return f"{key}={value!r}"


def _check_text(text: object) -> None:
    if not isinstance(text, str) or not text:
        raise InvalidArgument("the text of a row is no text, or empty")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"the text of a row is no Unicode at character {error.start}") from None
