# SPDX-License-Identifier: Apache-2.0
"""The package as such: its README, its hints, its programs and its exceptions."""

import ast
import inspect
import json
import pathlib
import re
import subprocess
import sys

import quire
from quire import errors, programs

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = pathlib.Path(quire.__file__).parent


def python_of(page):
    """The Python of a page's first block."""
    return re.search(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)[1]


def test_the_quick_start_runs(tmp_path):
    code = python_of("README.md")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert re.search(r"page 7 to slot \d", done.stdout), done.stdout


def test_every_native_call_has_hints_and_a_description():
    stub = ast.parse((PACKAGE / "_native.pyi").read_text())
    calls = [node for node in ast.walk(stub) if isinstance(node, ast.FunctionDef)]
    assert len(calls) > 100
    for call in calls:
        arguments = call.args.posonlyargs + call.args.args + call.args.kwonlyargs
        missing = [a.arg for a in arguments if a.annotation is None and a.arg not in ("self", "cls")]
        assert call.returns is not None and not missing, f"{call.name}: {missing}"
    assert (PACKAGE / "py.typed").exists()
    client = {name: value for name, value in inspect.getmembers(quire.Client) if not name.startswith("_")}
    assert len(client) > 30
    assert not [name for name, value in client.items() if not inspect.getdoc(value)]


def test_exceptions_have_one_root_and_the_names_of_codes():
    classes = [value for value in vars(errors).values() if inspect.isclass(value)]
    assert all(issubclass(value, quire.Error) for value in classes)
    assert [errors.error_of(number, "x").code for number in (3, 5, 14)] == [
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "UNAVAILABLE",
    ]
    assert errors.error_of(99, "x").message == "x"


def test_the_programs_run():
    version = subprocess.run([programs.find("quired"), "--version"], capture_output=True, text=True, timeout=60)
    assert quire.__version__ in version.stdout
    command = [sys.executable, "-m", "quire", "--server", "unix:/nowhere", "--timeout", "0.1", "ls"]
    asked = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert asked.returncode == 1 and "/nowhere" in asked.stderr, asked


def test_recorded_interfaces_are_of_the_engines_that_are_installed():
    """tools/engines_demo/record.py has recorded the versions that ./dev installs."""
    records = sorted((ROOT / "python/tests/data").glob("*_interface.json"))
    assert len(records) >= 6
    for record in records:
        engine, version = next(iter(json.loads(record.read_text()).items()))
        locked = (ROOT / f"tools/engines_demo/{engine}-requirements.txt").read_text()
        assert re.search(rf"^{engine}(-cpu)?=={re.escape(version)} ", locked, re.MULTILINE), record.name
