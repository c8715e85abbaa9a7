// SPDX-License-Identifier: Apache-2.0
//
// FakeCudaLibrary: what libquire_cuda.so is to a program, without a GPU. Its memory is one that the
// host may not touch: a program that reads or writes it outside copies and kernels ends with a
// fault. Kernels are the CPU's; those with lists, and copies, answer with an error for memory of
// the host where the device's is wanted. Work on the recorder is kept and runs at launches. Nothing
// that ships includes this. Thread-safety: as the library.
#ifndef QUIRE_GPUWORKER_TESTING_FAKE_CUDA_LIBRARY_H_
#define QUIRE_GPUWORKER_TESTING_FAKE_CUDA_LIBRARY_H_

#include "kernels/cuda/library.h"

namespace quire::worker::testing {

const kernels::CudaLibrary& FakeCudaLibrary();

/// Graphs launched since the program started.
int64_t FakeCudaLaunches();

}  // namespace quire::worker::testing

#endif  // QUIRE_GPUWORKER_TESTING_FAKE_CUDA_LIBRARY_H_
