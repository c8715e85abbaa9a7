// SPDX-License-Identifier: Apache-2.0
//
// Names of units in a context or session. Value types.
#ifndef QUIRE_UNITS_H_
#define QUIRE_UNITS_H_

#include <cstdint>
#include <vector>

namespace quire {

/// Units of one layer: `heads` (all when empty) of each of `pages`, in that order.
struct UnitRange {
  uint32_t layer = 0;
  std::vector<uint32_t> pages = {};
  std::vector<uint32_t> heads = {};
};

/// A unit that came to the worker and did not match its checksum.
struct MismatchedUnit {
  uint32_t sequence = 0;
  uint32_t layer = 0;
  uint32_t head = 0;
  uint32_t page = 0;    ///< As the sequence names it (page_name.h).
  uint32_t crc32c = 0;  ///< Checksum of the bytes that came.
};

}  // namespace quire

#endif  // QUIRE_UNITS_H_
