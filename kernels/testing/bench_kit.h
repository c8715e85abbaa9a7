// SPDX-License-Identifier: Apache-2.0
//
// The common part of the kernel benchmarks: shapes, bytes that an op must move, inputs and report.
// A figure of one benchmark therefore stands for the same work in the other.
#ifndef QUIRE_KERNELS_TESTING_BENCH_KIT_H_
#define QUIRE_KERNELS_TESTING_BENCH_KIT_H_

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/page/dtype.h"
#include "kernels/api/table.h"

namespace quire::kernels::bench {

/// Shape of an 8-billion-parameter model, keys and values in bf16.
inline constexpr int64_t kPageTokens = 32, kQueryHeads = 32, kKvHeads = 8, kDim = 128;
inline constexpr int64_t kElementBytes = 2;
/// Slots that one sequence attends to, 2048 tokens, and the pages selected for them.
inline constexpr int64_t kBudgetSlots = 64, kSelected = 56;
inline constexpr float kScale = 0.08838834764f;  ///< 1/sqrt(d)

/// K and V of `pages` pages: what attention reads, and half of what a conversion moves.
constexpr int64_t KvBytes(int64_t pages) {
  return 2 * pages * kPageTokens * kKvHeads * kDim * kElementBytes;
}
/// Read as units and written into slots, or back.
constexpr int64_t ConvertBytes(int64_t pages) { return 2 * KvBytes(pages); }
/// Min/max digests of `pages` pages.
constexpr int64_t DigestBytes(int64_t pages) { return pages * kKvHeads * 2 * kDim * kElementBytes; }
/// Digests read and scores written.
constexpr int64_t ScoreBytes(int64_t pages) { return DigestBytes(pages) + kQueryHeads * pages * 4; }

inline std::vector<float> RandomFloats(int64_t n) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = normal(random);
  return values;
}

/// [n] bf16: a short random stretch, repeated, as values do not affect the speed.
inline std::vector<uint16_t> RandomElements(int64_t n) {
  const std::vector<float> values = RandomFloats(4099);
  std::vector<uint16_t> elements(static_cast<size_t>(n));
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = FloatToBF16(values[i % 4099]);
  return elements;
}

/// A random order of pages.
inline std::vector<int32_t> Shuffled(int64_t n) {
  std::vector<int32_t> list(static_cast<size_t>(n));
  std::iota(list.begin(), list.end(), 0);
  std::shuffle(list.begin(), list.end(), std::mt19937(7));
  return list;
}

/// Every head of every slot, slot by slot.
inline std::vector<UnitPlacement> Placements(const std::vector<int32_t>& slots) {
  std::vector<UnitPlacement> places;
  for (const int32_t slot : slots) {
    for (int32_t g = 0; g < kKvHeads; ++g) places.push_back({slot, g});
  }
  return places;
}

template <typename T>
T Median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Prints figures as they are measured, and at the end one line of JSON, ratios first.
class Figures {
 public:
  void Ratio(const std::string& name, double value) { Add(name, value, &ratios_); }
  void Raw(const std::string& name, double value) { Add(name, value, &raw_); }
  /// Prints the JSON line. `facts` is the inside of a JSON object that describes the measurement.
  void Print(const std::string& facts) const {
    printf(
        "{%s%s\"page_tokens\":%d,\"query_heads\":%d,\"kv_heads\":%d,\"dim\":%d,\"dtype\":\"bf16\","
        "\"budget_slots\":%d,%s}\n",
        ratios_.c_str(), raw_.c_str(), static_cast<int>(kPageTokens), static_cast<int>(kQueryHeads),
        static_cast<int>(kKvHeads), static_cast<int>(kDim), static_cast<int>(kBudgetSlots),
        facts.c_str());
  }

 private:
  static void Add(const std::string& name, double value, std::string* list) {
    printf("%-34s %12.3f\n", name.c_str(), value);
    char text[32];
    snprintf(text, sizeof text, "%.4g", value);
    *list += "\"" + name + "\":" + text + ",";
  }
  std::string ratios_, raw_;
};

}  // namespace quire::kernels::bench

#endif  // QUIRE_KERNELS_TESTING_BENCH_KIT_H_
