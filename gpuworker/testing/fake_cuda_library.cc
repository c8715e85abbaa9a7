// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/testing/fake_cuda_library.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/threads/mutex.h"
#include "gpuworker/testing/fake_streams.h"
#include "kernels/cpu/cpu_kernels.h"

namespace quire::worker::testing {
namespace {

using kernels::CopyDirection;
using kernels::KernelTable;
using kernels::OpStatus;

constexpr size_t kArenaBytes = size_t{256} << 20;
constexpr size_t kAlignment = 256;

/// Memory that is readable only while an Access lives. Blocks are powers of two and are kept for
/// the next of their size.
class Arena {
 public:
  Arena()
      : base_(static_cast<std::byte*>(mmap(nullptr, kArenaBytes, PROT_NONE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    if (base_ == MAP_FAILED) std::abort();
    // Changing the protection of small pages would take most of a test's time. They serve as well.
    (void)madvise(base_, kArenaBytes, MADV_HUGEPAGE);
  }
  bool Holds(const void* memory) const {
    const auto* const at = static_cast<const std::byte*>(memory);
    return at >= base_ && at < base_ + kArenaBytes;
  }
  /// True if `memory` is in a block that is allocated.
  bool IsTaken(const void* memory) const {
    auto block = taken_.upper_bound(static_cast<const std::byte*>(memory));
    if (block == taken_.begin()) return false;
    --block;
    return static_cast<const std::byte*>(memory) < block->first + block->second;
  }
  void* Take(size_t bytes) {
    if (bytes > kArenaBytes) return nullptr;
    size_t size = kAlignment;
    while (size < bytes) size *= 2;
    std::vector<std::byte*>& free = free_[size];
    if (free.empty()) {
      if (size > kArenaBytes - used_) return nullptr;
      free.push_back(base_ + used_);
      used_ += size;
    }
    std::byte* const block = free.back();
    free.pop_back();
    taken_[block] = size;
    return block;
  }
  void Give(void* memory) {
    auto* const block = static_cast<std::byte*>(memory);
    const auto taken = taken_.find(block);
    free_[taken->second].push_back(block);
    taken_.erase(taken);
  }

  class Access {
   public:
    explicit Access(const Arena& arena) : arena_(arena) { Protect(PROT_READ | PROT_WRITE); }
    ~Access() { Protect(PROT_NONE); }
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;

   private:
    void Protect(int how) {
      if (mprotect(arena_.base_, kArenaBytes, how) != 0) std::abort();
    }
    const Arena& arena_;
  };

 private:
  std::byte* const base_;
  size_t used_ = 0;
  std::map<size_t, std::vector<std::byte*>> free_;
  std::map<const std::byte*, size_t> taken_;  ///< Allocated blocks, and their sizes.
};

using Recording = std::vector<std::function<OpStatus()>>;

constexpr char kInvalid[] = "invalid argument";
constexpr char kIllegalAccess[] = "an illegal memory access was encountered";

struct alignas(64) PinnedLine {
  std::byte bytes[64];
};

struct Pinned {
  std::unique_ptr<PinnedLine[]> lines;
  size_t bytes = 0;
};

struct Machine {
  Arena arena;
  FakeStreams streams;
  std::map<const void*, Pinned> pinned;
  std::unique_ptr<Recording> recording;
  const char* failure = nullptr;  ///< Failure of work that ran after its call had returned.
  int64_t launches = 0;           ///< Graphs launched.
  int64_t kernels = 0;            ///< Kernels given to streams that run.
  std::vector<FakeCudaStream>* ran =
      nullptr;  ///< Record of the living LateStreams; null without one.

  /// True if `bytes` from `at` on are in one block of pinned memory.
  bool IsPinned(const void* at, size_t bytes) const {
    auto block = pinned.upper_bound(at);
    if (block == pinned.begin()) return false;
    --block;
    const auto offset = static_cast<size_t>(static_cast<const std::byte*>(at) -
                                            static_cast<const std::byte*>(block->first));
    return offset <= block->second.bytes && bytes <= block->second.bytes - offset;
  }
  void NoteRun(const FakeStream* stream) {
    ++streams.milliseconds;
    if (ran == nullptr) return;
    const auto all = streams.all();
    ran->push_back(static_cast<FakeCudaStream>(std::ranges::find(all, stream) - all.begin()));
  }
  /// The host waits (FakeStreams), and hears what failed meanwhile.
  const char* Await(FakeStream* stream, const FakePoint* point) {
    streams.Await(stream, point);
    return std::exchange(failure, nullptr);
  }
};

/// State shared by the functions of the library. Never destroyed.
struct Gpu {
  Mutex mutex;  ///< One call at a time.
  Machine machine QUIRE_GUARDED_BY(mutex);
  char recorder = 0;  ///< Its address stands for the stream.
};
Gpu& TheGpu() {
  static Gpu* const gpu = new Gpu;
  return *gpu;
}

/// Gives `work` to a stream. Its answer is returned when it runs at once. When it runs later
/// and fails, the next wait returns the error.
template <typename Answer, typename Work>
Answer Give(Machine& machine, FakeStream* stream, Answer fine, Work work) {
  struct Outcome {
    Answer answer;
    bool returned;
  };
  const auto outcome = std::make_shared<Outcome>(Outcome{fine, false});
  stream->Give([&machine, stream, fine, outcome, work = std::move(work)] {
    machine.NoteRun(stream);
    outcome->answer = work();
    if (outcome->returned && outcome->answer != fine) machine.failure = kIllegalAccess;
  });
  machine.streams.Advance();
  outcome->returned = true;
  return outcome->answer;
}
using Words = const char*;

/// True if the lists of an op, and what they point to, are in device memory.
template <typename Args>
bool ListsOnDevice(const Arena&, const Args&) {
  return true;
}
bool ListsOnDevice(const Arena& arena, const kernels::PagedAttentionArgs& args) {
  if (args.pools != nullptr && !arena.Holds(args.pools)) return false;
  if (args.tokens != nullptr) return arena.Holds(args.tokens);
  return arena.Holds(args.slots) && arena.Holds(args.valid_tokens) &&
         (args.first_tokens == nullptr || arena.Holds(args.first_tokens));
}
bool ListsOnDevice(const Arena& arena, const kernels::NhdToHndArgs& args) {
  if (args.pages != nullptr) return arena.Holds(args.pages);
  return arena.Holds(args.slots) && arena.Holds(args.units);
}
/// For an op that places units, which lie at `units` unless it has a list of them.
template <typename Args>
bool PlacesOnDevice(const Arena& arena, const Args& args, const void* units) {
  if (!arena.Holds(args.placements)) return false;
  if (!arena.IsTaken(args.k_pool) || !arena.IsTaken(args.v_pool)) return false;
  if (args.unit_ptrs == nullptr) return arena.IsTaken(units);
  if (!arena.Holds(args.unit_ptrs)) return false;
  const Arena::Access access(arena);
  for (int64_t i = 0; i < args.n_units; ++i) {
    if (!arena.Holds(args.unit_ptrs[i])) return false;
  }
  return true;
}
bool ListsOnDevice(const Arena& arena, const kernels::HndToNhdArgs& args) {
  if (args.addresses != nullptr) return arena.Holds(args.addresses) && arena.IsTaken(args.units);
  return PlacesOnDevice(arena, args, args.units);
}
bool ListsOnDevice(const Arena& arena, const kernels::PlaceUnitsArgs& args) {
  return PlacesOnDevice(arena, args, args.encoded);
}
bool ListsOnDevice(const Arena& arena, const kernels::EmbedArgs& args) {
  return arena.Holds(args.ids) && arena.Holds(args.table);
}
bool ListsOnDevice(const Arena& arena, const kernels::RopeArgs& args) {
  return arena.Holds(args.positions) && arena.Holds(args.cos_table) && arena.Holds(args.sin_table);
}
bool ListsOnDevice(const Arena& arena, const kernels::ScoreArgs& args) {
  if (args.jobs != nullptr) return arena.Holds(args.jobs);
  return arena.Holds(args.q) && arena.Holds(args.digests);
}
bool ListsOnDevice(const Arena& arena, const kernels::NarrowArgs& args) {
  if (args.list != nullptr) return arena.Holds(args.list);
  return args.places == nullptr || arena.Holds(args.places);
}
bool ListsOnDevice(const Arena& arena, const kernels::PoolArgs& args) {
  return args.jobs == nullptr || arena.Holds(args.jobs);
}
bool ListsOnDevice(const Arena& arena, const kernels::TopKArgs& args) {
  return args.jobs == nullptr || arena.Holds(args.jobs);
}
bool ListsOnDevice(const Arena& arena, const kernels::DigestArgs& args) {
  return args.jobs == nullptr || arena.Holds(args.jobs);
}
bool ListsOnDevice(const Arena& arena, const kernels::CorrectHeadsArgs& args) {
  return args.heads == nullptr || arena.Holds(args.heads);
}
bool ListsOnDevice(const Arena& arena, const kernels::ExpertMatmulArgs& args) {
  return arena.Holds(args.experts) && arena.Holds(args.weight);
}
bool ListsOnDevice(const Arena& arena, const kernels::DenseAttentionArgs& args) {
  return args.last_key == nullptr || arena.Holds(args.last_key);
}

/// Runs the CPU's op over memory that only the device can see. Lists are checked when it runs,
/// since they may be in flight before.
template <auto Op, typename Args>
auto WorkOf(const Machine& machine, const Args& args) {
  return [&machine, args] {
    if (!ListsOnDevice(machine.arena, args)) return OpStatus::kDeviceError;
    const Arena::Access access(machine.arena);
    return (kernels::CpuKernels().*Op)(args);
  };
}

/// One op of the table.
template <auto Op, typename Args>
OpStatus Run(const Args& args) {
  Gpu& gpu = TheGpu();
  MutexLock lock(gpu.mutex);
  if (args.stream == &gpu.recorder) {
    if (gpu.machine.recording == nullptr) return OpStatus::kDeviceError;
    gpu.machine.recording->push_back(WorkOf<Op>(gpu.machine, args));
    return OpStatus::kOk;
  }
  FakeStream* const stream = gpu.machine.streams.Find(args.stream);
  if (stream == nullptr) return OpStatus::kDeviceError;
  ++gpu.machine.kernels;
  return Give(gpu.machine, stream, OpStatus::kOk, WorkOf<Op>(gpu.machine, args));
}

constexpr KernelTable kTable = {
    .name = "FakeCuda",
    .nhd_to_hnd = Run<&KernelTable::nhd_to_hnd, kernels::NhdToHndArgs>,
    .hnd_to_nhd = Run<&KernelTable::hnd_to_nhd, kernels::HndToNhdArgs>,
    .place_units = Run<&KernelTable::place_units, kernels::PlaceUnitsArgs>,
    .digest = Run<&KernelTable::digest, kernels::DigestArgs>,
    .score = Run<&KernelTable::score, kernels::ScoreArgs>,
    .pool_query = Run<&KernelTable::pool_query, kernels::PoolQueryArgs>,
    .pool = Run<&KernelTable::pool, kernels::PoolArgs>,
    .topk = Run<&KernelTable::topk, kernels::TopKArgs>,
    .correct_heads = Run<&KernelTable::correct_heads, kernels::CorrectHeadsArgs>,
    .paged_attention = Run<&KernelTable::paged_attention, kernels::PagedAttentionArgs>,
    .dense_attention = Run<&KernelTable::dense_attention, kernels::DenseAttentionArgs>,
    .rmsnorm = Run<&KernelTable::rmsnorm, kernels::RmsNormArgs>,
    .rope = Run<&KernelTable::rope, kernels::RopeArgs>,
    .silu_mul = Run<&KernelTable::silu_mul, kernels::SiluMulArgs>,
    .matmul = Run<&KernelTable::matmul, kernels::MatmulArgs>,
    .add = Run<&KernelTable::add, kernels::AddArgs>,
    .embed = Run<&KernelTable::embed, kernels::EmbedArgs>,
    .choose_experts = Run<&KernelTable::choose_experts, kernels::ChooseExpertsArgs>,
    .expert_matmul = Run<&KernelTable::expert_matmul, kernels::ExpertMatmulArgs>,
    .combine_experts = Run<&KernelTable::combine_experts, kernels::CombineExpertsArgs>,
    .soft_cap = Run<&KernelTable::soft_cap, kernels::SoftCapArgs>,
    .narrow = Run<&KernelTable::narrow, kernels::NarrowArgs>,
    .sample = Run<&KernelTable::sample, kernels::SampleArgs>,
};

Words Open(kernels::CudaStreams* streams, kernels::CudaFacts* facts) {
  Gpu& gpu = TheGpu();
  MutexLock lock(gpu.mutex);
  FakeStreams& all = gpu.machine.streams;
  *streams = {.compute = &all.compute,
              .recorder = &gpu.recorder,
              .copy = &all.copy,
              .convert = &all.convert};
  std::strcpy(facts->device, "fake");
  return nullptr;
}

/// Calls `call` with the machine and the stream, or says that it is none.
template <typename Call>
Words OnStream(void* stream, Call call) {
  Gpu& gpu = TheGpu();
  MutexLock lock(gpu.mutex);
  FakeStream* const found = gpu.machine.streams.Find(stream);
  return found == nullptr ? kInvalid : call(gpu.machine, found);
}

Words Allocate(void* stream, size_t bytes, void** memory) {
  return OnStream(stream, [=](Machine& machine, FakeStream* on) -> Words {
    *memory = machine.arena.Take(bytes);
    if (*memory == nullptr) return "out of memory";
    return Give(machine, on, Words{}, [&machine, at = *memory, bytes]() -> Words {
      const Arena::Access access(machine.arena);
      std::memset(at, 0, bytes);
      return nullptr;
    });
  });
}

Words Release(void* stream, void* memory) {
  return OnStream(stream, [=](Machine& machine, FakeStream* on) {
    return Give(machine, on, Words{}, [&machine, memory]() -> Words {
      machine.arena.Give(memory);
      return nullptr;
    });
  });
}

Words Copy(void* stream, CopyDirection direction, void* to, const void* from, size_t bytes) {
  return OnStream(stream, [=](Machine& machine, FakeStream* on) -> Words {
    if (machine.arena.Holds(from) != (direction != CopyDirection::kToDevice) ||
        machine.arena.Holds(to) != (direction != CopyDirection::kToHost)) {
      return kInvalid;
    }
    std::vector<std::byte> held;  // The host's bytes may change after the return.
    if (direction == CopyDirection::kToDevice) {
      const auto* const first = static_cast<const std::byte*>(from);
      held.assign(first, first + bytes);
    }
    const Words given = Give(machine, on, Words{}, [=, &machine]() -> Words {
      const Arena::Access access(machine.arena);
      std::memcpy(to, held.empty() ? from : held.data(), bytes);
      return nullptr;
    });
    return direction == CopyDirection::kToHost ? machine.Await(on, nullptr) : given;
  });
}

Words Synchronize(void* stream) {
  return OnStream(stream,
                  [](Machine& machine, FakeStream* on) { return machine.Await(on, nullptr); });
}

Words Pin(size_t bytes, void** memory) {
  Gpu& gpu = TheGpu();
  MutexLock lock(gpu.mutex);
  auto block =
      std::make_unique<PinnedLine[]>((bytes + sizeof(PinnedLine) - 1) / sizeof(PinnedLine));
  *memory = block.get();
  gpu.machine.pinned[*memory] = {std::move(block), bytes};
  return nullptr;
}

Words Unpin(void* memory) {
  Gpu& gpu = TheGpu();
  MutexLock lock(gpu.mutex);
  return gpu.machine.pinned.erase(memory) == 1 ? nullptr : kInvalid;
}

Words CopyPinned(void* stream, CopyDirection direction, void* to, const void* from, size_t bytes) {
  const bool to_host = direction == CopyDirection::kToHost;
  const void* const host = to_host ? to : from;
  const void* const device = to_host ? from : to;
  return OnStream(stream, [=](Machine& machine, FakeStream* on) -> Words {
    if (!machine.IsPinned(host, bytes) || !machine.arena.Holds(device)) return kInvalid;
    return Give(machine, on, Words{}, [=, &machine]() -> Words {
      if (!machine.IsPinned(host, bytes) || !machine.arena.IsTaken(device)) return kIllegalAccess;
      const Arena::Access access(machine.arena);
      std::memcpy(to, from, bytes);
      return nullptr;
    });
  });
}

Words CreateEvent(void** event) {
  *event = new FakeEvent;
  return nullptr;
}

Words CreateTimedEvent(void** event) {
  *event = new FakeEvent{.timed = true};
  return nullptr;
}

Words RecordEvent(void* event, void* stream) {
  return OnStream(stream, [=](Machine& machine, FakeStream* on) -> Words {
    on->Record(static_cast<FakeEvent*>(event), machine.streams.milliseconds);
    machine.streams.Advance();
    return nullptr;
  });
}

Words Hold(void* stream, void* event) {
  return OnStream(stream, [=](Machine& machine, FakeStream* on) -> Words {
    on->HoldFor(*static_cast<FakeEvent*>(event));
    machine.streams.Advance();
    return nullptr;
  });
}

Words AwaitEvent(void* event) {
  Gpu& gpu = TheGpu();
  MutexLock lock(gpu.mutex);
  const std::shared_ptr<const FakePoint> point = static_cast<FakeEvent*>(event)->point;
  return point == nullptr ? nullptr : gpu.machine.Await(point->stream, point.get());
}

Words Elapsed(void* from, void* to, float* milliseconds) {
  Gpu& gpu = TheGpu();
  MutexLock lock(gpu.mutex);
  const FakeEvent& first = *static_cast<FakeEvent*>(from);
  const FakeEvent& last = *static_cast<FakeEvent*>(to);
  for (const FakeEvent* const event : {&first, &last}) {
    if (!event->timed || event->point == nullptr) return kInvalid;
  }
  const bool passed = first.point->passed && last.point->passed;
  *milliseconds = passed ? static_cast<float>(last.point->at - first.point->at) : -1;
  return nullptr;
}

void FreeEvent(void* event) { delete static_cast<FakeEvent*>(event); }

Words BeginCapture(void*) {
  Gpu& gpu = TheGpu();
  MutexLock lock(gpu.mutex);
  if (gpu.machine.recording != nullptr) return "operation not permitted when stream is capturing";
  gpu.machine.recording = std::make_unique<Recording>();
  return nullptr;
}

Words EndCapture(void*, void** graph) {
  Gpu& gpu = TheGpu();
  MutexLock lock(gpu.mutex);
  *graph = new std::shared_ptr<const Recording>(std::move(gpu.machine.recording));
  return nullptr;
}

Words Launch(void* graph, void* stream) {
  return OnStream(stream, [=](Machine& machine, FakeStream* on) {
    ++machine.launches;
    const auto recorded = *static_cast<std::shared_ptr<const Recording>*>(graph);
    return Give(machine, on, Words{}, [recorded]() -> Words {
      for (const auto& op : *recorded) {
        if (op() != OpStatus::kOk) return kIllegalAccess;
      }
      return nullptr;
    });
  });
}

kernels::CudaUse Use() {
  Gpu& gpu = TheGpu();
  MutexLock lock(gpu.mutex);
  return {.launches = gpu.machine.kernels + gpu.machine.launches,
          .host_waits = gpu.machine.streams.host_waits};
}

void FreeGraph(void* graph) { delete static_cast<std::shared_ptr<const Recording>*>(graph); }

}  // namespace

const kernels::CudaLibrary& FakeCudaLibrary() {
  static constexpr kernels::CudaLibrary kLibrary = {.kernels = &kTable,
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
  return kLibrary;
}

int64_t FakeCudaLaunches() {
  Gpu& gpu = TheGpu();
  MutexLock lock(gpu.mutex);
  return gpu.machine.launches;
}

int64_t FakeCudaHostWaits() {
  Gpu& gpu = TheGpu();
  MutexLock lock(gpu.mutex);
  return gpu.machine.streams.host_waits;
}

LateStreams::LateStreams(const std::vector<FakeCudaStream>& late) {
  Gpu& gpu = TheGpu();
  MutexLock lock(gpu.mutex);
  for (const FakeCudaStream stream : late) {
    gpu.machine.streams.all()[static_cast<size_t>(stream)]->late = true;
  }
  gpu.machine.ran = &ran_;
}

LateStreams::~LateStreams() {
  Gpu& gpu = TheGpu();
  MutexLock lock(gpu.mutex);
  for (FakeStream* const stream : gpu.machine.streams.all()) stream->late = false;
  gpu.machine.streams.Advance();
  gpu.machine.ran = nullptr;
}

std::vector<FakeCudaStream> LateStreams::RunOrder() const {
  MutexLock lock(TheGpu().mutex);
  return ran_;
}

}  // namespace quire::worker::testing
