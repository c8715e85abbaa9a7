// SPDX-License-Identifier: Apache-2.0
//
// The two CPU tables. Both hold every op, run on the calling thread and ignore `stream`.
//
//   CpuReference()  the readable definition of each op: plain loops, no tricks. For tests.
//   CpuKernels()    the fast one: OpenBLAS for products, Highway SIMD chosen at run time for the
//                   CPU. Built without those libraries, their ops use plain loops.
//
// Threads: OpenBLAS may start its own for large products; SetGemmThreads (gemm.h) limits them.
#ifndef QUIRE_KERNELS_CPU_CPU_KERNELS_H_
#define QUIRE_KERNELS_CPU_CPU_KERNELS_H_

#include "kernels/api/table.h"

namespace quire::kernels {

const KernelTable& CpuReference();
const KernelTable& CpuKernels();

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_CPU_CPU_KERNELS_H_
