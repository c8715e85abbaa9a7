// SPDX-License-Identifier: Apache-2.0
//
// Pins of documents. Whether a segment is pinned is seen by taking a pin of it back.
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
  /// How often a segment is pinned; none of the pins is left.
  int TakePins(const TestSegment& segment) {
    int count = 0;
    while (store_->UnpinSegments("default", {&segment.key, 1}).ok()) ++count;
    return count;
  }
  uint64_t Pinned() { return CountersOf(*registry_)["documents_pinned"]; }
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
