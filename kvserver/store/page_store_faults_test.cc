// SPDX-License-Identifier: Apache-2.0
//
// PageStore on a payload device that fails, lies and loses power, and with failing writes of
// metadata.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "common/base/observe/health.h"
#include "kvserver/store/policy/room_sample.h"
#include "kvserver/store/testing/faulty_store_fixture.h"
#include "tests/kit/fake_clock.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Kind = IoRequest::Kind;

class PageStoreFaultsTest : public FaultyStoreTest {
 protected:
  void ExpectNothingHappened(const StatusOr<TestSegment>& refused, uint64_t seed) {
    EXPECT_FALSE(refused.ok());
    EXPECT_FALSE(IsStored(seed));
    EXPECT_EQ(Count("ssd_bytes_used"), 0u);
    EXPECT_EQ(Count("payload_used_bytes"), 0u) << "its space is free again";
    Open();
    EXPECT_FALSE(IsStored(seed)) << "nor is it there after a restart";
  }
};

TEST_F(PageStoreFaultsTest, AWriteThatFailsStoresNothing) {
  engine_.Inject(Kind::kWrite, IoFault::kIoError);
  const auto refused = PutTestSegment(*store_, spec_, 1);
  EXPECT_EQ(refused.status().code(), StatusCode::kUnavailable) << refused.status();
  ExpectNothingHappened(refused, 1);
  EXPECT_TRUE(PutTestSegment(*store_, spec_, 1).ok()) << "the next one works";
}

TEST_F(PageStoreFaultsTest, AFullDeviceStoresNothing) {
  for (const IoFault fault : {IoFault::kNoSpace, IoFault::kShortWrite}) {
    engine_.Inject(Kind::kWrite, fault);
    const auto refused = PutTestSegment(*store_, spec_, 1);
    EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted) << refused.status();
    ExpectNothingHappened(refused, 1);
  }
}

TEST_F(PageStoreFaultsTest, ASyncThatFailsAcknowledgesNothing) {
  engine_.FailNextSync(EIO);
  const auto refused =
      PutTestSegment(*store_, spec_, 1, kRootKey, /*num_tokens=*/0, Durability::kPersisted);
  EXPECT_EQ(refused.status().code(), StatusCode::kUnavailable) << refused.status();
  ExpectNothingHappened(refused, 1);
}

// Promise 2: bytes that fail their checksum are never returned.
TEST_F(PageStoreFaultsTest, Promise2ABitFlippedOnTheWayIsDataLossUntilTheSegmentIsPutAgain) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  ASSERT_TRUE(segment.ok()) << segment.status();
  Open();
  engine_.Inject(Kind::kRead, IoFault::kBitFlip);
  EXPECT_EQ(ReadSegment(*store_, spec_, *segment).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(Count("ssd_checksum_failures"), 1u);
  EXPECT_FALSE(IsStored(1)) << "it counts as missing";
  ASSERT_TRUE(PutTestSegment(*store_, spec_, 1).ok());
  EXPECT_EQ(*ReadSegment(*store_, spec_, *segment), segment->payload);
}

// Promise 1: a put replaces a damaged segment, whatever its bits, and does not mix with its bytes
// in DRAM.
TEST_F(PageStoreFaultsTest, Promise1ADamagedSegmentIsReplacedByOtherBytes) {
  options_.promote_after_touches = 1;
  Open();
  const auto segment = PutTestSegment(*store_, spec_, 1);
  ASSERT_TRUE(segment.ok()) << segment.status();
  Open();
  const uint64_t written_as = store_->WrittenAs({{segment->key}}).front();
  // Layer 0 comes to DRAM; layer 1 turns out to be damaged.
  std::vector<UnitBytes> units;
  const std::vector<UnitAddress> all = AllUnits(spec_, segment->key, segment->tokens.size());
  ASSERT_TRUE(store_->ReadUnits("default", std::span(all).first(1), &units).ok());
  units.clear();
  engine_.Inject(Kind::kRead, IoFault::kBitFlip);
  (void)store_->ReadUnits("default", std::span(all).last(1), &units);
  ASSERT_FALSE(IsStored(1));
  const auto other = MakePayload(spec_, segment->tokens.size(), /*seed=*/2);
  PutSegmentArgs args;
  args.spec = &spec_;
  args.tokens = segment->tokens;
  args.payload = other;
  args.strict = true;
  const auto put = store_->PutSegment("default", args);
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_FALSE(put->existed);
  EXPECT_GT(store_->WrittenAs({{segment->key}}).front(), written_as);
  EXPECT_GT(store_->num_replaced(), 0u) << "readers that hold it notice";
  EXPECT_EQ(Count("segments_replaced"), 1u);
  EXPECT_EQ(Count("ssd_bytes_used"), other.size());
  for (int times = 0; times < 2; ++times) {
    EXPECT_EQ(*ReadSegment(*store_, spec_, *segment), other);
    Open();
  }
}

TEST_F(PageStoreFaultsTest, Promise2AWriteThatWasTornInSilenceIsDataLoss) {
  engine_.Inject(Kind::kWrite, IoFault::kTornWrite);
  const auto segment = PutTestSegment(*store_, spec_, 1);
  ASSERT_TRUE(segment.ok()) << segment.status();
  Open();  // DRAM is empty
  EXPECT_EQ(ReadSegment(*store_, spec_, *segment).status().code(), StatusCode::kDataLoss);
}

TEST_F(PageStoreFaultsTest, AReadThatFailsIsUnavailableAndDamagesNothing) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  Open();
  engine_.Inject(Kind::kRead, IoFault::kIoError);
  EXPECT_EQ(ReadSegment(*store_, spec_, *segment).status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(IsStored(1));
  EXPECT_EQ(*ReadSegment(*store_, spec_, *segment), segment->payload);
}

// The log may hold a failed delete, and a put that finds the segment writes nothing after it. Such
// a put is therefore acknowledged only after the log was left behind, whatever its durability.
TEST_F(PageStoreFaultsTest, APutIsNotAcknowledgedOverADeleteThatFailed) {
  for (const Durability durability : {Durability::kMemory, Durability::kPersisted}) {
    SCOPED_TRACE(static_cast<int>(durability));
    const auto segment = PutTestSegment(*store_, spec_, 1);
    ASSERT_TRUE(segment.ok()) << segment.status();
    env_.faults.fault = Fault::kErrorOnceWritten;
    EXPECT_EQ(store_->DeleteSegment("default", segment->key).code(), StatusCode::kUnavailable);
    EXPECT_TRUE(IsStored(1)) << "nothing was deleted";
    const auto again = PutTestSegment(*store_, spec_, 1, kRootKey, /*num_tokens=*/0, durability);
    EXPECT_EQ(again.status().code(), StatusCode::kUnavailable) << again.status();
    store_.reset();
    env_.faults.fault = Fault::kNone;
    Open();
    EXPECT_FALSE(IsStored(1)) << "the delete was not in the log: the test shows nothing";
  }
}

TEST_F(PageStoreFaultsTest, APutAfterADeleteThatFailedIsAcknowledgedOnceWritingResumed) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  ASSERT_TRUE(segment.ok()) << segment.status();
  env_.faults.fault = Fault::kTornNoSpace;
  EXPECT_EQ(store_->DeleteSegment("default", segment->key).code(), StatusCode::kResourceExhausted);
  const auto put = [&] {
    return PutTestSegment(*store_, spec_, 1, kRootKey, /*num_tokens=*/0, Durability::kMemory);
  };
  const Status refused = put().status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << refused;
  env_.faults.fault = Fault::kNone;
  for (int i = 0; i < 2; ++i) {
    const Status acknowledged = put().status();
    EXPECT_TRUE(acknowledged.ok()) << acknowledged;
  }
  EXPECT_EQ(Count("db_recoveries"), 1u);
  Open();
  EXPECT_EQ(*ReadSegment(*store_, spec_, *segment), segment->payload);
}

// Promise 3: a segment acknowledged as persisted survives a power failure. One acknowledged in
// memory may be lost, and is never wrong.
TEST_F(PageStoreFaultsTest, Promise3PowerLossKeepsWhatWasPersistedAndNothingIsWrong) {
  uint64_t lost = 0;
  for (uint64_t round = 0; round < 8; ++round) {
    std::vector<std::pair<TestSegment, bool>> put;  // with its durability: true for persisted
    for (uint64_t i = 0; i < 12; ++i) {
      const bool persisted = i % 3 == 0;
      const auto segment =
          PutTestSegment(*store_, spec_, round * 100 + i, kRootKey, /*num_tokens=*/0,
                         persisted ? Durability::kPersisted : Durability::kMemory);
      ASSERT_TRUE(segment.ok()) << segment.status();
      put.emplace_back(*segment, persisted);
      if (i % 4 == 1) {
        ASSERT_TRUE(store_->DeleteSegment("default", put.front().first.key).ok());
        put.erase(put.begin());
      }
    }
    engine_.LosePower(round);
    Open();
    for (const auto& [segment, persisted] : put) {
      const auto read = ReadSegment(*store_, spec_, segment);
      if (read.ok()) {
        EXPECT_EQ(*read, segment.payload);
      } else {
        EXPECT_FALSE(persisted) << read.status();
        EXPECT_THAT(read.status().code(), AnyOf(StatusCode::kDataLoss, StatusCode::kNotFound));
        ++lost;
      }
    }
  }
  EXPECT_GT(lost, 0u) << "the device never lost anything: the test shows nothing";
}

/// A store with reports to operators.
class WatchedStoreTest : public PageStoreFaultsTest {
 protected:
  void SetUp() override {
    options_.health = &health_;
    options_.clock = &clock_;
    Open();
  }
  void TearDown() override { store_.reset(); }
  /// Names of the troubles that degrade the server.
  std::vector<std::string> Degraded() {
    std::vector<std::string> names;
    for (const auto& degradation : health_.Degradations())
      names.emplace_back(Name(degradation.trouble));
    return names;
  }
  std::string Volume(int number) {
    return dir_ / ("payload/0000000" + std::to_string(number) + ".vol");
  }

  quire::testing::FakeClock clock_;
  std::vector<std::string> lines_;
  Health health_{&clock_, [this](const Health::Line& line) {
                   lines_.push_back(std::string(Name(line.trouble)) +
                                    (line.is_over ? " over" : "") + ": " + line.detail);
                 }};
};

// Promise 8: a miss costs a recompute, never a wrong answer. Losses while the store was closed are
// reported at the start, count as missing, and can be stored again.
TEST_F(WatchedStoreTest, Promise8WhatIsLostAtStartMissesIsToldAndIsStoredAnew) {
  constexpr uint64_t kSegments = 50;  // 80 KiB each with digests, in volumes of a MiB.
  for (uint64_t seed = 1; seed <= kSegments; ++seed) {
    ASSERT_TRUE(PutTestSegment(*store_, spec_, seed).ok());
  }
  store_.reset();
  std::filesystem::remove(Volume(0));
  std::filesystem::resize_file(Volume(1), (512 << 10) + 100);
  std::filesystem::resize_file(Volume(2), 0);
  Open();
  ASSERT_EQ(lines_.size(), 1u);
  for (const std::string& word : {std::string("data_damaged: "), Volume(0), Volume(1), Volume(2),
                                  std::to_string(Count("segments_lost")) + " segments are lost"}) {
    EXPECT_THAT(lines_[0], HasSubstr(word));
  }
  EXPECT_THAT(Degraded(), ElementsAre("data_damaged"));
  uint64_t lost = 0;
  for (uint64_t seed = 1; seed <= kSegments; ++seed) {
    const bool was_lost = !IsStored(seed);
    lost += was_lost ? 1 : 0;
    const auto segment = PutTestSegment(*store_, spec_, seed);
    ASSERT_TRUE(segment.ok()) << segment.status();
    const auto read = ReadSegment(*store_, spec_, *segment);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, segment->payload);
  }
  EXPECT_GT(lost, 24u);
  EXPECT_LT(lost, kSegments);
  EXPECT_EQ(Count("segments_lost"), lost);
  EXPECT_EQ(Count("segments_repaired"), lost);
  EXPECT_THAT(Degraded(), IsEmpty());
  EXPECT_THAT(lines_.back(), StartsWith("data_damaged over"));
  Open();
  EXPECT_EQ(Count("segments_lost"), 0u) << "the volumes that stayed short have nothing that counts";
}

TEST_F(WatchedStoreTest, AChainOfLostSegmentsIsCountedAndCannotBeNamedByADocument) {
  const auto chain = PutTestChain(*store_, spec_, /*seed=*/1, /*num_segments=*/3);
  ASSERT_TRUE(chain.ok()) << chain.status();
  EXPECT_EQ(store_->LostSegments("default", chain->back().key), 0u);
  store_.reset();
  std::filesystem::remove(Volume(0));
  Open();
  EXPECT_EQ(store_->LostSegments("default", chain->back().key), 3u);
  EXPECT_EQ(store_->StatChain("default", **store_->ResolveChain("default", chain->back().key))
                ->segments_lost,
            3u);
  ASSERT_TRUE(PutTestSegment(*store_, spec_, 1).ok());
  EXPECT_EQ(store_->LostSegments("default", chain->back().key), 2u);
  for (const TestSegment& segment : *chain) {
    EXPECT_TRUE(store_->DeleteSegment("default", segment.key).ok());
  }
  EXPECT_EQ(store_->LostSegments("default", chain->back().key), 0u);
  EXPECT_THAT(Degraded(), IsEmpty());
}

// Promise 3: nothing acknowledged as persisted is in a file that ends with the process.
TEST_F(WatchedStoreTest, Promise3AVolumeThatIsDeletedUnderTheServerIsNoticedBeforeAPutIsPersisted) {
  const auto first = PutTestSegment(*store_, spec_, 1, kRootKey, 0, Durability::kPersisted);
  ASSERT_TRUE(first.ok()) << first.status();
  std::filesystem::remove(Volume(0));
  for (const uint64_t seed : {1, 2}) {
    const auto put = PutTestSegment(*store_, spec_, seed, kRootKey, 0, Durability::kPersisted);
    EXPECT_EQ(put.status().code(), StatusCode::kUnavailable) << put.status();
  }
  EXPECT_THAT(Degraded(), ElementsAre("device_failed", "sync_failed"));
  EXPECT_THAT(lines_, Contains(HasSubstr(Volume(0))));
  EXPECT_EQ(*ReadSegment(*store_, spec_, *first), first->payload) << "reads go on";
}

TEST_F(WatchedStoreTest, APutThatFailsDegradesUntilOneSucceeds) {
  const auto fails_with = [&](IoFault fault, const char* trouble) {
    SCOPED_TRACE(trouble);
    engine_.Inject(Kind::kWrite, fault);
    EXPECT_FALSE(PutTestSegment(*store_, spec_, 1).ok());
    EXPECT_THAT(Degraded(), ElementsAre(trouble));
    EXPECT_TRUE(PutTestSegment(*store_, spec_, 1).ok());
    EXPECT_THAT(Degraded(), IsEmpty());
    EXPECT_TRUE(
        store_
            ->DeleteSegment("default",
                            *store_->Lookup("default", spec_, MakeTokens(spec_.segment_tokens(), 1))
                                 .value()
                                 .begin())
            .ok());
  };
  // A full device comes first: after a delete a put frees its space and retries.
  fails_with(IoFault::kNoSpace, "disk_full");
  fails_with(IoFault::kIoError, "device_failed");
  env_.faults.free_bytes = 0;
  clock_.Advance(RoomSample::kTrusted);
  EXPECT_EQ(PutTestSegment(*store_, spec_, 2).status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Degraded(), ElementsAre("disk_full"));
}

TEST_F(WatchedStoreTest, AScrubFindingAndAReadThatFailsAreTold) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  ASSERT_TRUE(segment.ok()) << segment.status();
  engine_.Inject(Kind::kRead, IoFault::kIoError);
  ASSERT_TRUE(store_->scrubber("payload").RunRound().ok());
  EXPECT_THAT(lines_, ElementsAre(StartsWith("read_failed: ")));
  EXPECT_THAT(Degraded(), ElementsAre("read_failed"));
  clock_.Advance(std::chrono::seconds(59));
  ASSERT_TRUE(store_->scrubber("payload").RunRound().ok());
  EXPECT_THAT(Degraded(), ElementsAre("read_failed")) << "other places can be read";
  clock_.Advance(std::chrono::seconds(1));
  ASSERT_TRUE(store_->scrubber("payload").RunRound().ok());
  EXPECT_THAT(Degraded(), IsEmpty());
  engine_.Inject(Kind::kRead, IoFault::kBitFlip);
  ASSERT_TRUE(store_->scrubber("payload").RunRound().ok());
  EXPECT_THAT(lines_.back(), AllOf(StartsWith("data_damaged: "), HasSubstr(segment->key.Hex())));
  EXPECT_THAT(Degraded(), ElementsAre("data_damaged"));
  ASSERT_TRUE(PutTestSegment(*store_, spec_, 1).ok());
  EXPECT_THAT(Degraded(), IsEmpty());
}

TEST_F(WatchedStoreTest, IoThatDoesNotReturnIsToldWhileItIsInFlight) {
  engine_.Inject(Kind::kWrite, IoFault::kPause);
  std::thread putting([&] { EXPECT_TRUE(PutTestSegment(*store_, spec_, 1).ok()); });
  engine_.AwaitPaused(1);
  clock_.Advance(std::chrono::seconds(5));
  store_->CheckDevice();
  EXPECT_THAT(Degraded(), IsEmpty());
  clock_.Advance(std::chrono::seconds(1));
  store_->CheckDevice();
  EXPECT_THAT(Degraded(), ElementsAre("device_stalled"));
  EXPECT_THAT(lines_,
              ElementsAre(HasSubstr("a write to the payload volumes has been in flight for 6 s")));
  engine_.Resume();
  putting.join();
  store_->CheckDevice();
  EXPECT_THAT(Degraded(), IsEmpty());
}

/// A file system that others have nearly filled.
class FilledByOthersTest : public FaultyStoreTest {
 protected:
  Status PutOne(uint64_t seed) {
    return PutTestSegment(*store_, spec_, seed, kRootKey, 0, Durability::kMemory).status();
  }
  void LeaveFree(uint64_t bytes) {
    env_.faults.counts_files = true;
    env_.faults.free_bytes = Count("db_file_bytes") + bytes;
  }
};

// Promise 6: cached segments are evicted before a refusal.
TEST_F(FilledByOthersTest, CachedSegmentsGoBeforeAPutIsRefused) {
  LeaveFree(256 << 20);
  for (uint64_t seed = 1; seed <= 64; ++seed) ASSERT_TRUE(PutOne(seed).ok());
  LeaveFree(65 << 20);
  uint64_t seed = 100;
  for (; seed < 400 && Count("cached_evictions") == 0; ++seed) {
    const Status put = PutOne(seed);
    ASSERT_TRUE(put.ok()) << put << " " << seed;
  }
  EXPECT_GT(Count("cached_evictions"), 0u) << "the file system was never short: it shows nothing";
  EXPECT_TRUE(IsStored(seed - 1));
}

TEST_F(FilledByOthersTest, NothingIsEvictedWhenThatCannotMakeTheRoom) {
  LeaveFree(256 << 20);  // Room so small that every put asks for it.
  for (uint64_t seed = 1; seed <= 8; ++seed) ASSERT_TRUE(PutOne(seed).ok());
  LeaveFree(16 << 20);
  const Status refused = PutOne(100);
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << refused;
  EXPECT_EQ(Count("cached_evictions"), 0u);
  EXPECT_EQ(Count("segments"), 8u);
}

}  // namespace
}  // namespace quire::kvserver::testing
