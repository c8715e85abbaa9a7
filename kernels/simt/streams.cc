// SPDX-License-Identifier: Apache-2.0
//
// Streams, their memory, events and graphs (include/cuda_runtime.h). One lock for all of it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/simt/include/cuda_runtime.h"
#include "kernels/simt/simt.h"

namespace quire::simt {

using Step = std::function<void()>;

struct Graph {
  std::shared_ptr<std::vector<Step>> steps = std::make_shared<std::vector<Step>>();
};
struct GraphExec {
  std::shared_ptr<const std::vector<Step>> steps;
};

/// Lives as long as the process.
class Stream {
 public:
  std::deque<Step> waiting;
  std::unique_ptr<Graph> capture;
  std::thread::id capturing_thread;
  bool capture_broken = false;
};

/// A position in the work of a stream.
struct Point {
  Stream* stream;
  bool passed = false;
  int64_t at = 0;  ///< Time at which it was passed.
};

class Event {
 public:
  std::shared_ptr<Point> point;  ///< Last recorded position; null before that.
  bool timed = false;
};

namespace {

constexpr std::align_val_t kAlignment{256};
constexpr int kSpoilt = 0xff;

struct Device {
  std::mutex mutex;
  std::vector<std::unique_ptr<Stream>> streams;
  std::map<const char*, size_t> memory;  ///< Memory allocated by programs.
  std::map<const char*, size_t> pinned;  ///< Pinned memory of the host.
  int64_t milliseconds = 0;              ///< One per kernel.
};
Device& TheDevice() {
  static Device* const device = new Device;
  return *device;
}
using Lock = std::lock_guard<std::mutex>;

thread_local cudaError_t last_error = cudaSuccess;

cudaError_t Answer(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

bool IsStream(const Stream* stream) {
  const auto& streams = TheDevice().streams;
  return std::any_of(streams.begin(), streams.end(),
                     [&](const auto& one) { return one.get() == stream; });
}

/// True if all of it lies in one piece of `taken`.
bool IsIn(const std::map<const char*, size_t>& taken, const void* memory, size_t bytes) {
  const auto* const at = static_cast<const char*>(memory);
  auto after = taken.upper_bound(at);
  if (after == taken.begin()) return false;
  --after;
  const auto offset = static_cast<size_t>(at - after->first);
  return offset <= after->second && bytes <= after->second - offset;
}
bool IsDeviceMemory(const void* memory, size_t bytes) {
  return IsIn(TheDevice().memory, memory, bytes);
}
bool IsPinned(const void* memory, size_t bytes) { return IsIn(TheDevice().pinned, memory, bytes); }

/// Adds a step to the stream, or to the capture in progress.
cudaError_t Put(Stream* stream, Step step) {
  if (!IsStream(stream)) return cudaErrorInvalidValue;
  if (stream->capture == nullptr) {
    stream->waiting.push_back(std::move(step));
    return cudaSuccess;
  }
  if (stream->capture_broken) return cudaErrorStreamCaptureInvalidated;
  stream->capture->steps->push_back(std::move(step));
  return cudaSuccess;
}

/// Ends the capture, because the work cannot be captured.
cudaError_t CannotBeCaptured(Stream* stream) {
  stream->capture_broken = true;
  return cudaErrorStreamCaptureUnsupported;
}

void RunNext(Stream* stream) {
  const Step step = std::move(stream->waiting.front());
  stream->waiting.pop_front();
  step();
}
void RunWaiting(Stream* stream) {
  while (!stream->waiting.empty()) RunNext(stream);
}
/// Runs the work before a position.
void RunTo(const Point& point) {
  while (!point.passed) RunNext(point.stream);
}

/// Copies; `pinned` is `to` or `from`.
void CopyPinned(void* to, const void* from, const void* pinned, size_t bytes) {
  if (!IsPinned(pinned, bytes)) {
    fputs("kernels/simt: a copy uses pinned memory that was given back\n", stderr);
    abort();
  }
  memcpy(to, from, bytes);
}

void GiveBack(void* memory) {
  UnwatchMemory(memory);
  ::operator delete(memory, kAlignment);
}

}  // namespace

bool Launch(const Size& size, void* stream, std::shared_ptr<const Work> work) {
  if (!MayLaunch(size, *work)) return false;
  const Lock lock(TheDevice().mutex);
  if (stream == nullptr) {
    Run(size, *work);
    return true;
  }
  const auto run = [size, work = std::move(work)] {
    Run(size, *work);
    ++TheDevice().milliseconds;
  };
  return Put(static_cast<Stream*>(stream), run) == cudaSuccess;
}

}  // namespace quire::simt

using namespace quire::simt;

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorIllegalState:
      return "the operation cannot be performed in the present state";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureWrongThread:
      return "attempt to terminate a thread-local capture sequence from another thread";
  }
  return "unrecognized error code";
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {"emulated on the CPU"};
  return cudaSuccess;
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
  *pool = &TheDevice();
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const Lock lock(TheDevice().mutex);
  TheDevice().streams.push_back(std::make_unique<Stream>());
  *stream = TheDevice().streams.back().get();
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Lock lock(TheDevice().mutex);
  if (!IsStream(stream)) return Answer(cudaErrorInvalidValue);
  if (stream->capture != nullptr) return Answer(CannotBeCaptured(stream));
  RunWaiting(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Lock lock(TheDevice().mutex);
  if (!IsStream(stream)) return Answer(cudaErrorInvalidValue);
  return stream->waiting.empty() ? cudaSuccess : Answer(cudaErrorNotReady);
}

cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t stream) {
  const Lock lock(TheDevice().mutex);
  if (!IsStream(stream) || bytes == 0) return Answer(cudaErrorInvalidValue);
  if (stream->capture != nullptr) return Answer(CannotBeCaptured(stream));
  *memory = ::operator new(bytes, kAlignment, std::nothrow);
  if (*memory == nullptr) return Answer(cudaErrorMemoryAllocation);
  memset(*memory, kSpoilt, bytes);
  TheDevice().memory[static_cast<char*>(*memory)] = bytes;
  WatchMemory(*memory, bytes);
  return cudaSuccess;
}

cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  const Lock lock(TheDevice().mutex);
  if (!IsStream(stream)) return Answer(cudaErrorInvalidValue);
  if (stream->capture != nullptr) return Answer(CannotBeCaptured(stream));
  if (TheDevice().memory.erase(static_cast<char*>(memory)) == 0) {
    return Answer(cudaErrorInvalidValue);
  }
  return Answer(Put(stream, [memory] { GiveBack(memory); }));
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  const Lock lock(TheDevice().mutex);
  if (!IsDeviceMemory(memory, bytes)) return Answer(cudaErrorInvalidValue);
  return Answer(Put(stream, [=] { memset(memory, value, bytes); }));
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const Lock lock(TheDevice().mutex);
  if (!IsStream(stream) || IsDeviceMemory(to, bytes) != (kind != cudaMemcpyDeviceToHost) ||
      IsDeviceMemory(from, bytes) != (kind != cudaMemcpyHostToDevice)) {
    return Answer(cudaErrorInvalidValue);
  }
  if (kind == cudaMemcpyDeviceToDevice) {
    return Answer(Put(stream, [=] { memcpy(to, from, bytes); }));
  }
  if (stream->capture != nullptr) return Answer(CannotBeCaptured(stream));
  const void* const host = kind == cudaMemcpyDeviceToHost ? to : from;
  if (IsPinned(host, bytes)) {
    return Answer(Put(stream, [=] { CopyPinned(to, from, host, bytes); }));
  }
  if (kind == cudaMemcpyDeviceToHost) return Answer(Put(stream, [=] { memcpy(to, from, bytes); }));
  // The host's bytes may change after the return.
  const auto* const first = static_cast<const char*>(from);
  return Answer(Put(stream, [to, held = std::vector<char>(first, first + bytes)] {
    memcpy(to, held.data(), held.size());
  }));
}

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  const Lock lock(TheDevice().mutex);
  if (bytes == 0) return Answer(cudaErrorInvalidValue);
  *memory = ::operator new(bytes, kAlignment, std::nothrow);
  if (*memory == nullptr) return Answer(cudaErrorMemoryAllocation);
  memset(*memory, kSpoilt, bytes);
  TheDevice().pinned[static_cast<char*>(*memory)] = bytes;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* memory) {
  const Lock lock(TheDevice().mutex);
  if (TheDevice().pinned.erase(static_cast<char*>(memory)) == 0) {
    return Answer(cudaErrorInvalidValue);
  }
  ::operator delete(memory, kAlignment);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new Event{.point = nullptr, .timed = flags != cudaEventDisableTiming};
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Lock lock(TheDevice().mutex);
  if (!IsStream(stream)) return Answer(cudaErrorInvalidValue);
  if (stream->capture != nullptr) return Answer(CannotBeCaptured(stream));
  event->point = std::make_shared<Point>(Point{.stream = stream});
  return Answer(Put(stream, [point = event->point] {
    point->passed = true;
    point->at = TheDevice().milliseconds;
  }));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Lock lock(TheDevice().mutex);
  if (!IsStream(stream)) return Answer(cudaErrorInvalidValue);
  if (stream->capture != nullptr) return Answer(CannotBeCaptured(stream));
  if (event->point == nullptr) return cudaSuccess;
  return Answer(Put(stream, [point = event->point] { RunTo(*point); }));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Lock lock(TheDevice().mutex);
  if (event->point != nullptr) RunTo(*event->point);
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Lock lock(TheDevice().mutex);
  const bool passed = event->point == nullptr || event->point->passed;
  return passed ? cudaSuccess : Answer(cudaErrorNotReady);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  const Lock lock(TheDevice().mutex);
  for (const Event* const event : {from, to}) {
    if (!event->timed || event->point == nullptr) return Answer(cudaErrorInvalidResourceHandle);
  }
  if (!from->point->passed || !to->point->passed) return Answer(cudaErrorNotReady);
  *milliseconds = static_cast<float>(to->point->at - from->point->at);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const Lock lock(TheDevice().mutex);
  if (!IsStream(stream)) return Answer(cudaErrorInvalidValue);
  if (stream->capture != nullptr) return Answer(cudaErrorIllegalState);
  stream->capture = std::make_unique<Graph>();
  stream->capturing_thread = std::this_thread::get_id();
  stream->capture_broken = false;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Lock lock(TheDevice().mutex);
  *graph = nullptr;
  if (!IsStream(stream)) return Answer(cudaErrorInvalidValue);
  if (stream->capture == nullptr) return Answer(cudaErrorIllegalState);
  if (stream->capturing_thread != std::this_thread::get_id()) {
    return Answer(cudaErrorStreamCaptureWrongThread);
  }
  const std::unique_ptr<Graph> captured = std::move(stream->capture);
  if (stream->capture_broken) return Answer(cudaErrorStreamCaptureInvalidated);
  *graph = new Graph(*captured);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, uint64_t) {
  if (graph == nullptr) return Answer(cudaErrorInvalidValue);
  *executable = new GraphExec{graph->steps};
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const Lock lock(TheDevice().mutex);
  return Answer(Put(stream, [steps = executable->steps] {
    for (const Step& step : *steps) step();
  }));
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
