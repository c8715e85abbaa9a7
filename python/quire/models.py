# SPDX-License-Identifier: Apache-2.0
"""KvSpecs of models, as Quire's own worker has them."""

from __future__ import annotations

import json
import os
import subprocess
import typing

from quire import carried, errors, programs
from quire._native import KvSpec, RopeSpec


def spec_of_model(
    directory: str | os.PathLike[str], dtype: str = "f32", page_tokens: int = 32, segment_pages: int = 8
) -> KvSpec:
    """The KvSpec of the pages that the model's checkpoint makes: those of any program that computes with it.

    Asks the packaged `quire`, which reads all of the weights once, to hash them.

    Args:
      directory: has config.json and the weights, in the form of Hugging Face.
      dtype: of keys and values: "f32", "f16" or "bf16".

    Raises what the command reports: NotFound without a checkpoint, InvalidArgument or Unimplemented for a model
    that Quire does not compute.
    """
    return spec_of_fields(fields_of_model(directory, dtype, page_tokens, segment_pages))


def fields_of_model(
    directory: str | os.PathLike[str], dtype: str, page_tokens: int, segment_pages: int
) -> dict[str, typing.Any]:
    """What `quire spec --json` prints. Errors as those of spec_of_model."""
    command = [programs.find("quire"), "--json", "spec", "--model", os.fspath(directory), "--dtype", dtype]
    command += ["--page-tokens", str(page_tokens), "--segment-pages", str(segment_pages)]
    done = subprocess.run(command, capture_output=True, text=True, env=carried.environment(), check=False)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise errors.Internal(f"`quire spec` failed: {done.stderr.strip() or done.stdout.strip()}") from None
    if "error" in answer:
        raise errors.named(answer["error"]["code"], answer["error"]["message"])
    if spec_of_fields(answer).fingerprint.hex() != answer["fingerprint"]:
        raise errors.Internal("`quire spec` is of another version than this package: their specs differ")
    return answer


def spec_of_fields(fields: typing.Mapping[str, typing.Any]) -> KvSpec:
    """The spec of such fields; the fingerprint is left aside."""
    given = {name: value for name, value in fields.items() if name != "fingerprint"}
    given["rope"] = RopeSpec(**fields["rope"])
    given["weights_hash"] = bytes.fromhex(fields["weights_hash"])
    return KvSpec(**given)
