// SPDX-License-Identifier: Apache-2.0
//
// FakeCudaLibrary: what libquire_cuda.so is to a program, without a GPU. Its memory is one that the
// host may not touch: a program that reads or writes it outside copies and kernels ends with a
// fault. Kernels are the CPU's; those with lists, and copies, answer with an error for memory of
// the host where the device's is wanted, or for what was given back. Work on the recorder is kept
// and runs at launches. Work runs when it is given, except on streams that a test makes late; for
// timed events what runs takes a millisecond, whatever it is, and nothing else takes time.
// Nothing that ships includes this. Thread-safety: as the library.
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

  /// The streams whose kernels and copies have run since, in the order in which these did.
  std::vector<FakeCudaStream> RunOrder() const;

 private:
  std::vector<FakeCudaStream> ran_;
};

}  // namespace quire::worker::testing

#endif  // QUIRE_GPUWORKER_TESTING_FAKE_CUDA_LIBRARY_H_
