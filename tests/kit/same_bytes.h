// SPDX-License-Identifier: Apache-2.0
//
// SameBytes: whether two pieces of memory have equal content. Builds with sanitizers do not
// optimise tests, and a loop over bytes takes them a hundred times as long.
#ifndef QUIRE_TESTS_KIT_SAME_BYTES_H_
#define QUIRE_TESTS_KIT_SAME_BYTES_H_

#include <cstddef>
#include <cstring>
#include <span>

namespace quire::testing {

inline bool SameBytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

}  // namespace quire::testing

#endif  // QUIRE_TESTS_KIT_SAME_BYTES_H_
