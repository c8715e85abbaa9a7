// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/collections/collection_table.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/store/testing/memory_metadata_store.h"

namespace quire::kvserver {
namespace {

SettingsChange Codec(const std::string& name) {
  SettingsChange change;
  change.codec = *CodecByName(name);
  return change;
}
SettingsChange Ttl(std::optional<uint64_t> seconds) {
  SettingsChange change;
  change.ttl_seconds = seconds;
  return change;
}
SettingsChange Defaults() {
  SettingsChange change = Ttl({});
  change.codec.emplace();
  return change;
}

class CollectionTableTest : public ::testing::Test {
 protected:
  MemoryMetadataStore metadata_;
  CollectionTable table_{&metadata_};
};

TEST_F(CollectionTableTest, ACollectionThatWasNeverSetHasTheDefaults) {
  EXPECT_TRUE(table_.Get("t", "c")->all_default());
  EXPECT_TRUE(table_.Set("t", "c", Defaults())->all_default());
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_TRUE(metadata_.Scan("", "", 1)->empty());
}

TEST_F(CollectionTableTest, SettingsAreChangedOneByOneAndForgottenTogether) {
  ASSERT_TRUE(table_.Set("t", "c", Codec("int8+zstd")).ok());
  ASSERT_TRUE(table_.Set("t", "c", Ttl(60)).ok());
  const CollectionSettings both{.codec = CodecParams{.id = CodecId::kInt8, .entropy = true},
                                .ttl_seconds = 60};
  EXPECT_EQ(*table_.Get("t", "c"), both);
  EXPECT_EQ(table_.size(), 1u);
  EXPECT_TRUE(table_.Get("other", "c")->all_default());
  EXPECT_TRUE(table_.Set("t", "c", Defaults())->all_default());
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_TRUE(metadata_.Scan("", "", 1)->empty());
}

TEST_F(CollectionTableTest, AnotherTableOverTheSameMetadataLoadsThem) {
  ASSERT_TRUE(table_.Set("t", "c", Codec("fp8")).ok());
  ASSERT_TRUE(table_.Set("u", "d", Ttl(5)).ok());
  CollectionTable again(&metadata_);
  std::vector<std::string> seen;
  ASSERT_TRUE(again
                  .Load([&](std::string_view tenant, std::string_view collection,
                            const CollectionSettings& settings) {
                    seen.push_back(std::string(tenant).append("/").append(collection));
                    EXPECT_EQ(settings, *table_.Get(tenant, collection));
                  })
                  .ok());
  EXPECT_EQ(seen, (std::vector<std::string>{"t/c", "u/d"}));
  EXPECT_EQ(again.size(), 2u);
}

TEST_F(CollectionTableTest, ListIsOrderedPagedAndOfOneTenant) {
  for (const char* name : {"a", "a b", "b"}) ASSERT_TRUE(table_.Set("t", name, Ttl(5)).ok());
  ASSERT_TRUE(table_.Set("t2", "z", Ttl(5)).ok());
  std::vector<std::string> seen;
  std::string token;
  do {
    const auto page = table_.List("t", 2, token);
    ASSERT_TRUE(page.ok()) << page.status();
    for (const auto& entry : page->entries) seen.push_back(entry.collection);
    token = page->next_page_token;
  } while (!token.empty());
  EXPECT_EQ(seen, (std::vector<std::string>{"a", "a b", "b"}));
  EXPECT_EQ(table_.List("t", 1001, "").status().code(), StatusCode::kInvalidArgument);
  const std::string first = table_.List("t", 1, "")->next_page_token;
  EXPECT_EQ(table_.List("t2", 1, first).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(CollectionTableTest, OneCollectionMoreThanTheLimitIsRefused) {
  MetadataBatch batch;
  for (uint32_t i = 0; i < CollectionTable::kMaxPerTenant; ++i) {
    batch.Put(CollectionKey("t", std::to_string(i)), EncodeCollection({.ttl_seconds = 5}));
  }
  ASSERT_TRUE(metadata_.Apply(batch).ok());
  EXPECT_EQ(table_.Set("t", "new", Ttl(5)).status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(table_.Set("t", "7", Ttl(6)).ok()) << "one that is there can be changed";
  EXPECT_TRUE(table_.Set("u", "new", Ttl(6)).ok()) << "of another tenant";
}

TEST_F(CollectionTableTest, DamagedSettingsAreToldAndCanBeSetAgain) {
  ASSERT_TRUE(table_.Set("t", "c", Codec("int4")).ok());
  MetadataBatch batch;
  batch.Put(CollectionKey("t", "c"), "rubbish");
  ASSERT_TRUE(metadata_.Apply(batch).ok());
  EXPECT_EQ(table_.Get("t", "c").status().code(), StatusCode::kDataLoss);
  ASSERT_TRUE(table_.Set("t", "c", Ttl(5)).ok());
  EXPECT_EQ(*table_.Get("t", "c"), (CollectionSettings{.codec = {}, .ttl_seconds = 5}));
}

}  // namespace
}  // namespace quire::kvserver
