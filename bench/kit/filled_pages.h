// SPDX-License-Identifier: Apache-2.0
//
// FilledPages: memory with large pages, filled, so that no contender pays for page faults.
// Thread-safety: none.
#ifndef QUIRE_BENCH_KIT_FILLED_PAGES_H_
#define QUIRE_BENCH_KIT_FILLED_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>

#include "common/base/memory/large_pages.h"

namespace quire::bench {

class FilledPages {
 public:
  explicit FilledPages(uint64_t bytes) : memory_(bytes) {
    if (memory_.bytes().size() != bytes) throw std::bad_alloc();
    std::memset(memory_.bytes().data(), 1, bytes);
  }
  std::span<std::byte> bytes() const { return memory_.bytes(); }

 private:
  const LargePages memory_;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_KIT_FILLED_PAGES_H_
