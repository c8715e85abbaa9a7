// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_regions.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/shm/shm_wire.h"

namespace quire {

StatusOr<std::shared_ptr<const ShmRegions>> ShmRegions::Make(
    std::span<const SharedMemoryView> views) {
  // The last number is reserved for a connection's copies.
  if (views.size() >= kMaxShmRegions) {
    return InvalidArgument("at most ", kMaxShmRegions - 1, " memories can be shared, not ",
                           views.size());
  }
  auto regions = std::make_shared<ShmRegions>();
  for (const SharedMemoryView& view : views) {
    const std::byte* const end = view.bytes.data() + view.bytes.size();
    for (const Region& other : regions->regions_) {
      if (view.bytes.data() < other.bytes.data() + other.bytes.size() && other.bytes.data() < end) {
        return InvalidArgument("shared memories overlap");
      }
    }
    if (view.bytes.empty()) return InvalidArgument("a shared memory is empty");
    UniqueFd fd(fcntl(view.fd, F_DUPFD_CLOEXEC, 0));
    if (!fd.valid()) {
      return InvalidArgument("a shared memory has no descriptor: ", std::strerror(errno));
    }
    const auto number = static_cast<uint16_t>(regions->regions_.size() + 1);
    regions->regions_.push_back({.number = number, .bytes = view.bytes, .fd = std::move(fd)});
  }
  return regions;
}

}  // namespace quire
