// SPDX-License-Identifier: Apache-2.0
//
// FakeCudaLibrary: what libquire_cuda.so is to a program, without a GPU. Its memory is one that the
// host may not touch: a program that reads or writes it outside copies and kernels ends with a
// fault. Kernels are the CPU's. Kernels with lists, and copies, refuse host memory where they need
// device memory, and freed memory. Work on the recorder is kept and runs at launches. Work runs at
// once, except on streams that a test makes late. For timed events each piece of work takes a
// millisecond, and nothing else takes time. Nothing that ships includes this. Thread-safety: as the
// library.
#ifndef QUIRE_GPUWORKER_TESTING_FAKE_CUDA_LIBRARY_H_
#define QUIRE_GPUWORKER_TESTING_FAKE_CUDA_LIBRARY_H_

#include <cstdint>
#include <vector>

#include "kernels/cuda/library.h"

namespace quire::worker::testing {

const kernels::CudaLibrary& FakeCudaLibrary();

/// Graphs launched since the program started.
int64_t FakeCudaLaunches();
/// Calls since then that waited for work that had not run.
int64_t FakeCudaHostWaits();

enum class FakeCudaStream : uint8_t { kCompute, kCopy, kConvert };

/// While it lives these streams run only what somebody waits for, and the others all that they need
/// not wait with. Then all of it runs. One at a time.
class LateStreams {
 public:
  explicit LateStreams(const std::vector<FakeCudaStream>& late);
  ~LateStreams();
  LateStreams(const LateStreams&) = delete;
  LateStreams& operator=(const LateStreams&) = delete;

  /// Streams of the kernels and copies that have run since, in order.
  std::vector<FakeCudaStream> RunOrder() const;

 private:
  std::vector<FakeCudaStream> ran_;
};

}  // namespace quire::worker::testing

#endif  // QUIRE_GPUWORKER_TESTING_FAKE_CUDA_LIBRARY_H_
