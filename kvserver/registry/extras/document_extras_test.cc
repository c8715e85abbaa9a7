// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kvserver/registry/rows/registry_row.h"
#include "kvserver/registry/testing/registry_fixture.h"

namespace quire::kvserver::testing {
namespace {

class DocumentExtrasTest : public RegistryFixture {
 protected:
  const DocumentName name_{"books", "a", 0};
  StatusOr<Extra> Put(const std::string& extra, uint32_t version, const std::string& bytes) {
    return registry_->PutExtra("default", name_, extra, version, bytes, {});
  }
};

TEST_F(DocumentExtrasTest, BytesComeBackAfterARestartAndGoWithTheDocument) {
  ASSERT_TRUE(Register("a", Chain({1})).ok());
  ASSERT_TRUE(Put("summary", 1, "short").ok());
  ASSERT_TRUE(Put("empty", 1, "").ok());
  OpenRegistry();
  const auto got = registry_->GetExtra("default", name_, "summary");
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->bytes, "short");
  EXPECT_EQ(got->extra.size, 5u);
  EXPECT_EQ(registry_->ListExtras("default", name_)->size(), 2u);
  EXPECT_EQ(registry_->GetExtra("default", name_, "other").status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(registry_->Delete("default", name_, false).ok());
  EXPECT_EQ(RowsLeft(), 0u);
}

TEST_F(DocumentExtrasTest, SegmentsThatWereMadeFromADocumentGoWithIt) {
  const auto own = Chain({1}), made = Chain({2, 3}), other = Chain({4});
  ASSERT_TRUE(Register("a", own).ok());
  ASSERT_TRUE(Register("b", other).ok());
  const auto put = [&](const DocumentName& name) {
    const SegmentKey segments[] = {made[0].key, made[1].key, other[0].key};
    return registry_->PutExtra("default", name, "made", 1, "x", segments).status();
  };
  ASSERT_TRUE(put(name_).ok());
  OpenRegistry();
  const auto gone = registry_->Delete("default", name_, false);
  ASSERT_TRUE(gone.ok()) << gone.status();
  EXPECT_EQ(gone->num_segments, 3u);
  EXPECT_FALSE(IsStored(made[0]) || IsStored(made[1]) || IsStored(own[0]));
  EXPECT_TRUE(IsStored(other[0])) << "another document names it";
  ASSERT_TRUE(put({"books", "b", 0}).ok()) << "segments that are gone may be named";
  ASSERT_TRUE(registry_->Delete("default", {"books", "b", 0}, false).ok());
  EXPECT_FALSE(IsStored(other[0]));
  EXPECT_EQ(RowsLeft(), 0u);
}

TEST_F(DocumentExtrasTest, SegmentsOfAnotherTenantStay) {
  const auto theirs = Chain({2}, "other");
  ASSERT_TRUE(Register("a", Chain({1})).ok());
  SegmentHold hold = store_->HoldSegments("other", {{theirs[0].key}}).value();
  const SegmentKey segments[] = {theirs[0].key};
  ASSERT_TRUE(registry_->PutExtra("default", name_, "made", 1, "x", segments).ok());
  ASSERT_TRUE(registry_->Delete("default", name_, false).ok());
  hold.Release();
  ASSERT_TRUE(store_->Sweep().ok());
  EXPECT_TRUE(store_->Tokens("other", theirs[0].key).ok());
  EXPECT_EQ(RowsLeft(), 0u) << "nothing is left to do";
}

TEST_F(DocumentExtrasTest, SegmentsOfADocumentWhoseListIsDamagedStay) {
  const auto other = Chain({4});
  ASSERT_TRUE(Register("a", Chain({1})).ok());
  ASSERT_TRUE(Register("b", other).ok());
  const SegmentKey segments[] = {other[0].key};
  ASSERT_TRUE(registry_->PutExtra("default", name_, "made", 1, "x", segments).ok());
  const std::string key = ChainKey("default", {"books", "b", 1});
  MetadataBatch batch;
  batch.Put(key, "damaged");
  ASSERT_TRUE(metadata_.Apply(batch).ok());
  ReopenStore();
  store_->RestoreNames({});
  ASSERT_TRUE(registry_->Delete("default", name_, false).ok());
  EXPECT_TRUE(IsStored(other[0])) << "its row on disk says that b needs it";
}

TEST_F(DocumentExtrasTest, SegmentsOfAnExtraAreBounded) {
  ASSERT_TRUE(Register("a", Chain({1})).ok());
  const std::vector<SegmentKey> many(4097);
  EXPECT_EQ(registry_->PutExtra("default", name_, "made", 1, "x", many).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(DocumentExtrasTest, ANewerVersionReplacesAndAnOlderOneIsRefused) {
  ASSERT_TRUE(Register("a", Chain({1})).ok());
  ASSERT_TRUE(Put("summary", 2, "two").ok());
  EXPECT_EQ(Put("summary", 1, "one").status().code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(Put("summary", 3, "three").ok());
  EXPECT_EQ(registry_->GetExtra("default", name_, "summary")->bytes, "three");
}

TEST_F(DocumentExtrasTest, NamesSizesAndCountsAreBounded) {
  ASSERT_TRUE(Register("a", Chain({1})).ok());
  EXPECT_EQ(Put("a/b", 1, "x").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Put("a", 0, "x").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Put("a", 1, std::string((4 << 20) + 1, 'x')).status().code(),
            StatusCode::kInvalidArgument);
  for (int i = 0; i < 32; ++i) ASSERT_TRUE(Put("e" + std::to_string(i), 1, "x").ok());
  EXPECT_EQ(Put("more", 1, "x").status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(Put("e7", 1, "y").ok());
  EXPECT_EQ(registry_->PutExtra("default", {"books", "b", 0}, "a", 1, "x", {}).status().code(),
            StatusCode::kNotFound);
}

TEST_F(DocumentExtrasTest, DamagedBytesAreNeverReturned) {
  ASSERT_TRUE(Register("a", Chain({1})).ok());
  ASSERT_TRUE(Put("summary", 1, "short").ok());
  const std::string key = ExtraBytesKey("default", {"books", "a", 1}, "summary");
  std::string row = *metadata_.Get(key);
  row[0] ^= 1;
  MetadataBatch batch;
  batch.Put(key, row);
  ASSERT_TRUE(metadata_.Apply(batch).ok());
  EXPECT_TRUE(IsDataLoss(registry_->GetExtra("default", name_, "summary").status()));
  EXPECT_TRUE(IsDataLoss(CheckRegistryRow(key, row))) << "the scrub finds it too";
  ASSERT_TRUE(Put("summary", 1, "again").ok());
  EXPECT_EQ(registry_->GetExtra("default", name_, "summary")->bytes, "again");
}

}  // namespace
}  // namespace quire::kvserver::testing
