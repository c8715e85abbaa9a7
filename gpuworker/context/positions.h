// SPDX-License-Identifier: Apache-2.0
//
// Ascending lists of positions, and what plans do with them.
// Thread-safety: pure functions. Errors: none.
#ifndef QUIRE_GPUWORKER_CONTEXT_POSITIONS_H_
#define QUIRE_GPUWORKER_CONTEXT_POSITIONS_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

namespace quire::worker {

using Positions = std::vector<uint64_t>;

/// Appends begin, begin + 1, .. end - 1.
inline void AppendRange(uint64_t begin, uint64_t end, Positions* positions) {
  for (uint64_t at = begin; at < end; ++at) positions->push_back(at);
}

inline Positions Union(const Positions& a, const Positions& b) {
  Positions both;
  std::ranges::set_union(a, b, std::back_inserter(both));
  return both;
}

/// Positions of `a` that are not in `b`.
inline Positions Difference(const Positions& a, const Positions& b) {
  Positions rest;
  std::ranges::set_difference(a, b, std::back_inserter(rest));
  return rest;
}

/// Indices in `all` of `some`, which are all in it.
inline std::vector<uint32_t> IndicesOf(const Positions& some, const Positions& all) {
  std::vector<uint32_t> rows;
  for (const uint64_t position : some) {
    rows.push_back(static_cast<uint32_t>(std::ranges::lower_bound(all, position) - all.begin()));
  }
  return rows;
}

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_POSITIONS_H_
