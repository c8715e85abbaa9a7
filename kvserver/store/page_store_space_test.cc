// SPDX-License-Identifier: Apache-2.0
//
// Limits of SSD: quotas of tenants, and the write budget with segments kept only in DRAM.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "kvserver/store/metadata/database.h"
#include "kvserver/store/metadata/last_uses.h"
#include "kvserver/store/page_store_impl.h"
#include "kvserver/store/policy/ssd_budget.h"
#include "kvserver/store/testing/page_store_fixture.h"
#include "tests/kit/fake_clock.h"

namespace quire::kvserver::testing {
namespace {

class PageStoreSpaceTest : public PageStoreTest {
 protected:
  uint64_t segment_bytes() const { return SegmentBytes(spec_, spec_.segment_pages); }
  StatusOr<TestSegment> PutNumber(uint64_t seed, Durability durability,
                                  const SegmentKey& parent = kRootKey,
                                  std::string_view tenant = "default") {
    return PutTestSegment(*store_, spec_, seed, parent, /*num_tokens=*/0, durability, tenant);
  }
  bool IsRead(const TestSegment& segment) {
    const auto bytes = ReadSegment(*store_, spec_, segment);
    return bytes.ok() && *bytes == segment.payload;
  }
};

TEST_F(PageStoreSpaceTest, ATenantStopsAtItsQuotaAndOthersGoOn) {
  options_.tenant_ssd_quota_bytes = {{"other", 2 * segment_bytes()}};
  Open();
  const auto first = PutNumber(1, Durability::kMemory, kRootKey, "other");
  ASSERT_TRUE(first.ok());
  const auto second = PutNumber(2, Durability::kMemory, kRootKey, "other");
  ASSERT_TRUE(second.ok());
  ASSERT_TRUE(store_->NameSegments("other", {{first->key, second->key}}).ok());
  const Status refused = PutNumber(3, Durability::kMemory, kRootKey, "other").status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Count("troubles{reason=\"over_quota\"}"), 1u);
  EXPECT_EQ(Count("degraded{reason=\"disk_full\"}"), 0u) << "the others go on";
  EXPECT_NE(std::string(refused.message()).find("tenant 'other'"), std::string::npos) << refused;
  EXPECT_TRUE(PutNumber(3, Durability::kMemory).ok());
  Open();  // Stored bytes count again.
  store_->RestoreNames({{first->key, 1}, {second->key, 1}});
  EXPECT_FALSE(PutNumber(3, Durability::kMemory, kRootKey, "other").ok());
  ASSERT_TRUE(store_->DeleteSegment("other", second->key).ok());
  EXPECT_TRUE(PutNumber(3, Durability::kMemory, kRootKey, "other").ok());
}

TEST_F(PageStoreSpaceTest, AStoredSegmentThatIsPutAgainIsNotChargedAgain) {
  options_.tenant_ssd_quota_bytes = {{"default", segment_bytes()}};
  Open();
  ASSERT_TRUE(PutNumber(1, Durability::kMemory).ok());
  EXPECT_TRUE(PutNumber(1, Durability::kPersisted).ok());
  EXPECT_EQ(Count("ssd_bytes_used"), segment_bytes());
}

// The default limit: a share of the file system, for its other users and the metadata need room,
// too.
TEST_F(PageStoreSpaceTest, WithoutALimitAShareOfTheFileSystemMayBeUsed) {
  options_.ssd_bytes = 0;
  Open();
  // Other users write to the same file system meanwhile, and root may use reserved blocks.
  const auto space = std::filesystem::space(dir_.path());
  const auto payload_of = [&](double share, uint64_t bytes) {
    const auto limit = static_cast<uint64_t>(share * static_cast<double>(bytes));
    return DivideSsd(limit, options_.ssd_volume_bytes, 0).value().payload_bytes;
  };
  EXPECT_GT(Count("ssd_bytes_limit"), payload_of(PageStore::kSsdShare - 0.05, space.available));
  EXPECT_LT(Count("ssd_bytes_limit"), payload_of(PageStore::kSsdShare + 0.05, space.free));
}

/// A store with 16 MiB of disk, of segments of 64 KiB with a quarter as many digests.
class DiskLimitTest : public PageStoreSpaceTest {
 protected:
  void SetUp() override {
    options_.ssd_bytes = SsdBudget::kLeastBytes;
    options_.ssd_volume_bytes = 256 << 20;
    spec_ = LargeUnitSpec();
    Open();
  }
  /// Disk bytes of the directory, in whole blocks of its files.
  uint64_t DiskBytes() {
    uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_.path())) {
      struct stat file = {};
      // A deleted file has no blocks.
      if (stat(entry.path().c_str(), &file) == 0)
        bytes += 512 * static_cast<uint64_t>(file.st_blocks);
    }
    return bytes;
  }
};

// Promise 6: over the limit the caller gets RESOURCE_EXHAUSTED. The server neither grows nor dies.
TEST_F(DiskLimitTest, Promise6TheLimitIsOfTheDiskAndNothingIsStoredHalf) {
  std::vector<TestSegment> named;
  Status full;
  for (uint64_t seed = 1; full.ok() && seed < 1000; ++seed) {
    auto put = PutNumber(seed, Durability::kMemory);
    full = put.status();
    if (!full.ok()) break;
    ASSERT_TRUE(store_->NameSegments("default", {{put->key}}).ok());
    named.push_back(*std::move(put));
    EXPECT_LE(DiskBytes(), options_.ssd_bytes) << seed;
  }
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted) << full;
  EXPECT_NE(Message(full).find("ssd_bytes"), std::string_view::npos) << full;
  ASSERT_GE(named.size() * segment_bytes(), options_.ssd_bytes / 4);
  EXPECT_EQ(Count("segments"), named.size());
  EXPECT_EQ(Count("degraded{reason=\"disk_full\"}"), 1u);
  EXPECT_TRUE(PutNumber(1, Durability::kMemory).ok()) << "what exists needs no room";
  // The estimate of a put's metadata is high. Deleting one segment does not make room for another.
  for (const TestSegment& segment : std::span(named).last(8)) {
    ASSERT_TRUE(store_->DeleteSegment("default", segment.key).ok());
  }
  EXPECT_EQ(Count("degraded{reason=\"disk_full\"}"), 0u);
  const auto more = PutNumber(1000, Durability::kMemory);
  EXPECT_TRUE(more.ok()) << more.status();
  Open();
  EXPECT_LE(DiskBytes(), options_.ssd_bytes);
  EXPECT_EQ(Count("ssd_bytes_used"), (named.size() - 7) * segment_bytes())
      << "counted again at open";
}

TEST_F(DiskLimitTest, ACacheThatTurnsOverManyTimesStaysWithinTheLimit) {
  uint64_t most = 0;
  for (uint64_t seed = 1; seed < 180; ++seed) {
    const auto put = PutNumber(seed, seed % 4 == 0 ? Durability::kPersisted : Durability::kMemory);
    ASSERT_TRUE(put.ok()) << put.status() << " " << seed;
    if (seed % 8 == 0) most = std::max(most, DiskBytes());
  }
  EXPECT_LE(most, options_.ssd_bytes);
  EXPECT_GT(Count("cached_evictions"), 40u);
}

TEST_F(DiskLimitTest, ALimitThatCannotWorkIsRefusedWithTheLeastThatDoes) {
  for (uint64_t seed = 1; seed < 100; ++seed) {
    ASSERT_TRUE(PutNumber(seed, Durability::kMemory).ok());
  }
  store_.reset();
  const auto refusal = [&](uint64_t bytes) {
    PageStore::Options options = options_;
    options.ssd_bytes = bytes;
    const Status status = PageStore::Open(options).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    return std::string(Message(status));
  };
  EXPECT_NE(refusal(1 << 20).find("at least "), std::string::npos);
  options_.ssd_bytes = 64 << 20;
  Open();
  for (uint64_t seed = 100; seed < 220; ++seed) {
    ASSERT_TRUE(PutNumber(seed, Durability::kMemory).ok());
  }
  store_.reset();
  // The volumes do not shrink.
  EXPECT_NE(refusal(SsdBudget::kLeastBytes).find("do not shrink"), std::string::npos);
}

/// A tenant of four segments. Those without documents are a cache.
class CachedSegmentsTest : public PageStoreSpaceTest {
 protected:
  void SetUp() override {
    options_.tenant_ssd_quota_bytes = {{"default", 4 * segment_bytes()}};
    options_.cached_ttl = std::chrono::minutes(10);
    options_.clock = &clock_;
    Open();
  }
  TestSegment PutOne(uint64_t seed, const SegmentKey& parent = kRootKey) {
    clock_.Advance(std::chrono::seconds(1));
    auto segment = PutNumber(seed, Durability::kMemory, parent);
    EXPECT_TRUE(segment.ok()) << segment.status();
    return *std::move(segment);
  }
  SegmentHold HoldOne(const TestSegment& segment) {
    return store_->HoldSegments("default", {{segment.key}}).value();
  }
  bool IsThere(const TestSegment& segment) { return store_->Tokens("default", segment.key).ok(); }
  LastUses NotedUses() {
    return ReadLastUses(dynamic_cast<PageStoreImpl&>(*store_).database()).value();
  }

  quire::testing::FakeClock clock_;
};

// Promise 6: a full tenant evicts its cached segments, least recently used first, before a refusal.
TEST_F(CachedSegmentsTest, Promise6AFullQuotaEvictsCachedSegmentsBeforeAnybodyIsRefused) {
  std::vector<TestSegment> segments;
  for (uint64_t seed = 1; seed <= 4; ++seed) segments.push_back(PutOne(seed));
  ASSERT_TRUE(store_->NameSegments("default", {{segments[0].key}}).ok());
  const SegmentHold reader = HoldOne(segments[1]);
  HoldOne(segments[2]).Release();  // Used after the fourth.
  PutOne(5);
  EXPECT_FALSE(IsThere(segments[3]));
  PutOne(6);
  EXPECT_FALSE(IsThere(segments[2]));
  EXPECT_TRUE(IsRead(segments[0]));
  EXPECT_TRUE(IsRead(segments[1]));
  for (uint64_t seed = 7; seed < 30; ++seed) PutOne(seed);
  EXPECT_TRUE(IsRead(segments[0])) << "a document refers to it";
  EXPECT_TRUE(IsRead(segments[1])) << "somebody holds it";
  EXPECT_EQ(Count("ssd_bytes_used"), 4 * segment_bytes());
  EXPECT_EQ(Count("cached_evictions"), 25u);
  EXPECT_EQ(Count("segments"), 4u);
  EXPECT_EQ(Count("segments_cached"), 3u);
  EXPECT_EQ(Count("ssd_bytes_cached"), 3 * segment_bytes());
}

TEST_F(CachedSegmentsTest, APutThatDoesNotFitStopsAndFillsNothingForGood) {
  // A chain of five. Its beginning is held while it is put, as by a context.
  SegmentHold context;
  SegmentKey parent = kRootKey;
  Status refused;
  for (uint64_t seed = 1; refused.ok(); ++seed) {
    const auto segment = PutNumber(seed, Durability::kMemory, parent);
    refused = segment.status();
    if (!segment.ok()) break;
    parent = segment->key;
    context.Add(HoldOne(*segment));
  }
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << refused;
  EXPECT_EQ(Count("segments"), 4u);
  context.Release();
  for (uint64_t seed = 100; seed < 104; ++seed) PutOne(seed);
  EXPECT_EQ(Count("segments"), 4u);
}

TEST_F(CachedSegmentsTest, ATenantOverItsQuotaEvictsItsOwn) {
  options_.tenant_ssd_quota_bytes["other"] = 2 * segment_bytes();
  Open();
  const TestSegment mine = PutOne(1);
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    EXPECT_TRUE(PutNumber(seed, Durability::kMemory, kRootKey, "other").ok());
  }
  EXPECT_TRUE(IsRead(mine));
  EXPECT_EQ(Count("segments"), 3u);
}

// RAGCache: prompts that begin alike are a tree. Its leaves leave first, the least frequency times
// cost before the others. Segments of documents stay, and compete without their document.
TEST_F(CachedSegmentsTest, ByPgdsfLeavesOfTheTreeLeaveInOrderOfFrequencyTimesCost) {
  options_.eviction_policy = "pgdsf";
  Open();
  const TestSegment root = PutOne(1);
  const TestSegment often = PutOne(2, root.key), once = PutOne(3, root.key);
  const TestSegment document = PutOne(4);
  ASSERT_TRUE(store_->NameSegments("default", {{document.key}}).ok());
  for (int i = 0; i < 3; ++i) HoldOne(often).Release();
  HoldOne(once).Release();  // The last use.
  PutOne(5);
  EXPECT_FALSE(IsThere(once));
  store_->UnnameSegments("default", {{document.key}});
  PutOne(6);
  PutOne(7);
  EXPECT_FALSE(IsThere(document)) << "used less often than the chain";
  EXPECT_TRUE(IsRead(root)) << "not used since it was put, and continued";
  EXPECT_TRUE(IsRead(often));
}

TEST_F(CachedSegmentsTest, WhatNobodyUsesExpiresAndWhatIsNamedDoesNot) {
  const TestSegment named = PutOne(1), unused = PutOne(2), used = PutOne(3), held = PutOne(4);
  ASSERT_TRUE(store_->NameSegments("default", {{named.key}}).ok());
  SegmentHold reader = HoldOne(held);
  clock_.Advance(std::chrono::minutes(6));
  EXPECT_EQ(*store_->Sweep(), 0u);
  HoldOne(used).Release();
  clock_.Advance(std::chrono::minutes(6));
  EXPECT_EQ(*store_->Sweep(), 1u);
  EXPECT_FALSE(IsThere(unused));
  reader.Release();
  clock_.Advance(std::chrono::minutes(20));
  EXPECT_EQ(*store_->Sweep(), 2u);
  EXPECT_TRUE(IsThere(named));
  EXPECT_EQ(Count("cached_expired"), 3u);
  EXPECT_EQ(Count("ssd_bytes_used"), segment_bytes());
}

// Last uses are written once a minute, and at a clean end.
TEST_F(CachedSegmentsTest, ReopeningKeepsTheOrderOfEvictionAndTheAgeOfWhatIsCached) {
  std::vector<TestSegment> segments;
  for (uint64_t seed = 1; seed <= 4; ++seed) segments.push_back(PutOne(seed));
  clock_.Advance(std::chrono::minutes(6));
  HoldOne(segments[0]).Release();
  HoldOne(segments[1]).Release();
  Open();
  const TestSegment fifth = PutOne(5);
  EXPECT_FALSE(IsThere(segments[2])) << "unused since it was put, and put before the fourth";
  EXPECT_TRUE(IsThere(segments[0]) && IsThere(segments[1]) && IsThere(segments[3]));
  clock_.Advance(std::chrono::minutes(6));
  EXPECT_EQ(*store_->Sweep(), 1u) << "the fourth is as old as it was";
  EXPECT_FALSE(IsThere(segments[3]));
  EXPECT_TRUE(IsThere(segments[0]) && IsThere(segments[1]));
  HoldOne(fifth).Release();
  Open();
  clock_.Advance(std::chrono::minutes(5));
  EXPECT_EQ(*store_->Sweep(), 2u);
  Open();
  EXPECT_EQ(Count("segments"), 1u);
  EXPECT_EQ(NotedUses().size(), 1u) << "the others went with their segments";
}

TEST_F(CachedSegmentsTest, UsesAreWrittenOnceAMinuteAndNotWhenTheyHappen) {
  const TestSegment segment = PutOne(1);
  const auto is_written = [&] { return NotedUses().contains(segment.key); };
  clock_.Advance(std::chrono::seconds(30));
  const uint64_t commits = Count("db_commits");
  HoldOne(segment).Release();
  ASSERT_TRUE(store_->Sweep().ok());
  EXPECT_EQ(Count("db_commits"), commits);
  EXPECT_FALSE(is_written());
  clock_.Advance(std::chrono::seconds(30));
  ASSERT_TRUE(store_->Sweep().ok());
  EXPECT_TRUE(is_written());
}

TEST_F(CachedSegmentsTest, WhatContinuesADeletedSegmentGoesAtTheNextSweep) {
  const TestSegment first = PutOne(1), second = PutOne(2, first.key), third = PutOne(3, second.key);
  ASSERT_TRUE(store_->DeleteSegment("default", first.key).ok());
  const SegmentHold reader = HoldOne(third);
  EXPECT_EQ(*store_->Sweep(), 1u);
  EXPECT_FALSE(IsThere(second));
  EXPECT_TRUE(IsRead(third));
}

TEST_F(CachedSegmentsTest, ASegmentWithADamagedRecordIsDeletedAndPutAgainAndCountedOnce) {
  const TestSegment segment = PutOne(1);
  const auto damage = [&] {
    store_.reset();
    const auto database = Database::Open({.path = dir_ / "metadata"}).value();
    Database::Batch batch = database->NewBatch();
    batch.Put(Table::kSegments, segment.key.view(), {"no record"});
    ASSERT_TRUE(database->Commit(batch, /*sync=*/true).ok());
  };
  damage();
  Open();
  PutOne(1);
  EXPECT_EQ(Count("segments"), 1u);
  EXPECT_EQ(Count("ssd_bytes_used"), segment_bytes());
  damage();
  Open();
  EXPECT_TRUE(store_->DeleteSegment("default", segment.key).ok());
  EXPECT_EQ(Count("segments"), 0u);
  EXPECT_EQ(Count("ssd_bytes_used"), 0u);
  ASSERT_TRUE(store_->Sweep().ok());
  EXPECT_EQ(Count("payload_used_bytes"), 0u);
  EXPECT_EQ(store_->DeleteSegment("default", segment.key).code(), StatusCode::kNotFound);
}

// Promise 3: an acknowledged put is never undone by an older delete.
TEST_F(CachedSegmentsTest, Promise3ASegmentThatIsPutAgainIsAnotherOneAndStays) {
  const TestSegment segment = PutOne(1);
  SegmentHold reader = HoldOne(segment);
  const uint64_t before = store_->MarkForDeletion("default", {{segment.key}}).front();
  PutOne(1);
  EXPECT_EQ(store_->WrittenAs({{segment.key}}).front(), before) << "the bytes are the same";
  EXPECT_EQ(store_->num_replaced(), 0u);
  reader.Release();
  EXPECT_EQ(store_->RemoveMarked("default", segment.key, before).code(), StatusCode::kNotFound);
  Open();
  EXPECT_TRUE(IsRead(segment));
  EXPECT_EQ(store_->RemoveMarked("default", segment.key, before).code(), StatusCode::kNotFound);
  const uint64_t after = store_->Incarnations({{segment.key}}).front();
  EXPECT_GT(after, before);
  EXPECT_TRUE(store_->RemoveMarked("default", segment.key, after).ok());
  EXPECT_FALSE(IsThere(segment));
}

// Promise 3, for the segments that a put continues, also before a restart.
TEST_F(CachedSegmentsTest, Promise3WhatIsContinuedAfterADeleteStays) {
  const TestSegment root = PutOne(1), middle = PutOne(2, root.key);
  SegmentHold context = HoldOne(root);
  context.Add(HoldOne(middle));
  const auto before = store_->MarkForDeletion("default", {{root.key, middle.key}});
  const TestSegment tip = PutOne(3, middle.key);
  context.Release();
  ASSERT_TRUE(store_->Sweep().ok());
  for (const bool restarted : {false, true}) {
    SCOPED_TRACE(restarted);
    if (restarted) Open();
    EXPECT_TRUE(IsNotFound(store_->RemoveMarked("default", root.key, before[0])));
    EXPECT_TRUE(IsNotFound(store_->RemoveMarked("default", middle.key, before[1])));
    ASSERT_TRUE(store_->Sweep().ok());
    for (const TestSegment& segment : {root, middle, tip}) EXPECT_TRUE(IsRead(segment));
  }
}

TEST_F(CachedSegmentsTest, APutOverAChainOfWhichSomeIsGoneIsRefused) {
  const TestSegment root = PutOne(1), middle = PutOne(2, root.key);
  const SegmentHold reader = HoldOne(middle);
  ASSERT_TRUE(store_->DeleteSegment("default", root.key).ok());
  const auto put = PutNumber(3, Durability::kPersisted, middle.key);
  EXPECT_TRUE(IsNotFound(put.status())) << put.status();
}

TEST_F(CachedSegmentsTest, WhatIsContinuedDoesNotExpireBeforeWhatContinuesIt) {
  options_.cached_ttl = std::chrono::hours(1);
  Open();
  const TestSegment root = PutOne(1), middle = PutOne(2, root.key);
  clock_.Advance(std::chrono::hours(2));
  const TestSegment tip = PutOne(3, middle.key);
  ASSERT_TRUE(store_->Sweep().ok());
  for (const TestSegment& segment : {root, middle, tip}) EXPECT_TRUE(IsRead(segment));
  clock_.Advance(std::chrono::hours(2));
  ASSERT_TRUE(store_->Sweep().ok());
  EXPECT_EQ(Count("segments"), 0u);
}

TEST_F(CachedSegmentsTest, IncarnationsGrowOverDeletesAndRestarts) {
  uint64_t last = 0;
  for (int times = 0; times < 3; ++times) {
    const TestSegment segment = PutOne(1);
    const uint64_t incarnation = store_->Incarnations({{segment.key}}).front();
    EXPECT_GT(incarnation, last);
    last = incarnation;
    Open();
    EXPECT_EQ(store_->Incarnations({{segment.key}}).front(), last);
    ASSERT_TRUE(store_->DeleteSegment("default", segment.key).ok());
    EXPECT_EQ(store_->Incarnations({{segment.key}}).front(), 0u);
    Open();
  }
}

// Puts, holds, deletes and sweeps of few keys at a time, in a store that is always full. No put is
// refused, held segments are readable, and the accounts are right at the end.
TEST_F(CachedSegmentsTest, HoldersReadWhatTheyHoldWhileEverythingIsPutEvictedAndDeleted) {
  options_.tenant_ssd_quota_bytes = {{"default", 24 * segment_bytes()}};
  Open();
  std::atomic<int> wrong{0}, refused{0};
  const auto work = [&](uint64_t number) {
    SeededRandom random(number);
    for (int step = 0; step < 400; ++step) {
      const uint64_t seed = 1 + random.Below(48);
      SegmentHold hold;
      const auto tokens = MakeTokens(spec_.segment_tokens(), seed);
      const auto payload = MakePayload(spec_, tokens.size(), seed);
      PutSegmentArgs args;
      args.spec = &spec_;
      args.tokens = tokens;
      args.payload = payload;
      args.durability = Durability::kMemory;
      args.hold = &hold;
      const auto put = store_->PutSegment("default", args);
      if (!put.ok()) {
        ++refused;
        continue;
      }
      if (random.Below(4) == 0) (void)store_->DeleteSegment("default", put->key);
      if (random.Below(16) == 0) (void)store_->Sweep();
      const TestSegment segment{put->key, tokens, payload};
      const auto read = ReadSegment(*store_, spec_, segment);
      if (!read.ok() || *read != payload) ++wrong;
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t number = 1; number <= 4; ++number) threads.emplace_back(work, number);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(refused, 0);
  EXPECT_GT(Count("cached_evictions"), 0u);
  EXPECT_EQ(Count("segments_held"), 0u);
  const uint64_t used = Count("ssd_bytes_used");
  EXPECT_EQ(used, Count("segments") * segment_bytes());
  EXPECT_EQ(Count("ssd_bytes_cached"), used);
  Open();
  EXPECT_EQ(Count("ssd_bytes_used"), used);
  clock_.Advance(std::chrono::hours(1));
  ASSERT_TRUE(store_->Sweep().ok());
  EXPECT_EQ(Count("ssd_bytes_used"), 0u);
  EXPECT_EQ(Count("payload_used_bytes"), 0u);
}

/// A budget with a burst of one segment, and one segment per second.
class WriteBudgetTest : public PageStoreSpaceTest {
 protected:
  void SetUp() override {
    options_.ssd_write_bytes_per_second = segment_bytes();
    options_.ssd_write_burst_bytes = segment_bytes();
    options_.clock = &clock_;
    Open();
  }
  quire::testing::FakeClock clock_;
};

TEST_F(WriteBudgetTest, WhatIsOverTheBudgetStaysInDramOnly) {
  const auto first = PutNumber(1, Durability::kMemory);
  const auto second = PutNumber(2, Durability::kMemory);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(Count("puts_dram_only"), 1u);
  EXPECT_EQ(Count("ssd_bytes_used"), segment_bytes());
  EXPECT_TRUE(IsRead(*second));
  EXPECT_TRUE(store_->ReadDigests("default", second->key, 0).ok());
  EXPECT_EQ(store_->Lookup("default", spec_, second->tokens)->size(), 1u);
  EXPECT_EQ(
      store_->StatChain("default", **store_->ResolveChain("default", second->key))->segments_on_ssd,
      0u);
  clock_.Advance(std::chrono::seconds(1));
  ASSERT_TRUE(PutNumber(3, Durability::kMemory).ok());
  EXPECT_EQ(Count("puts_dram_only"), 1u) << "the budget has filled";
}

// Promise 8: a miss costs a recompute, never a wrong answer.
TEST_F(WriteBudgetTest, Promise8ItIsGoneAfterARestartAndCanBePutAgain) {
  ASSERT_TRUE(PutNumber(1, Durability::kMemory).ok());
  const auto second = PutNumber(2, Durability::kMemory);
  ASSERT_TRUE(second.ok());
  Open();
  EXPECT_EQ(Count("segments"), 1u);
  EXPECT_EQ(store_->Lookup("default", spec_, second->tokens)->size(), 0u);
  EXPECT_EQ(ReadSegment(*store_, spec_, *second).status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(PutNumber(2, Durability::kPersisted).ok());
  EXPECT_TRUE(IsRead(*second));
}

TEST_F(WriteBudgetTest, ItIsGoneWhenItHasLeftDram) {
  options_.dram_bytes = 64 << 10;  // Slots for 16 extents.
  Open();
  ASSERT_TRUE(PutNumber(1, Durability::kMemory).ok());
  const auto second = PutNumber(2, Durability::kMemory);
  ASSERT_TRUE(second.ok());
  for (uint64_t seed = 10; seed < 20; ++seed) {
    ASSERT_TRUE(PutNumber(seed, Durability::kPersisted).ok());
  }
  const Status gone = ReadSegment(*store_, spec_, *second).status();
  EXPECT_EQ(gone.code(), StatusCode::kNotFound) << gone;
  EXPECT_EQ(store_->Lookup("default", spec_, second->tokens)->size(), 0u);
  const ChainPtr chain = *store_->ResolveChain("default", second->key);
  EXPECT_EQ(store_->StatChain("default", *chain)->segments_lost, 1u) << "no document may name it";
  ASSERT_TRUE(PutNumber(2, Durability::kPersisted).ok());
  EXPECT_TRUE(IsRead(*second));
}

// The registry restores the names of all its documents, also of segments that a restart lost.
TEST_F(WriteBudgetTest, ALostSegmentThatIsPutAgainHasItsNamesAtOnce) {
  options_.cached_ttl = std::chrono::minutes(1);
  Open();
  ASSERT_TRUE(PutNumber(1, Durability::kMemory).ok());
  const auto lost = PutNumber(2, Durability::kMemory);
  ASSERT_TRUE(lost.ok());
  ASSERT_TRUE(store_->NameSegments("default", {{lost->key}}).ok());
  Open();
  store_->RestoreNames({{lost->key, 2}});
  EXPECT_FALSE(IsRead(*lost));
  EXPECT_EQ(store_->CountNames(lost->key), 0u);
  EXPECT_EQ(store_->LostSegments("default", lost->key), 1u);
  const std::vector<uint32_t> wrong(AllUnits(spec_, lost->key, lost->tokens.size()).size());
  PutSegmentArgs args;
  args.spec = &spec_;
  args.tokens = lost->tokens;
  args.payload = lost->payload;
  args.unit_crc32c = wrong;
  EXPECT_EQ(store_->PutSegment("default", args).status().code(), StatusCode::kDataLoss);
  ASSERT_TRUE(PutNumber(2, Durability::kPersisted).ok());
  EXPECT_EQ(store_->CountNames(lost->key), 2u);
  EXPECT_EQ(store_->LostSegments("default", lost->key), 0u);
  clock_.Advance(std::chrono::minutes(5));
  ASSERT_TRUE(store_->Sweep().ok());
  EXPECT_TRUE(IsRead(*lost)) << "two documents name it";
  store_->UnnameSegments("default", {{lost->key}});
  store_->UnnameSegments("default", {{lost->key}});
  clock_.Advance(std::chrono::minutes(5));
  ASSERT_TRUE(store_->Sweep().ok());
  EXPECT_FALSE(IsRead(*lost)) << "it is a cached one now";
}

// Promise 3: a segment acknowledged as persisted survives, with all that it continues.
TEST_F(WriteBudgetTest, Promise3APutThatPersistsWritesOutWhatItContinues) {
  ASSERT_TRUE(PutNumber(1, Durability::kMemory).ok());  // spends the budget
  const auto root = PutNumber(2, Durability::kMemory);
  ASSERT_TRUE(root.ok());
  const auto middle = PutNumber(3, Durability::kMemory, root->key);
  ASSERT_TRUE(middle.ok());
  ASSERT_EQ(Count("puts_dram_only"), 2u);
  const auto tip = PutNumber(4, Durability::kPersisted, middle->key);
  ASSERT_TRUE(tip.ok()) << tip.status();
  Open();
  ASSERT_TRUE(store_->ResolveChain("default", tip->key).ok());
  EXPECT_TRUE(IsRead(*root) && IsRead(*middle) && IsRead(*tip));
  EXPECT_EQ(Count("ssd_bytes_used"), 4 * segment_bytes());
}

TEST_F(WriteBudgetTest, PuttingItAgainToPersistWritesItOut) {
  ASSERT_TRUE(PutNumber(1, Durability::kMemory).ok());
  const auto second = PutNumber(2, Durability::kMemory);
  ASSERT_TRUE(second.ok());
  ASSERT_TRUE(PutNumber(2, Durability::kPersisted).ok());
  EXPECT_EQ(Count("segments"), 2u);
  Open();
  EXPECT_TRUE(IsRead(*second));
  ASSERT_TRUE(store_->DeleteSegment("default", second->key).ok());
  EXPECT_EQ(Count("ssd_bytes_used"), segment_bytes());
}

TEST_F(WriteBudgetTest, WhatIsWrittenOutLaterTakesOfTheBudgetToo) {
  ASSERT_TRUE(PutNumber(1, Durability::kMemory).ok());  // spends the budget
  ASSERT_TRUE(PutNumber(2, Durability::kMemory).ok());
  ASSERT_EQ(Count("puts_dram_only"), 1u);
  ASSERT_TRUE(PutNumber(2, Durability::kPersisted).ok());  // a second's worth of debt
  clock_.Advance(std::chrono::seconds(1));
  ASSERT_TRUE(PutNumber(3, Durability::kMemory).ok());
  EXPECT_EQ(Count("puts_dram_only"), 2u) << "the second paid the debt";
  clock_.Advance(std::chrono::seconds(1));
  ASSERT_TRUE(PutNumber(4, Durability::kMemory).ok());
  EXPECT_EQ(Count("puts_dram_only"), 2u);
}

TEST_F(WriteBudgetTest, DeletingItGivesNothingBackThatWasNotCharged) {
  ASSERT_TRUE(PutNumber(1, Durability::kMemory).ok());
  const auto second = PutNumber(2, Durability::kMemory);
  ASSERT_TRUE(second.ok());
  ASSERT_TRUE(store_->DeleteSegment("default", second->key).ok());
  EXPECT_EQ(Count("ssd_bytes_used"), segment_bytes());
  EXPECT_EQ(Count("segments"), 1u);
}

}  // namespace
}  // namespace quire::kvserver::testing
