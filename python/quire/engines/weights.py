# SPDX-License-Identifier: Apache-2.0
"""Hashes that tell the weights of one model from those of another."""

from __future__ import annotations

import hashlib
import os
import pathlib

import quire
from quire.models import fields_of_model

_FILES = ("*.safetensors", "*.bin", "*.pt", "*.gguf")


def weights_hash(directory: str | os.PathLike[str]) -> str:
    """That of Quire's own worker where it computes the model, otherwise that of its files.

    Raises NotFound for a folder without weights.
    """
    try:
        return fields_of_model(directory, "bf16", 32, 8)["weights_hash"]
    except quire.Error as error:
        if isinstance(error, (quire.Internal, quire.Unavailable)):
            raise
        return files_hash(directory)


def files_hash(directory: str | os.PathLike[str]) -> str:
    """SHA-256 over config.json and the files of weights. Raises NotFound without any."""
    files = sorted(path for kind in _FILES for path in pathlib.Path(directory).glob(kind))
    config = pathlib.Path(directory) / "config.json"
    if not files or not config.exists():
        raise quire.NotFound(f"{directory} has no weights that could tell this model from another")
    digest = hashlib.sha256(b"quire.vllm.weights.v1")
    for path in [config, *files]:
        with open(path, "rb") as file:
            digest.update(path.name.encode() + b"\0" + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
