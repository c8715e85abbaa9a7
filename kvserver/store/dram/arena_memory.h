// SPDX-License-Identifier: Apache-2.0
//
// ArenaMemory: the bytes of the arena, one memfd mapped once. It takes the largest pages that the
// system grants, in this order: reserved huge pages (hugetlbfs), transparent huge pages, pages of 4
// KiB; larger pages spare scattered reads most of their TLB misses. What it got is a line for
// people (mode()).
//
// Transparent huge pages of a memfd come with a fault only where the administrator allows it
// (shmem_enabled), which distributions do not. Asking for them range by range (Prepare) works on
// Linux 6.1 and later regardless. A probe of the first huge page at the start finds out what works.
//
// Memory is filled when it is first used, not at the start, unless `prefault` asks for it: filling
// a GiB of small pages takes from half a second to several, and readers never wait for a fault
// either way, since what they read was written through the same mapping before.
//
// The file is sealed once it is mapped (common/base/shared_memory.h), so that other processes can
// be given it to read.
//
// Ownership: the mapping and its descriptors are the object's. Thread-safety: all methods may be
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

#include "common/base/shared_memory.h"
#include "kvserver/store/dram/numa_nodes.h"
#include "quire/status.h"

namespace quire::kvserver {

class ArenaMemory {
 public:
  static constexpr uint64_t kHugePageBytes = 2 << 20;

  struct Options {
    uint64_t bytes = 0;
    /// The NUMA node to lie on, or all of them in turn. Nothing is done where there is one node.
    int numa_node = kInterleaveNodes;
    bool prefault = false;  ///< Fill all of it at the start.
  };

  static StatusOr<std::unique_ptr<ArenaMemory>> Map(const Options& options);
  ~ArenaMemory();
  ArenaMemory(const ArenaMemory&) = delete;
  ArenaMemory& operator=(const ArenaMemory&) = delete;

  /// All of it, at least as much as was asked for; starts at a multiple of kHugePageBytes.
  std::span<std::byte> bytes() const { return bytes_; }

  /// Asks for large pages under a range that is about to be filled. Never fails: small pages serve
  /// as well. The range's contents stay.
  void Prepare(std::span<std::byte> range) const;

  /// For other processes to read; nullopt when the system could not make the file safe to share.
  std::optional<SharedMemoryView> shared() const;

  /// "huge pages 2 MiB", "transparent huge pages" or "4 KiB pages", and the NUMA nodes where there
  /// are several.
  const std::string& mode() const { return mode_; }

 private:
  enum class Pages { kHuge, kTransparent, kSmall };

  ArenaMemory() = default;
  /// Maps `bytes` of a new memfd; errno tells why when it answers false.
  bool TryMap(uint64_t bytes, unsigned memfd_flags);
  void Unmap();
  /// Huge pages that the system keeps ready; false when there are not enough of them there.
  bool TryMapHuge(const Options& options, const std::vector<int>& nodes);
  bool Bind(const std::vector<int>& nodes, bool strictly) const;
  bool TransparentHugePagesWork() const;
  /// Makes huge pages of those that lie in `range` whole, where the system can.
  void Collapse(std::span<std::byte> range) const;
  Status Fill() const;
  void Share();

  int fd_ = -1;
  UniqueFd read_only_;             ///< Valid when the file is sealed.
  std::span<std::byte> reserved_;  ///< Addresses around the bytes, so that they can be aligned.
  std::span<std::byte> bytes_;
  Pages pages_ = Pages::kSmall;
  std::string mode_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_DRAM_ARENA_MEMORY_H_
