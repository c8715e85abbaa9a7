// SPDX-License-Identifier: Apache-2.0
//
// ArenaMemory: the bytes of the arena, one memfd mapped once. It takes the largest pages that the
// system grants: reserved huge pages (hugetlbfs), then transparent huge pages, then 4 KiB pages.
// Larger pages save scattered reads most of their TLB misses. mode() describes the result for
// people.
//
// Page faults in a memfd bring transparent huge pages only if the administrator allows it
// (shmem_enabled); distributions do not. Requests range by range (Prepare) work on Linux 6.1 and
// later regardless. A probe of the first huge page at the start finds out which works.
//
// Memory is filled on first use, unless `prefault` asks for it at the start. Filling a GiB of small
// pages takes between half a second and several seconds. Readers never wait for a fault: their
// bytes were written through the same mapping before.
//
// The file is sealed once it is mapped (common/base/memory/shared_memory.h), so other processes may
// read it.
//
// Ownership: the object owns the mapping and its descriptors. Thread-safety: all methods may be
// called concurrently. Errors: INVALID_ARGUMENT (no such NUMA node), RESOURCE_EXHAUSTED.
#ifndef QUIRE_KVSERVER_STORE_DRAM_ARENA_MEMORY_H_
#define QUIRE_KVSERVER_STORE_DRAM_ARENA_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/memory/shared_memory.h"
#include "kvserver/store/dram/numa_nodes.h"
#include "quire/status.h"

namespace quire::kvserver {

class ArenaMemory {
 public:
  static constexpr uint64_t kHugePageBytes = 2 << 20;

  struct Options {
    uint64_t bytes = 0;
    /// NUMA node of the memory, or all nodes in turn. Ignored on machines with one node.
    int numa_node = kInterleaveNodes;
    bool prefault = false;  ///< Fill all memory at the start.
  };

  static StatusOr<std::unique_ptr<ArenaMemory>> Map(const Options& options);
  ~ArenaMemory();
  ArenaMemory(const ArenaMemory&) = delete;
  ArenaMemory& operator=(const ArenaMemory&) = delete;

  /// All memory, at least the requested size. Starts at a multiple of kHugePageBytes.
  std::span<std::byte> bytes() const { return bytes_; }

  /// Requests large pages for a range before it is filled. Never fails: small pages work, too.
  /// Keeps the range's contents.
  void Prepare(std::span<std::byte> range) const;

  /// View for other processes; nullopt when the file could not be sealed.
  std::optional<SharedMemoryView> shared() const;

  /// "huge pages 2 MiB", "transparent huge pages" or "4 KiB pages", and the NUMA nodes when there
  /// are several.
  const std::string& mode() const { return mode_; }

 private:
  enum class Pages { kHuge, kTransparent, kSmall };

  ArenaMemory() = default;
  /// Maps `bytes` of a new memfd. Returns false and sets errno on failure.
  bool TryMap(uint64_t bytes, unsigned memfd_flags);
  void Unmap();
  /// Maps reserved huge pages. Returns false when too few are free.
  bool TryMapHuge(const Options& options, const std::vector<int>& nodes);
  bool Bind(const std::vector<int>& nodes, bool strictly) const;
  bool TransparentHugePagesWork() const;
  /// Turns the huge-page-sized blocks inside `range` into huge pages, where the system can.
  void Collapse(std::span<std::byte> range) const;
  Status Fill() const;
  void Share();

  int fd_ = -1;
  UniqueFd read_only_;             ///< Valid once the file is sealed.
  std::span<std::byte> reserved_;  ///< Address range around the bytes, for alignment.
  std::span<std::byte> bytes_;
  Pages pages_ = Pages::kSmall;
  std::string mode_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_DRAM_ARENA_MEMORY_H_
