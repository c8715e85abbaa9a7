// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/document_registry.h"

#include <gtest/gtest.h>

#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/registry/testing/registry_fixture.h"

namespace quire::kvserver::testing {
namespace {

using DocumentRegistryTest = RegistryFixture;

TEST_F(DocumentRegistryTest, GetReturnsWhatWasRegistered) {
  const auto chain = Chain({1, 2});
  const std::string hash(32, 'h');
  const auto put =
      registry_->Register("default", {"books", "Überblick 1", 0}, chain.back().key, hash);
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_FALSE(put->existed);
  const auto got = registry_->Get("default", {"books", "Überblick 1", 0});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->name.version, 1u);
  EXPECT_EQ(got->chain_tip, chain.back().key);
  EXPECT_EQ(got->num_tokens, 16u);
  EXPECT_EQ(got->bytes, 2 * SegmentBytes(spec_, 2));
  EXPECT_EQ(got->model, spec_.model);
  EXPECT_EQ(got->content_hash, hash);
  EXPECT_EQ(got->created_unix_micros, clock_.UnixMicros());
}

TEST_F(DocumentRegistryTest, VersionZeroTakesTheNextAndGetsTheLatest) {
  for (uint64_t version = 1; version <= 3; ++version) {
    EXPECT_EQ(Register("a", Chain({version}))->document.name.version, version);
  }
  EXPECT_EQ(registry_->Get("default", {"books", "a", 0})->name.version, 3u);
  EXPECT_EQ(registry_->Get("default", {"books", "a", 2})->chain_tip, Chain({2}).back().key);
  EXPECT_EQ(registry_->Get("default", {"books", "a", 4}).status().code(), StatusCode::kNotFound);
}

TEST_F(DocumentRegistryTest, WhatIsThereIsAcknowledgedOnlyWhenWritingWorks) {
  const auto chain = Chain({1});
  ASSERT_TRUE(Register("a", chain, 7).ok());
  metadata_.applies_left = 0;
  EXPECT_EQ(registry_->Delete("default", {"books", "a", 7}, /*keep_segments=*/true).status().code(),
            StatusCode::kUnavailable);
  EXPECT_EQ(Register("a", chain, 7).status().code(), StatusCode::kUnavailable);
  metadata_.applies_left = 2;
  EXPECT_TRUE(Register("a", chain, 7)->existed);
}

TEST_F(DocumentRegistryTest, AGivenVersionIsIdempotentForTheSameChainOnly) {
  const auto chain = Chain({1});
  ASSERT_TRUE(Register("a", chain, 7).ok());
  EXPECT_TRUE(Register("a", chain, 7)->existed);
  EXPECT_EQ(Register("a", Chain({2}), 7).status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(registry_->Get("default", {"books", "a", 7})->chain_tip, chain.back().key);
  EXPECT_EQ(Register("a", chain)->document.name.version, 8u);
}

TEST_F(DocumentRegistryTest, OnlyStoredChainsCanBeRegistered) {
  const auto chain = Chain({1, 2});
  ASSERT_TRUE(store_->DeleteSegment("default", chain[0].key).ok());
  EXPECT_EQ(Register("a", chain).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(registry_->Get("default", {"books", "a", 0}).status().code(), StatusCode::kNotFound);
}

TEST_F(DocumentRegistryTest, NamesAreChecked) {
  const auto chain = Chain({1});
  for (const std::string& bad :
       {std::string(), std::string(256, 'x'), std::string("a/b"), std::string("a\n"),
        std::string("a\0b", 3), std::string("\x7f"), std::string("\xff"), std::string("\xc3"),
        std::string("\xc0\xaf"), std::string("\xed\xa0\x80")}) {
    EXPECT_EQ(Register(bad, chain).status().code(), StatusCode::kInvalidArgument) << bad;
    EXPECT_EQ(Register("a", chain, 0, bad).status().code(), StatusCode::kInvalidArgument) << bad;
    EXPECT_EQ(registry_->Get("default", {"books", bad, 0}).status().code(),
              StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(Register(std::string(255, 'x'), chain).ok());
  EXPECT_TRUE(Register("日本語 €😀", chain).ok());
  EXPECT_EQ(
      registry_->Register("default", {"books", "a", 0}, chain.back().key, "short").status().code(),
      StatusCode::kInvalidArgument);
}

TEST_F(DocumentRegistryTest, ListIsOrderedAndPaged) {
  const auto chain = Chain({1});
  std::vector<std::string> expected;
  for (const char* collection : {"a", "a b", "b"}) {
    for (const char* name : {"x", "x!", "y"}) {
      for (uint64_t version : {1, 2}) {
        ASSERT_TRUE(Register(name, chain, version, collection).ok());
        expected.push_back(Describe(DocumentName{collection, name, version}));
      }
    }
  }
  for (const uint32_t page_size : {1, 4, 18, 100, 0}) {
    std::vector<std::string> seen;
    std::string token;
    do {
      const auto page = registry_->List("default", "", page_size, token);
      ASSERT_TRUE(page.ok()) << page.status();
      if (page_size != 0) {
        ASSERT_LE(page->documents.size(), page_size);
      }
      for (const Document& document : page->documents) seen.push_back(Describe(document.name));
      token = page->next_page_token;
    } while (!token.empty());
    EXPECT_EQ(seen, expected) << "pages of " << page_size;
  }
  EXPECT_EQ(registry_->List("default", "a", 0, "")->documents.size(), 6u) << "not 'a b' too";
}

TEST_F(DocumentRegistryTest, ListRefusesForeignTokensAndAbsurdPages) {
  const auto chain = Chain({1});
  ASSERT_TRUE(Register("x", chain, 1, "a").ok());
  ASSERT_TRUE(Register("y", chain, 1, "a").ok());
  const std::string token = registry_->List("default", "a", 1, "")->next_page_token;
  const auto code = [&](std::string_view tenant, std::string_view collection, std::string_view t) {
    return registry_->List(tenant, collection, 1, t).status().code();
  };
  EXPECT_EQ(code("default", "a", token), StatusCode::kOk);
  EXPECT_EQ(code("default", "b", token), StatusCode::kInvalidArgument);
  EXPECT_EQ(code("other", "a", token), StatusCode::kInvalidArgument);
  EXPECT_EQ(code("default", "a", token + "0"), StatusCode::kInvalidArgument);
  EXPECT_EQ(code("default", "a", "zz"), StatusCode::kInvalidArgument);
  EXPECT_EQ(registry_->List("default", "", 1001, "").status().code(), StatusCode::kInvalidArgument);
}

TEST_F(DocumentRegistryTest, DeleteRemovesExactlyTheSegmentsThatNobodyElseNeeds) {
  const auto first = Chain({1, 2, 3}), second = Chain({1, 2, 4});  // a common prefix of two
  ASSERT_TRUE(Register("first", first).ok());
  ASSERT_TRUE(Register("second", second).ok());
  const auto deleted = registry_->Delete("default", {"books", "first", 0}, false);
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_EQ(deleted->num_documents, 1u);
  EXPECT_EQ(deleted->num_segments, 1u);
  EXPECT_FALSE(IsStored(first[2]));
  for (const TestSegment& segment : second) EXPECT_TRUE(IsStored(segment));
  EXPECT_EQ(registry_->Delete("default", {"books", "second", 0}, false)->num_segments, 3u);
  EXPECT_EQ(CountersOf(*store_)["segments"], 0u);
  EXPECT_EQ(registry_->Delete("default", {"books", "second", 0}, false).status().code(),
            StatusCode::kNotFound);
}

TEST_F(DocumentRegistryTest, DeleteTakesOneVersionOrAll) {
  const auto chain = Chain({1}), newer = Chain({2});
  ASSERT_TRUE(Register("a", chain).ok());
  ASSERT_TRUE(Register("a", chain).ok());
  ASSERT_TRUE(Register("a", newer).ok());
  EXPECT_EQ(registry_->Delete("default", {"books", "a", 1}, false)->num_segments, 0u)
      << "version 2 needs it";
  EXPECT_EQ(registry_->Get("default", {"books", "a", 1}).status().code(), StatusCode::kNotFound);
  const auto rest = registry_->Delete("default", {"books", "a", 0}, false);
  EXPECT_EQ(rest->num_documents, 2u);
  EXPECT_EQ(rest->num_segments, 2u);
}

TEST_F(DocumentRegistryTest, DeleteCanKeepTheSegments) {
  const auto chain = Chain({1, 2});
  ASSERT_TRUE(Register("a", chain).ok());
  EXPECT_EQ(registry_->Delete("default", {"books", "a", 0}, true)->num_segments, 0u);
  for (const TestSegment& segment : chain) EXPECT_TRUE(IsStored(segment));
  ASSERT_TRUE(Register("b", chain).ok());
  EXPECT_EQ(registry_->Delete("default", {"books", "b", 0}, false)->num_segments, 2u);
}

TEST_F(DocumentRegistryTest, ADeletionThatWasCutOffIsFinishedAtOpen) {
  const auto chain = Chain({1, 2});
  ASSERT_TRUE(Register("a", chain).ok());
  // The batch that removes the document succeeds; the one that clears the notes fails.
  metadata_.applies_left = 1;
  EXPECT_EQ(registry_->Delete("default", {"books", "a", 0}, false).status().code(),
            StatusCode::kUnavailable);
  EXPECT_EQ(registry_->Get("default", {"books", "a", 0}).status().code(), StatusCode::kNotFound);
  metadata_.applies_left = 1 << 30;
  OpenRegistry();
  for (const TestSegment& segment : chain) EXPECT_FALSE(IsStored(segment));
  EXPECT_EQ(CountersOf(*registry_)["orphans_pending"], 0u);
  EXPECT_EQ(RowsLeft(), 0u) << "nothing is left behind";
}

// Promise 3: an acknowledged put is never undone by an older delete, finished or not.
TEST_F(DocumentRegistryTest, Promise3ASegmentThatIsPutAgainSurvivesTheNoteOfAnOlderDelete) {
  const auto chain = Chain({1, 2});
  ASSERT_TRUE(Register("a", chain).ok());
  SegmentHold reader = store_->HoldSegments("default", {{chain[0].key}}).value();
  metadata_.applies_left = 1;
  EXPECT_FALSE(registry_->Delete("default", {"books", "a", 0}, false).ok());
  metadata_.applies_left = 1 << 30;
  // The first segment was there all the time, the second was put again.
  ASSERT_EQ(Chain({1, 2})[1].key, chain[1].key);
  reader.Release();
  OpenRegistry();
  ASSERT_TRUE(registry_->RemoveExpired().ok());
  for (const TestSegment& segment : chain) EXPECT_TRUE(IsStored(segment));
  EXPECT_EQ(RowsLeft(), 0u) << "the notes are gone";
}

// Promise 3, when the put comes after a restart and only the note is left.
TEST_F(DocumentRegistryTest, ADeletionIsFinishedAfterARestartOfTheStoreToo) {
  const auto chain = Chain({1, 2}), other = Chain({3});
  ASSERT_TRUE(Register("a", chain).ok());
  ASSERT_TRUE(Register("b", other).ok());
  SegmentHold reader = store_->HoldSegments("default", {{chain[0].key}}).value();
  EXPECT_EQ(registry_->Delete("default", {"books", "a", 0}, false)->num_segments, 1u);
  EXPECT_TRUE(IsStored(chain[0])) << "somebody reads it";
  EXPECT_EQ(CountersOf(*registry_)["orphans_pending"], 1u);
  reader.Detach();  // Like a killed server.
  ReopenStore();
  EXPECT_FALSE(IsStored(chain[0]));
  EXPECT_EQ(CountersOf(*registry_)["orphans_pending"], 0u);
  EXPECT_EQ(CountersOf(*store_)["segments"], 1u);
  EXPECT_EQ(CountersOf(*store_)["segments_cached"], 0u) << "names are known again";
}

TEST_F(DocumentRegistryTest, WhatSomebodyHoldsGoesWithTheLastHolder) {
  const auto chain = Chain({1, 2});
  ASSERT_TRUE(Register("a", chain).ok());
  SegmentHold reader = store_->HoldChain("default", chain.back().key).value().hold;
  EXPECT_EQ(registry_->Delete("default", {"books", "a", 0}, false)->num_segments, 0u);
  for (const TestSegment& segment : chain) {
    EXPECT_EQ(*ReadSegment(*store_, spec_, segment), segment.payload);
  }
  reader.Release();
  EXPECT_EQ(CountersOf(*store_)["segments"], 0u);
  EXPECT_EQ(CountersOf(*store_)["ssd_bytes_used"], 0u);
  ASSERT_TRUE(registry_->RemoveExpired().ok());
  EXPECT_EQ(RowsLeft(), 0u) << "the notes are gone";
}

TEST_F(DocumentRegistryTest, ADocumentCanNameWhatADeleteWantsGone) {
  const auto chain = Chain({1, 2});
  ASSERT_TRUE(Register("a", chain).ok());
  SegmentHold context = store_->HoldChain("default", chain.back().key).value().hold;
  ASSERT_TRUE(registry_->Delete("default", {"books", "a", 0}, false).ok());
  ASSERT_TRUE(Register("b", chain).ok());
  context.Release();
  ASSERT_TRUE(registry_->RemoveExpired().ok());
  ReopenStore();
  for (const TestSegment& segment : chain) EXPECT_TRUE(IsStored(segment));
}

TEST_F(DocumentRegistryTest, ASegmentThatIsHeldAndDeletedOneByOneGoesAfterARestartToo) {
  const auto chain = Chain({1});
  SegmentHold reader = store_->HoldSegments("default", {{chain[0].key}}).value();
  ASSERT_TRUE(registry_->DeleteSegment("default", chain[0].key).ok());
  EXPECT_TRUE(IsStored(chain[0]));
  reader.Detach();
  ReopenStore();
  EXPECT_FALSE(IsStored(chain[0]));
}

TEST_F(DocumentRegistryTest, RegisteringAgainSavesSegmentsThatAreStillToBeRemoved) {
  const auto chain = Chain({1, 2});
  ASSERT_TRUE(Register("a", chain).ok());
  metadata_.applies_left = 1;
  EXPECT_FALSE(registry_->Delete("default", {"books", "a", 0}, false).ok());
  metadata_.applies_left = 1 << 30;
  Chain({1, 2});
  ASSERT_TRUE(Register("b", chain).ok());
  OpenRegistry();
  for (const TestSegment& segment : chain) EXPECT_TRUE(IsStored(segment));
}

TEST_F(DocumentRegistryTest, ARegistrationThatFailsLeavesNothing) {
  const auto chain = Chain({1});
  metadata_.applies_left = 0;
  EXPECT_EQ(Register("a", chain).status().code(), StatusCode::kUnavailable);
  metadata_.applies_left = 1 << 30;
  EXPECT_EQ(RowsLeft(), 0u);
}

TEST_F(DocumentRegistryTest, SegmentsOfADocumentAreNotDeletedOneByOne) {
  const auto chain = Chain({1, 2}), free = Chain({9});
  ASSERT_TRUE(Register("a", chain).ok());
  const Status refused = registry_->CheckUnreferenced("default", chain[0].key);
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(Message(refused).find("books/a@1"), std::string_view::npos) << refused;
  EXPECT_EQ(registry_->DeleteSegment("default", chain[0].key).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_TRUE(IsStored(chain[0]));
  EXPECT_TRUE(registry_->CheckUnreferenced("default", free[0].key).ok());
  EXPECT_TRUE(registry_->DeleteSegment("default", free[0].key).ok());
  EXPECT_FALSE(IsStored(free[0]));
}

// Promise 7: tenants never share names.
TEST_F(DocumentRegistryTest, Promise7TenantsHaveNamesOfTheirOwn) {
  ASSERT_TRUE(Register("a", Chain({1})).ok());
  EXPECT_EQ(registry_->Get("other", {"books", "a", 0}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(registry_->List("other", "", 0, "")->documents.size(), 0u);
  EXPECT_EQ(registry_->Delete("other", {"books", "a", 0}, false).status().code(),
            StatusCode::kNotFound);
  const auto theirs = Chain({1}, "other");
  EXPECT_EQ(Register("b", theirs).status().code(), StatusCode::kNotFound)
      << "nor can one register another's chain";
  EXPECT_EQ(registry_->Get("nobody", {"books", "a", 0}).status().code(), StatusCode::kNotFound);
}

TEST_F(DocumentRegistryTest, SurvivesReopeningOnTheStoresOwnMetadata) {
  const auto chain = Chain({1, 2});
  {
    const auto registry =
        DocumentRegistry::Open(store_.get(), &store_->metadata(), &clock_).value();
    ASSERT_TRUE(registry->Register("default", {"books", "a", 0}, chain.back().key, "").ok());
  }
  registry_.reset();
  store_.reset();
  store_ = PageStore::Open({.ssd_path = dir_.path(), .dram_bytes = 1 << 20}).value();
  const auto registry = DocumentRegistry::Open(store_.get(), &store_->metadata(), &clock_).value();
  EXPECT_EQ(registry->Get("default", {"books", "a", 0})->chain_tip, chain.back().key);
}

}  // namespace
}  // namespace quire::kvserver::testing
