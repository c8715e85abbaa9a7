// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "gpuworker/device/device.h"
#include "kernels/cpu/cpu_kernels.h"

namespace quire::worker {
namespace {

constexpr size_t kAlignment = 64;  // A cache line, and the widest vector register.
/// Allocations of this size use large pages where the machine has them. Each step reads slots at
/// random, and small pages miss the TLB.
constexpr size_t kLargePageBytes = 2 << 20;

/// The machine's memory: more can never be had, whatever the allocator would promise.
size_t PhysicalBytes() {
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

class Cpu final : public Device {
 public:
  std::string_view name() const override { return "cpu"; }
  const kernels::KernelTable& kernels() const override { return kernels::CpuKernels(); }
  void* stream() const override { return nullptr; }
  MemoryType memory_type() const override { return MemoryType::kHost; }

  Status CopyToDevice(void* to, const void* from, size_t bytes) override {
    return Copy(to, from, bytes);
  }
  Status CopyToHost(void* to, const void* from, size_t bytes) override {
    return Copy(to, from, bytes);
  }
  Status CopyOnDevice(void* to, const void* from, size_t bytes) override {
    return Copy(to, from, bytes);
  }
  Status Synchronize() override { return OkStatus(); }

 protected:
  void* AllocateBytes(size_t bytes) override {
    if (bytes > physical_bytes_) return nullptr;
    const bool large = bytes >= kLargePageBytes;
    void* data = nullptr;
    if (posix_memalign(&data, large ? kLargePageBytes : kAlignment, bytes) != 0) return nullptr;
    if (large) (void)madvise(data, bytes, MADV_HUGEPAGE);  // Small pages do as well.
    std::memset(data, 0, bytes);
    return data;
  }
  void FreeBytes(void* data) override { std::free(data); }

 private:
  static Status Copy(void* to, const void* from, size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return OkStatus();
  }

  const size_t physical_bytes_ = PhysicalBytes();
};

}  // namespace

Device& CpuDevice() {
  static Cpu* const device = new Cpu;  // Never destroyed: buffers may outlive static destruction.
  return *device;
}

}  // namespace quire::worker
