// SPDX-License-Identifier: Apache-2.0
#include "tests/kit/allocation_count.h"

#include <cstdlib>
#include <new>

namespace quire::testing {
namespace {

thread_local uint64_t allocations = 0;

/// Memory for operator new.
void* Counted(size_t bytes) {
  ++allocations;
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

uint64_t AllocationsOfThisThread() { return allocations; }

}  // namespace quire::testing

void* operator new(size_t bytes) { return quire::testing::Counted(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
