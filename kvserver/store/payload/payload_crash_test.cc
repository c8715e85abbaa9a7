// SPDX-License-Identifier: Apache-2.0
//
// The order of write, sync and commit, with power failures of a device that may lose any unsynced
// block. The metadata of these tests is a map that loses nothing. Its locations must be intact
// after every failure.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/memory/checksum.h"
#include "kvserver/store/payload/testing/payload_fixture.h"

namespace quire::kvserver::testing {
namespace {

class PayloadCrashTest : public PayloadFixture {
 protected:
  struct Record {
    Location location;
    Bytes bytes;
  };

  PayloadCrashTest() { options_.volumes.limit_bytes = 3 * kVolumeBytes; }

  void FailPower(uint64_t seed) {
    engine_.LosePower(seed);
    std::vector<Location> named;
    for (const auto& [id, record] : committed_) named.push_back(record.location);
    Reopen(named);
  }
  void ExpectAllWhole() {
    uint64_t used = 0;
    for (const auto& [id, record] : committed_) {
      const auto bytes = Read(record.location);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      ASSERT_EQ(*bytes, record.bytes) << "record " << id;
      used += TotalBytes(record.location.runs);
    }
    EXPECT_EQ(CounterOf("payload_used_bytes"), used) << "what was not committed is free";
  }
  /// Writes a few records, syncs once, commits them; may stop before any step.
  void Put(Random& random, uint64_t stop_before) {
    std::vector<Record> written;
    for (uint64_t i = random.Below(4); i > 0; --i) {
      Bytes bytes = MakeBytes(1 + random.Below(150'000), random.Next());
      const auto location = Write(bytes);
      if (location.ok()) written.push_back({*location, std::move(bytes)});
    }
    if (stop_before == 0) return;
    ASSERT_TRUE(store_->Sync().ok());
    if (stop_before == 1) return;
    for (Record& record : written) committed_[next_id_++] = std::move(record);
  }
  void Delete(Random& random) {
    if (committed_.empty()) return;
    const auto victim =
        std::next(committed_.begin(), static_cast<std::ptrdiff_t>(random.Below(committed_.size())));
    const Location location = victim->second.location;
    committed_.erase(victim);
    store_->Release(location);
  }

  std::map<uint64_t, Record> committed_;
  uint64_t next_id_ = 0;
};

TEST_F(PayloadCrashTest, WhatWasCommittedAfterASyncIsWholeAfterAnyPowerFailure) {
  constexpr uint64_t kSeed = 21;
  SeededRandom random(kSeed);
  for (uint64_t round = 0; round < 40; ++round) {
    SCOPED_TRACE("round " + std::to_string(round) + " of seed " + std::to_string(kSeed));
    for (int step = 0; step < 6; ++step) {
      if (random.Below(3) == 0) Delete(random);
      Put(random, /*stop_before=*/2);
    }
    Put(random, random.Below(3));
    FailPower(random.Next());
    ExpectAllWhole();
  }
  EXPECT_GT(next_id_, 100u);
}

TEST_F(PayloadCrashTest, WithoutTheSyncAPowerFailureDoesLoseBytes) {
  // Premise of the test above: these failures undo writes.
  const Bytes bytes = MakeBytes(500'000, 1);
  const auto location = Write(bytes);
  ASSERT_TRUE(location.ok());
  engine_.LosePower(1);
  Reopen({*location});
  const auto read = Read(*location);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_NE(Crc32c(*read), Crc32c(bytes)) << "only the caller's checksum can tell";
}

TEST_F(PayloadCrashTest, TornAndFlippedBytesAreFoundByTheCallersChecksum) {
  const Bytes bytes = MakeBytes(500'000, 1);
  engine_.Inject(IoRequest::Kind::kWrite, IoFault::kTornWrite);
  const auto torn = Write(bytes);
  ASSERT_TRUE(torn.ok());
  EXPECT_NE(Crc32c(*Read(*torn)), Crc32c(bytes));
  const auto whole = Write(bytes);
  engine_.Inject(IoRequest::Kind::kRead, IoFault::kBitFlip);
  EXPECT_NE(Crc32c(*Read(*whole)), Crc32c(bytes));
  EXPECT_EQ(Crc32c(*Read(*whole)), Crc32c(bytes));
}

TEST_F(PayloadCrashTest, AHalfMadeVolumeIsForgotten) {
  const Bytes bytes = MakeBytes(100'000, 1);
  const auto location = Write(bytes);
  ASSERT_TRUE(store_->Sync().ok());
  committed_[0] = {*location, bytes};
  std::filesystem::copy_file(VolumePath(0), VolumeFile::TemporaryPath(VolumePath(1)));
  FailPower(1);
  EXPECT_FALSE(std::filesystem::exists(VolumeFile::TemporaryPath(VolumePath(1))));
  ExpectAllWhole();
}

}  // namespace
}  // namespace quire::kvserver::testing
