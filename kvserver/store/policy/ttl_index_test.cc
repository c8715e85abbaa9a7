// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/ttl_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "common/base/random.h"

namespace quire::kvserver {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Name = TtlIndex::Name;

constexpr size_t kAll = 1000;

TEST(TtlIndexTest, DocumentsExpireInTheOrderOfTheirExpiry) {
  TtlIndex index;
  index.Add({"c", "late"}, 0, 300);
  index.Add({"c", "early"}, 50, 50);
  index.Add({"c", "never"}, 0, std::nullopt);
  EXPECT_EQ(index.NextExpiry(), 100);
  EXPECT_THAT(index.PopExpired(99, kAll), IsEmpty());
  EXPECT_THAT(index.PopExpired(300, kAll), ElementsAre(Name{"c", "early"}, Name{"c", "late"}));
  EXPECT_EQ(index.NextExpiry(), std::nullopt);
  EXPECT_EQ(index.size(), 1u);
}

TEST(TtlIndexTest, ADocumentsOwnTimeTakesThePlaceOfItsCollections) {
  TtlIndex index;
  index.SetCollectionTtl("c", 100);
  index.Add({"c", "own"}, 0, 500);
  index.Add({"c", "inherits"}, 0, std::nullopt);
  index.Add({"d", "other collection"}, 0, std::nullopt);
  EXPECT_THAT(index.PopExpired(499, kAll), ElementsAre(Name{"c", "inherits"}));
  EXPECT_THAT(index.PopExpired(500, kAll), ElementsAre(Name{"c", "own"}));
}

TEST(TtlIndexTest, ACollectionsTimeCanChangeForDocumentsThatAreThere) {
  TtlIndex index;
  index.Add({"c", "a"}, 10, std::nullopt);
  index.Add({"c2", "a"}, 10, std::nullopt);
  EXPECT_EQ(index.NextExpiry(), std::nullopt);
  index.SetCollectionTtl("c", 100);
  EXPECT_EQ(index.NextExpiry(), 110);
  index.SetCollectionTtl("c", 20);
  EXPECT_EQ(index.NextExpiry(), 30);
  index.SetCollectionTtl("c", std::nullopt);
  EXPECT_EQ(index.NextExpiry(), std::nullopt);
}

TEST(TtlIndexTest, ADocumentThatIsAddedAgainOrRemovedLosesItsOldExpiry) {
  TtlIndex index;
  index.Add({"c", "a"}, 0, 100);
  index.Add({"c", "a"}, 50, 100);
  EXPECT_EQ(index.NextExpiry(), 150);
  EXPECT_EQ(index.size(), 1u);
  index.Remove({"c", "a"});
  index.Remove({"c", "a"});
  EXPECT_EQ(index.NextExpiry(), std::nullopt);
}

TEST(TtlIndexTest, WhatIsOverTheLimitStaysForTheNextCall) {
  TtlIndex index;
  for (int i = 0; i < 5; ++i) index.Add({"c", std::to_string(i)}, i, 1);
  EXPECT_THAT(index.PopExpired(100, 2), ElementsAre(Name{"c", "0"}, Name{"c", "1"}));
  EXPECT_EQ(index.PopExpired(100, kAll).size(), 3u);
}

TEST(TtlIndexTest, NoSumOverflows) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  TtlIndex index;
  index.Add({"c", "a"}, kMost - 1, kMost);
  EXPECT_EQ(index.NextExpiry(), kMost);
}

// Property: agrees with a scan of everything.
TEST(TtlIndexTest, AgreesWithAScanUnderRandomOperations) {
  constexpr uint64_t kSeed = 29;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  struct Document {
    int64_t created;
    std::optional<int64_t> own;
  };
  SeededRandom random(kSeed);
  TtlIndex index;
  std::map<Name, Document> documents;
  std::map<std::string, int64_t> collections;
  const auto ttl = [&]() -> std::optional<int64_t> {
    if (random.Below(3) == 0) return std::nullopt;
    return static_cast<int64_t>(random.Below(500));
  };
  const auto expiry = [&](const auto& entry) -> std::optional<int64_t> {
    if (entry.second.own) return entry.second.created + *entry.second.own;
    const auto it = collections.find(entry.first.collection);
    if (it == collections.end()) return std::nullopt;
    return entry.second.created + it->second;
  };
  for (int64_t now = 0; now < 5000; ++now) {
    const std::string collection(1, static_cast<char>('a' + random.Below(4)));
    const Name name{collection, std::to_string(random.Below(20))};
    switch (random.Below(8)) {
      case 0: {
        const auto value = ttl();
        index.SetCollectionTtl(collection, value);
        if (value) {
          collections[collection] = *value;
        } else {
          collections.erase(collection);
        }
        break;
      }
      case 1:
        index.Remove(name);
        documents.erase(name);
        break;
      case 2:
        for (const Name& expired : index.PopExpired(now, 3)) {
          const auto it = documents.find(expired);
          ASSERT_NE(it, documents.end());
          ASSERT_LE(expiry(*it), now);
          documents.erase(it);
        }
        break;
      default:
        documents[name] = {now, ttl()};
        index.Add(name, now, documents[name].own);
    }
    std::optional<int64_t> next;
    for (const auto& entry : documents) {
      const auto at = expiry(entry);
      if (at && (!next || *at < *next)) next = at;
    }
    ASSERT_EQ(index.NextExpiry(), next);
    ASSERT_EQ(index.size(), documents.size());
  }
}

}  // namespace
}  // namespace quire::kvserver
