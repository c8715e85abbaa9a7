#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# run_gpu.sh DIR [STEP...]: runs all steps, or the named ones in order, on a machine with a GPU, after
# build_cuda.sh. On a machine with a time limit per command, use one call per step; DIR collects the
# results. --list names the steps; --dry-run DIR [STEP...] prints the commands, and runs nothing.
#
#   conformance       the conformance tests of the kernels
#   device            those of the device and of its memory
#   engine            the engine with every policy, which must answer as on the processor
#   kernels           the kernels against the device's copy bandwidth
#   attention         attention against PyTorch and FlashInfer, with the figures of `kernels` if in DIR
#   demo_cuda         the demo on the device
#   decode_cuda       decoding with pages in a server
#   demo_cpu          the demo on the processor
#   same_answers      whether both demos in DIR answered alike
#   sanitizer         conformance under compute-sanitizer, if installed: memcheck
#   sanitizer_race    that of the kernels' own table under its racecheck,
#   sanitizer_init    its initcheck,
#   sanitizer_sync    and its synccheck
#   sanitizer_engine  the engine with a few policies under memcheck
#
# Each prints its result and its seconds. DIR gets a JSON file for each, its output in STEP.log, its
# result in STEP.result, and summary.json of all finished steps. A failing step does not stop later ones.
# The exit code is 1 if one failed, 2 for wrong usage.
set -uo pipefail

readonly STEPS=(conformance device engine kernels attention demo_cuda decode_cuda demo_cpu same_answers
  sanitizer sanitizer_race sanitizer_init sanitizer_sync sanitizer_engine)
readonly LIBRARY=lib/libquire_cuda.so
readonly CONFORMANCE=cuda/tests/kernels_cuda_conformance_test
# The library's table differs from the kernels' by cuBLAS alone; memcheck covers both.
readonly OWN_TABLE='--gtest_filter=*/CudaKernels'
# A policy with recalls, one with speculative recalls, and one with recorded steps.
readonly FEW_POLICIES='*/EngineGpuTest.*/quest:*/EngineGpuTest.*/freekv:*/EngineGpuTest.*/full'
PATH+=:${CUDA_HOME:-/usr/local/cuda}/bin # For compute-sanitizer.

usage() {
  echo "run_gpu.sh: $1; usage: run_gpu.sh [--dry-run] DIR [STEP...], or run_gpu.sh --list" >&2
  exit 2
}

# sanitized TOOL [OPTION...] COMMAND...: plans the command under a tool of compute-sanitizer.
sanitized() { kind=tests command=(compute-sanitizer --error-exitcode 1 --tool "$@"); }

# plan STEP: sets kind (tests: a test program, or a tool that runs one; json: the last line is JSON;
# answers), command, and needs: a file required in addition to those in the command.
plan() {
  needs=''
  command=()
  case $1 in
    conformance) kind=tests command=("$CONFORMANCE") ;;
    device) kind=tests needs=$LIBRARY command=(bin/engine_device_test '--gtest_filter=Cuda/Device*') ;;
    engine) kind=tests needs=$LIBRARY command=(bin/engine_device_test '--gtest_filter=*/EngineGpuTest.*') ;;
    kernels) kind=json command=(cuda/bin/quire_bench_cuda_kernels) ;;
    attention)
      kind=json command=(python3 src/kernels/attention_rivals.py)
      if [[ -f $out/kernels.json ]]; then command+=("$out/kernels.json"); fi
      ;;
    demo_cuda) kind=json needs=$LIBRARY command=(bin/quire demo --device cuda --json) ;;
    decode_cuda) kind=json needs=$LIBRARY command=(bin/quire bench decode --device cuda --json) ;;
    demo_cpu) kind=json command=(bin/quire demo --json) ;;
    same_answers) kind=answers ;;
    sanitizer) sanitized memcheck "$CONFORMANCE" ;;
    sanitizer_race) sanitized racecheck "$CONFORMANCE" "$OWN_TABLE" ;;
    sanitizer_init) sanitized initcheck "$CONFORMANCE" "$OWN_TABLE" ;;
    sanitizer_sync) sanitized synccheck "$CONFORMANCE" "$OWN_TABLE" ;;
    sanitizer_engine)
      needs=$LIBRARY
      # The test queries a device time before it is known, which the tool would report as an error.
      sanitized memcheck --report-api-errors no bin/engine_device_test "--gtest_filter=$FEW_POLICIES"
      ;;
    *) usage "there is no step '$1'; there are ${STEPS[*]}" ;;
  esac
}

# Sets `missing`: the first requirement of the planned step that is absent, and the remedy.
find_missing() {
  missing=''
  local part
  for part in "$needs" "${command[@]}"; do
    case $part in
      cuda/* | lib/*) [[ -f $part ]] || missing="$part was not built; run build_cuda.sh" ;;
      compute-sanitizer | python3) command -v "$part" >/dev/null || missing="there is no $part" ;;
    esac
    if [[ -n $missing ]]; then return; fi
  done
}

# Runners set `result`: ran, failed, or skipped with the reason.

# Single tests may be skipped on a GPU too: those of ops without a kernel.
run_tests() {
  local step=$1 why
  if "${command[@]}" --gtest_output="json:$out/$step.json" >"$out/$step.log" 2>&1; then
    if grep -qE '^\[  PASSED  \] [1-9]' "$out/$step.log"; then
      result=ran
    elif why=$(grep -m1 'no CUDA device' "$out/$step.log"); then
      result="skipped: $why"
    else
      result='failed: no test ran'
    fi
  else
    result="failed: $(grep -m1 -E 'FAILED|ERROR' "$out/$step.log" || tail -1 "$out/$step.log")"
  fi
}

run_json() {
  local step=$1
  if "${command[@]}" >"$out/$step.log" 2>&1; then
    tail -1 "$out/$step.log" >"$out/$step.json"
    result=ran
    if grep -q '^{"skipped"' "$out/$step.json"; then result="skipped: see $step.json"; fi
  else
    result="failed: $(tail -1 "$out/$step.log")"
  fi
}

# Number of questions of a demo, and of correct answers.
answered() { grep -oE '"(questions|sparse_correct)":[0-9]+' "$out/$1" | sort; }

run_answers() {
  if [[ ! -s $out/demo_cuda.json || ! -s $out/demo_cpu.json ]]; then
    result='skipped: there are not both demos'
  elif [[ $(answered demo_cuda.json) == "$(answered demo_cpu.json)" ]]; then
    result=ran
  else
    result="failed: $(answered demo_cuda.json | tr '\n' ' ') on the device, not as in demo_cpu.json"
  fi
}

run_step() {
  local step=$1 began=$SECONDS
  plan "$step"
  find_missing
  rm -f "$out/$step.json" # Removes the result of an earlier call.
  if [[ -n $missing ]]; then
    result="skipped: $missing"
  else
    case $kind in
      tests) run_tests "$step" ;;
      json) run_json "$step" ;;
      answers) run_answers ;;
    esac
  fi
  if [[ $result == failed* ]]; then failed=1; fi
  printf '%-17s %s (%d s)\n' "$step" "$result" $((SECONDS - began))
  printf '%s\n' "$result" >"$out/$step.result"
}

# Summarises every finished step, of this call and earlier ones.
summarise() {
  local step text summary=''
  for step in "${STEPS[@]}"; do
    if [[ ! -f $out/$step.result ]]; then continue; fi
    text=$(tr -d '\\\000-\037' <"$out/$step.result")
    summary+="${summary:+,}\"$step\":\"${text//\"/\'}\""
  done
  printf '{%s}\n' "$summary" | tee "$out/summary.json"
}

dry_run=0
case ${1:-} in
  --list)
    printf '%s\n' "${STEPS[@]}"
    exit
    ;;
  --dry-run)
    dry_run=1
    shift
    ;;
  -*) usage "there is no option $1" ;;
esac
if (($# == 0)); then usage 'DIR is missing'; fi
out=$1
shift
chosen=("${STEPS[@]}")
if (($# > 0)); then chosen=("$@"); fi
for step in "${chosen[@]}"; do plan "$step"; done # Refuses an unknown step before any runs.
if ((dry_run)); then
  for step in "${chosen[@]}"; do
    plan "$step"
    printf '%-17s %s\n' "$step" "${command[*]:-compares demo_cuda.json with demo_cpu.json}"
  done
  exit
fi
out=$(mkdir -p "$out" && cd "$out" && pwd) || exit 1
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
failed=0
for step in "${chosen[@]}"; do run_step "$step"; done
summarise
exit "$failed"
