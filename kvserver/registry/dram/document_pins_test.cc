// SPDX-License-Identifier: Apache-2.0
//
// Pins of documents. The tests detect a segment's pin by releasing it.
#include <gtest/gtest.h>

#include "kvserver/registry/testing/registry_fixture.h"

namespace quire::kvserver::testing {
namespace {

class DocumentPinsTest : public RegistryFixture {
 protected:
  StatusOr<DocumentRegistry::PinResult> Pin(const std::string& name, uint64_t version = 0) {
    return registry_->Pin("default", {"books", name, version});
  }
  StatusOr<DocumentRegistry::PinResult> Unpin(const std::string& name, uint64_t version = 0) {
    return registry_->Unpin("default", {"books", name, version});
  }
  /// Releases all pins of a segment and returns their number.
  int TakePins(const TestSegment& segment) {
    int count = 0;
    while (store_->UnpinSegments("default", {&segment.key, 1}).ok()) ++count;
    return count;
  }
  uint64_t Pinned() { return CountersOf(*registry_)["documents_pinned"]; }
  uint64_t Waiting() { return CountersOf(*registry_)["document_pins_waiting"]; }
  uint64_t PinnedBytes() { return CountersOf(*store_)["dram_bytes_pinned"]; }
};

TEST_F(DocumentPinsTest, PinningPinsEverySegmentOnceHoweverOftenItIsCalled) {
  const auto chain = Chain({1, 2}), other = Chain({9});
  ASSERT_TRUE(Register("a", chain).ok());
  const auto first = Pin("a");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(first->was_pinned);
  EXPECT_EQ(first->document.name.version, 1u);
  EXPECT_TRUE(Pin("a", 1)->was_pinned);
  EXPECT_EQ(Pinned(), 1u);
  for (const TestSegment& segment : chain) EXPECT_EQ(TakePins(segment), 1);
  EXPECT_EQ(TakePins(other[0]), 0);
}

TEST_F(DocumentPinsTest, UnpinningTakesThePinBackAndNothingElse) {
  const auto first = Chain({1, 2}), second = Chain({1, 3});  // The first segment is shared.
  ASSERT_TRUE(Register("first", first).ok());
  ASSERT_TRUE(Register("second", second).ok());
  EXPECT_FALSE(Unpin("first")->was_pinned);
  ASSERT_TRUE(Pin("first").ok());
  ASSERT_TRUE(Pin("second").ok());
  EXPECT_TRUE(Unpin("first")->was_pinned);
  EXPECT_FALSE(Unpin("first")->was_pinned);
  EXPECT_EQ(Pinned(), 1u);
  EXPECT_EQ(TakePins(first[0]), 1) << "of the second";
  EXPECT_EQ(TakePins(first[1]), 0);
  EXPECT_EQ(TakePins(second[1]), 1);
}

TEST_F(DocumentPinsTest, ADocumentThatGoesTakesItsPinsAlong) {
  const auto stays = Chain({1, 2});
  ASSERT_TRUE(Register("stays", stays).ok());
  ASSERT_TRUE(Register("deleted", stays).ok());
  ASSERT_TRUE(Register("expired", stays, 0, "books", 5).ok());
  ASSERT_TRUE(Pin("deleted").ok());
  ASSERT_TRUE(Pin("expired").ok());
  EXPECT_EQ(Pinned(), 2u);
  ASSERT_TRUE(registry_->Delete("default", {"books", "deleted", 0}, true).ok());
  clock_.Advance(std::chrono::seconds(5));
  EXPECT_EQ(Pin("expired").status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(registry_->RemoveExpired().ok());
  EXPECT_EQ(Pinned(), 0u);
  for (const TestSegment& segment : stays) EXPECT_EQ(TakePins(segment), 0);
}

// Promise 3, for the registry: acknowledged changes survive a restart.
TEST_F(DocumentPinsTest, PinsAreKeptOverARestart) {
  const auto first = Chain({1, 2}), second = Chain({1, 3});
  ASSERT_TRUE(Register("first", first).ok());
  ASSERT_TRUE(Register("second", second).ok());
  ASSERT_TRUE(Pin("first").ok());
  ASSERT_TRUE(Pin("second").ok());
  ASSERT_TRUE(Unpin("second").ok());
  ReopenStore();
  EXPECT_EQ(Pinned(), 1u);
  EXPECT_EQ(Waiting(), 1u);
  EXPECT_EQ(registry_->RestorePins(TimePoint::max()).restored, 1u);
  EXPECT_EQ(Waiting(), 0u);
  EXPECT_TRUE(Pin("first")->was_pinned);
  EXPECT_EQ(TakePins(first[0]), 1);
  EXPECT_EQ(TakePins(first[1]), 1);
  EXPECT_EQ(TakePins(second[1]), 0);
}

TEST_F(DocumentPinsTest, APinThatDoesNotFitAnyMoreWaits) {
  const auto large = Chain({1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13}), small = Chain({9});
  ASSERT_TRUE(Register("large", large).ok());
  ASSERT_TRUE(Register("small", small).ok());
  ASSERT_TRUE(Pin("large").ok());
  ASSERT_TRUE(Pin("small").ok());
  constexpr uint64_t kSmallestDram = 64 << 10;
  ASSERT_GT(PinnedBytes(), kSmallestDram);
  ReopenStore(kSmallestDram);
  const auto restored = registry_->RestorePins(TimePoint::max());
  EXPECT_EQ(restored.restored, 1u);
  EXPECT_EQ(restored.failed, 1u);
  EXPECT_EQ(restored.first_failure.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(Message(restored.first_failure).find("books/large@1"), std::string_view::npos)
      << restored.first_failure;
  EXPECT_EQ(Pinned(), 2u);
  EXPECT_EQ(Waiting(), 1u);
  EXPECT_EQ(TakePins(small[0]), 1);
  // Not retried before its time. A restart with enough room restores it.
  EXPECT_EQ(registry_->RestorePins(TimePoint::max()).failed, 0u);
  clock_.Advance(std::chrono::minutes(1));
  EXPECT_EQ(registry_->RestorePins(TimePoint::max()).failed, 1u);
  ReopenStore();
  EXPECT_EQ(registry_->RestorePins(TimePoint::max()).restored, 2u);
  for (const TestSegment& segment : large) EXPECT_EQ(TakePins(segment), 1);
}

TEST_F(DocumentPinsTest, APinThatWaitsCanBeTakenBackAndGoesWithItsDocument) {
  const auto chain = Chain({1, 2});
  for (const char* name : {"unpinned", "deleted", "pinned"}) {
    ASSERT_TRUE(Register(name, chain).ok());
    ASSERT_TRUE(Pin(name).ok());
  }
  ReopenStore();
  EXPECT_TRUE(Unpin("unpinned")->was_pinned);
  ASSERT_TRUE(registry_->Delete("default", {"books", "deleted", 0}, false).ok());
  EXPECT_TRUE(Pin("pinned")->was_pinned);
  EXPECT_EQ(Pinned(), 1u);
  EXPECT_EQ(Waiting(), 0u);
  EXPECT_EQ(registry_->RestorePins(TimePoint::max()).restored, 0u);
  ReopenStore();
  EXPECT_EQ(Pinned(), 1u);
}

TEST_F(DocumentPinsTest, APinThatCannotBeNotedIsNone) {
  const auto chain = Chain({1});
  ASSERT_TRUE(Register("a", chain).ok());
  metadata_.applies_left = 0;
  EXPECT_EQ(Pin("a").status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(Pinned(), 0u);
  EXPECT_EQ(TakePins(chain[0]), 0);
  metadata_.applies_left = 1;
  ASSERT_TRUE(Pin("a").ok());
  EXPECT_EQ(Unpin("a").status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(Pinned(), 1u) << "it was not taken back";
}

TEST_F(DocumentPinsTest, PinsAreRestoredOneByOneUntilTheTimeIsOver) {
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_TRUE(Register(name, Chain({1})).ok());
    ASSERT_TRUE(Pin(name).ok());
  }
  ReopenStore();
  EXPECT_EQ(registry_->RestorePins(clock_.Now()).restored, 1u);
  EXPECT_EQ(Waiting(), 2u);
  EXPECT_EQ(registry_->RestorePins(TimePoint::max()).restored, 2u);
}

TEST_F(DocumentPinsTest, WhatIsNotThereCannotBePinned) {
  EXPECT_EQ(Pin("nope").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Unpin("nope").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Pin("a/b").status().code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(Register("a", Chain({1})).ok());
  EXPECT_EQ(registry_->Pin("other", {"books", "a", 0}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Pinned(), 0u);
}

}  // namespace
}  // namespace quire::kvserver::testing
