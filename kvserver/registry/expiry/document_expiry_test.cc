// SPDX-License-Identifier: Apache-2.0
//
// Documents with their own or their collection's time to live, on the test's clock.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <thread>

#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/registry/rows/document_record.h"
#include "kvserver/registry/testing/registry_fixture.h"
#include "tests/kit/effort.h"
#include "tests/kit/look_again.h"

namespace quire::kvserver::testing {
namespace {

using std::chrono::seconds;

class DocumentExpiryTest : public RegistryFixture {
 protected:
  void SetTtl(const std::string& collection, std::optional<uint64_t> ttl_seconds) {
    SettingsChange change;
    change.ttl_seconds = ttl_seconds;
    const auto set = registry_->SetCollection("default", collection, change);
    ASSERT_TRUE(set.ok()) << set.status();
    EXPECT_EQ(set->ttl_seconds, ttl_seconds);
  }
  /// Number of removed documents; -1 on failure.
  int RemoveExpired() {
    const auto result = registry_->RemoveExpired();
    return result.ok() ? static_cast<int>(result->num_documents) : -1;
  }
  int64_t InMicros(int64_t from_now_seconds) const {
    return clock_.UnixMicros() + from_now_seconds * 1'000'000;
  }
};

TEST_F(DocumentExpiryTest, ADocumentIsGoneFromItsExpiryOnEvenBeforeItIsRemoved) {
  const auto chain = Chain({1});
  const auto put = Register("a", chain, 0, "books", 60);
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(put->document.expires_unix_micros, InMicros(60));
  EXPECT_EQ(registry_->Get("default", {"books", "a", 1})->ttl_seconds, 60u);
  EXPECT_EQ(RemoveExpired(), 0);
  clock_.Advance(seconds(60) - std::chrono::microseconds(1));
  EXPECT_EQ(GetCode("a"), StatusCode::kOk);
  clock_.Advance(std::chrono::microseconds(1));
  EXPECT_EQ(GetCode("a"), StatusCode::kNotFound);
  EXPECT_EQ(GetCode("a", 1), StatusCode::kNotFound);
  EXPECT_TRUE(registry_->List("default", "", 0, "")->documents.empty());
  EXPECT_EQ(registry_->Delete("default", {"books", "a", 0}, false).status().code(),
            StatusCode::kNotFound);
  EXPECT_TRUE(IsStored(chain[0]));
}

TEST_F(DocumentExpiryTest, RemovalTakesTheSegmentsThatNobodyElseNeeds) {
  const auto gone = Chain({1, 2, 3}), stays = Chain({1, 2, 4});
  ASSERT_TRUE(Register("gone", gone, 0, "books", 60).ok());
  ASSERT_TRUE(Register("stays", stays).ok());
  clock_.Advance(seconds(61));
  const auto result = registry_->RemoveExpired();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->num_documents, 1u);
  EXPECT_EQ(result->num_segments, 1u);
  EXPECT_FALSE(IsStored(gone[2]));
  for (const TestSegment& segment : stays) EXPECT_TRUE(IsStored(segment));
  EXPECT_EQ(GetCode("stays"), StatusCode::kOk);
  EXPECT_EQ(CountersOf(*registry_)["documents_expired"], 1u);
  EXPECT_EQ(RemoveExpired(), 0);
}

TEST_F(DocumentExpiryTest, TheCollectionsTimeHoldsForDocumentsWithoutOneOfTheirOwn) {
  ASSERT_TRUE(Register("early", Chain({1})).ok());
  SetTtl("books", 100);
  ASSERT_TRUE(Register("late", Chain({2})).ok());
  ASSERT_TRUE(Register("own", Chain({3}), 0, "books", 500).ok());
  ASSERT_TRUE(Register("elsewhere", Chain({4}), 0, "letters").ok());
  EXPECT_EQ(registry_->Get("default", {"books", "early", 0})->expires_unix_micros, InMicros(100));
  EXPECT_FALSE(registry_->Get("default", {"books", "early", 0})->ttl_seconds);
  clock_.Advance(seconds(100));
  EXPECT_EQ(GetCode("early"), StatusCode::kNotFound) << "counted from its creation";
  EXPECT_EQ(GetCode("late"), StatusCode::kNotFound);
  EXPECT_EQ(GetCode("own"), StatusCode::kOk);
  EXPECT_EQ(GetCode("elsewhere", 0, "letters"), StatusCode::kOk);
  EXPECT_EQ(RemoveExpired(), 2);
}

TEST_F(DocumentExpiryTest, ALongerTimeOfTheCollectionBringsBackWhatWasNotRemovedYet) {
  SetTtl("books", 10);
  ASSERT_TRUE(Register("a", Chain({1})).ok());
  clock_.Advance(seconds(10));
  EXPECT_EQ(GetCode("a"), StatusCode::kNotFound);
  SetTtl("books", {});
  EXPECT_EQ(registry_->Get("default", {"books", "a", 0})->expires_unix_micros, 0);
  EXPECT_EQ(RemoveExpired(), 0);
  SetTtl("books", 1);
  EXPECT_EQ(RemoveExpired(), 1);
}

TEST_F(DocumentExpiryTest, TheLatestVersionIsTheLatestThatLives) {
  ASSERT_TRUE(Register("a", Chain({1})).ok());
  ASSERT_TRUE(Register("a", Chain({2}), 0, "books", 5).ok());
  clock_.Advance(seconds(5));
  EXPECT_EQ(registry_->Get("default", {"books", "a", 0})->name.version, 1u);
  EXPECT_EQ(Register("a", Chain({3}))->document.name.version, 3u);
  EXPECT_EQ(registry_->Delete("default", {"books", "a", 0}, false)->num_documents, 2u);
}

TEST_F(DocumentExpiryTest, AVersionThatHasExpiredCanBeRegisteredAnew) {
  const auto chain = Chain({1, 2}), other = Chain({1, 3});
  ASSERT_TRUE(Register("a", chain, 7, "books", 5).ok());
  clock_.Advance(seconds(5));
  const auto again = Register("a", other, 7);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(again->existed);
  EXPECT_EQ(again->document.expires_unix_micros, 0);
  clock_.Advance(seconds(500));
  EXPECT_EQ(RemoveExpired(), 0) << "the new document has no time to live";
  for (const TestSegment& segment : other) EXPECT_TRUE(IsStored(segment));
  EXPECT_EQ(registry_->Get("default", {"books", "a", 7})->chain_tip, other.back().key);
}

TEST_F(DocumentExpiryTest, RegisteringALivingVersionAgainChangesNothing) {
  const auto chain = Chain({1});
  ASSERT_TRUE(Register("a", chain, 1, "books", 5).ok());
  const auto again = Register("a", chain, 1, "books", 500);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->existed);
  EXPECT_EQ(again->document.ttl_seconds, 5u);
  EXPECT_EQ(again->document.expires_unix_micros, InMicros(5));
}

TEST_F(DocumentExpiryTest, ListsGoOnPastWhatHasExpired) {
  const auto chain = Chain({1});
  std::vector<std::string> expected;
  for (int i = 0; i < 40; ++i) {
    const std::string name = "d" + std::to_string(10 + i);
    const bool lives = i % 13 == 5;
    ASSERT_TRUE(Register(name, chain, 1, "books", lives ? 1000 : 5).ok());
    if (lives) expected.push_back(name);
  }
  clock_.Advance(seconds(5));
  for (const uint32_t page_size : {1u, 2u, 3u, 100u}) {
    std::vector<std::string> seen;
    std::string token;
    do {
      const auto page = registry_->List("default", "books", page_size, token);
      ASSERT_TRUE(page.ok()) << page.status();
      ASSERT_LE(page->documents.size(), page_size);
      for (const Document& document : page->documents) seen.push_back(document.name.name);
      token = page->next_page_token;
    } while (!token.empty());
    EXPECT_EQ(seen, expected) << "pages of " << page_size;
  }
}

TEST_F(DocumentExpiryTest, EverythingIsKnownAgainAfterReopening) {
  SetTtl("books", 100);
  ASSERT_TRUE(Register("a", Chain({1})).ok());
  ASSERT_TRUE(Register("b", Chain({2}), 0, "letters", 50).ok());
  ASSERT_TRUE(Register("c", Chain({3}), 0, "letters").ok());
  OpenRegistry();
  EXPECT_EQ(CountersOf(*registry_)["collections"], 1u);
  EXPECT_EQ(registry_->Get("default", {"books", "a", 0})->expires_unix_micros, InMicros(100));
  clock_.Advance(seconds(50));
  EXPECT_EQ(RemoveExpired(), 1);
  clock_.Advance(seconds(50));
  EXPECT_EQ(RemoveExpired(), 1);
  EXPECT_EQ(GetCode("c", 0, "letters"), StatusCode::kOk);
}

TEST_F(DocumentExpiryTest, ManyAreRemovedInOneGo) {
  const auto chain = Chain({1});
  for (uint64_t version = 1; version <= 200; ++version) {
    ASSERT_TRUE(Register("a", chain, version, "books", version).ok());
  }
  clock_.Advance(seconds(150));
  EXPECT_EQ(RemoveExpired(), 150);
  EXPECT_TRUE(IsStored(chain[0]));
  clock_.Advance(seconds(50));
  EXPECT_EQ(RemoveExpired(), 50);
  EXPECT_FALSE(IsStored(chain[0]));
  EXPECT_EQ(RowsLeft(), 0u) << "nothing is left behind";
}

/// Counts commits.
class CountedMetadata final : public MetadataStore {
 public:
  explicit CountedMetadata(MetadataStore* store) : store_(store) {}
  StatusOr<std::string> Get(std::string_view key) override { return store_->Get(key); }
  Status Apply(const MetadataBatch& batch) override {
    ++commits;
    return store_->Apply(batch);
  }
  StatusOr<std::vector<MetadataEntry>> Scan(std::string_view prefix, std::string_view after,
                                            uint32_t limit) override {
    return store_->Scan(prefix, after, limit);
  }
  int commits = 0;

 private:
  MetadataStore* const store_;
};

/// Calls `on_sleep` instead of sleeping. The time is another clock's.
class InterruptedClock final : public Clock {
 public:
  explicit InterruptedClock(const Clock* clock) : clock_(clock) {}
  TimePoint Now() const override { return clock_->Now(); }
  int64_t UnixMicros() const override { return clock_->UnixMicros(); }
  void Sleep(Duration) override { on_sleep(); }
  std::function<void()> on_sleep = [] {};

 private:
  const Clock* const clock_;
};

class ManyExpireTest : public DocumentExpiryTest {
 protected:
  static constexpr int kDocuments = quire::testing::Effort(80'000, 4'000);
  static constexpr int kChains = 64;

  void SetUp() override {
    DocumentExpiryTest::SetUp();
    metadata_in_store_.emplace(&store_->metadata());
  }

  /// Documents of one segment each, written as the registry writes them. They expire together.
  void WriteDocuments(const std::vector<std::vector<TestSegment>>& chains) {
    MetadataBatch batch;
    for (int i = 0; i < kDocuments; ++i) {
      const SegmentKey tip = chains[i % kChains].back().key;
      Document document;
      document.name = {"books", "d" + std::to_string(i), 1};
      document.chain_tip = tip;
      document.created_unix_micros = clock_.UnixMicros();
      document.ttl_seconds = 60;
      batch.Put(DocumentKey("default", document.name), EncodeDocument(document));
      batch.Put(ChainKey("default", document.name), EncodeSegmentKeys({tip}));
      batch.Put(ReferenceKey("default", tip, document.name), "");
      if (batch.operations.size() < 6'000 && i + 1 < kDocuments) continue;
      ASSERT_EQ(metadata_in_store_->Apply(batch), OkStatus());
      batch.operations.clear();
    }
  }
  size_t Count(const std::string& prefix) {
    return metadata_in_store_->Scan(prefix, "", 2)->size();
  }

  std::optional<CountedMetadata> metadata_in_store_;
};

TEST_F(ManyExpireTest, EightyThousandThatExpireTogetherGoInAFewHundredCommits) {
  std::vector<std::vector<TestSegment>> chains;
  for (int i = 0; i < kChains; ++i) chains.push_back(Chain({static_cast<uint64_t>(i)}));
  WriteDocuments(chains);
  InterruptedClock clock(&clock_);
  auto registry = DocumentRegistry::Open(store_.get(), &*metadata_in_store_, &clock).value();
  clock_.Advance(seconds(60));

  // Other writers run between slices: none waits for more than a slice.
  int others = 0;
  clock.on_sleep = [&] {
    const DocumentName name{"letters", "between", 0};
    EXPECT_TRUE(registry->Register("default", name, chains[0].back().key, "", 1000).ok());
    ++others;
  };
  metadata_in_store_->commits = 0;
  const TimePoint start = SystemClock().Now();
  const auto result = registry->RemoveExpired();
  const Duration took = SystemClock().Now() - start;
  RecordProperty("seconds", std::to_string(std::chrono::duration<double>(took).count()));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->num_documents, static_cast<uint32_t>(kDocuments));
  EXPECT_EQ(result->num_segments, static_cast<uint32_t>(kChains - 1)) << "one is named anew";
  EXPECT_GE(others, kDocuments / 256);
  // Three commits a slice: its documents, the notes of its orphans, and the other writer's
  // registration.
  EXPECT_LE(metadata_in_store_->commits, 3 * (kDocuments / 256 + 2));
  for (int i = 0; i < kChains; ++i) EXPECT_EQ(IsStored(chains[i][0]), i == 0) << "chain " << i;
  EXPECT_EQ(Count(CollectionPrefix("default", "books")), 0u);
  EXPECT_EQ(Count(PendingDeletesPrefix()), 0u);
}

// A client puts, names and reads meanwhile, without a pause. It takes a few seconds; the bound is
// generous.
TEST_F(ManyExpireTest, TheyGoInSecondsUnderLoadWhichGoesOn) {
  std::vector<std::vector<TestSegment>> chains;
  for (int i = 0; i < kChains; ++i) chains.push_back(Chain({static_cast<uint64_t>(i)}));
  WriteDocuments(chains);
  InterruptedClock clock(&clock_);
  clock.on_sleep = [] { SystemClock().Sleep(std::chrono::microseconds(500)); };
  auto registry = DocumentRegistry::Open(store_.get(), &*metadata_in_store_, &clock).value();
  clock_.Advance(seconds(60));

  std::atomic<bool> begun{false}, ended{false};
  uint64_t served = 0;
  Duration slowest = Duration::zero();
  const auto serve = [&] {
    for (uint64_t i = 0; !ended; ++i, begun = true) {
      const TimePoint start = SystemClock().Now();
      const auto put = PutTestSegment(*store_, spec_, 1000 + i % 50, kRootKey, 0,
                                      Durability::kMemory, "default");
      ASSERT_TRUE(put.ok()) << put.status();
      const DocumentName name{"letters", "d" + std::to_string(i % 100), 0};
      const auto made = registry->Register("default", name, put->key, "", 1000);
      ASSERT_TRUE(made.ok()) << made.status();
      ASSERT_TRUE(registry->Get("default", made->document.name).ok());
      const auto read = ReadSegment(*store_, spec_, *put);
      ASSERT_TRUE(read.ok()) << read.status();
      ASSERT_EQ(*read, put->payload);
      slowest = std::max(slowest, SystemClock().Now() - start);
      ++served;
    }
  };
  std::thread load([&] {
    serve();
    begun = true;  // Ends the wait even after a failure of the first step.
  });
  while (!begun) quire::testing::WaitToLookAgain();
  const TimePoint start = SystemClock().Now();
  const auto result = registry->RemoveExpired();
  const Duration took = SystemClock().Now() - start;
  ended = true;
  load.join();
  const auto in_seconds = [](Duration time) { return std::chrono::duration<double>(time).count(); };
  RecordProperty("seconds", std::to_string(in_seconds(took)));
  RecordProperty("served", std::to_string(served));
  RecordProperty("slowest_seconds", std::to_string(in_seconds(slowest)));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->num_documents, static_cast<uint32_t>(kDocuments));
  EXPECT_EQ(Count(CollectionPrefix("default", "books")), 0u);
  EXPECT_LT(in_seconds(took), 60);
  // Each write waits for a slice or two, not for all of them.
  EXPECT_GE(served, static_cast<uint64_t>(kDocuments / 256 / 8));
}

TEST_F(DocumentExpiryTest, SegmentsOfItsOwnGoWithEachDocument) {
  constexpr int kOwnSegments = 1'000;
  for (int i = 0; i < kOwnSegments; ++i) {
    const auto chain = Chain({static_cast<uint64_t>(i)});
    ASSERT_TRUE(Register("d" + std::to_string(i), chain, 1, "books", 60).ok());
  }
  clock_.Advance(seconds(60));
  const TimePoint start = SystemClock().Now();
  const auto result = registry_->RemoveExpired();
  const Duration took = SystemClock().Now() - start;
  RecordProperty("seconds", std::to_string(std::chrono::duration<double>(took).count()));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->num_documents, static_cast<uint32_t>(kOwnSegments));
  EXPECT_EQ(result->num_segments, static_cast<uint32_t>(kOwnSegments));
  EXPECT_EQ(CountersOf(*store_)["segments"], 0u);
  EXPECT_EQ(CountersOf(*store_)["ssd_bytes_used"], 0u);
}

TEST_F(DocumentExpiryTest, DocumentsThatGoTogetherTakeWhatOnlyTheyShare) {
  const auto shared = Chain({1, 2}), longer = Chain({1, 2, 3}), stays = Chain({1, 4});
  ASSERT_TRUE(Register("a", shared, 0, "books", 60).ok());
  ASSERT_TRUE(Register("b", longer, 0, "books", 60).ok());
  ASSERT_TRUE(Register("c", stays).ok());
  clock_.Advance(seconds(60));
  const auto result = registry_->RemoveExpired();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->num_documents, 2u);
  EXPECT_EQ(result->num_segments, 2u);
  EXPECT_TRUE(IsStored(shared[0])) << "c needs it";
  EXPECT_FALSE(IsStored(shared[1]));
  EXPECT_FALSE(IsStored(longer[2]));
  EXPECT_TRUE(IsStored(stays[1]));
}

TEST_F(DocumentExpiryTest, AnExpiredVersionThatIsReplacedLeavesNoOrphanBehind) {
  const auto chain = Chain({1, 2}), other = Chain({3});
  ASSERT_TRUE(Register("a", chain, 7, "books", 5).ok());
  clock_.Advance(seconds(5));
  ASSERT_TRUE(Register("a", other, 7).ok());
  EXPECT_EQ(RemoveExpired(), 0);
  for (const TestSegment& segment : chain) EXPECT_FALSE(IsStored(segment));
  EXPECT_EQ(CountersOf(*registry_)["orphans_pending"], 0u);
}

TEST_F(DocumentExpiryTest, WhatCannotBeRemovedIsTriedAgainAMinuteLater) {
  ASSERT_TRUE(Register("a", Chain({1}), 0, "books", 5).ok());
  clock_.Advance(seconds(5));
  metadata_.applies_left = 0;
  EXPECT_EQ(registry_->RemoveExpired().status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(CountersOf(*registry_)["expiry_failures"], 1u);
  metadata_.applies_left = 1 << 30;
  EXPECT_EQ(RemoveExpired(), 0);
  EXPECT_EQ(GetCode("a"), StatusCode::kNotFound) << "gone all the same";
  clock_.Advance(seconds(60));
  EXPECT_EQ(RemoveExpired(), 1);
}

TEST_F(DocumentExpiryTest, ADamagedRecordIsLeftForPeople) {
  ASSERT_TRUE(Register("a", Chain({1}), 0, "books", 5).ok());
  MetadataBatch batch;
  batch.Put(DocumentKey("default", {"books", "a", 1}), "rubbish");
  ASSERT_TRUE(metadata_.Apply(batch).ok());
  clock_.Advance(seconds(5));
  EXPECT_EQ(RemoveExpired(), 0);
  EXPECT_EQ(GetCode("a"), StatusCode::kDataLoss);
  OpenRegistry();
  EXPECT_EQ(registry_->Delete("default", {"books", "a", 0}, false)->num_documents, 1u);
}

TEST_F(DocumentExpiryTest, TimesOutOfRangeAreRefused) {
  for (const uint64_t bad : {uint64_t{0}, kMaxTtlSeconds + 1, UINT64_MAX}) {
    EXPECT_EQ(Register("a", Chain({1}), 0, "books", bad).status().code(),
              StatusCode::kInvalidArgument);
    SettingsChange change;
    change.ttl_seconds = std::optional<uint64_t>(bad);
    EXPECT_EQ(registry_->SetCollection("default", "books", change).status().code(),
              StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(CountersOf(*registry_)["collections"], 0u);
}

// Promise 7: tenants never share names, nor settings of collections.
TEST_F(DocumentExpiryTest, Promise7TenantsHaveCollectionsOfTheirOwn) {
  SettingsChange change;
  change.ttl_seconds = std::optional<uint64_t>(5);
  change.codec = CodecParams{.id = CodecId::kInt8};
  ASSERT_TRUE(registry_->SetCollection("other", "books", change).ok());
  ASSERT_TRUE(Register("a", Chain({1})).ok());
  clock_.Advance(seconds(50));
  EXPECT_EQ(GetCode("a"), StatusCode::kOk);
  EXPECT_EQ(RemoveExpired(), 0);
  EXPECT_EQ(*registry_->CodecOf("default", "books"), CodecParams{});
  EXPECT_EQ(registry_->CodecOf("other", "books")->id, CodecId::kInt8);
  EXPECT_TRUE(registry_->ListCollections("default", 0, "")->collections.empty());
  EXPECT_EQ(registry_->ListCollections("other", 0, "")->collections.size(), 1u);
  EXPECT_EQ(registry_->GetCollection("nobody", "books").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(registry_->GetCollection("default", "a/b").status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(DocumentExpiryTest, TheServersCodecHoldsWhereNoneIsSet) {
  const CodecParams fp8{.id = CodecId::kFp8E4M3};
  const auto registry = DocumentRegistry::Open(store_.get(), &metadata_, &clock_, fp8).value();
  EXPECT_EQ(*registry->CodecOf("default", ""), fp8);
  const auto unset = registry->GetCollection("default", "books");
  ASSERT_TRUE(unset.ok()) << unset.status();
  EXPECT_EQ(unset->codec, fp8);
  EXPECT_TRUE(unset->codec_is_default);
  SettingsChange change;
  change.codec = CodecParams{};
  ASSERT_TRUE(registry->SetCollection("default", "books", change).ok());
  EXPECT_EQ(*registry->CodecOf("default", "books"), CodecParams{});
  EXPECT_FALSE(registry->GetCollection("default", "books")->codec_is_default);
}

}  // namespace
}  // namespace quire::kvserver::testing
