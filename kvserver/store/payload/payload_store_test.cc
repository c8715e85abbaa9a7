// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/payload/payload_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "common/base/retry_hint.h"
#include "kvserver/store/payload/engine/plain_engine.h"
#include "kvserver/store/payload/testing/payload_fixture.h"
#include "tests/kit/same_bytes.h"

namespace quire::kvserver::testing {
namespace {

class PayloadStoreTest : public PayloadFixture {};

/// As above with the page cache, as on a file system without direct I/O.
class BufferedPayloadStoreTest : public PayloadFixture {
 protected:
  BufferedPayloadStoreTest() { options_.volumes.direct = DirectIo::kNever; }
};

bool Mentions(const Status& status, const std::string& text) {
  return Message(status).find(text) != std::string::npos;
}

TEST_F(PayloadStoreTest, ReadsBackWritesOfEverySize) {
  std::vector<std::pair<Bytes, Location>> written;
  for (const size_t size : {1, 511, 512, 4095, 4096, 4097, 8704, 16384, 69632, 1 << 20, 3 << 20}) {
    Bytes bytes = MakeBytes(size, size);
    const auto location = Write(bytes);
    ASSERT_TRUE(location.ok()) << location.status();
    EXPECT_EQ(location->bytes, size);
    EXPECT_EQ(TotalBytes(location->runs), RoundUp(size, kBlockBytes));
    written.emplace_back(std::move(bytes), *location);
  }
  for (const auto& [bytes, location] : written) EXPECT_EQ(*Read(location), bytes);
}

TEST_F(BufferedPayloadStoreTest, WorksWithoutDirectIo) {
  EXPECT_EQ(store_->mode(), "buffered");
  const Bytes bytes = MakeBytes(100'001, 1);
  const auto location = Write(bytes);
  ASSERT_TRUE(store_->Sync().ok());
  EXPECT_EQ(*Read(*location), bytes);
  EXPECT_EQ(*Read(*location, 777, 12345), Bytes(bytes.begin() + 777, bytes.begin() + 777 + 12345));
  EXPECT_EQ(CounterOf("payload_device_read_bytes"), bytes.size() + 12345);
}

TEST(AlignedBufferPoolTest, WhoFindsNoRoomIsToldWhenToRetry) {
  AlignedBufferPool pool({.limit_bytes = 8192});
  const AlignedBuffer taken = *pool.Take(8192);
  const Status refused = pool.Take(4096).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryAfter(refused)) << refused;
}

TEST_F(PayloadStoreTest, SpansAreStoredOneAfterTheOtherHoweverTheyLie) {
  constexpr uint64_t kSeed = 5;
  SeededRandom random(kSeed);
  AlignedBufferPool pool({});
  const AlignedBuffer memory = *pool.Take(2 << 20);
  std::ranges::copy(MakeBytes(2 << 20, kSeed), memory.bytes().begin());
  for (int round = 0; round < 40; ++round) {
    std::vector<ByteSpan> spans;
    Bytes expected;
    while (expected.size() < 600'000) {
      const uint64_t grain = random.Below(2) == 0 ? kBlockBytes : 1;
      const uint64_t at = RoundDown(random.Below(1 << 20), grain);
      const ByteSpan span = memory.bytes().subspan(at, RoundUp(random.Below(200'000), grain));
      spans.push_back(span);
      expected.insert(expected.end(), span.begin(), span.end());
    }
    const auto location = store_->Write(spans);
    ASSERT_TRUE(location.ok()) << location.status();
    ASSERT_EQ(*Read(*location), expected) << "round " << round << " of seed " << kSeed;
    store_->Release(*location);
  }
}

/// Runs one request after the other, and counts finished ones.
class CountingEngine final : public IoEngine {
 public:
  std::string_view name() const override { return plain_.name(); }
  void Run(IoStream& stream) override {
    while (IoRequest* const request = stream.Next()) {
      plain_.RunAll({request, 1});
      ++ended_;
      stream.Ended(*request);
    }
  }
  int Sync(int fd) override { return plain_.Sync(fd); }
  size_t ended() const { return ended_; }

 private:
  PlainEngine plain_;
  size_t ended_ = 0;
};

class StreamedPayloadTest : public PayloadFixture {
 protected:
  void SetUp() override {
    store_ = *PayloadStore::Open(options_, &counting_);
    store_->FinishRecovery();
  }
  CountingEngine counting_;
};

TEST_F(StreamedPayloadTest, ASpanIsMadeWhenWhatIsBeforeItIsOnItsWay) {
  constexpr size_t kSpans = 4, kSpanBytes = 128 << 10;
  AlignedBufferPool pool({});
  // A gap after each, so that no two become one write.
  const AlignedBuffer memory = *pool.Take(2 * kSpans * kSpanBytes);
  Bytes expected;
  std::vector<size_t> ended;
  const auto location = store_->Write(kSpans * kSpanBytes, [&]() -> StatusOr<ByteSpan> {
    const auto span = memory.bytes().subspan(2 * ended.size() * kSpanBytes, kSpanBytes);
    ended.push_back(counting_.ended());
    std::ranges::copy(MakeBytes(kSpanBytes, ended.size()), span.begin());
    expected.insert(expected.end(), span.begin(), span.end());
    return span;
  });
  ASSERT_TRUE(location.ok()) << location.status();
  // One span ahead, to see if it continues the one before.
  EXPECT_EQ(ended, (std::vector<size_t>{0, 0, 1, 2}));
  EXPECT_EQ(*Read(*location), expected);
}

TEST_F(StreamedPayloadTest, ASourceThatFailsStoresNothing) {
  const Bytes bytes = MakeBytes(200'000, 1);
  const auto of = [&](Status end) {
    return [&bytes, end, calls = 0]() mutable -> StatusOr<ByteSpan> {
      if (++calls == 1) return ByteSpan(bytes);
      return end.ok() ? StatusOr<ByteSpan>(ByteSpan()) : end;
    };
  };
  const Status damaged = DataLoss("a unit was damaged");
  EXPECT_EQ(store_->Write(2 * bytes.size(), of(damaged)).status(), damaged);
  EXPECT_EQ(store_->Write(2 * bytes.size(), of(OkStatus())).status().code(), StatusCode::kInternal);
  EXPECT_EQ(CounterOf("payload_used_bytes"), 0u);
  EXPECT_EQ(CounterOf("payload_write_bytes"), 0u);
}

TEST_F(StreamedPayloadTest, ARequestIsToldWhenItIsDoneAndOthersAreNot) {
  constexpr size_t kReads = 5, kBytes = 8192;
  const Bytes bytes = MakeBytes(kReads * kBytes, 1);
  const auto location = Write(bytes);
  ASSERT_TRUE(location.ok()) << location.status();
  std::vector<Bytes> read(kReads, Bytes(kBytes));
  std::vector<ReadRequest> requests(kReads);
  for (size_t i = 0; i < kReads; ++i) {
    requests[i].location = &*location;
    requests[i].offset = i * kBytes;
    requests[i].destination = read[i];
  }
  requests[2].offset = bytes.size();  // Past the end.
  const size_t before = counting_.ended();
  std::vector<size_t> told, ended;
  store_->Read(store_->StartReading(), requests, [&](ReadRequest& request) {
    told.push_back(static_cast<size_t>(&request - requests.data()));
    ended.push_back(counting_.ended() - before);
    if (!request.status.ok()) return;
    const auto at = bytes.begin() + static_cast<std::ptrdiff_t>(request.offset);
    EXPECT_TRUE(std::equal(request.destination.begin(), request.destination.end(), at));
  });
  EXPECT_EQ(told, (std::vector<size_t>{0, 1, 2, 3, 4}));
  // A read of 8 KiB is one request, buffered or not.
  EXPECT_EQ(ended, (std::vector<size_t>{1, 2, 2, 3, 4}));
  EXPECT_EQ(requests[2].status.code(), StatusCode::kInvalidArgument);
}

TEST_F(PayloadStoreTest, AnyPartCanBeReadAlone) {
  const Bytes bytes = MakeBytes(2'500'000, 1);
  const auto location = Write(bytes);
  ASSERT_GT(location->runs.size(), 1u) << "larger than a volume";
  SeededRandom random(6);
  for (int i = 0; i < 300; ++i) {
    const uint64_t offset = random.Below(bytes.size());
    const uint64_t size = std::min(random.Below(100'000), bytes.size() - offset);
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(offset);
    ASSERT_EQ(*Read(*location, offset, size),
              Bytes(begin, begin + static_cast<std::ptrdiff_t>(size)));
  }
}

TEST_F(PayloadStoreTest, UnitsOfWholeSectorsAreReadWithoutSurplusOrCopy) {
  if (store_->mode() != "direct") GTEST_SKIP() << "the temporary directory has no direct I/O";
  constexpr uint64_t kUnit = 8704;  // 17 sectors: a 16 KiB unit in int8 with its scales.
  const Bytes bytes = MakeBytes(kUnit * 20, 1);
  const auto location = Write(bytes);
  const AlignedBuffer memory = *store_->buffers().Take(kUnit * 20);
  std::vector<ReadRequest> requests;
  for (uint64_t unit = 0; unit < 20; ++unit) {
    requests.push_back({.location = &*location,
                        .offset = unit * kUnit,
                        .destination = memory.bytes().subspan(unit * kUnit, kUnit),
                        .status = {}});
  }
  const auto guard = store_->StartReading();
  ASSERT_TRUE(store_->Read(guard, requests).ok());
  EXPECT_TRUE(quire::testing::SameBytes(memory.bytes(), bytes));
  const auto volume = VolumeFile::Open(VolumePath(0), 0, DirectIo::kAuto);
  if ((*volume)->alignment().offset > 512) GTEST_SKIP() << "the device has larger sectors";
  EXPECT_EQ(CounterOf("payload_device_read_bytes"), bytes.size());
  EXPECT_EQ(CounterOf("payload_buffered_reads"), 0u);
}

TEST_F(PayloadStoreTest, ABatchLargerThanTheBuffersIsReadInWaves) {
  options_.buffers.limit_bytes = 64 << 10;
  Reopen({});
  const Bytes bytes = MakeBytes(900'000, 1);
  const size_t to_odd = 1 - reinterpret_cast<uintptr_t>(bytes.data()) % 2;
  const ByteSpan misaligned = ByteSpan(bytes).subspan(to_odd);
  const auto location = store_->Write({&misaligned, 1});
  ASSERT_FALSE(location.ok()) << "what is gathered needs a buffer of a MiB";
  EXPECT_EQ(location.status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(CounterOf("payload_used_bytes"), 0u) << "nothing is stored";

  const Bytes small = MakeBytes(50'000, 2);
  const auto written = Write(small);
  ASSERT_TRUE(written.ok()) << written.status();
  Bytes into(small.size());
  std::vector<ReadRequest> requests;
  for (uint64_t at = 0; at < small.size(); at += 100) {
    requests.push_back({.location = &*written,
                        .offset = at,
                        .destination = std::span(into).subspan(at, 100),
                        .status = {}});
  }
  const auto guard = store_->StartReading();
  ASSERT_TRUE(store_->Read(guard, requests).ok());
  EXPECT_EQ(into, small);
}

TEST_F(PayloadStoreTest, EachReadOfABatchHasItsOwnStatus) {
  const Bytes bytes = MakeBytes(50'000, 1);
  const auto location = Write(bytes);
  Location elsewhere = *location;
  elsewhere.runs[0].volume = 9;
  Bytes good(100), past(100), missing(100), also_good(100);
  std::vector<ReadRequest> requests = {
      {.location = &*location, .offset = 5, .destination = good, .status = {}},
      {.location = &*location, .offset = 49'901, .destination = past, .status = {}},
      {.location = &elsewhere, .offset = 0, .destination = missing, .status = {}},
      {.location = &*location, .offset = 49'900, .destination = also_good, .status = {}}};
  const auto guard = store_->StartReading();
  EXPECT_EQ(store_->Read(guard, requests).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(requests[0].status.ok());
  EXPECT_EQ(requests[1].status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(requests[2].status.code(), StatusCode::kDataLoss);
  EXPECT_TRUE(requests[3].status.ok());
  EXPECT_TRUE(std::equal(good.begin(), good.end(), bytes.begin() + 5));
  EXPECT_TRUE(std::equal(also_good.begin(), also_good.end(), bytes.end() - 100));
}

TEST_F(PayloadStoreTest, ReleasedSpaceIsUsedAgain) {
  options_.volumes.limit_bytes = kVolumeBytes;
  Reopen({});
  const Bytes bytes = MakeBytes(600'000, 1);
  for (int i = 0; i < 50; ++i) {
    const auto location = Write(bytes);
    ASSERT_TRUE(location.ok()) << location.status();
    EXPECT_EQ(Write(bytes).status().code(), StatusCode::kResourceExhausted);
    store_->Release(*location);
  }
  EXPECT_EQ(CounterOf("payload_used_bytes"), 0u);
  EXPECT_EQ(CounterOf("payload_allocation_failures"), 50u);
  EXPECT_EQ(CounterOf("payload_volume_bytes"), kVolumeBytes);
}

TEST_F(PayloadStoreTest, SpaceIsNotUsedAgainWhileAGuardFromBeforeTheReleaseLives) {
  options_.volumes.limit_bytes = kVolumeBytes;
  Reopen({});
  const Bytes bytes = MakeBytes(600'000, 1);
  const auto location = Write(bytes);
  {
    const auto guard = store_->StartReading();
    store_->Release(*location);
    EXPECT_EQ(Write(bytes).status().code(), StatusCode::kResourceExhausted);
    EXPECT_GT(CounterOf("payload_waiting_bytes"), 0u);
    EXPECT_EQ(*Read(*location), bytes);
  }
  EXPECT_TRUE(Write(bytes).ok());
}

TEST_F(PayloadStoreTest, AWrongReleaseFreesNothing) {
  const auto kept = Write(MakeBytes(10'000, 1));
  const auto released = Write(MakeBytes(10'000, 2));
  store_->Release(*released);
  store_->Release(*released);
  Location invented = *kept;
  invented.runs[0].length = UINT64_MAX - kBlockBytes + 1;
  store_->Release(invented);
  EXPECT_EQ(CounterOf("payload_wrong_releases"), 2u);
  EXPECT_EQ(CounterOf("payload_used_bytes"), RoundUp(10'000, kBlockBytes));
}

TEST_F(PayloadStoreTest, WhatTheMetadataNamesSurvivesAReopenAndTheRestIsFree) {
  const Bytes kept = MakeBytes(1'500'000, 1), forgotten = MakeBytes(300'000, 2);
  const auto dropped = Write(forgotten);
  const auto location = Write(kept);
  ASSERT_TRUE(dropped.ok() && store_->Sync().ok());
  Reopen({*location});
  EXPECT_EQ(CounterOf("payload_used_bytes"), TotalBytes(location->runs));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(Write(forgotten).ok());
  EXPECT_EQ(*Read(*location), kept);
}

TEST_F(PayloadStoreTest, MetadataThatCannotBeIsRefusedAndMarksNothing) {
  const auto location = Write(MakeBytes(100'000, 1));
  OpenOnly();
  ASSERT_TRUE(store_->Recover(*location).ok());
  const uint64_t used = CounterOf("payload_used_bytes");
  Location overlapping = *location, past_end = *location, ragged = *location, short_of = *location;
  past_end.runs[0].offset = kVolumeBytes - kBlockBytes;
  ragged.runs[0].offset += 1;
  short_of.runs[0].length -= kBlockBytes;
  Location huge = *location;
  huge.runs.push_back({0, 0, UINT64_MAX});
  const Location nothing;
  for (const Location& bad : {overlapping, past_end, ragged, short_of, huge, nothing}) {
    EXPECT_EQ(store_->Recover(bad).status().code(), StatusCode::kDataLoss);
    EXPECT_EQ(CounterOf("payload_used_bytes"), used);
  }
}

TEST_F(PayloadStoreTest, BadWritesAreRefused) {
  EXPECT_EQ(store_->Write({}).status().code(), StatusCode::kInvalidArgument);
  const std::vector<ByteSpan> empty(3);
  EXPECT_EQ(store_->Write(empty).status().code(), StatusCode::kInvalidArgument);
  const Bytes large(SpaceMap::kMaxRuns * kVolumeBytes);
  EXPECT_EQ(Write(large).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(CounterOf("payload_volume_bytes"), 0u) << "no volume was made for it";
  OpenOnly();
  EXPECT_EQ(Write(MakeBytes(1, 1)).status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(PayloadStoreTest, TheLostPartOfACutVolumeIsDataLossAndTheRestIsRead) {
  const Bytes bytes = MakeBytes(400'000, 1);
  const auto location = Write(bytes);
  ASSERT_TRUE(store_->Sync().ok());
  const uint64_t cut = location->runs[0].offset + 200'000;
  std::filesystem::resize_file(VolumePath(0), cut);
  for (const bool reopened : {false, true}) {
    if (reopened) {
      OpenOnly();
      const auto lost = store_->Recover(*location);
      ASSERT_TRUE(lost.ok()) << lost.status();
      EXPECT_GE(*lost, 200'000u);
      EXPECT_LT(*lost, 200'000u + kBlockBytes);
      store_->FinishRecovery();
    }
    const Status status = Read(*location, 300'000, 1000).status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_TRUE(Mentions(status, VolumePath(0))) << status;
    EXPECT_EQ(Read(*location).status().code(), StatusCode::kDataLoss);
    EXPECT_EQ(*Read(*location, 0, 190'000), Bytes(bytes.begin(), bytes.begin() + 190'000));
  }
  store_->Release(*location);
  EXPECT_EQ(CounterOf("payload_used_bytes"), 0u);
  EXPECT_EQ(CounterOf("payload_wrong_releases"), 0u);
  const auto other = Write(bytes);
  EXPECT_EQ(*Read(*other), bytes) << "no space is given out that the file does not have";
}

TEST_F(PayloadStoreTest, AMissingVolumeIsDataLossAndItsNumberIsNotUsedAgain) {
  const auto location = Write(MakeBytes(100'000, 1));
  store_.reset();
  std::filesystem::remove(VolumePath(0));
  OpenOnly();
  EXPECT_EQ(*store_->Recover(*location), 100'000u);
  store_->FinishRecovery();
  const Bytes other = MakeBytes(100'000, 2);
  const auto written = Write(other);
  EXPECT_EQ(written->runs[0].volume, 1u);
  EXPECT_EQ(Read(*location).status().code(), StatusCode::kDataLoss);
  store_->Release(*location);
  EXPECT_EQ(*Read(*written), other);
}

TEST_F(PayloadStoreTest, ADeviceErrorNamesFileAndPlaceAndHurtsOnlyItsOwnRead) {
  const auto location = Write(MakeBytes(100'000, 1));
  engine_.Inject(IoRequest::Kind::kRead, IoFault::kIoError);
  const Status status = Read(*location).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Mentions(status, VolumePath(0)) && Mentions(status, "offset 4096")) << status;
  EXPECT_TRUE(Read(*location).ok());
  EXPECT_EQ(CounterOf("payload_device_errors"), 1u);
}

TEST_F(PayloadStoreTest, AWriteThatFailsStoresNothing) {
  const Bytes bytes = MakeBytes(2'500'000, 1);
  const std::pair<IoFault, StatusCode> cases[] = {
      {IoFault::kIoError, StatusCode::kUnavailable},
      {IoFault::kNoSpace, StatusCode::kResourceExhausted},
      {IoFault::kShortWrite, StatusCode::kResourceExhausted}};
  for (const auto& [fault, code] : cases) {
    engine_.Inject(IoRequest::Kind::kWrite, fault, /*skip=*/1);
    const Status status = Write(bytes).status();
    EXPECT_EQ(status.code(), code);
    EXPECT_TRUE(Mentions(status, options_.volumes.directory)) << status;
    EXPECT_EQ(CounterOf("payload_used_bytes"), 0u);
  }
  EXPECT_TRUE(Write(bytes).ok());
}

TEST_F(PayloadStoreTest, OnlyVolumesThatWereWrittenAreSynced) {
  const auto location = Write(MakeBytes(2'500'000, 1));
  ASSERT_TRUE(store_->Sync().ok());
  EXPECT_EQ(CounterOf("payload_device_syncs"), 3u);
  ASSERT_TRUE(store_->Sync().ok());
  EXPECT_EQ(CounterOf("payload_device_syncs"), 3u);
  ASSERT_TRUE(Write(MakeBytes(1, 2)).ok() && store_->Sync().ok());
  EXPECT_EQ(CounterOf("payload_device_syncs"), 4u);
}

TEST_F(PayloadStoreTest, AfterAFailedSyncNothingIsWrittenButReadsGoOn) {
  const Bytes bytes = MakeBytes(10'000, 1);
  const auto location = Write(bytes);
  engine_.FailNextSync(EIO);
  EXPECT_EQ(store_->Sync().code(), StatusCode::kUnavailable);
  EXPECT_EQ(store_->Sync().code(), StatusCode::kUnavailable);
  const Status status = Write(bytes).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Mentions(status, VolumePath(0))) << status;
  EXPECT_EQ(*Read(*location), bytes);
  Reopen({});
  EXPECT_TRUE(Write(bytes).ok() && store_->Sync().ok());
}

// Promise 3: nothing acknowledged as persisted is in a file that ends with the process.
TEST_F(PayloadStoreTest, Promise3AVolumeThatIsTakenAwayIsNoticedByTheNextSync) {
  const std::pair<const char*, std::function<void()>> ways[] = {
      {"removed", [this] { std::filesystem::remove(VolumePath(0)); }},
      {"removed", [this] { std::filesystem::rename(VolumePath(0), VolumePath(0) + ".old"); }},
      {"replaced",
       [this] {
         std::filesystem::copy(VolumePath(0), VolumePath(0) + ".copy");
         std::filesystem::rename(VolumePath(0) + ".copy", VolumePath(0));
       }},
      {"cut", [this] { std::filesystem::resize_file(VolumePath(0), kVolumeBytes / 2); }},
  };
  for (const auto& [what, take_away] : ways) {
    SCOPED_TRACE(what);
    const auto first = Write(MakeBytes(10'000, 1));
    ASSERT_TRUE(first.ok()) << first.status();
    ASSERT_TRUE(store_->Sync().ok());
    take_away();
    const Status noticed = store_->Sync();
    EXPECT_EQ(noticed.code(), StatusCode::kUnavailable) << noticed;
    EXPECT_TRUE(Mentions(noticed, VolumePath(0) + " was " + what)) << noticed;
    EXPECT_FALSE(Write(MakeBytes(10'000, 2)).ok()) << "nothing more is written to it";
    EXPECT_EQ(*Read(*first), MakeBytes(10'000, 1)) << "reads go on";
    store_.reset();
    std::filesystem::remove_all(options_.volumes.directory);
    Reopen({});
  }
}

}  // namespace
}  // namespace quire::kvserver::testing
