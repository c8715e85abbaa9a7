// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/library.h"

#include <cuda_runtime.h>

#include <atomic>
#include <cstdio>
#include <initializer_list>

#include "kernels/cuda/cublas.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launches.h"

namespace quire::kernels {
namespace {

/// The driver's error text. Clears errors that are not sticky.
const char* Words(cudaError_t error) {
  if (error == cudaSuccess) return nullptr;
  (void)cudaGetLastError();
  return cudaGetErrorString(error);
}
cudaStream_t Stream(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t Event(void* event) { return static_cast<cudaEvent_t>(event); }

std::atomic<int64_t> host_waits = 0;

/// Before the host waits: `now` says whether the work has run.
void CountWait(cudaError_t now) {
  if (now == cudaSuccess) return;
  (void)cudaGetLastError();
  if (now == cudaErrorNotReady) ++host_waits;
}

const char* AwaitStream(void* stream) {
  CountWait(cudaStreamQuery(Stream(stream)));
  return Words(cudaStreamSynchronize(Stream(stream)));
}

/// Keeps freed memory in the process, as each step reuses what the step before freed.
cudaError_t KeepFreedMemory() {
  cudaMemPool_t pool = nullptr;
  uint64_t everything = UINT64_MAX;
  if (const cudaError_t error = cudaDeviceGetDefaultMemPool(&pool, 0); error != cudaSuccess) {
    return error;
  }
  return cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &everything);
}

cudaError_t CreateStreams(CudaStreams* streams) {
  for (void** const one :
       {&streams->compute, &streams->recorder, &streams->copy, &streams->convert}) {
    cudaStream_t stream = nullptr;
    const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (error != cudaSuccess) return error;
    *one = stream;
  }
  return cudaSuccess;
}

cudaError_t OpenFirstDevice(CudaStreams* streams, CudaFacts* facts) {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count == 0) error = cudaErrorNoDevice;
  if (error != cudaSuccess) return error;
  cudaDeviceProp properties;
  if (error = cudaGetDeviceProperties(&properties, 0); error != cudaSuccess) return error;
  snprintf(facts->device, sizeof facts->device, "%s", properties.name);
  if (error = KeepFreedMemory(); error != cudaSuccess) return error;
  return CreateStreams(streams);
}

struct Opened {
  CudaStreams streams;
  CudaFacts facts;
  const char* error = nullptr;
};
Opened OpenOnce() {
  Opened opened;
  opened.error = Words(OpenFirstDevice(&opened.streams, &opened.facts));
  if (opened.error == nullptr) {
    cuda::SetRecorder(opened.streams.recorder);
    opened.facts.cublas = cuda::StartCublas(opened.streams.compute, opened.streams.recorder);
  }
  return opened;
}

const char* Open(CudaStreams* streams, CudaFacts* facts) {
  static const Opened opened = OpenOnce();
  *streams = opened.streams;
  *facts = opened.facts;
  return opened.error;
}

const char* Allocate(void* stream, size_t bytes, void** memory) {
  const cudaError_t error = cudaMallocAsync(memory, bytes, Stream(stream));
  if (error != cudaSuccess) return Words(error);
  return Words(cudaMemsetAsync(*memory, 0, bytes, Stream(stream)));
}

const char* Release(void* stream, void* memory) {
  return Words(cudaFreeAsync(memory, Stream(stream)));
}

cudaError_t StartCopy(void* stream, CopyDirection direction, void* to, const void* from,
                      size_t bytes) {
  constexpr cudaMemcpyKind kKinds[] = {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
                                       cudaMemcpyDeviceToDevice};
  return cudaMemcpyAsync(to, from, bytes, kKinds[static_cast<int>(direction)], Stream(stream));
}

const char* Copy(void* stream, CopyDirection direction, void* to, const void* from, size_t bytes) {
  const cudaError_t error = StartCopy(stream, direction, to, from, bytes);
  if (error != cudaSuccess || direction != CopyDirection::kToHost) return Words(error);
  return AwaitStream(stream);
}

const char* Synchronize(void* stream) { return AwaitStream(stream); }

const char* Pin(size_t bytes, void** memory) {
  return Words(cudaHostAlloc(memory, bytes, cudaHostAllocDefault));
}

const char* Unpin(void* memory) { return Words(cudaFreeHost(memory)); }

const char* CopyPinned(void* stream, CopyDirection direction, void* to, const void* from,
                       size_t bytes) {
  return Words(StartCopy(stream, direction, to, from, bytes));
}

const char* CreateEventWith(unsigned flags, void** event) {
  cudaEvent_t created = nullptr;
  const cudaError_t error = cudaEventCreateWithFlags(&created, flags);
  *event = created;
  return Words(error);
}

const char* CreateEvent(void** event) { return CreateEventWith(cudaEventDisableTiming, event); }

const char* CreateTimedEvent(void** event) { return CreateEventWith(cudaEventDefault, event); }

const char* RecordEvent(void* event, void* stream) {
  return Words(cudaEventRecord(Event(event), Stream(stream)));
}

const char* Hold(void* stream, void* event) {
  return Words(cudaStreamWaitEvent(Stream(stream), Event(event), 0));
}

const char* AwaitEvent(void* event) {
  CountWait(cudaEventQuery(Event(event)));
  return Words(cudaEventSynchronize(Event(event)));
}

const char* Elapsed(void* from, void* to, float* milliseconds) {
  const cudaError_t error = cudaEventElapsedTime(milliseconds, Event(from), Event(to));
  const char* const words = Words(error);
  if (error != cudaErrorNotReady) return words;
  *milliseconds = -1;
  return nullptr;
}

void FreeEvent(void* event) { (void)cudaEventDestroy(Event(event)); }

const char* BeginCapture(void* recorder) {
  return Words(cudaStreamBeginCapture(Stream(recorder), cudaStreamCaptureModeThreadLocal));
}

const char* EndCapture(void* recorder, void** graph) {
  cudaGraph_t recorded = nullptr;
  cudaError_t error = cudaStreamEndCapture(Stream(recorder), &recorded);
  if (error != cudaSuccess) return Words(error);
  cudaGraphExec_t executable = nullptr;
  error = cudaGraphInstantiate(&executable, recorded, 0);
  (void)cudaGraphDestroy(recorded);
  *graph = executable;
  return Words(error);
}

const char* Launch(void* graph, void* stream) {
  cuda::CountLaunch(stream);
  return Words(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), Stream(stream)));
}

void FreeGraph(void* graph) { (void)cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)); }

CudaUse Use() { return {.launches = cuda::LaunchesSoFar(), .host_waits = host_waits}; }

KernelTable TableWithCublas() {
  KernelTable table = CudaKernels();
  table.name = "CudaLibrary";
  table.matmul = cuda::MatmulByCublas;
  return table;
}

}  // namespace
}  // namespace quire::kernels

extern "C" const quire::kernels::CudaLibrary* quire_cuda_library() {
  using namespace quire::kernels;
  static const KernelTable table = TableWithCublas();
  static const CudaLibrary library = {.kernels = &table,
                                      .open = Open,
                                      .allocate = Allocate,
                                      .release = Release,
                                      .copy = Copy,
                                      .synchronize = Synchronize,
                                      .pin = Pin,
                                      .unpin = Unpin,
                                      .copy_pinned = CopyPinned,
                                      .create_event = CreateEvent,
                                      .create_timed_event = CreateTimedEvent,
                                      .record_event = RecordEvent,
                                      .hold = Hold,
                                      .await_event = AwaitEvent,
                                      .elapsed = Elapsed,
                                      .free_event = FreeEvent,
                                      .begin_capture = BeginCapture,
                                      .end_capture = EndCapture,
                                      .launch = Launch,
                                      .free_graph = FreeGraph,
                                      .use = Use};
  return &library;
}
