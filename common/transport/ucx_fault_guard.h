// SPDX-License-Identifier: Apache-2.0
//
// The guard against peers that take shared memory back. A file of UCX's shared memory has no seals:
// its owner can cut it short, or punch a hole into it, after this process has mapped it, and
// whoever touches it there gets SIGBUS. With the guard the whole mapping becomes memory of this
// process alone then, and the access goes on in it: the peer loses its connection, and this process
// nothing. That holds for the mappings of UcxSegment and for those that UCX makes itself of the
// queues of its peers. (Who cuts the queue from which this process receives ends it still: what UCX
// reads there it believes.)
//
// Guarded are shared mappings of files that are named as UCX names them. Every other SIGBUS goes to
// whoever handled it before, as if there was no guard. Nothing of UCX is needed.
//
// Thread-safety: all functions from any thread.
#ifndef QUIRE_COMMON_TRANSPORT_UCX_FAULT_GUARD_H_
#define QUIRE_COMMON_TRANSPORT_UCX_FAULT_GUARD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace quire {

/// How UCX begins the names of its files of shared memory.
inline constexpr std::string_view kUcxFileName = "ucx_shm_posix_";

/// Installs the guard, unless it is there: this process's handler of SIGBUS. It stays until the
/// process ends: no listener knows that it is the last one, and a handler that was installed since
/// may pass faults on to it. One that does not do so for faults that are not its own takes the
/// guard out. REQUIRES: UCX's own handlers of crash signals are out already (UcxContext::Create),
/// since UCX lets nobody replace them.
void InstallUcxFaultGuard();

/// How many mappings the guard has replaced for accesses of this thread: what UCX was asked to do
/// between two calls with different answers has gone nowhere.
uint64_t UcxFaultsOfThisThread();

/// Tells whether the guard has replaced a mapping. Costs nothing until there is a fault.
class UcxFaultWatch {
 public:
  /// REQUIRES: the mapping stays as long as the watch.
  explicit UcxFaultWatch(std::span<const std::byte> mapping);
  ~UcxFaultWatch();
  UcxFaultWatch(const UcxFaultWatch&) = delete;
  UcxFaultWatch& operator=(const UcxFaultWatch&) = delete;

  /// False: what this thread has written to the mapping before is in the memory that it shares.
  /// True once any of it was replaced, and from then on.
  bool replaced() const {
    std::atomic_thread_fence(std::memory_order_seq_cst);  // Behind those writes.
    return replaced_.load(std::memory_order_relaxed);
  }
  /// For the guard: marks the watches of mappings that have bytes in [begin, end).
  static void MarkReplaced(uintptr_t begin, uintptr_t end);

 private:
  const uintptr_t begin_;
  const uintptr_t end_;
  std::atomic<bool> replaced_ = false;
  // In the list of all watches.
  UcxFaultWatch* next_ = nullptr;
  UcxFaultWatch* before_ = nullptr;
};

}  // namespace quire

#endif  // QUIRE_COMMON_TRANSPORT_UCX_FAULT_GUARD_H_
