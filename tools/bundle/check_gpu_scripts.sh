#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# check_gpu_scripts.sh: tests run_gpu.sh and build_cuda.sh on a simulated machine with a GPU. Fake
# programs give the output of the real ones.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tools/bundle/common.sh
source "$here/common.sh"

work=$(mktemp -d "${TMPDIR:-/tmp}/quire-scripts-XXXXXX")
trap 'rm -rf "$work"' EXIT
bundle=$work/bundle
tools=$work/tools
out=$work/out

# program PATH TEXT [CODE]: makes a program that accepts anything, prints the text and exits with the
# code; with 0 when asked for its version.
program() {
  mkdir -p "$(dirname "$1")"
  printf '%s\n' "$2" >"$1.says"
  # shellcheck disable=SC2016 # The program expands it.
  printf '#!/bin/sh\ncat "$0.says"\n[ "$1" = --version ] || exit %d\n' "${3:-0}" >"$1"
  chmod +x "$1"
}

# expect_step STEP PATTERN: checks the result of a step.
expect_step() {
  local result code=0
  PATH=$tools:$PATH "$bundle/run_gpu.sh" "$out" "$1" >"$work/said" || code=$?
  result=$(cat "$out/$1.result")
  # shellcheck disable=SC2053 # It is a pattern.
  [[ $result == $2 ]] || die "run_gpu.sh $1 ends with '$result', not with '$2'"
  [[ $result != failed* || $code == 1 ]] || die "run_gpu.sh $1 failed, and exits with $code"
  grep -q "\"$1\":" "$out/summary.json" || die "summary.json lacks $1"
}

readonly SOME_SKIPPED='[ RUN      ] Cuda/OpConformance.DigestEqualsReference/CudaKernels
[       OK ] Cuda/OpConformance.DigestEqualsReference/CudaKernels (12 ms)
[  SKIPPED ] Cuda/OpConformance.EncodeRoundTrips/CudaKernels (0 ms)
[==========] 120 tests from 1 test suite ran. (4000 ms total)
[  PASSED  ] 116 tests.
[  SKIPPED ] 4 tests, listed below:
[  SKIPPED ] Cuda/OpConformance.EncodeRoundTrips/CudaKernels'
readonly NO_DEVICE='no CUDA device: CUDA driver version is insufficient for CUDA runtime version
[  SKIPPED ] Cuda/OpConformance.DigestEqualsReference/CudaKernels (0 ms)
[==========] 120 tests from 1 test suite ran. (0 ms total)
[  PASSED  ] 0 tests.
[  SKIPPED ] 120 tests, listed below:'
readonly ONE_FAILED='[  FAILED  ] Cuda/OpConformance.ScoreEqualsReference/CudaKernels (3 ms)
[  PASSED  ] 119 tests.'
readonly NONE_RAN='[==========] 0 tests from 0 test suites ran. (0 ms total)
[  PASSED  ] 0 tests.'

check_test_steps() {
  local conformance=$bundle/cuda/tests/kernels_cuda_conformance_test
  expect_step conformance 'skipped: cuda/*was not built*'
  program "$conformance" "$SOME_SKIPPED"
  expect_step conformance ran
  program "$conformance" "$NO_DEVICE"
  expect_step conformance 'skipped: no CUDA device: CUDA driver version*'
  program "$conformance" "$ONE_FAILED" 1
  expect_step conformance 'failed: *ScoreEqualsReference*'
  program "$conformance" "$NONE_RAN"
  expect_step conformance 'failed: no test ran'
  expect_step device 'skipped: lib/*was not built*'
  program "$bundle/lib/libquire_cuda.so" ''
  program "$bundle/bin/engine_device_test" "$SOME_SKIPPED"
  expect_step device ran
  echo "tests: skipped where there is no device, and only there"
}

check_sanitizer_steps() {
  local conformance=$bundle/cuda/tests/kernels_cuda_conformance_test pair step tool
  program "$conformance" "$SOME_SKIPPED"
  for pair in sanitizer:memcheck sanitizer_race:racecheck sanitizer_init:initcheck sanitizer_sync:synccheck \
    sanitizer_engine:memcheck; do
    step=${pair%:*} tool=${pair#*:}
    program "$tools/compute-sanitizer" "$SOME_SKIPPED"
    expect_step "$step" ran
    [[ $("$bundle/run_gpu.sh" --dry-run "$out" "$step") == *" --tool $tool "*_test* ]] || die "$step does not run $tool"
    program "$tools/compute-sanitizer" "$SOME_SKIPPED
========= ERROR SUMMARY: 2 errors" 1
    expect_step "$step" 'failed: *2 errors'
    program "$tools/compute-sanitizer" "========= COMPUTE-SANITIZER
$NO_DEVICE"
    expect_step "$step" 'skipped: no CUDA device*'
  done
  echo "sanitizer: each tool is a step of its own"
}

# expect_build CODE PATTERN: checks the verdict of build_cuda.sh on this machine, before any build.
expect_build() {
  local code=0 said
  said=$(PATH=$tools:$PATH CUDACXX=$tools/nvcc "$bundle/build_cuda.sh" 2>&1) || code=$?
  # shellcheck disable=SC2053 # It is a pattern.
  [[ $code == "$1" && $said == $2 ]] || die "build_cuda.sh exits with $code, not $1, and says: $said"
}

check_needs() {
  program "$tools/nvcc" 'Cuda compilation tools, release 13.0, V13.0.88'
  program "$tools/nvidia-smi" 'NVIDIA A100, 8.0'
  program "$tools/cmake" 'cmake version 3.22.1'
  expect_build 3 '*cmake is 3.22.1; it takes 3.25 or newer*'
  program "$tools/cmake" 'cmake version 3.9.4'
  expect_build 3 '*cmake is 3.9.4*'
  program "$tools/cmake" 'cmake version 3.31.2' 7 # Prevents a build.
  program "$tools/nvcc" 'Cuda compilation tools, release 11.8, V11.8.89'
  expect_build 3 '*nvcc is 11.8; C++20 takes 12.0*'
  program "$tools/nvcc" 'Cuda compilation tools, release 13.0, V13.0.88'
  program "$tools/nvidia-smi" 'NVIDIA A100, 8.0
Tesla T4, 7.5'
  expect_build 1 '*Tesla T4 has compute capability 7.5*8.0*'
  program "$tools/nvidia-smi" 'NVIDIA H100, 9.0
| NVIDIA-SMI 550.54  Driver Version: 550.54  CUDA Version: 12.4 |'
  expect_build 7 '*driver is for CUDA 12.4*for 13.0*'
  program "$tools/nvidia-smi" '' 9
  expect_build 7 'cmake version 3.31.2'
  echo "needs: what is too old is named before anything is built"
}

mkdir -p "$bundle/bin" "$tools"
cp "$here/run_gpu.sh" "$here/build_cuda.sh" "$bundle/"
check_test_steps
check_sanitizer_steps
check_needs
