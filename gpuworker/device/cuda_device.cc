// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/device/cuda_device.h"

#include <dlfcn.h>

#include <chrono>
#include <deque>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "common/base/threads/mutex.h"

namespace quire::worker {
namespace {

using kernels::CopyDirection;
using kernels::CudaLibrary;
using kernels::CudaStreams;

constexpr char kLibrary[] = "libquire_cuda.so";
constexpr char kEntry[] = "quire_cuda_library";

/// INTERNAL with the driver's words, where there are any.
Status FromDriver(const char* words, std::string_view what) {
  if (words == nullptr) return OkStatus();
  return Internal("CUDA ", what, ": ", words);
}

void* StreamOf(const CudaStreams& streams, DeviceStream which) {
  switch (which) {
    case DeviceStream::kCompute:
      return streams.compute;
    case DeviceStream::kCopy:
      return streams.copy;
    case DeviceStream::kConvert:
      return streams.convert;
  }
  return streams.compute;
}

class Event final : public DeviceEvent {
 public:
  Event(const CudaLibrary* library, void* event, const CudaStreams& streams)
      : library_(library), event_(event), streams_(streams) {}
  ~Event() override { library_->free_event(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  Status Record(DeviceStream stream) override {
    return FromDriver(library_->record_event(event_, StreamOf(streams_, stream)), "event");
  }
  Status Hold(DeviceStream stream) override {
    return FromDriver(library_->hold(StreamOf(streams_, stream), event_), "wait");
  }
  Status Await() override { return FromDriver(library_->await_event(event_), "wait"); }
  void* get() const { return event_; }

 private:
  const CudaLibrary* const library_;
  void* const event_;
  const CudaStreams streams_;
};

/// Two timed events around each hold, which are read once the stream has passed them.
class Timer final : public HoldTimer {
 public:
  Timer(const CudaLibrary* library, const CudaStreams& streams)
      : library_(library), streams_(streams) {}
  Status Hold(DeviceEvent& event, DeviceStream stream) override {
    QUIRE_RETURN_IF_ERROR(Collect());
    QUIRE_ASSIGN_OR_RETURN(Interval interval, TakeInterval());
    QUIRE_RETURN_IF_ERROR(interval.from->Record(stream));
    QUIRE_RETURN_IF_ERROR(event.Hold(stream));
    QUIRE_RETURN_IF_ERROR(interval.to->Record(stream));
    running_.push_back(std::move(interval));
    return OkStatus();
  }
  StatusOr<Duration> Take() override {
    QUIRE_RETURN_IF_ERROR(Collect());
    return std::exchange(held_, Duration::zero());
  }

 private:
  struct Interval {
    std::unique_ptr<Event> from;
    std::unique_ptr<Event> to;
  };

  StatusOr<std::unique_ptr<Event>> MakeTimedEvent() const {
    void* event = nullptr;
    QUIRE_RETURN_IF_ERROR(FromDriver(library_->create_timed_event(&event), "event"));
    return std::make_unique<Event>(library_, event, streams_);
  }
  StatusOr<Interval> TakeInterval() {
    Interval interval;
    if (idle_.empty()) {
      QUIRE_ASSIGN_OR_RETURN(interval.from, MakeTimedEvent());
      QUIRE_ASSIGN_OR_RETURN(interval.to, MakeTimedEvent());
      return interval;
    }
    interval = std::move(idle_.back());
    idle_.pop_back();
    return interval;
  }
  /// Adds up what has ended.
  Status Collect() {
    while (!running_.empty()) {
      Interval& first = running_.front();
      float milliseconds = -1;
      QUIRE_RETURN_IF_ERROR(FromDriver(
          library_->elapsed(first.from->get(), first.to->get(), &milliseconds), "event"));
      if (milliseconds < 0) return OkStatus();
      held_ += std::chrono::duration_cast<Duration>(
          std::chrono::duration<double, std::milli>(milliseconds));
      idle_.push_back(std::move(first));
      running_.pop_front();
    }
    return OkStatus();
  }

  const CudaLibrary* const library_;
  const CudaStreams streams_;
  std::deque<Interval> running_;  ///< In the order of their holds.
  std::vector<Interval> idle_;
  Duration held_ = {};
};

class Graph final : public DeviceGraph {
 public:
  Graph(const CudaLibrary* library, void* graph, void* stream)
      : library_(library), graph_(graph), stream_(stream) {}
  ~Graph() override { library_->free_graph(graph_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  Status Launch() override { return FromDriver(library_->launch(graph_, stream_), "graph launch"); }

 private:
  const CudaLibrary* const library_;
  void* const graph_;
  void* const stream_;
};

class Cuda final : public Device {
 public:
  Cuda(const CudaLibrary* library, const CudaStreams& streams, const kernels::CudaFacts& facts)
      : library_(library), streams_(streams), hardware_(facts.device), has_cublas_(facts.cublas) {}

  std::string_view name() const override { return "cuda"; }
  std::string_view hardware() const override { return hardware_; }
  bool has_cublas() const override { return has_cublas_; }
  DeviceUse use() const override {
    const kernels::CudaUse use = library_->use();
    return {.launches = use.launches, .host_waits = use.host_waits};
  }
  const kernels::KernelTable& kernels() const override { return *library_->kernels; }
  void* stream() const override {
    return recording_on_this_thread_ ? streams_.recorder : streams_.compute;
  }
  void* convert_stream() const override { return streams_.convert; }
  MemoryType memory_type() const override { return MemoryType::kCuda; }

  Status CopyToDevice(void* to, const void* from, size_t bytes) override {
    return Copy(CopyDirection::kToDevice, to, from, bytes);
  }
  Status CopyToHost(void* to, const void* from, size_t bytes) override {
    return Copy(CopyDirection::kToHost, to, from, bytes);
  }
  Status CopyOnDevice(void* to, const void* from, size_t bytes) override {
    return Copy(CopyDirection::kOnDevice, to, from, bytes);
  }
  Status CopyPinned(DeviceStream stream, void* to, const void* from, size_t bytes) override {
    return FromDriver(library_->copy_pinned(StreamOf(streams_, stream), CopyDirection::kToDevice,
                                            to, from, bytes),
                      "copy");
  }
  Status CopyToPinned(void* to, const void* from, size_t bytes) override {
    return FromDriver(
        library_->copy_pinned(streams_.compute, CopyDirection::kToHost, to, from, bytes), "copy");
  }
  Status Synchronize() override {
    return FromDriver(library_->synchronize(streams_.compute), "wait");
  }
  StatusOr<std::unique_ptr<DeviceEvent>> MakeEvent() override {
    void* event = nullptr;
    QUIRE_RETURN_IF_ERROR(FromDriver(library_->create_event(&event), "event"));
    return std::unique_ptr<DeviceEvent>(std::make_unique<Event>(library_, event, streams_));
  }
  std::unique_ptr<HoldTimer> MakeHoldTimer() override {
    return std::make_unique<Timer>(library_, streams_);
  }
  StatusOr<std::unique_ptr<DeviceGraph>> Record(const std::function<Status()>& work) override
      QUIRE_EXCLUDES(recording_);

 protected:
  void* AllocateBytes(size_t bytes) override {
    void* memory = nullptr;
    return library_->allocate(streams_.compute, bytes, &memory) == nullptr ? memory : nullptr;
  }
  void* PinBytes(size_t bytes) override {
    void* memory = nullptr;
    return library_->pin(bytes, &memory) == nullptr ? memory : nullptr;
  }
  /// The driver answers with what an earlier kernel did wrong, which the next copy says as well.
  void FreeBytes(void* data) override { (void)library_->release(streams_.compute, data); }
  void FreePinned(void* data) override { (void)library_->unpin(data); }

 private:
  Status Copy(CopyDirection direction, void* to, const void* from, size_t bytes) {
    if (bytes == 0) return OkStatus();
    return FromDriver(library_->copy(streams_.compute, direction, to, from, bytes), "copy");
  }

  const CudaLibrary* const library_;
  const CudaStreams streams_;
  const std::string hardware_;
  const bool has_cublas_;
  Mutex recording_;  ///< One recording at a time.
  static thread_local bool recording_on_this_thread_;
};

thread_local bool Cuda::recording_on_this_thread_ = false;

StatusOr<std::unique_ptr<DeviceGraph>> Cuda::Record(const std::function<Status()>& work) {
  MutexLock lock(recording_);
  QUIRE_RETURN_IF_ERROR(FromDriver(library_->begin_capture(streams_.recorder), "capture"));
  recording_on_this_thread_ = true;
  const Status given = work();
  recording_on_this_thread_ = false;
  void* graph = nullptr;
  const Status ended = FromDriver(library_->end_capture(streams_.recorder, &graph), "capture");
  std::unique_ptr<DeviceGraph> owned;
  if (graph != nullptr) owned = std::make_unique<Graph>(library_, graph, streams_.compute);
  QUIRE_RETURN_IF_ERROR(given);
  QUIRE_RETURN_IF_ERROR(ended);
  return owned;
}

Status NoDevice(std::string_view why) { return FailedPrecondition("no CUDA device: ", why); }

/// The library beside this program, else the loader's; null with the loader's words.
void* LoadLibrary(std::string* why) {
  std::error_code ignored;  // Then the loader looks alone.
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const std::string beside = program.parent_path().parent_path() / "lib" / kLibrary;
  for (const std::string& path : {beside, std::string(kLibrary)}) {
    if (void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const char* const words = dlerror();
    *why = words != nullptr ? words : "the loader does not say why";
  }
  return nullptr;
}

StatusOr<Device*> LoadCudaDevice() {
  std::string why;
  void* const library = LoadLibrary(&why);
  if (library == nullptr) {
    return NoDevice(why +
                    "; it is built where nvcc is (build_cuda.sh of the bundle, or "
                    "./dev build cuda)");
  }
  const auto entry =
      reinterpret_cast<const CudaLibrary* (*)()>(dlsym(library, kEntry));  // As POSIX has it.
  if (entry == nullptr) return NoDevice(std::string(kLibrary) + " has no " + kEntry);
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, MakeCudaDevice(*entry()));
  return device.release();  // Never destroyed: buffers may outlive static destruction.
}

}  // namespace

StatusOr<std::unique_ptr<Device>> MakeCudaDevice(const CudaLibrary& library) {
  if (library.version != kernels::kCudaLibraryVersion ||
      library.table_bytes != static_cast<int64_t>(sizeof(kernels::KernelTable))) {
    return NoDevice(std::string(kLibrary) +
                    " was built from other sources than this program; build it again");
  }
  CudaStreams streams;
  kernels::CudaFacts facts;
  if (const char* words = library.open(&streams, &facts)) return NoDevice(words);
  return std::unique_ptr<Device>(std::make_unique<Cuda>(&library, streams, facts));
}

StatusOr<Device*> CudaDevice() {
  static const StatusOr<Device*>* const device = new StatusOr<Device*>(LoadCudaDevice());
  return *device;
}

StatusOr<Device*> FindDevice(std::string_view name) {
  if (name == "cpu") return &CpuDevice();
  if (name == "cuda") return CudaDevice();
  return InvalidArgument("no device '", name, "'; there are cpu and cuda");
}

std::vector<std::string_view> DeviceNames() { return {"cpu", "cuda"}; }

}  // namespace quire::worker
