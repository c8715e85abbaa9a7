// SPDX-License-Identifier: Apache-2.0
//
// Median: the middle value; the upper middle of an even number of values; zero without values.
// Thread-safety: a pure function.
#ifndef QUIRE_BENCH_KIT_MEDIAN_H_
#define QUIRE_BENCH_KIT_MEDIAN_H_

#include <algorithm>
#include <cstddef>
#include <vector>

namespace quire::bench {

template <typename T>
T Median(std::vector<T> values) {
  if (values.empty()) return T{};
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace quire::bench

#endif  // QUIRE_BENCH_KIT_MEDIAN_H_
