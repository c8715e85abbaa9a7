// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/metadata/checked_cache.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace quire::kvserver {
namespace {

using Number = std::shared_ptr<int>;
uint32_t ChecksumOf(const Number& number) { return static_cast<uint32_t>(*number); }

class CheckedCacheTest : public ::testing::Test {
 protected:
  Number Insert(int key) {
    auto value = std::make_shared<int>(key * 10);
    cache_.Insert(key, value, /*bytes=*/10, cache_.epoch());
    return value;
  }
  /// Values that a walk met, and those of them that were damaged.
  std::pair<int, int> Walk() {
    int met = 0, damaged = 0;
    const auto walk = cache_.Walk();
    while (const std::optional<CacheCheck> check = walk->Next()) {
      EXPECT_EQ(check->bytes, 10u);
      ++met;
      damaged += check->intact ? 0 : 1;
    }
    return {met, damaged};
  }

  CheckedCache<int, Number, std::hash<int>> cache_{20, &ChecksumOf};
};

TEST_F(CheckedCacheTest, AWalkDropsWhatHasChangedAndNothingElse) {
  const Number first = Insert(1);
  Insert(2);
  EXPECT_EQ(Walk(), std::pair(2, 0));
  *first ^= 4;
  EXPECT_EQ(Walk(), std::pair(2, 1));
  EXPECT_FALSE(cache_.Find(1).has_value());
  EXPECT_EQ(**cache_.Find(2), 20);
  EXPECT_EQ(Walk(), std::pair(1, 0));
}

TEST_F(CheckedCacheTest, AWalkIsNoUse) {
  Insert(1);
  Insert(2);
  Walk();
  (void)cache_.Find(1);
  Walk();
  Insert(3);
  EXPECT_FALSE(cache_.Find(2).has_value()) << "it was used longest ago";
  EXPECT_TRUE(cache_.Find(1).has_value());
}

TEST_F(CheckedCacheTest, AWalkPassesOverWhatHasLeftMeanwhile) {
  Insert(1);
  Insert(2);
  const auto walk = cache_.Walk();
  cache_.Invalidate(1);
  ASSERT_TRUE(walk->Next().has_value());
  EXPECT_FALSE(walk->Next().has_value());
}

TEST_F(CheckedCacheTest, AWriterReplacesWhatIsThereWhateverWasInvalidatedMeanwhile) {
  Insert(1);
  const uint64_t epoch = cache_.epoch();
  cache_.Invalidate(2);
  cache_.Insert(1, std::make_shared<int>(11), /*bytes=*/10, epoch);
  EXPECT_EQ(**cache_.Find(1), 10) << "it was read before something was invalidated";
  cache_.Replace(1, std::make_shared<int>(12), /*bytes=*/10);
  EXPECT_EQ(**cache_.Find(1), 12);
  EXPECT_EQ(Walk(), std::pair(1, 0));
}

}  // namespace
}  // namespace quire::kvserver
