// SPDX-License-Identifier: Apache-2.0
//
// The CUDA part as one shared library, libquire_cuda.so. Programs load it when a CUDA device is
// requested. They therefore start without a driver, and the library can be compiled where the GPU
// is. Version and sizes detect a program and a library built from different sources.
//
// The library uses the first device. A stream is a cudaStream_t, an event a cudaEvent_t. Functions
// that can fail return null on success, or the driver's error text, which stays valid.
// Thread-safety: all functions may be called concurrently.
#ifndef QUIRE_KERNELS_CUDA_LIBRARY_H_
#define QUIRE_KERNELS_CUDA_LIBRARY_H_

#include <cstddef>
#include <cstdint>

#include "kernels/api/table.h"

namespace quire::kernels {

/// Increment it when the meaning of anything below or of an op's arguments changes.
inline constexpr int64_t kCudaLibraryVersion = 5;

enum class CopyDirection : int32_t { kToDevice = 0, kToHost = 1, kOnDevice = 2 };

/// Work on one stream runs in order, and concurrently with the others.
struct CudaStreams {
  void* compute = nullptr;
  void* recorder = nullptr;  ///< For captures.
  void* copy = nullptr;      ///< Copies from pinned memory to the device.
  void* convert = nullptr;   ///< Kernels concurrent with those of `compute`.
};

struct CudaFacts {
  char device[256] = {};  ///< The GPU's name.
  bool cublas = false;    ///< True if cuBLAS computes matrix products of many rows.
};

/// Requests of the process to the device so far.
struct CudaUse {
  int64_t launches = 0;  ///< Kernels, products and graphs. Recorded kernels count with their graph.
  int64_t host_waits = 0;  ///< Calls that waited for work that had not run.
};

struct CudaLibrary {
  int64_t version = kCudaLibraryVersion;
  int64_t table_bytes = sizeof(KernelTable);
  /// CudaKernels(), with products of many rows by cuBLAS if available.
  const KernelTable* kernels = nullptr;

  /// Starts the runtime, once for the process.
  const char* (*open)(CudaStreams* streams, CudaFacts* facts) = nullptr;
  /// Allocates zeroed memory in the order of the stream, aligned to 256 bytes.
  const char* (*allocate)(void* stream, size_t bytes, void** memory) = nullptr;
  /// Releases memory once the stream has finished all earlier work.
  const char* (*release)(void* stream, void* memory) = nullptr;
  /// Copies memory that is not pinned. From the host: the bytes may change after the return. To the
  /// host: they are valid at the return.
  const char* (*copy)(void* stream, CopyDirection direction, void* to, const void* from,
                      size_t bytes) = nullptr;
  const char* (*synchronize)(void* stream) = nullptr;

  /// Allocates host memory that the device reads and writes directly.
  const char* (*pin)(size_t bytes, void** memory) = nullptr;
  /// Frees pinned memory. REQUIRES: it is not in use.
  const char* (*unpin)(void* memory) = nullptr;
  /// Copies between pinned memory and the device, in the order of the stream. The host must not
  /// touch the pinned bytes until the stream has finished it.
  const char* (*copy_pinned)(void* stream, CopyDirection direction, void* to, const void* from,
                             size_t bytes) = nullptr;

  const char* (*create_event)(void** event) = nullptr;
  /// Creates an event for `elapsed`.
  const char* (*create_timed_event)(void** event) = nullptr;
  /// Moves the event behind the work now on the stream.
  const char* (*record_event)(void* event, void* stream) = nullptr;
  /// Makes later work on the stream wait for the present position of the event. Returns without
  /// waiting.
  const char* (*hold)(void* stream, void* event) = nullptr;
  /// Waits until the stream has passed the present position of the event.
  const char* (*await_event)(void* event) = nullptr;
  /// Device time between two timed events; less than 0 while the device has not passed both.
  /// Returns without waiting.
  const char* (*elapsed)(void* from, void* to, float* milliseconds) = nullptr;
  void (*free_event)(void* event) = nullptr;

  /// Starts a capture: work on `recorder` is recorded, not run. One capture at a time.
  const char* (*begin_capture)(void* recorder) = nullptr;
  /// Ends the capture in any case; returns a graph only if all of the work could be recorded.
  const char* (*end_capture)(void* recorder, void** graph) = nullptr;
  const char* (*launch)(void* graph, void* stream) = nullptr;
  void (*free_graph)(void* graph) = nullptr;

  CudaUse (*use)() = nullptr;
};

}  // namespace quire::kernels

/// The entry point of the library.
extern "C" __attribute__((visibility("default"))) const quire::kernels::CudaLibrary*
quire_cuda_library();

#endif  // QUIRE_KERNELS_CUDA_LIBRARY_H_
