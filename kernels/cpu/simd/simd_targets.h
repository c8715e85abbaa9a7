// SPDX-License-Identifier: Apache-2.0
//
// The instruction sets that simd.h and simd_codec.h can use. Tests run all that the CPU has;
// programs keep the default.
#ifndef QUIRE_KERNELS_CPU_SIMD_SIMD_TARGETS_H_
#define QUIRE_KERNELS_CPU_SIMD_SIMD_TARGETS_H_

#include <cstdint>
#include <vector>

namespace quire::kernels::simd {

/// The instruction sets that are compiled in and that this CPU has, best first; never empty.
std::vector<int64_t> Targets();
/// Makes later calls of all threads use `target`, one of Targets(). TargetName() names it.
void UseTarget(int64_t target);

}  // namespace quire::kernels::simd

#endif  // QUIRE_KERNELS_CPU_SIMD_SIMD_TARGETS_H_
