#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real engines in front of Quire: the same answers after everything was killed, from what Quire has.

    ./dev engines-demo                    # each engine in its turn, chapter by chapter
    ./dev engines-demo --engine lmcache   # one of them
    ./dev engines-demo --json             # one line of JSON
    ./dev engines-demo --engine vllm --short   # first answers, SIGKILL of everything, and the same answers
    ./dev test engines                    # the same, as tests

Needs the engines in build/tools (./dev engines-demo installs them) and the release build. Exit code 77: it cannot run
here.
"""

import argparse
import contextlib
import json
import pathlib
import signal
import subprocess
import sys
import tempfile

import lmcache_chapters
import sglang_chapters
import vllm_chapters
from demo_kit import HERE, ROOT, Failed, check

ENGINES = {"vllm": vllm_chapters, "lmcache": lmcache_chapters, "sglang": sglang_chapters}
INSTALLED_BY = {"vllm": "./dev setup vllm", "lmcache": "./dev test engines", "sglang": "./dev test engines"}


def missing(build, engines):
    """Why it cannot run; empty when it can."""
    for engine in engines:
        if not ENGINES[engine].PYTHON.exists():
            return f"{ENGINES[engine].PYTHON.parents[1]} is not there; {INSTALLED_BY[engine]} installs it"
    if not (build / "python/quire/vllm").is_dir() or not (build / "bin/quired").exists():
        return f"{build} lacks the Python package or the programs; ./dev build makes them"
    return ""


def compare_recorded(engine):
    """What tests without the engine know of it must be what is installed. Raises Failed."""
    recorded = [ENGINES[engine].PYTHON, HERE / "record.py", engine, "--check"]
    done = subprocess.run(recorded, capture_output=True, text=True)
    check(done.returncode == 0, done.stderr[-500:])


def show(engine, arguments):
    """Runs the chapters of an engine, and returns what they found. Raises Failed."""
    with contextlib.ExitStack() as ends:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="quire-engines-"))
        if not arguments.keep:
            ends.callback(subprocess.run, ["rm", "-rf", folder])
        say = (lambda *_: None) if arguments.json else print
        demo = ENGINES[engine].Demo(arguments.build.resolve(), folder, say)
        ends.callback(demo.close)
        try:
            if not arguments.short:
                compare_recorded(engine)
            demo.run(arguments.short)
        except Failed:
            if arguments.keep:
                print(f"logs are in {folder}", file=sys.stderr)
            raise
        return demo.results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=ENGINES, action="append", help="one of them; all when not given")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--json", action="store_true", help="one line of JSON in place of tables")
    parser.add_argument("--short", action="store_true", help="only answer, kill everything, and answer again")
    parser.add_argument("--keep", action="store_true", help="keep logs and data of a failure, and say where")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # Which ends engines and servers, too.
    engines = arguments.engine or list(ENGINES)
    why = missing(arguments.build, engines)
    if why:
        print(f"skipped: {why}")
        sys.exit(77)
    results = {}
    for engine in engines:
        try:
            results[engine] = show(engine, arguments)
        except Failed as failure:
            print(f"FAILED: {engine}: {failure}", file=sys.stderr)
            sys.exit(1)
    if arguments.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
