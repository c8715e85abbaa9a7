// SPDX-License-Identifier: Apache-2.0
//
// The instruction sets that simd.h and simd_codec.h choose among, so that tests can run all that
// the CPU has. Programs leave the choice alone.
#ifndef QUIRE_KERNELS_CPU_SIMD_TARGETS_H_
#define QUIRE_KERNELS_CPU_SIMD_TARGETS_H_

#include <cstdint>
#include <vector>

namespace quire::kernels::simd {

/// Those that this CPU has and that are compiled in, best first; never empty.
std::vector<int64_t> Targets();
/// Calls from now on, of all threads, run with `target`, one of Targets(). TargetName() names it.
void UseTarget(int64_t target);

}  // namespace quire::kernels::simd

#endif  // QUIRE_KERNELS_CPU_SIMD_TARGETS_H_
