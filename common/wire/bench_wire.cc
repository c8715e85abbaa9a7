// SPDX-License-Identifier: Apache-2.0
//
// Times the packed fields of a recall: the unit lists and lane records of 10,000 units over 64
// heads, with memcpy of the decoded bytes beside them as their limit. Use: quire_bench_wire
// [repeats]. Every figure is a median in microseconds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/wire/lane_records.h"
#include "common/wire/unit_list.h"

namespace quire::wire {
namespace {

constexpr uint32_t kHeads = 64;
constexpr uint32_t kUnits = 10'000;

/// Median microseconds of `job`.
double Median(int repeats, const std::function<void()>& job) {
  std::vector<double> micros;
  for (int repeat = -1; repeat < repeats; ++repeat) {  // The first round warms up.
    const auto start = std::chrono::steady_clock::now();
    job();
    const std::chrono::duration<double, std::micro> taken =
        std::chrono::steady_clock::now() - start;
    if (repeat >= 0) micros.push_back(taken.count());
  }
  std::nth_element(micros.begin(), micros.begin() + repeats / 2, micros.end());
  return micros[static_cast<size_t>(repeats / 2)];
}

/// Every head with its share of kUnits random pages, one of `one_in` taken.
PageLists RandomLists(uint32_t one_in) {
  SeededRandom random(one_in);
  PageLists lists;
  for (uint32_t head = 0; head < kHeads; ++head) {
    lists.AppendHead();
    for (uint32_t page = 0; lists.Head(head).size() < kUnits / kHeads; ++page) {
      if (random.Below(one_in) == 0) lists.Append(page);
    }
  }
  return lists;
}

void BenchUnitList(int repeats, uint32_t one_in) {
  const PageLists lists = RandomLists(one_in);
  std::string bytes;
  PageLists back;
  const double encode = Median(repeats, [&] { EncodeUnitList(lists, &bytes); });
  const double decode = Median(repeats, [&] {
    if (!DecodeUnitList(bytes, kHeads, kUnits, &back).ok() || back != lists) std::abort();
  });
  std::printf("unit list, 1 page in %-5u %6zu bytes  encode %6.1f us  decode %6.1f us\n", one_in,
              bytes.size(), encode, decode);
}

void BenchLaneUnits(int repeats) {
  LaneUnits units;
  units.Resize(kUnits);
  std::string bytes;
  LaneUnits back;
  const double encode = Median(repeats, [&] { EncodeLaneUnits(units, &bytes); });
  const double decode = Median(repeats, [&] {
    if (!DecodeLaneUnits(bytes, kUnits, &back).ok()) std::abort();
  });
  std::vector<char> copy(bytes.size());
  const double limit = Median(repeats, [&] {
    std::memcpy(copy.data(), bytes.data(), copy.size());
    if (copy.back() != bytes.back()) std::abort();
  });
  std::printf(
      "lane units             %6zu bytes  encode %6.1f us  decode %6.1f us  memcpy %.1f us\n",
      bytes.size(), encode, decode, limit);
}

}  // namespace
}  // namespace quire::wire

int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::max(1, std::atoi(argv[1])) : 201;
  for (const uint32_t one_in : {1u, 2u, 8u, 32u, 1000u}) {
    quire::wire::BenchUnitList(repeats, one_in);
  }
  quire::wire::BenchLaneUnits(repeats);
  return 0;
}
