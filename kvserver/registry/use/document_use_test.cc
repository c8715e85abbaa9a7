// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kvserver/registry/testing/registry_fixture.h"

namespace quire::kvserver::testing {
namespace {

class DocumentUseTest : public RegistryFixture {
 protected:
  DocumentStatistics StatisticsOf(const std::string& name) {
    const auto document = registry_->Get("default", {"books", name, 0});
    EXPECT_TRUE(document.ok()) << document.status();
    return document.ok() ? document->statistics : DocumentStatistics();
  }
};

TEST_F(DocumentUseTest, UseIsCountedAndSurvivesARestart) {
  const auto chain = Chain({1, 2});
  ASSERT_TRUE(Register("a", chain).ok());
  registry_->NoteOpened("default", {"books", "a", 1}, 16);
  registry_->NoteReuse("default", chain[0].key, 8);
  registry_->NoteServed("default", {"books", "a", 1}, 100);
  registry_.reset();  // An orderly end writes the counts.
  OpenRegistry();
  const DocumentStatistics statistics = StatisticsOf("a");
  EXPECT_EQ(statistics.questions, 1u);
  EXPECT_EQ(statistics.hits, 1u);
  EXPECT_EQ(statistics.tokens_saved, 24u);
  EXPECT_EQ(statistics.bytes_served, 100u);
  EXPECT_EQ(statistics.last_used_unix_micros, clock_.UnixMicros());
}

TEST_F(DocumentUseTest, CountsAreWrittenOnceAMinute) {
  ASSERT_TRUE(Register("a", Chain({1})).ok());
  registry_->NoteOpened("default", {"books", "a", 1}, 8);
  const size_t rows = RowsLeft();
  ASSERT_TRUE(registry_->KeepUp(/*is_member=*/true).ok());
  EXPECT_EQ(RowsLeft(), rows);
  clock_.Advance(std::chrono::seconds(61));
  ASSERT_TRUE(registry_->KeepUp(/*is_member=*/true).ok());
  EXPECT_EQ(RowsLeft(), rows + 1);
}

TEST_F(DocumentUseTest, ADeletedDocumentLeavesNoCounts) {
  ASSERT_TRUE(Register("a", Chain({1})).ok());
  registry_->NoteOpened("default", {"books", "a", 1}, 8);
  ASSERT_TRUE(registry_->Delete("default", {"books", "a", 0}, false).ok());
  registry_->NoteOpened("default", {"books", "a", 1}, 8);  // By a session that was just opened.
  clock_.Advance(std::chrono::seconds(61));
  ASSERT_TRUE(registry_->KeepUp(/*is_member=*/true).ok());
  EXPECT_EQ(RowsLeft(), 0u);
  ASSERT_TRUE(Register("a", Chain({1})).ok());
  EXPECT_EQ(StatisticsOf("a"), DocumentStatistics());
}

TEST_F(DocumentUseTest, WarmingBringsSegmentsToDramSliceBySlice) {
  const auto chain = Chain({1, 2, 3});
  ASSERT_TRUE(Register("a", chain).ok());
  ReopenStore();
  const uint64_t segment = SegmentBytes(spec_, 2);
  const auto first = registry_->Warm("default", {"books", "a", 0}, 0, 2 * segment);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->next_segment, 2u);
  EXPECT_EQ(first->num_segments, 3u);
  EXPECT_EQ(first->bytes, 2 * segment);
  const auto second = registry_->Warm("default", {"books", "a", 0}, 2, segment);
  EXPECT_EQ(second->next_segment, 3u);
  EXPECT_EQ(second->in_dram, 3u);
  EXPECT_EQ(second->not_fitting, 0u);
  EXPECT_FALSE(second->document.pinned);
  EXPECT_EQ(registry_->Warm("default", {"books", "a", 0}, 3, segment).status().code(),
            StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace quire::kvserver::testing
