# SPDX-License-Identifier: Apache-2.0
"""What tests of deploy/ share: where things are, tools that may be missing, and flags of our programs."""
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / 'deploy'
TOOLS = ROOT / 'build' / 'tools'
BIN = pathlib.Path(os.environ.get('QUIRE_BINARY_DIR', ROOT / 'build' / 'release')) / 'bin'
_TOOL_FOLDERS = (TOOLS / 'prometheus', TOOLS / 'checkers' / 'bin')


def tool(name):
    """Path of a program; skips the test without it."""
    for folder in _TOOL_FOLDERS:
        if (folder / name).exists():
            return str(folder / name)
    found = shutil.which(name, path=os.environ['PATH'] + ':/usr/sbin:/sbin')
    if found is None:
        raise unittest.SkipTest(f'there is no {name}; ./dev test gets it')
    return found


def file_of_package(package, path):
    """Path of a file inside a Python package that is not run; skips the test without it."""
    for folder in sys.path:
        if (pathlib.Path(folder) / package / path).exists():
            return pathlib.Path(folder) / package / path
    raise unittest.SkipTest(f'there is no {package}/{path}; ./dev test gets it')


def run(*command, **options):
    """Output of a command, both streams; fails the test when the command fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f'{" ".join(map(str, command))} exits with {done.returncode}:\n{done.stdout}')
    return done.stdout


def read_yaml(path):
    return yaml.safe_load(path.read_text())


def read_json(path):
    return json.loads(path.read_text())


@functools.lru_cache(maxsize=None)
def flags_of(program, *subcommands):
    """Flags in a program's help."""
    return frozenset(re.findall(r'(?<!\S)--[a-z][a-z-]*', run(BIN / program, *subcommands, '--help').replace(',', ' ')))


def expect_flags(test, command):
    """Expects that our program takes each flag of its command line, `--name` or `--name=value`.

    Flags of `quire` stand before the subcommand `worker`, and its own behind it.
    """
    program = pathlib.Path(command[0]).name
    known = flags_of(program)
    given = 0
    for word in command[1:]:
        if word.startswith('--'):
            given += 1
            test.assertIn(word.split('=')[0], known, ' '.join(command))
        elif word == 'worker':
            known = flags_of(program, word)
    test.assertGreater(given, 0, f'no flags: {command}')
