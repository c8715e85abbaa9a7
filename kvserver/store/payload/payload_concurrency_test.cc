// SPDX-License-Identifier: Apache-2.0
//
// Readers against writes, releases and reuse of the same space. All bytes carry a checksum, so a
// write under a reader would be detected.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/memory/checksum.h"
#include "common/base/threads/mutex.h"
#include "kvserver/store/payload/testing/payload_fixture.h"

namespace quire::kvserver::testing {
namespace {

struct Record {
  Location location;
  uint32_t crc32c = 0;
};

/// Stands for the metadata, in which readers find records.
class Records {
 public:
  /// Replaces and returns the earlier record; null deletes.
  std::shared_ptr<const Record> Swap(uint64_t id, std::shared_ptr<const Record> record) {
    MutexLock lock(mutex_);
    return std::exchange(records_[id], std::move(record));
  }
  std::shared_ptr<const Record> Find(uint64_t id) const {
    MutexLock lock(mutex_);
    const auto found = records_.find(id);
    return found == records_.end() ? nullptr : found->second;
  }

 private:
  mutable Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<const Record>> records_ QUIRE_GUARDED_BY(mutex_);
};

class PayloadConcurrencyTest : public PayloadFixture {
 protected:
  static constexpr uint64_t kIds = 24;

  PayloadConcurrencyTest() { options_.volumes.limit_bytes = 2 * kVolumeBytes; }

  /// Puts, replaces, or deletes where there is no space, until there were enough reads and writes.
  void Mutate(uint64_t seed) {
    SeededRandom random(seed);
    for (int puts = 0; puts < 200 || reads_ < 500;) {
      const uint64_t id = random.Below(kIds);
      const Bytes bytes = MakeBytes(1 + random.Below(120'000), random.Next());
      const auto location = Write(bytes);
      std::shared_ptr<const Record> record;
      if (location.ok()) {
        record = std::make_shared<const Record>(Record{*location, Crc32c(bytes)});
        ++puts;
      } else {
        ASSERT_EQ(location.status().code(), StatusCode::kResourceExhausted) << location.status();
      }
      if (puts % 8 == 0) {
        ASSERT_TRUE(store_->Sync().ok());
      }
      if (const auto old = records_.Swap(id, record)) store_->Release(old->location);
    }
  }
  void ReadUntil(const std::atomic<bool>& stop, uint64_t seed) {
    SeededRandom random(seed);
    while (!stop) {
      const auto guard = store_->StartReading();
      const auto record = records_.Find(random.Below(kIds));
      if (record == nullptr) continue;
      // Repeated under one guard, to give writers time to do harm.
      for (int i = 0; i < 10; ++i) CheckOnce(guard, *record);
    }
  }
  void CheckOnce(const PayloadStore::ReadGuard& guard, const Record& record) {
    Bytes bytes(record.location.bytes);
    ReadRequest request{
        .location = &record.location, .offset = 0, .destination = bytes, .status = {}};
    const Status status = store_->Read(guard, {&request, 1});
    if (!status.ok() || Crc32c(bytes) != record.crc32c) ++wrong_;
    ++reads_;
  }

  Records records_;
  std::atomic<uint64_t> reads_{0}, wrong_{0};
};

TEST_F(PayloadConcurrencyTest, ReadersNeverSeeSpaceThatIsUsedAgain) {
  constexpr uint64_t kSeed = 11;
  SCOPED_TRACE(kSeed);
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers, writers;
  for (uint64_t i = 0; i < 3; ++i) readers.emplace_back([&, i] { ReadUntil(stop, kSeed + i); });
  for (uint64_t i = 0; i < 2; ++i) writers.emplace_back([&, i] { Mutate(kSeed + 10 + i); });
  for (std::thread& writer : writers) writer.join();
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong_.load(), 0u);
  for (uint64_t id = 0; id < kIds; ++id) {
    if (const auto record = records_.Swap(id, nullptr)) store_->Release(record->location);
  }
  EXPECT_EQ(CounterOf("payload_used_bytes"), 0u) << "no space is lost";
  EXPECT_EQ(CounterOf("payload_waiting_bytes"), 0u);
  EXPECT_EQ(CounterOf("payload_wrong_releases"), 0u);
  EXPECT_GT(CounterOf("payload_write_bytes"), 4 * options_.volumes.limit_bytes)
      << "the space was turned over";
}

TEST_F(PayloadConcurrencyTest, AReadThatHangsKeepsItsBytesAndStopsNobodyElse) {
  const Bytes slow_bytes = MakeBytes(1'200'000, 1), other_bytes = MakeBytes(500'000, 2);
  const auto slow = Write(slow_bytes), other = Write(other_bytes);
  ASSERT_TRUE(slow.ok() && other.ok());
  engine_.Inject(IoRequest::Kind::kRead, IoFault::kPause);
  std::optional<StatusOr<Bytes>> read;
  std::thread reader([&] { read = Read(*slow); });
  engine_.AwaitPaused(1);

  store_->Release(*slow);
  EXPECT_EQ(*Read(*other), other_bytes) << "other readers go on";
  EXPECT_TRUE(Write(MakeBytes(100'000, 3)).ok()) << "writers too";
  EXPECT_TRUE(store_->Sync().ok());
  EXPECT_EQ(Write(slow_bytes).status().code(), StatusCode::kResourceExhausted)
      << "but the space of what is being read is not given out";

  engine_.Resume();
  reader.join();
  ASSERT_TRUE(read->ok()) << read->status();
  EXPECT_EQ(**read, slow_bytes);
  EXPECT_TRUE(Write(slow_bytes).ok()) << "now it is";
}

TEST_F(PayloadConcurrencyTest, AWriteThatHangsStopsNeitherReadersNorOtherWritersNorSyncs) {
  const Bytes bytes = MakeBytes(100'000, 1);
  const auto location = Write(bytes);
  engine_.Inject(IoRequest::Kind::kWrite, IoFault::kPause);
  std::thread writer([&] { EXPECT_TRUE(Write(MakeBytes(100'000, 2)).ok()); });
  engine_.AwaitPaused(1);
  EXPECT_EQ(*Read(*location), bytes);
  EXPECT_TRUE(Write(bytes).ok());
  EXPECT_TRUE(store_->Sync().ok());
  engine_.Resume();
  writer.join();
}

}  // namespace
}  // namespace quire::kvserver::testing
