// SPDX-License-Identifier: Apache-2.0
//
// LargePages: memory with large pages, filled, so that no contender incurs page faults.
// Thread-safety: none.
#ifndef QUIRE_BENCH_KIT_LARGE_PAGES_H_
#define QUIRE_BENCH_KIT_LARGE_PAGES_H_

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>

namespace quire::bench {

class LargePages {
 public:
  explicit LargePages(uint64_t bytes) : bytes_(bytes) {
    void* const place = mmap(nullptr, bytes + kAlignment, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) throw std::bad_alloc();
    room_ = static_cast<std::byte*>(place);
    begin_ = room_ + (kAlignment - reinterpret_cast<uintptr_t>(room_) % kAlignment);
    (void)madvise(begin_, bytes_, MADV_HUGEPAGE);  // Smaller pages work as well.
    std::memset(begin_, 1, bytes_);
  }
  ~LargePages() { munmap(room_, bytes_ + kAlignment); }
  LargePages(const LargePages&) = delete;
  LargePages& operator=(const LargePages&) = delete;
  std::span<std::byte> bytes() const { return {begin_, bytes_}; }

 private:
  static constexpr uint64_t kAlignment = 2 << 20;
  const uint64_t bytes_;
  std::byte* room_ = nullptr;
  std::byte* begin_ = nullptr;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_KIT_LARGE_PAGES_H_
