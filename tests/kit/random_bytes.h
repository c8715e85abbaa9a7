// SPDX-License-Identifier: Apache-2.0
//
// RandomBytes: content that identifies its seed.
#ifndef QUIRE_TESTS_KIT_RANDOM_BYTES_H_
#define QUIRE_TESTS_KIT_RANDOM_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/random.h"

namespace quire::testing {

inline std::vector<std::byte> RandomBytes(size_t count, uint64_t seed) {
  std::vector<std::byte> bytes(count);
  SeededRandom(seed).Fill({reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
  return bytes;
}

}  // namespace quire::testing

#endif  // QUIRE_TESTS_KIT_RANDOM_BYTES_H_
