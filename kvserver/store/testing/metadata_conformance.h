// SPDX-License-Identifier: Apache-2.0
//
// Conformance suite of MetadataStore:
//   INSTANTIATE_TEST_SUITE_P(Memory, MetadataConformanceTest,
//                            ::testing::Values(MakeMemoryHarness));
#ifndef QUIRE_KVSERVER_STORE_TESTING_METADATA_CONFORMANCE_H_
#define QUIRE_KVSERVER_STORE_TESTING_METADATA_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kvserver/store/metadata/metadata_store.h"

namespace quire::kvserver::testing {

/// A store and its backend.
class MetadataHarness {
 public:
  virtual ~MetadataHarness() = default;
  virtual MetadataStore& store() = 0;
};
using MakeMetadataHarness = std::unique_ptr<MetadataHarness> (*)();

class MetadataConformanceTest : public ::testing::TestWithParam<MakeMetadataHarness> {
 protected:
  MetadataStore& store() { return harness_->store(); }
  Status Put(const std::string& key, const std::string& value) {
    MetadataBatch batch;
    batch.Put(key, value);
    return store().Apply(batch);
  }
  std::vector<std::string> Keys(std::string_view prefix, std::string_view after, uint32_t limit) {
    std::vector<std::string> keys;
    const auto entries = store().Scan(prefix, after, limit).value();
    for (const MetadataEntry& entry : entries) keys.push_back(entry.key);
    return keys;
  }
  using Names = std::vector<std::string>;

 private:
  std::unique_ptr<MetadataHarness> harness_ = GetParam()();
};

TEST_P(MetadataConformanceTest, GetReturnsWhatWasPutAndNotFoundOtherwise) {
  EXPECT_EQ(store().Get("a").status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(Put("a", "1").ok());
  EXPECT_EQ(*store().Get("a"), "1");
  ASSERT_TRUE(Put("a", "").ok());
  EXPECT_EQ(*store().Get("a"), "");
}

TEST_P(MetadataConformanceTest, KeysAndValuesAreBytes) {
  const std::string key("k\0\xff\x1f", 4), value("\0\xff\n", 3);
  ASSERT_TRUE(Put(key, value).ok());
  EXPECT_EQ(*store().Get(key), value);
  EXPECT_EQ(Keys(std::string_view(key).substr(0, 2), "", 10), Names{key});
}

TEST_P(MetadataConformanceTest, OperationsApplyInOrder) {
  MetadataBatch batch;
  batch.Put("a", "1");
  batch.Put("b", "1");
  batch.Delete("a");
  batch.Put("b", "2");
  batch.Delete("missing");
  ASSERT_TRUE(store().Apply(batch).ok());
  EXPECT_EQ(store().Get("a").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(*store().Get("b"), "2");
}

TEST_P(MetadataConformanceTest, ABatchWhoseConditionFailsChangesNothing) {
  ASSERT_TRUE(Put("a", "1").ok());
  MetadataBatch absent, other_value, missing;
  absent.ExpectAbsent("a");
  other_value.ExpectValue("a", "2");
  missing.ExpectValue("b", "");
  for (MetadataBatch* batch : {&absent, &other_value, &missing}) {
    batch->ExpectValue("a", "1");
    batch->Put("c", "1");
    EXPECT_EQ(store().Apply(*batch).code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(store().Get("c").status().code(), StatusCode::kNotFound);
  }
}

TEST_P(MetadataConformanceTest, ABatchWhoseConditionsHoldIsApplied) {
  ASSERT_TRUE(Put("a", "1").ok());
  MetadataBatch batch;
  batch.ExpectValue("a", "1");
  batch.ExpectAbsent("b");
  batch.Put("a", "2");
  batch.Put("b", "1");
  ASSERT_TRUE(store().Apply(batch).ok());
  EXPECT_EQ(*store().Get("a"), "2");
  EXPECT_EQ(*store().Get("b"), "1");
}

TEST_P(MetadataConformanceTest, RefusesKeysThatAreEmptyOrTooLong) {
  MetadataBatch long_condition;
  long_condition.ExpectAbsent(std::string(MetadataStore::kMaxKeyBytes + 1, 'x'));
  EXPECT_EQ(store().Apply(long_condition).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Put("", "1").code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Put(std::string(MetadataStore::kMaxKeyBytes, 'x'), "1").ok());
}

TEST_P(MetadataConformanceTest, ScanIsOrderedAndKeepsToPrefixStartAndLimit) {
  for (const char* key : {"b/2", "a", "b/10", "b/1", "b0", "c", "b/"}) {
    ASSERT_TRUE(Put(key, "").ok());
  }
  EXPECT_EQ(Keys("b/", "", 100), (Names{"b/", "b/1", "b/10", "b/2"}));
  EXPECT_EQ(Keys("b/", "b/1", 100), (Names{"b/10", "b/2"}));
  EXPECT_EQ(Keys("b/", "b/1", 1), Names{"b/10"});
  EXPECT_EQ(Keys("b/", "", 0), Names{});
  EXPECT_EQ(Keys("b/", "b/9", 100), Names{});
  EXPECT_EQ(Keys("b/", "a", 2), (Names{"b/", "b/1"})) << "a start before the prefix";
  EXPECT_EQ(Keys("", "", 100).size(), 7u);
}

TEST_P(MetadataConformanceTest, ConcurrentCompareAndSwapLosesNoIncrement) {
  ASSERT_TRUE(Put("count", "0").ok());
  constexpr int kIncrements = 25;
  const auto increment = [&] {
    for (int done = 0; done < kIncrements;) {
      const std::string before = store().Get("count").value();
      MetadataBatch batch;
      batch.ExpectValue("count", before);
      batch.Put("count", std::to_string(std::stoi(before) + 1));
      if (store().Apply(batch).ok()) ++done;
    }
  };
  std::thread other(increment);
  increment();
  other.join();
  EXPECT_EQ(*store().Get("count"), std::to_string(2 * kIncrements));
}

}  // namespace quire::kvserver::testing

#endif  // QUIRE_KVSERVER_STORE_TESTING_METADATA_CONFORMANCE_H_
