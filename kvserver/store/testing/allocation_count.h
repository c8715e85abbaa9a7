// SPDX-License-Identifier: Apache-2.0
//
// Allocations that operator new made, for tests of paths that must make none. A program that links
// allocation_count.cc has that file's operator new.
#ifndef QUIRE_KVSERVER_STORE_TESTING_ALLOCATION_COUNT_H_
#define QUIRE_KVSERVER_STORE_TESTING_ALLOCATION_COUNT_H_

#include <cstdint>

namespace quire::kvserver::testing {

[[nodiscard]] uint64_t AllocationsOfThisThread();

}  // namespace quire::kvserver::testing

#endif  // QUIRE_KVSERVER_STORE_TESTING_ALLOCATION_COUNT_H_
