# SPDX-License-Identifier: Apache-2.0
"""Bulk ingest on Ray: documents read by many workers, each on the host where Ray placed it.

    import quire.ray

    report = quire.ray.ingest(
        ({"name": file.stem, "path": file} for file in pathlib.Path("/shared/handbook").glob("*.md")),
        collection="handbook", server="10.0.0.3:7410", model="/models/llama", workers=8, progress=print)

docs/python.md has the rest. Ray (`pip install ray`) is imported by the call, and must have this package on each host.
"""

from quire.ray.driver import ingest
from quire.ray.report import Refused, Report

__all__ = ["Refused", "Report", "ingest"]
