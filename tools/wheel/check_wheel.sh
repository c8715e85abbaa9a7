#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# check_wheel.sh BUILD [OUT]: makes the wheel of the Python package from the build directory BUILD, whose libraries and
# programs are taken as they are, and checks it as others use it:
#   auditwheel carries the shared libraries, and finds nothing else that a machine of that glibc lacks;
#   it installs in a clean environment, without numpy, and there puts and recalls against its own server;
#   `python -m quire demo` answers questions there, and the console scripts run.
# The wheel is left in OUT (BUILD/wheel). It takes what ./dev build installed in build/tools/python.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=$(realpath "$1") out=$(realpath -m "${2:-$1/wheel}")
tools=$PWD/build/tools/python/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "check_wheel: $*" >&2; exit 1; }
[[ -x $tools/auditwheel ]] || fail "$tools has no auditwheel; ./dev build release installs it"
export PATH=$tools:$PATH PYTHONDONTWRITEBYTECODE=1

# Settings of the build directory stay as they are.
defines=()
for name in QUIRE_BUILD_TESTS QUIRE_BUILD_BENCH QUIRE_WERROR; do
  value=$(sed -n "s/^$name:[A-Z]*=//p" "$build/CMakeCache.txt")
  defines+=("--config-settings=cmake.define.$name=${value:?}")
done
pip wheel . -q --no-build-isolation --no-deps -w "$work/plain" "--config-settings=build-dir=$build" "${defines[@]}"
mkdir -p "$out"
rm -f "$out"/quire-*.whl
auditwheel repair -w "$out" "$work"/plain/quire-*.whl >"$work/repair.log" 2>&1 || fail "$(cat "$work/repair.log")"
wheel=$(ls "$out"/quire-*-manylinux_*.whl) || fail "auditwheel made no manylinux wheel"
(($(stat -c %s "$wheel") <= 100 << 20)) || fail "$wheel has more than 100 MiB"

/usr/bin/python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --no-index --no-deps "$wheel"
cd "$work"
venv/bin/python - <<'PY'
import quire

spec = quire.KvSpec(model="wheel", num_layers=2, num_query_heads=4, num_kv_heads=2, head_dim=64)
units = bytes(range(256)) * (8 * 2 * 2 * spec.unit_bytes // 256)
with quire.embedded("data", dram_bytes="64MiB") as server, server.connect() as client:
    client.put("wheel", spec, range(8 * spec.page_tokens), units)
    with client.open_session("wheel", slots_per_head=2) as session:
        unit = session.recall(quire.Want(layer=1, pages=[5])).units[0]
        assert client.transport == "shm" and bytes(memoryview(unit)) == units[: spec.unit_bytes]
PY
venv/bin/python -m quire demo --json >demo.json
grep -q '"answers' demo.json || fail "the demo gave no answers: $(cat demo.json)"
venv/bin/quired --version >/dev/null
venv/bin/quire --help >/dev/null
echo "check_wheel: $(basename "$wheel"), $(($(stat -c %s "$wheel") >> 20)) MiB"
