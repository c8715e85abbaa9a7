// SPDX-License-Identifier: Apache-2.0
//
// ShmRegions: the shared memory that a server lends in place, and the lookup of the region of a
// slice.
//
// Ownership: duplicates the descriptors; the memory must stay mapped as long as slices of it are
// sent.
// Thread-safety: constant once made.
#ifndef QUIRE_TRANSPORT_SHM_SHM_REGIONS_H_
#define QUIRE_TRANSPORT_SHM_SHM_REGIONS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/memory/shared_memory.h"
#include "common/base/unique_fd.h"
#include "quire/status.h"

namespace quire {

class ShmRegions {
 public:
  struct Region {
    uint16_t number = 0;  ///< Number on the wire; from 1.
    std::span<const std::byte> bytes;
    UniqueFd fd;
  };

  /// INVALID_ARGUMENT for too many regions, an empty one, or ones that overlap.
  static StatusOr<std::shared_ptr<const ShmRegions>> Make(std::span<const SharedMemoryView> views);

  /// The region that contains the whole slice; null if none does.
  const Region* Find(std::span<const std::byte> slice) const {
    for (const Region& region : regions_) {  // Usually one region.
      if (slice.data() >= region.bytes.data() &&
          slice.data() + slice.size() <= region.bytes.data() + region.bytes.size()) {
        return &region;
      }
    }
    return nullptr;
  }
  const std::vector<Region>& all() const { return regions_; }

 private:
  std::vector<Region> regions_;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SHM_SHM_REGIONS_H_
