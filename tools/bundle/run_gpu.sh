#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# run_gpu.sh DIR: on a machine with a GPU, after build_cuda.sh: the conformance tests of the kernels
# (under compute-sanitizer, where it is present), the engine with every policy, which must answer as on
# the processor, the benchmark against the device's copy bandwidth, attention beside PyTorch and
# FlashInfer, decoding with pages in a server, and the demo on the device, which must answer as on the
# processor too. One JSON file for each in DIR, and summary.json. A step that fails does not stop those
# behind it; the exit code says whether one did.
set -uo pipefail
out=$(mkdir -p "${1:?usage: run_gpu.sh DIR}" && cd "$1" && pwd) || exit 1
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
failed=0
summary=''

# note STEP RESULT: ran, failed, or skipped with the reason.
note() {
  printf '%-14s %s\n' "$1" "$2"
  summary+="${summary:+,}\"$1\":\"${2//\"/\'}\""
}

# last_json STEP FILE COMMAND...: keeps the last line, which is JSON, of a command that writes some.
last_json() {
  local step=$1 file=$2
  shift 2
  if "$@" >"$out/$step.log" 2>&1; then
    tail -1 "$out/$step.log" >"$out/$file"
    if grep -q '^{"skipped"' "$out/$file"; then note "$step" "skipped: see $file"; else note "$step" ran; fi
  else
    failed=1
    note "$step" "failed: $(tail -1 "$out/$step.log")"
  fi
}

tests() { # tests STEP COMMAND...: a program of tests, or a tool that runs one
  local step=$1
  shift
  if "$@" --gtest_output="json:$out/$step.json" >"$out/$step.log" 2>&1; then
    if grep -q 'SKIPPED' "$out/$step.log"; then note "$step" "skipped: $(grep -m1 'no CUDA device' "$out/$step.log")"; else note "$step" ran; fi
  else
    failed=1
    note "$step" "failed: $(grep -m1 -E 'FAILED|ERROR' "$out/$step.log")"
  fi
}

conformance() { # conformance STEP [TOOL...]
  local step=$1 program=cuda/tests/kernels_cuda_conformance_test
  shift
  if [[ -x $program ]]; then
    tests "$step" "$@" "$program"
  else
    note "$step" "skipped: $program was not built; run build_cuda.sh"
  fi
}

# How many questions a demo answered rightly, of those it asked.
answered() { grep -oE '"(questions|sparse_correct)":[0-9]+' "$out/$1" | sort; }

same_answers() {
  if [[ ! -s $out/demo_cuda.json || ! -s $out/demo_cpu.json ]]; then
    note same_answers "skipped: there are not both demos"
  elif [[ $(answered demo_cuda.json) == "$(answered demo_cpu.json)" ]]; then
    note same_answers ran
  else
    failed=1
    note same_answers "failed: $(answered demo_cuda.json | tr '\n' ' ') on the device, not as in demo_cpu.json"
  fi
}

conformance conformance
if command -v compute-sanitizer >/dev/null; then
  conformance sanitizer compute-sanitizer --error-exitcode 1
else
  note sanitizer "skipped: there is no compute-sanitizer"
fi
tests engine bin/engine_device_test --gtest_filter='*/EngineGpuTest.*'
if [[ -x cuda/bin/quire_bench_cuda_kernels ]]; then
  last_json kernels kernels.json cuda/bin/quire_bench_cuda_kernels
else
  note kernels "skipped: cuda/bin/quire_bench_cuda_kernels was not built; run build_cuda.sh"
fi
if command -v python3 >/dev/null; then
  kernels_json=()
  if [[ -f $out/kernels.json ]]; then kernels_json=("$out/kernels.json"); fi
  last_json attention attention.json python3 src/kernels/attention_rivals.py "${kernels_json[@]}"
else
  note attention "skipped: there is no python3"
fi
if [[ -f lib/libquire_cuda.so ]]; then
  last_json demo_cuda demo_cuda.json bin/quire demo --device cuda --json
  last_json decode_cuda decode_cuda.json bin/quire bench decode --device cuda --json
else
  note demo_cuda "skipped: there is no lib/libquire_cuda.so; run build_cuda.sh"
  note decode_cuda "skipped: as demo_cuda"
fi
last_json demo_cpu demo_cpu.json bin/quire demo --json
same_answers
printf '{%s}\n' "$summary" | tee "$out/summary.json"
exit "$failed"
