// SPDX-License-Identifier: Apache-2.0
#include "common/base/memory/large_pages.h"

#include <sys/mman.h>

namespace quire {

LargePages::LargePages(uint64_t bytes) {
  const uint64_t room = bytes + kPageBytes;
  void* const place = mmap(nullptr, room, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return;
  reserved_ = {static_cast<std::byte*>(place), room};
  const uint64_t past_page = reinterpret_cast<uintptr_t>(place) % kPageBytes;
  bytes_ = reserved_.subspan(past_page == 0 ? 0 : kPageBytes - past_page, bytes);
  (void)madvise(bytes_.data(), bytes_.size(), MADV_HUGEPAGE);  // Small pages serve as well.
}

LargePages::~LargePages() {
  if (!reserved_.empty()) munmap(reserved_.data(), reserved_.size());
}

}  // namespace quire
