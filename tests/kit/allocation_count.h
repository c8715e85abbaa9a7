// SPDX-License-Identifier: Apache-2.0
//
// Count of allocations by operator new, for tests of paths that must make none, or few. A program
// that links allocation_count.cc gets that file's operator new. It therefore cannot be linked with
// a sanitizer, which has its own.
#ifndef QUIRE_TESTS_KIT_ALLOCATION_COUNT_H_
#define QUIRE_TESTS_KIT_ALLOCATION_COUNT_H_

#include <cstdint>

namespace quire::testing {

[[nodiscard]] uint64_t AllocationsOfThisThread();

}  // namespace quire::testing

#endif  // QUIRE_TESTS_KIT_ALLOCATION_COUNT_H_
