// SPDX-License-Identifier: Apache-2.0
//
// The CUDA part as one shared library, libquire_cuda.so: programs load it when a CUDA device is
// asked for, so that they start where there is no driver, and so that it can be compiled where the
// GPU is. A program and a library that were built from different sources know each other by version
// and sizes.
//
// The library uses the first device. A stream is a cudaStream_t, an event a cudaEvent_t. Functions
// that can fail answer null, or why in the driver's words; the words stay. Thread-safety: all
// functions may be called concurrently.
#ifndef QUIRE_KERNELS_CUDA_LIBRARY_H_
#define QUIRE_KERNELS_CUDA_LIBRARY_H_

#include <cstddef>
#include <cstdint>

#include "kernels/api/table.h"

namespace quire::kernels {

/// Changes with the meaning of anything below or of an op's arguments.
inline constexpr int64_t kCudaLibraryVersion = 4;

enum class CopyDirection : int32_t { kToDevice = 0, kToHost = 1, kOnDevice = 2 };

/// What is put on one runs in order, and beside what is put on the others.
struct CudaStreams {
  void* compute = nullptr;
  void* recorder = nullptr;  ///< For captures.
  void* copy = nullptr;      ///< From pinned memory to the device, beside the others.
  void* convert = nullptr;   ///< Kernels beside those of `compute`.
};

struct CudaFacts {
  char device[256] = {};  ///< The GPU's name.
  bool cublas = false;    ///< Matrix products of many rows are cuBLAS's, else the kernels' own.
};

struct CudaLibrary {
  int64_t version = kCudaLibraryVersion;
  int64_t table_bytes = sizeof(KernelTable);
  /// CudaKernels(), with products of many rows by cuBLAS where it is there.
  const KernelTable* kernels = nullptr;

  /// Starts the runtime, once for the process.
  const char* (*open)(CudaStreams* streams, CudaFacts* facts) = nullptr;
  /// Zeroed memory in the order of the stream, aligned to 256 bytes.
  const char* (*allocate)(void* stream, size_t bytes, void** memory) = nullptr;
  /// Given back once the stream has passed what was put on it so far.
  const char* (*release)(void* stream, void* memory) = nullptr;
  /// From the host, of memory that is not pinned: the bytes may change after the return. To the
  /// host: they are there at the return.
  const char* (*copy)(void* stream, CopyDirection direction, void* to, const void* from,
                      size_t bytes) = nullptr;
  const char* (*synchronize)(void* stream) = nullptr;

  /// Host memory that the device reads and writes by itself.
  const char* (*pin)(size_t bytes, void** memory) = nullptr;
  /// Once nothing uses it any more.
  const char* (*unpin)(void* memory) = nullptr;
  /// Between pinned memory and the device, in the order of the stream: until it has passed, the
  /// host leaves the pinned bytes alone.
  const char* (*copy_pinned)(void* stream, CopyDirection direction, void* to, const void* from,
                             size_t bytes) = nullptr;

  const char* (*create_event)(void** event) = nullptr;
  /// One that `elapsed` takes.
  const char* (*create_timed_event)(void** event) = nullptr;
  /// Moves the event behind what was put on the stream so far.
  const char* (*record_event)(void* event, void* stream) = nullptr;
  /// What is put on the stream from here on follows where the event is now. Waits for nothing.
  const char* (*hold)(void* stream, void* event) = nullptr;
  /// Waits until the stream has passed where the event is now.
  const char* (*await_event)(void* event) = nullptr;
  /// From where one timed event is now to where a later one is, as the device saw them pass; less
  /// than 0 while it has not passed both. Waits for nothing.
  const char* (*elapsed)(void* from, void* to, float* milliseconds) = nullptr;
  void (*free_event)(void* event) = nullptr;

  /// From here what is put on `recorder` is recorded, not run. One capture at a time.
  const char* (*begin_capture)(void* recorder) = nullptr;
  /// Ends it in any case; a graph only where all of it could be recorded.
  const char* (*end_capture)(void* recorder, void** graph) = nullptr;
  const char* (*launch)(void* graph, void* stream) = nullptr;
  void (*free_graph)(void* graph) = nullptr;
};

}  // namespace quire::kernels

/// What the library exports.
extern "C" __attribute__((visibility("default"))) const quire::kernels::CudaLibrary*
quire_cuda_library();

#endif  // QUIRE_KERNELS_CUDA_LIBRARY_H_
