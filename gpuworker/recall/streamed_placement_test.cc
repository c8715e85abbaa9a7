// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/recall/streamed_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "common/base/memory/checksum.h"
#include "common/base/memory/payload_cutter.h"
#include "common/base/random.h"
#include "common/base/threads/mutex.h"
#include "gpuworker/testing/fake_cuda_device.h"
#include "quire/layout.h"
#include "tests/kit/fake_lease.h"
#include "tests/kit/manual_executor.h"

namespace quire::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kSlots = 6;
constexpr uint32_t kKvHeads = 3;
constexpr uint32_t kUnits = kSlots * kKvHeads;
constexpr CacheLayout kLayout = {.window_pages = 2, .selectable_pages = kSlots};

KvSpec TestSpec(DType dtype) {
  KvSpec spec;
  spec.model = "test";
  spec.dtype = dtype;
  spec.num_layers = 1;
  spec.num_query_heads = 6;
  spec.num_kv_heads = kKvHeads;
  spec.head_dim = 8;
  spec.page_tokens = 4;
  spec.segment_pages = 2;
  return spec;
}

std::unique_ptr<BudgetCache> MakeCache(const KvSpec& spec, Device& device = CpuDevice()) {
  auto cache = *BudgetCache::Create(spec, &device, std::vector{kLayout});
  EXPECT_EQ(cache->StartAt(40), OkStatus());
  return cache;
}

/// Every slot of every head, filled with random values; `cut` bytes make a slice.
ArrivedUnits RandomUnits(const KvSpec& spec, uint64_t cut) {
  SeededRandom random(7);
  const uint64_t unit_bytes = UnitBytes(spec);
  auto bytes = std::make_shared<std::vector<std::byte>>(kUnits * unit_bytes);
  for (uint64_t i = 0; i < bytes->size() / ElementBytes(spec.dtype); ++i) {
    StoreElement(bytes->data(), static_cast<int64_t>(i), spec.dtype,
                 static_cast<float>(random.Normal()));
  }
  ArrivedUnits arrived;
  for (uint32_t unit = 0; unit < kUnits; ++unit) {
    arrived.placements.push_back({.head = unit / kSlots,
                                  .index = (unit * 5) % kSlots,
                                  .generation = 1,
                                  .page = unit % kSlots});
    arrived.checksums.push_back(Crc32c(std::span(*bytes).subspan(unit * unit_bytes, unit_bytes)));
  }
  const std::span<const std::byte> all(*bytes);
  for (uint64_t at = 0; at < all.size(); at += cut) {
    arrived.units.Append(Slice{all.subspan(at, std::min<uint64_t>(cut, all.size() - at)), bytes});
  }
  return arrived;
}

/// Attention over everything selected: it depends on every byte of every slot.
std::vector<float> AttendAll(BudgetCache& cache, Device& device = CpuDevice()) {
  std::vector<uint32_t> pages(kSlots);
  std::iota(pages.begin(), pages.end(), 0u);
  for (uint32_t head = 0; head < kKvHeads; ++head) {
    EXPECT_EQ(cache.table(0).Activate(head, pages), OkStatus());
  }
  const size_t floats = size_t{cache.spec().num_query_heads} * cache.spec().head_dim;
  SeededRandom random(8);
  std::vector<float> values(floats);
  for (float& value : values) value = static_cast<float>(random.Normal());
  const DeviceBuffer q = *device.Allocate(floats * sizeof(float));
  const DeviceBuffer out = *device.Allocate(floats * sizeof(float));
  EXPECT_EQ(device.CopyToDevice(q.data(), values.data(), q.size_bytes()), OkStatus());
  EXPECT_EQ(cache.Attend(0, q.as<float>(), out.as<float>()), OkStatus());
  EXPECT_EQ(device.CopyToHost(values.data(), out.data(), out.size_bytes()), OkStatus());
  return values;
}

class StreamedPlacementTest : public ::testing::TestWithParam<DType> {
 protected:
  std::vector<float> Unstreamed() {
    const auto cache = MakeCache(spec_);
    const ArrivedUnits arrived = RandomUnits(spec_, UnitBytes(spec_));
    EXPECT_EQ(cache->PlaceUnits(0, arrived.placements, arrived.units), OkStatus());
    return AttendAll(*cache);
  }
  const KvSpec spec_ = TestSpec(GetParam());
};

/// `units`, `bytes` at a time.
std::vector<Payload> Pieces(const Payload& units, uint64_t bytes) {
  std::vector<Payload> pieces;
  PayloadCutter cutter(units);
  for (uint64_t left = units.size_bytes(); left > 0; left -= pieces.back().size_bytes()) {
    pieces.push_back(cutter.Cut(std::min(left, bytes)));
  }
  return pieces;
}

TEST_P(StreamedPlacementTest, UnitsMayComeAFewAtATime) {
  const std::vector<float> expected = Unstreamed();
  ThreadPool pool({.threads = 1});
  for (const uint32_t units_per_buffer : {0u, 1u, 5u, 1000u}) {
    for (const uint64_t piece_units : {1, 4, 17}) {
      for (Executor* executor : {static_cast<Executor*>(nullptr), static_cast<Executor*>(&pool)}) {
        const auto cache = MakeCache(spec_);
        ArrivedUnits arrived = RandomUnits(spec_, UnitBytes(spec_));
        const std::vector<Payload> pieces =
            Pieces(std::exchange(arrived.units, {}), piece_units * UnitBytes(spec_));
        arrived.units = pieces[0];
        auto placing = StreamedPlacement::Start(
            {.cache = cache.get(), .executor = executor, .options = {units_per_buffer, 2}},
            std::move(arrived));
        ASSERT_TRUE(placing.ok()) << placing.status();
        for (size_t i = 1; i < pieces.size(); ++i)
          ASSERT_EQ((*placing)->Add(pieces[i]), OkStatus());
        ASSERT_EQ((*placing)->Finish(), OkStatus());
        EXPECT_EQ(AttendAll(*cache), expected);
      }
    }
  }
}

TEST_P(StreamedPlacementTest, ABufferIsTakenInWhileTheNextIsOnItsWay) {
  const auto cache = MakeCache(spec_);
  ArrivedUnits arrived = RandomUnits(spec_, UnitBytes(spec_));
  const std::vector<Payload> pieces =
      Pieces(std::exchange(arrived.units, {}), kSlots * UnitBytes(spec_));
  arrived.units = pieces[0];
  quire::testing::ManualExecutor beside;
  size_t verified = 0;
  auto placing = StreamedPlacement::Start(
      {.cache = cache.get(),
       .executor = &beside,
       .on_verified = [&](size_t, const Payload& units) { verified += units.size_bytes(); }},
      std::move(arrived));
  ASSERT_TRUE(placing.ok()) << placing.status();
  while (beside.RunOne()) {
  }
  EXPECT_EQ(verified, kSlots * UnitBytes(spec_));
  for (size_t i = 1; i < pieces.size(); ++i) ASSERT_EQ((*placing)->Add(pieces[i]), OkStatus());
  ASSERT_EQ((*placing)->Finish(), OkStatus());
}

TEST_P(StreamedPlacementTest, UnitsThatNeverComeOrAreTooManyLeaveNothing) {
  const auto cache = MakeCache(spec_);
  ArrivedUnits arrived = RandomUnits(spec_, UnitBytes(spec_));
  const std::vector<Payload> pieces =
      Pieces(std::exchange(arrived.units, {}), (kUnits - 1) * UnitBytes(spec_));
  arrived.units = pieces[0];
  {
    auto placing = StreamedPlacement::Start({.cache = cache.get()}, arrived);
    ASSERT_TRUE(placing.ok()) << placing.status();
    EXPECT_EQ((*placing)->Finish().code(), StatusCode::kDataLoss);
    EXPECT_FALSE(cache->table(0).IsResident(0, 0));
  }
  auto placing = StreamedPlacement::Start({.cache = cache.get()}, arrived);
  ASSERT_TRUE(placing.ok()) << placing.status();
  ASSERT_EQ((*placing)->Add(pieces[1]), OkStatus());
  EXPECT_EQ((*placing)->Add(pieces[1]).code(), StatusCode::kDataLoss);
}

TEST_P(StreamedPlacementTest, GivesTheBytesThatPlacingEverythingAtOnceGives) {
  const std::vector<float> expected = Unstreamed();
  ThreadPool pool({.threads = 1});
  for (const RecallLayout layout : {RecallLayout::kUnits, RecallLayout::kRows}) {
    for (const uint32_t units_per_buffer : {0u, 1u, 5u, 1000u}) {
      for (const uint32_t buffers : {1u, 2u}) {
        for (const uint64_t cut : {UnitBytes(spec_), UnitBytes(spec_) * 4, UnitBytes(spec_) - 8}) {
          for (Executor* executor :
               {static_cast<Executor*>(nullptr), static_cast<Executor*>(&pool)}) {
            const auto cache = MakeCache(spec_);
            auto placing =
                StreamedPlacement::Start({.cache = cache.get(),
                                          .executor = executor,
                                          .options = {units_per_buffer, buffers, layout}},
                                         RandomUnits(spec_, cut));
            ASSERT_TRUE(placing.ok()) << placing.status();
            ASSERT_EQ((*placing)->Finish(), OkStatus());
            EXPECT_EQ(AttendAll(*cache), expected);
          }
        }
      }
    }
  }
}

TEST_P(StreamedPlacementTest, TheExecutorWorksWhileNobodyFinishes) {
  quire::testing::ManualExecutor beside;
  const auto cache = MakeCache(spec_);
  std::set<size_t> seen;
  auto placing = StreamedPlacement::Start(
      {.cache = cache.get(),
       .executor = &beside,
       .options = {.units_per_buffer = 4},
       .on_verified = [&](size_t first, const Payload&) { seen.insert(first); }},
      RandomUnits(spec_, UnitBytes(spec_)));
  ASSERT_TRUE(placing.ok()) << placing.status();
  EXPECT_THAT(seen, IsEmpty());
  EXPECT_TRUE(beside.RunOne());
  EXPECT_THAT(seen, ::testing::ElementsAre(0, 4, 8, 12, 16));
  EXPECT_FALSE(cache->table(0).IsResident(0, 0));  // The table hears of it when it is finished.
  EXPECT_EQ((*placing)->Finish(), OkStatus());
  EXPECT_EQ(seen.size(), 5u);
  EXPECT_EQ(AttendAll(*cache), Unstreamed());
}

TEST_P(StreamedPlacementTest, AnErrorInALateUnitLeavesNothingActive) {
  for (const uint32_t buffers : {1u, 2u}) {
    const auto cache = MakeCache(spec_);
    Payload one;
    one.Append(RandomUnits(spec_, UnitBytes(spec_)).units.slices().front());
    ASSERT_EQ(cache->PlaceUnits(0, std::vector<SlotPlacement>{{.generation = 1, .page = 7}}, one),
              OkStatus());
    ASSERT_EQ(cache->table(0).Activate(0, std::vector<uint32_t>{7}), OkStatus());
    ArrivedUnits arrived = RandomUnits(spec_, UnitBytes(spec_));
    for (SlotPlacement& placement : arrived.placements) placement.generation = 2;
    arrived.placements[0].replaced = 7;
    arrived.checksums.back() ^= 1;
    ThreadPool pool({.threads = 1});
    auto placing =
        StreamedPlacement::Start({.cache = cache.get(),
                                  .executor = &pool,
                                  .options = {.units_per_buffer = 2, .buffers = buffers}},
                                 std::move(arrived));
    ASSERT_TRUE(placing.ok()) << placing.status();
    const Status status = (*placing)->Finish();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("page 5 of KV head 2"));
    for (uint32_t head = 0; head < kKvHeads; ++head) {
      EXPECT_THAT(cache->table(0).ActivePages(head), IsEmpty());
      for (uint32_t page = 0; page < 8; ++page) {
        EXPECT_FALSE(cache->table(0).IsResident(head, page));
      }
    }
  }
}

TEST_P(StreamedPlacementTest, AllDamagedUnitsAreToldAtOnce) {
  ThreadPool pool({.threads = 1});
  for (Executor* const executor :
       {static_cast<Executor*>(nullptr), static_cast<Executor*>(&pool)}) {
    const auto cache = MakeCache(spec_);
    ArrivedUnits arrived = RandomUnits(spec_, UnitBytes(spec_));
    const std::set<size_t> damaged = {0, 1, 5, kUnits - 1};
    for (const size_t unit : damaged) arrived.checksums[unit] ^= 1;
    auto placing = StreamedPlacement::Start(
        {.cache = cache.get(), .executor = executor, .options = {.units_per_buffer = 2}},
        std::move(arrived));
    ASSERT_TRUE(placing.ok()) << placing.status();
    EXPECT_EQ((*placing)->Finish().code(), StatusCode::kDataLoss);
    std::set<size_t> told;
    for (const auto& mismatch : (*placing)->mismatches()) told.insert(mismatch.placement);
    EXPECT_EQ(told, damaged);
  }
}

TEST_P(StreamedPlacementTest, UnitsWhoseLeaseRanOutWhileTheyWerePlacedLeaveNothingActive) {
  for (const bool lasts : {true, false}) {
    SCOPED_TRACE(lasts);
    const auto cache = MakeCache(spec_);
    ArrivedUnits arrived = RandomUnits(spec_, UnitBytes(spec_));
    const auto lease = std::make_shared<quire::testing::FakeLease>();
    arrived.units.AddLease(lease);
    if (!lasts) lease->EndAfter(1);  // The first buffer is in its slots by then, and no other.
    auto placing = StreamedPlacement::Start({.cache = cache.get()}, std::move(arrived));
    ASSERT_TRUE(placing.ok()) << placing.status();
    const Status placed = (*placing)->Finish();
    EXPECT_EQ(cache->table(0).IsResident(0, 0), lasts);
    if (lasts) {
      EXPECT_EQ(placed, OkStatus());
      continue;
    }
    EXPECT_EQ(placed.code(), StatusCode::kDataLoss);
    EXPECT_THAT(std::string(placed.message()), HasSubstr("lease ran out"));
    EXPECT_THAT((*placing)->mismatches(), IsEmpty()) << "the server's copy is not to blame";
  }
}

TEST_P(StreamedPlacementTest, WhatIsGivenUpLeavesNothingActive) {
  quire::testing::ManualExecutor beside;
  const auto cache = MakeCache(spec_);
  {
    auto placing = StreamedPlacement::Start({.cache = cache.get(), .executor = &beside},
                                            RandomUnits(spec_, UnitBytes(spec_)));
    ASSERT_TRUE(placing.ok()) << placing.status();
  }
  EXPECT_TRUE(beside.RunOne());  // Its task finds nothing to do.
  EXPECT_FALSE(cache->table(0).IsResident(0, 0));
}

TEST_P(StreamedPlacementTest, NothingIsWrittenForUnitsThatDoNotFit) {
  const auto cache = MakeCache(spec_);
  ArrivedUnits few = RandomUnits(spec_, UnitBytes(spec_));
  few.placements.pop_back();
  EXPECT_EQ(StreamedPlacement::Start({.cache = cache.get()}, std::move(few)).status().code(),
            StatusCode::kDataLoss);
  ArrivedUnits stale = RandomUnits(spec_, UnitBytes(spec_));
  stale.placements[3].generation = 0;
  EXPECT_EQ(StreamedPlacement::Start({.cache = cache.get()}, std::move(stale)).status().code(),
            StatusCode::kFailedPrecondition);
  ArrivedUnits outside = RandomUnits(spec_, UnitBytes(spec_));
  outside.placements[3].index = kSlots;
  EXPECT_EQ(StreamedPlacement::Start({.cache = cache.get()}, std::move(outside)).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_P(StreamedPlacementTest, UnitsAreRewrittenBeforeTheyGoIntoTheirSlots) {
  const auto cache = MakeCache(spec_);
  auto placing = StreamedPlacement::Start(
      {.cache = cache.get(),
       .rewrite = [](const SlotPlacement&,
                     std::span<std::byte> unit) { std::memset(unit.data(), 0, unit.size()); }},
      RandomUnits(spec_, UnitBytes(spec_)));
  ASSERT_TRUE(placing.ok()) << placing.status();
  ASSERT_EQ((*placing)->Finish(), OkStatus());
  EXPECT_THAT(AttendAll(*cache), ::testing::Each(0.0f));
}

TEST_P(StreamedPlacementTest, ValuesAreJoinedByTheKeysOfWhoRewrites) {
  const uint64_t unit_bytes = UnitBytes(spec_), half = unit_bytes / 2;
  const ArrivedUnits whole = RandomUnits(spec_, unit_bytes);
  for (const uint32_t units_per_buffer : {0u, 1u, 5u}) {
    for (const bool one_slice : {false, true}) {
      ArrivedUnits values{.placements = whole.placements, .checksums = {}, .units = {}};
      std::map<std::pair<uint32_t, uint32_t>, std::span<const std::byte>> keys;
      for (size_t i = 0; i < kUnits; ++i) {
        const Slice& unit = whole.units.slices()[i];
        keys[{values.placements[i].head, values.placements[i].page}] = unit.bytes.first(half);
        values.checksums.push_back(Crc32c(unit.bytes.last(half)));
        values.units.Append(Slice{unit.bytes.last(half), unit.owner});
      }
      if (one_slice) {
        const Slice flat = values.units.Flatten();
        values.units = {};
        values.units.Append(flat);
      }
      const auto cache = MakeCache(spec_);
      auto placing = StreamedPlacement::Start(
          {.cache = cache.get(),
           .options = {.units_per_buffer = units_per_buffer, .part = UnitPart::kValues},
           .rewrite =
               [&](const SlotPlacement& at, std::span<std::byte> unit) {
                 ASSERT_EQ(unit.size(), unit_bytes);
                 EXPECT_TRUE(std::ranges::all_of(
                     unit.first(half), [](std::byte byte) { return byte == std::byte{0}; }));
                 std::ranges::copy(keys.at({at.head, at.page}), unit.begin());
               }},
          std::move(values));
      ASSERT_TRUE(placing.ok()) << placing.status();
      ASSERT_EQ((*placing)->Finish(), OkStatus());
      EXPECT_EQ(AttendAll(*cache), Unstreamed());
    }
  }
}

TEST_P(StreamedPlacementTest, FinishDoesNotWaitForTheDevice) {
  using testing::FakeCudaStream;
  const testing::LateStreams late(
      {FakeCudaStream::kCompute, FakeCudaStream::kCopy, FakeCudaStream::kConvert});
  const auto cache = MakeCache(spec_, testing::FakeCudaDevice());
  const int64_t before = testing::FakeCudaHostWaits();
  {
    // Two for each head, of which two can be on their way.
    auto placing = StreamedPlacement::Start({.cache = cache.get(), .options = {kSlots / 2, 2}},
                                            RandomUnits(spec_, UnitBytes(spec_) - 8));
    ASSERT_TRUE(placing.ok()) << placing.status();
    ASSERT_EQ((*placing)->Finish(), OkStatus());
  }  // And its bytes are gone.
  EXPECT_EQ(testing::FakeCudaHostWaits(), before + 2 * kKvHeads - 2);
  EXPECT_EQ(AttendAll(*cache, testing::FakeCudaDevice()), Unstreamed());
}

TEST_P(StreamedPlacementTest, AnErrorAfterUnitsAreOnTheirWayLeavesNothingActive) {
  using testing::FakeCudaStream;
  const testing::LateStreams late({FakeCudaStream::kCopy, FakeCudaStream::kConvert});
  const auto cache = MakeCache(spec_, testing::FakeCudaDevice());
  ArrivedUnits damaged = RandomUnits(spec_, UnitBytes(spec_));
  damaged.checksums.back() ^= 1;
  auto failing = StreamedPlacement::Start({.cache = cache.get()}, std::move(damaged));
  ASSERT_TRUE(failing.ok()) << failing.status();
  EXPECT_EQ((*failing)->Finish().code(), StatusCode::kDataLoss);
  EXPECT_FALSE(cache->table(0).IsResident(0, 0));
  auto again =
      StreamedPlacement::Start({.cache = cache.get()}, RandomUnits(spec_, UnitBytes(spec_)));
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_EQ((*again)->Finish(), OkStatus());
  EXPECT_EQ(AttendAll(*cache, testing::FakeCudaDevice()), Unstreamed());
}

TEST_P(StreamedPlacementTest, ValuesWithoutKeysAreRefused) {
  const auto cache = MakeCache(spec_);
  const auto placing = StreamedPlacement::Start(
      {.cache = cache.get(), .options = {.part = UnitPart::kValues}}, RandomUnits(spec_, 64));
  EXPECT_EQ(placing.status().code(), StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(DTypes, StreamedPlacementTest,
                         ::testing::Values(DType::kF32, DType::kF16, DType::kBF16));

}  // namespace
}  // namespace quire::worker
