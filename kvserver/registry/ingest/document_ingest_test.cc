// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kvserver/registry/rows/latest_version.h"
#include "kvserver/registry/testing/registry_fixture.h"

namespace quire::kvserver::testing {
namespace {

class DocumentIngestTest : public RegistryFixture {
 protected:
  StatusOr<DocumentRegistry::BegunIngest> Begin(const std::string& name,
                                                const std::string& hash = "") {
    return registry_->BeginIngest(
        "default", {"books", name, 0},
        {.content_hash = hash, .source = "/tmp/" + name, .tags = {{"team", "ops"}}});
  }
  StatusOr<DocumentRegistry::RegisterResult> End(const DocumentRegistry::BegunIngest& begun,
                                                 const std::vector<TestSegment>& chain) {
    return registry_->Register("default", begun.document.name,
                               {.chain_tip = chain.back().key, .ingest_id = begun.id});
  }
  std::vector<Document> Listed(const std::string& filter) {
    const auto page = registry_->List("default", {.filter = filter});
    EXPECT_TRUE(page.ok()) << page.status();
    return page.ok() ? page->documents : std::vector<Document>();
  }
};

TEST_F(DocumentIngestTest, AReservedVersionIsNotFoundUntilItIsRegistered) {
  const auto begun = Begin("a");
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(begun->document.name.version, 1u);
  EXPECT_EQ(begun->document.state, DocumentState::kIngesting);
  EXPECT_EQ(GetCode("a"), StatusCode::kNotFound);
  EXPECT_EQ(GetCode("a", 1), StatusCode::kNotFound);
  EXPECT_TRUE(Listed("").empty());
  EXPECT_EQ(Listed("state=ingesting").size(), 1u);
  EXPECT_EQ(registry_->Pin("default", {"books", "a", 1}).status().code(), StatusCode::kNotFound);

  const auto done = End(*begun, Chain({1}));
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(done->document.source, "/tmp/a");
  EXPECT_TRUE(done->document.is_latest);
  const auto got = registry_->Get("default", {"books", "a", 0});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->tags, (Tags{{"team", "ops"}}));
  EXPECT_TRUE(Listed("state=ingesting").empty());
  EXPECT_EQ(CountersOf(*registry_)["ingests"], 0u);
}

TEST_F(DocumentIngestTest, AVersionOfAnIngestNeedsItsId) {
  const auto begun = Begin("a");
  const auto chain = Chain({1});
  EXPECT_EQ(Register("a", chain, 1).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Register("a", chain)->document.name.version, 2u);
  EXPECT_EQ(
      registry_->Register("other", begun->document.name, {.ingest_id = begun->id}).status().code(),
      StatusCode::kNotFound);
  EXPECT_EQ(registry_
                ->Register("default", {"books", "b", 1},
                           {.chain_tip = chain.back().key, .ingest_id = begun->id})
                .status()
                .code(),
            StatusCode::kInvalidArgument);
  ASSERT_TRUE(End(*begun, chain).ok());
  EXPECT_EQ(registry_->Get("default", {"books", "a", 0})->name.version, 2u) << "the higher one";
}

TEST_F(DocumentIngestTest, RegisteringAgainAfterALostReplyFindsTheDocument) {
  const auto begun = Begin("a");
  const auto chain = Chain({1});
  ASSERT_TRUE(End(*begun, chain).ok());
  const auto again = End(*begun, chain);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->existed);
  EXPECT_EQ(End(*begun, Chain({2})).status().code(), StatusCode::kNotFound);
}

TEST_F(DocumentIngestTest, TheSameContentReservesNothing) {
  const std::string hash(32, 'h');
  const auto first = Begin("a", hash);
  ASSERT_TRUE(End(*first, Chain({1})).ok());
  const auto second = Begin("a", hash);
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(second->unchanged);
  EXPECT_EQ(second->document.name.version, 1u);
  EXPECT_EQ(second->id, 0u);
  EXPECT_FALSE(Begin("a", std::string(32, 'i'))->unchanged);
}

TEST_F(DocumentIngestTest, ALeaseThatEndsLeavesAFailedVersionForADay) {
  const auto begun = Begin("a");
  clock_.Advance(std::chrono::seconds(20));
  const uint64_t ids[] = {begun->id, 77};
  EXPECT_EQ(registry_->RenewIngests("default", ids), std::vector<uint64_t>{77});
  EXPECT_EQ(registry_->RenewIngests("other", ids).size(), 2u);
  clock_.Advance(std::chrono::seconds(20));
  EXPECT_EQ(*registry_->FailAbandonedIngests(), 0u);
  clock_.Advance(std::chrono::seconds(11));
  EXPECT_EQ(*registry_->FailAbandonedIngests(), 1u);
  const auto failed = Listed("state=failed");
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_NE(failed[0].failure.find("before it was complete"), std::string::npos);
  EXPECT_EQ(GetCode("a"), StatusCode::kNotFound);
  EXPECT_EQ(End(*begun, Chain({1})).status().code(), StatusCode::kNotFound);
  clock_.Advance(std::chrono::hours(25));
  EXPECT_EQ(registry_->RemoveExpired()->num_documents, 1u);
  EXPECT_EQ(RowsLeft(), 0u);
}

TEST_F(DocumentIngestTest, AnIngestSurvivesARestartWithOneMoreLease) {
  const auto begun = Begin("a");
  const auto chain = Chain({1});
  OpenRegistry();
  EXPECT_EQ(GetCode("a"), StatusCode::kNotFound);
  EXPECT_EQ(*registry_->FailAbandonedIngests(), 0u);
  EXPECT_TRUE(End(*begun, chain).ok());
}

TEST_F(DocumentIngestTest, AnIngestThatIsDeletedHasEnded) {
  const auto begun = Begin("a");
  EXPECT_EQ(registry_->Delete("default", begun->document.name, false)->num_documents, 1u);
  EXPECT_EQ(End(*begun, Chain({1})).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(RowsLeft(), 0u);
}

TEST_F(DocumentIngestTest, AFailedIngestSaysWhy) {
  const auto begun = Begin("a");
  const auto failed = registry_->FailIngest("default", begun->id, "no room");
  ASSERT_TRUE(failed.ok()) << failed.status();
  EXPECT_EQ(failed->failure, "no room");
  EXPECT_EQ(registry_->FailIngest("default", begun->id, "again").status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(Events(), (std::vector<std::string>{"INGEST_BEGAN a@1", "FAILED a@1"}));
}

TEST_F(DocumentIngestTest, NothingChangesWhenWritingFails) {
  metadata_.applies_left = 0;
  EXPECT_EQ(Begin("a").status().code(), StatusCode::kUnavailable);
  metadata_.applies_left = 1 << 30;
  const auto begun = Begin("a");
  const auto chain = Chain({1});
  metadata_.applies_left = 0;
  EXPECT_FALSE(End(*begun, chain).ok());
  metadata_.applies_left = 1 << 30;
  EXPECT_EQ(GetCode("a"), StatusCode::kNotFound);
  EXPECT_TRUE(End(*begun, chain).ok());
  EXPECT_EQ(Events(), (std::vector<std::string>{"INGEST_BEGAN a@1", "REGISTERED a@1"}));
}

TEST_F(DocumentIngestTest, LatestMovesUpByRegistrationAndAnywhereBySetLatest) {
  for (uint64_t seed = 1; seed <= 3; ++seed) ASSERT_TRUE(Register("a", Chain({seed})).ok());
  EXPECT_EQ(registry_->SetLatest("default", {"books", "a", 1})->name.version, 1u);
  EXPECT_EQ(registry_->Get("default", {"books", "a", 0})->name.version, 1u);
  OpenRegistry();
  EXPECT_EQ(registry_->Get("default", {"books", "a", 0})->name.version, 1u);
  EXPECT_EQ(registry_->SetLatest("default", {"books", "a", 9}).status().code(),
            StatusCode::kNotFound);
  const auto chain = Chain({4});
  ASSERT_TRUE(registry_
                  ->Register("default", {"books", "a", 0},
                             {.chain_tip = chain.back().key, .keep_latest = true})
                  .ok());
  EXPECT_EQ(registry_->Get("default", {"books", "a", 0})->name.version, 1u);
  ASSERT_TRUE(registry_->Delete("default", {"books", "a", 1}, false).ok());
  EXPECT_EQ(registry_->Get("default", {"books", "a", 0})->name.version, 4u) << "the highest";
}

TEST_F(DocumentIngestTest, RowsOfTheFirstLayoutAreCompletedAtOpen) {
  for (uint64_t seed = 1; seed <= 2; ++seed) ASSERT_TRUE(Register("a", Chain({seed})).ok());
  MetadataBatch batch;
  batch.Delete(FormatKey());
  batch.Delete(LatestKey("default", {"books", "a", 0}));
  for (const uint64_t version : {1, 2}) {
    batch.Delete(CreatedKey("default", clock_.UnixMicros(), {"books", "a", version}));
  }
  ASSERT_TRUE(metadata_.Apply(batch).ok());
  OpenRegistry();
  EXPECT_EQ(registry_->Get("default", {"books", "a", 0})->name.version, 2u);
  EXPECT_EQ(
      registry_->List("default", {.order = DocumentRegistry::Order::kNewest})->documents.size(),
      2u);
}

TEST(LatestVersionTest, DecodesWhatItEncodesAndSeesDamage) {
  const std::string encoded = EncodeLatest({.latest = 3, .highest = 9});
  EXPECT_EQ(*DecodeLatest({"c", "n", 0}, encoded), (LatestVersion{3, 9}));
  EXPECT_TRUE(IsDataLoss(DecodeLatest({"c", "n", 0}, encoded.substr(1)).status()));
  EXPECT_TRUE(IsDataLoss(DecodeLatest({"c", "n", 0}, "").status()));
}

}  // namespace
}  // namespace quire::kvserver::testing
