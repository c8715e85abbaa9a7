// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/testing/fake_cuda_library.h"

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
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
  }
  bool Holds(const void* memory) const {
    const auto* const at = static_cast<const std::byte*>(memory);
    return at >= base_ && at < base_ + kArenaBytes;
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
    sizes_[block] = size;
    return block;
  }
  void Give(void* memory) {
    auto* const block = static_cast<std::byte*>(memory);
    free_[sizes_.at(block)].push_back(block);
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
  std::map<std::byte*, size_t> sizes_;
};

using Recording = std::vector<std::function<void()>>;

/// What the functions of the library share. Never destroyed.
struct Gpu {
  Mutex mutex;  ///< One piece of work at a time, as on one stream.
  Arena arena QUIRE_GUARDED_BY(mutex);
  std::unique_ptr<Recording> recording QUIRE_GUARDED_BY(mutex);
  int64_t launches QUIRE_GUARDED_BY(mutex) = 0;
  char stream = 0;    ///< Its address stands for the stream.
  char recorder = 0;  ///< Likewise.
};
Gpu& TheGpu() {
  static Gpu* const gpu = new Gpu;
  return *gpu;
}

/// Whether the lists of an op, and what they lead to, are the device's.
template <typename Args>
bool ListsOnDevice(const Arena&, const Args&) {
  return true;
}
bool ListsOnDevice(const Arena& arena, const kernels::PagedAttentionArgs& args) {
  return arena.Holds(args.slots) && arena.Holds(args.valid_tokens);
}
bool ListsOnDevice(const Arena& arena, const kernels::NhdToHndArgs& args) {
  return arena.Holds(args.slots) && arena.Holds(args.units);
}
bool ListsOnDevice(const Arena& arena, const kernels::HndToNhdArgs& args) {
  if (!arena.Holds(args.placements)) return false;
  if (args.unit_ptrs == nullptr) return arena.Holds(args.units);
  if (!arena.Holds(args.unit_ptrs)) return false;
  const Arena::Access access(arena);
  for (int64_t i = 0; i < args.n_units; ++i) {
    if (!arena.Holds(args.unit_ptrs[i])) return false;
  }
  return true;
}
bool ListsOnDevice(const Arena& arena, const kernels::EmbedArgs& args) {
  return arena.Holds(args.ids) && arena.Holds(args.table);
}
bool ListsOnDevice(const Arena& arena, const kernels::RopeArgs& args) {
  return arena.Holds(args.positions) && arena.Holds(args.cos_table) && arena.Holds(args.sin_table);
}
bool ListsOnDevice(const Arena& arena, const kernels::ScoreArgs& args) {
  return arena.Holds(args.q) && arena.Holds(args.digests);
}

/// One op of the table: the CPU's, over memory that only it can see.
template <auto Op, typename Args>
OpStatus Run(const Args& args) {
  Gpu& gpu = TheGpu();
  MutexLock lock(gpu.mutex);
  if (args.stream == &gpu.recorder) {
    if (gpu.recording == nullptr) return OpStatus::kDeviceError;
    gpu.recording->push_back([args] { (void)(kernels::CpuKernels().*Op)(args); });
    return OpStatus::kOk;
  }
  if (args.stream != &gpu.stream || !ListsOnDevice(gpu.arena, args)) return OpStatus::kDeviceError;
  const Arena::Access access(gpu.arena);
  return (kernels::CpuKernels().*Op)(args);
}

constexpr KernelTable kTable = {
    .name = "FakeCuda",
    .nhd_to_hnd = Run<&KernelTable::nhd_to_hnd, kernels::NhdToHndArgs>,
    .hnd_to_nhd = Run<&KernelTable::hnd_to_nhd, kernels::HndToNhdArgs>,
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
    .narrow = Run<&KernelTable::narrow, kernels::NarrowArgs>,
};

const char* Open(void** stream, void** recorder, kernels::CudaFacts* facts) {
  *stream = &TheGpu().stream;
  *recorder = &TheGpu().recorder;
  std::strcpy(facts->device, "fake");
  return nullptr;
}

const char* Allocate(void*, size_t bytes, void** memory) {
  Gpu& gpu = TheGpu();
  MutexLock lock(gpu.mutex);
  *memory = gpu.arena.Take(bytes);
  if (*memory == nullptr) return "out of memory";
  const Arena::Access access(gpu.arena);
  std::memset(*memory, 0, bytes);
  return nullptr;
}

const char* Release(void*, void* memory) {
  Gpu& gpu = TheGpu();
  MutexLock lock(gpu.mutex);
  gpu.arena.Give(memory);
  return nullptr;
}

const char* Copy(void*, CopyDirection direction, void* to, const void* from, size_t bytes) {
  Gpu& gpu = TheGpu();
  MutexLock lock(gpu.mutex);
  if (gpu.arena.Holds(from) != (direction != CopyDirection::kToDevice) ||
      gpu.arena.Holds(to) != (direction != CopyDirection::kToHost)) {
    return "invalid argument";
  }
  const Arena::Access access(gpu.arena);
  std::memcpy(to, from, bytes);
  return nullptr;
}

const char* Synchronize(void*) { return nullptr; }

const char* BeginCapture(void*) {
  Gpu& gpu = TheGpu();
  MutexLock lock(gpu.mutex);
  if (gpu.recording != nullptr) return "operation not permitted when stream is capturing";
  gpu.recording = std::make_unique<Recording>();
  return nullptr;
}

const char* EndCapture(void*, void** graph) {
  Gpu& gpu = TheGpu();
  MutexLock lock(gpu.mutex);
  *graph = gpu.recording.release();
  return nullptr;
}

const char* Launch(void* graph, void*) {
  Gpu& gpu = TheGpu();
  MutexLock lock(gpu.mutex);
  ++gpu.launches;
  const Arena::Access access(gpu.arena);
  for (const auto& op : *static_cast<Recording*>(graph)) op();
  return nullptr;
}

void FreeGraph(void* graph) { delete static_cast<Recording*>(graph); }

}  // namespace

const kernels::CudaLibrary& FakeCudaLibrary() {
  static constexpr kernels::CudaLibrary kLibrary = {.kernels = &kTable,
                                                    .open = Open,
                                                    .allocate = Allocate,
                                                    .release = Release,
                                                    .copy = Copy,
                                                    .synchronize = Synchronize,
                                                    .begin_capture = BeginCapture,
                                                    .end_capture = EndCapture,
                                                    .launch = Launch,
                                                    .free_graph = FreeGraph};
  return kLibrary;
}

int64_t FakeCudaLaunches() {
  Gpu& gpu = TheGpu();
  MutexLock lock(gpu.mutex);
  return gpu.launches;
}

}  // namespace quire::worker::testing
