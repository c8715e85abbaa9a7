// SPDX-License-Identifier: Apache-2.0
#include "bench/rivals/raw_ucx.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/kit/random_bytes.h"

namespace quire::bench {
namespace {

constexpr uint64_t kUnit = 16384;
constexpr uint64_t kUnits = 300;

// Moves every unit to another place and checks it there.
TEST(RawUcxTest, MessagesMoveTheUnits) {
  if (!UcxAvailable()) GTEST_SKIP() << "built without UCX";
  std::vector<std::byte> source = testing::RandomBytes(kUnits * kUnit, 11);
  std::vector<std::byte> destination(source.size());
  std::vector<RawUcxMove> moves;
  for (uint64_t i = 0; i < kUnits; ++i) moves.push_back({i * kUnit, (i * 7 + 3) % kUnits * kUnit});
  const auto raw = RawUcx::Connect({}, source, destination, kUnit);
  ASSERT_TRUE(raw.ok()) << raw.status();
  for (int round = 0; round < 2; ++round) {
    const auto took = (*raw)->Move(moves);
    ASSERT_TRUE(took.ok()) << took.status();
    EXPECT_GT(*took, Duration::zero());
    for (const RawUcxMove& move : moves) {
      ASSERT_TRUE(std::equal(source.begin() + move.from, source.begin() + move.from + kUnit,
                             destination.begin() + move.to));
    }
    for (RawUcxMove& move : moves) move.to = (move.to + kUnit) % (kUnits * kUnit);
  }
}

}  // namespace
}  // namespace quire::bench
