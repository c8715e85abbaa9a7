// SPDX-License-Identifier: Apache-2.0
//
// Units in flight to their slots on a device whose streams are as late as the test wants. For each
// wait of docs/design/0024 a test delays a stream. Without the wait, other bytes come out.
#include "gpuworker/cache/staging_buffers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "gpuworker/cache/budget_cache.h"
#include "gpuworker/testing/fake_cuda_device.h"
#include "kernels/cpu/cpu_kernels.h"
#include "quire/layout.h"

namespace quire::worker {
namespace {

using ::testing::ElementsAre;
using testing::FakeCudaDevice;
using testing::FakeCudaHostWaits;
using testing::FakeCudaLibrary;
using testing::FakeCudaStream;
using ::testing::HasSubstr;
using testing::LateStreams;

constexpr uint32_t kLayers = 2;
constexpr uint32_t kKvHeads = 2;
constexpr uint32_t kSlots = 3;  // A buffer is as large: a round takes both.
constexpr uint32_t kRounds = 5;
constexpr uint32_t kTokensOfPage = 4;
const std::vector<FakeCudaStream> kAll = {FakeCudaStream::kCompute, FakeCudaStream::kCopy,
                                          FakeCudaStream::kConvert};

KvSpec TestSpec() {
  KvSpec spec;
  spec.model = "test";
  spec.dtype = DType::kF32;
  spec.num_layers = kLayers;
  spec.num_query_heads = 4;
  spec.num_kv_heads = kKvHeads;
  spec.head_dim = 8;
  spec.page_tokens = kTokensOfPage;
  spec.segment_pages = 2;
  return spec;
}

std::vector<float> RandomFloats(size_t count, uint64_t seed) {
  SeededRandom random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.Normal());
  return values;
}

/// A cache whose selectable slots are all filled anew in each round, with other pages.
class Rounds {
 public:
  explicit Rounds(Device& device, uint32_t buffers = 2)
      : device_(device), q_(RandomFloats(QueryFloats(), 1)) {
    const std::vector<CacheLayout> layouts(kLayers,
                                           {.window_pages = 2, .selectable_pages = kSlots});
    auto cache = BudgetCache::Create(spec_, &device, layouts, buffers);
    EXPECT_TRUE(cache.ok()) << cache.status();
    cache_ = *std::move(cache);
    EXPECT_EQ(cache_->StartAt(uint64_t{kRounds * kSlots + 2} * kTokensOfPage), OkStatus());
    device_q_ = *device.Allocate(q_.size() * sizeof(float));
    EXPECT_EQ(device.CopyToDevice(device_q_.data(), q_.data(), device_q_.size_bytes()), OkStatus());
  }

  Status Place(uint32_t layer, uint32_t round) {
    QUIRE_RETURN_IF_ERROR(Write(layer, round));
    return Record(layer, round);
  }
  /// Different layers may be written on different threads, unless a recording is open.
  Status Write(uint32_t layer, uint32_t round) {
    const std::vector<SlotPlacement> placements = Placements(round);
    QUIRE_RETURN_IF_ERROR(cache_->CheckPlacements(layer, placements));
    const Payload units = Units(layer, round);
    return cache_->WriteUnits(layer, placements, units);
  }  // Their bytes are gone.
  Status Record(uint32_t layer, uint32_t round) {
    QUIRE_RETURN_IF_ERROR(cache_->RecordPlacements(layer, Placements(round)));
    for (uint32_t head = 0; head < kKvHeads; ++head) {
      QUIRE_RETURN_IF_ERROR(cache_->table(layer).Activate(head, Pages(round)));
    }
    return OkStatus();
  }
  /// Gives the device attention over what is placed.
  DeviceBuffer Attend(uint32_t layer) {
    DeviceBuffer out = *device_.Allocate(q_.size() * sizeof(float));
    EXPECT_EQ(cache_->Attend(layer, device_q_.as<float>(), out.as<float>()), OkStatus());
    return out;
  }
  std::vector<float> Read(const DeviceBuffer& out) {
    std::vector<float> values(q_.size());
    EXPECT_EQ(device_.CopyToHost(values.data(), out.data(), out.size_bytes()), OkStatus());
    return values;
  }
  BudgetCache& cache() { return *cache_; }

  static std::vector<SlotPlacement> Placements(uint32_t round) {
    std::vector<SlotPlacement> placements;
    for (uint32_t head = 0; head < kKvHeads; ++head) {
      for (uint32_t index = 0; index < kSlots; ++index) {
        const uint32_t page = round * kSlots + index;
        placements.push_back({.head = head,
                              .index = index,
                              .generation = round + 1,
                              .page = page,
                              .replaced = round == 0 ? -1 : static_cast<int32_t>(page - kSlots)});
      }
    }
    return placements;
  }
  Payload Units(uint32_t layer, uint32_t round) const {
    const size_t bytes = kKvHeads * kSlots * UnitBytes(spec_);
    const std::vector<float> values = RandomFloats(bytes / sizeof(float), 10 * round + layer + 2);
    const auto units = std::as_bytes(std::span(values));
    Payload payload;
    payload.Append(std::vector<std::byte>(units.begin(), units.end()));
    return payload;
  }

 private:
  static std::vector<uint32_t> Pages(uint32_t round) {
    std::vector<uint32_t> pages;
    for (uint32_t i = 0; i < kSlots; ++i) pages.push_back(round * kSlots + i);
    return pages;
  }
  size_t QueryFloats() const { return size_t{spec_.num_query_heads} * spec_.head_dim; }

  const KvSpec spec_ = TestSpec();
  Device& device_;
  std::unique_ptr<BudgetCache> cache_;
  const std::vector<float> q_;
  DeviceBuffer device_q_;
};

/// `units` in `codec`, and what they decode to.
std::pair<Payload, Payload> Encode(const Payload& units, UnitCodec codec) {
  const KvSpec spec = TestSpec();
  std::vector<std::byte> raw(units.size_bytes());
  units.CopyTo(raw.data());
  const size_t count = raw.size() / UnitBytes(spec);
  std::vector<std::byte> encoded(count * UnitBytes(spec, codec));
  EXPECT_EQ(kernels::CpuKernels().encode_unit({.units = raw.data(),
                                               .encoded = encoded.data(),
                                               .encoded_bytes = std::ssize(encoded),
                                               .n_units = static_cast<int64_t>(count),
                                               .shape = ShapeOf(spec),
                                               .codec = codec}),
            kernels::OpStatus::kOk);
  EXPECT_EQ(kernels::CpuKernels().decode_unit({.encoded = encoded.data(),
                                               .encoded_bytes = std::ssize(encoded),
                                               .units = raw.data(),
                                               .n_units = static_cast<int64_t>(count),
                                               .shape = ShapeOf(spec),
                                               .codec = codec}),
            kernels::OpStatus::kOk);
  Payload first, second;
  first.Append(std::move(encoded));
  second.Append(std::move(raw));
  return {first, second};
}

/// Attention after each round where everything happens at once.
std::vector<std::vector<float>> Expected(uint32_t layer) {
  Rounds rounds(CpuDevice());
  std::vector<std::vector<float>> expected;
  for (uint32_t round = 0; round < kRounds; ++round) {
    EXPECT_EQ(rounds.Place(layer, round), OkStatus());
    expected.push_back(rounds.Read(rounds.Attend(layer)));
  }
  return expected;
}

/// With one buffer and with two.
class StagingBuffersTest
    : public ::testing::TestWithParam<std::tuple<uint32_t, std::vector<FakeCudaStream>>> {
 protected:
  uint32_t buffers() const { return std::get<0>(GetParam()); }
  const std::vector<FakeCudaStream>& behind() const { return std::get<1>(GetParam()); }
};

TEST_P(StagingBuffersTest, AttentionReadsWhatWasPlacedBeforeItAndNothingElse) {
  const LateStreams late(behind());
  Rounds rounds(FakeCudaDevice(), buffers());
  std::vector<DeviceBuffer> outs;
  for (uint32_t round = 0; round < kRounds; ++round) {
    ASSERT_EQ(rounds.Place(0, round), OkStatus());
    outs.push_back(rounds.Attend(0));
  }
  // The last one first: it brings in what is held, and no more.
  const std::vector<std::vector<float>> expected = Expected(0);
  for (uint32_t round = kRounds; round-- > 0;) {
    EXPECT_EQ(rounds.Read(outs[round]), expected[round]) << "round " << round;
  }
}

TEST_P(StagingBuffersTest, TheFirstUnitsOutliveTheZeroingOfWhereTheyGo) {
  const LateStreams late(behind());
  Rounds rounds(FakeCudaDevice(), buffers());
  ASSERT_EQ(rounds.Place(0, 0), OkStatus());
  EXPECT_EQ(rounds.Read(rounds.Attend(0)), Expected(0)[0]);
}

TEST_P(StagingBuffersTest, ACacheThatGoesWaitsForWhatIsOnItsWay) {
  {
    const LateStreams late(behind());
    Rounds rounds(FakeCudaDevice(), buffers());
    for (uint32_t round = 0; round < 2; ++round) ASSERT_EQ(rounds.Place(0, round), OkStatus());
  }
  // Nothing has read or written freed memory.
  EXPECT_EQ(FakeCudaDevice().Synchronize(), OkStatus());
}

TEST_P(StagingBuffersTest, UnitsThatAreGivenUpDoNotReachTheNextOnes) {
  const LateStreams late(behind());
  Rounds rounds(FakeCudaDevice(), buffers());
  ASSERT_EQ(rounds.Place(0, 0), OkStatus());
  // Round 1 is dropped after its units were written.
  ASSERT_EQ(rounds.cache().WriteUnits(0, Rounds::Placements(1), rounds.Units(0, 1)), OkStatus());
  rounds.cache().table(0).EmptySelectable();
  std::vector<SlotPlacement> placements = Rounds::Placements(2);
  for (SlotPlacement& placement : placements) placement.replaced = -1;
  ASSERT_EQ(rounds.cache().PlaceUnits(0, placements, rounds.Units(0, 2)), OkStatus());
  for (uint32_t head = 0; head < kKvHeads; ++head) {
    ASSERT_EQ(rounds.cache().table(0).Activate(head, std::vector<uint32_t>{6, 7, 8}), OkStatus());
  }
  EXPECT_EQ(rounds.Read(rounds.Attend(0)), Expected(0)[2]);
}

TEST_P(StagingBuffersTest, EncodedUnitsAreDecodedOnTheirWay) {
  const LateStreams late(behind());
  Rounds rounds(FakeCudaDevice(), buffers());
  Rounds plain(CpuDevice());
  for (const UnitCodec codec : {UnitCodec::kFp8E4M3, UnitCodec::kInt8}) {
    const uint32_t round = codec == UnitCodec::kFp8E4M3 ? 0 : 1;
    const auto [encoded, decoded] = Encode(rounds.Units(0, round), codec);
    const std::vector<SlotPlacement> placements = Rounds::Placements(round);
    ASSERT_EQ(rounds.cache().WriteUnits(0, placements, encoded, codec), OkStatus());
    ASSERT_EQ(plain.cache().WriteUnits(0, placements, decoded), OkStatus());
    ASSERT_EQ(rounds.Record(0, round), OkStatus());
    ASSERT_EQ(plain.Record(0, round), OkStatus());
    EXPECT_EQ(rounds.Read(rounds.Attend(0)), plain.Read(plain.Attend(0)));
    EXPECT_EQ(rounds.cache().WriteUnits(0, placements, decoded, codec).code(),
              StatusCode::kDataLoss);
  }
}

TEST_P(StagingBuffersTest, LayersAreWrittenByThreadsBesideEachOther) {
  const LateStreams late(behind());
  Rounds rounds(FakeCudaDevice(), buffers());
  const std::vector<std::vector<float>> expected[kLayers] = {Expected(0), Expected(1)};
  for (uint32_t round = 0; round < kRounds; ++round) {
    std::vector<std::thread> threads;
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      threads.emplace_back([&, layer] { EXPECT_EQ(rounds.Write(layer, round), OkStatus()); });
    }
    for (std::thread& thread : threads) thread.join();
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      EXPECT_EQ(rounds.Record(layer, round), OkStatus());
    }
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      EXPECT_EQ(rounds.Read(rounds.Attend(layer)), expected[layer][round]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Late, StagingBuffersTest,
    ::testing::Combine(
        ::testing::Values(1u, 2u),
        ::testing::Values(std::vector<FakeCudaStream>{}, std::vector{FakeCudaStream::kCompute},
                          std::vector{FakeCudaStream::kCopy}, std::vector{FakeCudaStream::kConvert},
                          std::vector{FakeCudaStream::kCopy, FakeCudaStream::kConvert}, kAll)));

/// The streams of the copies and conversions of two rounds, two of each a round, in the order in
/// which these ran.
std::vector<FakeCudaStream> OrderOfTwoRounds(uint32_t buffers,
                                             const std::vector<FakeCudaStream>& behind) {
  const LateStreams late(behind);
  Rounds rounds(FakeCudaDevice(), buffers);
  for (uint32_t round = 0; round < 2; ++round) EXPECT_EQ(rounds.Place(0, round), OkStatus());
  EXPECT_EQ(rounds.Read(rounds.Attend(0)), Expected(0)[1]);
  std::vector<FakeCudaStream> order = late.RunOrder();
  std::erase(order, FakeCudaStream::kCompute);
  return order;
}

TEST(StagingBuffersOrderTest, WithOneBufferACopyFollowsTheConversionBeforeIt) {
  using enum FakeCudaStream;
  const std::vector<std::vector<FakeCudaStream>> late = {{}, {kCopy}, {kConvert}, kAll};
  for (const std::vector<FakeCudaStream>& behind : late) {
    EXPECT_THAT(OrderOfTwoRounds(1, behind),
                ElementsAre(kCopy, kConvert, kCopy, kConvert, kCopy, kConvert, kCopy, kConvert));
  }
}

TEST(StagingBuffersOrderTest, WithTwoBuffersItDoesNotWaitForIt) {
  using enum FakeCudaStream;
  EXPECT_THAT(OrderOfTwoRounds(2, {kConvert}),
              ElementsAre(kCopy, kCopy, kConvert, kCopy, kConvert, kCopy, kConvert, kConvert));
}

TEST(StagingBuffersHostTest, OnlyABufferThatIsNotFreeIsWaitedFor) {
  const LateStreams late(kAll);
  Rounds rounds(FakeCudaDevice());
  const int64_t before = FakeCudaHostWaits();
  ASSERT_EQ(rounds.Place(0, 0), OkStatus());
  const DeviceBuffer out = rounds.Attend(0);
  EXPECT_EQ(FakeCudaHostWaits(), before);
  ASSERT_EQ(rounds.Place(1, 0), OkStatus());  // Another layer, the same buffers.
  EXPECT_EQ(FakeCudaHostWaits(), before + 2);
  EXPECT_EQ(rounds.Read(out), Expected(0)[0]);
}

TEST(StagingBuffersHostTest, AnotherNumberOfUnitsIsDataLossAndNothingIsWritten) {
  Rounds rounds(FakeCudaDevice());
  ASSERT_EQ(rounds.Place(0, 0), OkStatus());
  const std::vector<SlotPlacement> placements = Rounds::Placements(1);
  const Status status =
      rounds.cache().WriteUnits(0, std::span(placements).first(kSlots), rounds.Units(0, 1));
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_EQ(rounds.Read(rounds.Attend(0)), Expected(0)[0]);
}

// A driver that fails from a call on, and comes round.
enum class Broken { kNothing, kCopy, kRecord, kHold, kKernel };
Broken broken = Broken::kNothing;

const char* Words(Broken what) { return broken == what ? "unspecified launch failure" : nullptr; }

kernels::CudaLibrary BreakableLibrary() {
  static const kernels::KernelTable kTable = [] {
    kernels::KernelTable table = *FakeCudaLibrary().kernels;
    table.hnd_to_nhd = [](const kernels::HndToNhdArgs& args) {
      return broken == Broken::kKernel ? kernels::OpStatus::kDeviceError
                                       : FakeCudaLibrary().kernels->hnd_to_nhd(args);
    };
    return table;
  }();
  kernels::CudaLibrary library = FakeCudaLibrary();
  library.kernels = &kTable;
  library.copy_pinned = [](void* stream, kernels::CopyDirection direction, void* to,
                           const void* from, size_t bytes) {
    const char* const words = Words(Broken::kCopy);
    return words != nullptr ? words
                            : FakeCudaLibrary().copy_pinned(stream, direction, to, from, bytes);
  };
  library.record_event = [](void* event, void* stream) {
    const char* const words = Words(Broken::kRecord);
    return words != nullptr ? words : FakeCudaLibrary().record_event(event, stream);
  };
  library.hold = [](void* stream, void* event) {
    const char* const words = Words(Broken::kHold);
    return words != nullptr ? words : FakeCudaLibrary().hold(stream, event);
  };
  return library;
}

TEST(StagingBuffersFailureTest, AnErrorInTheMiddleIsTheCallersAndTheBuffersStayInOrder) {
  static const kernels::CudaLibrary kLibrary = BreakableLibrary();
  const auto device = MakeCudaDevice(kLibrary);
  ASSERT_TRUE(device.ok()) << device.status();
  for (const Broken what : {Broken::kCopy, Broken::kHold, Broken::kKernel}) {
    for (const FakeCudaStream behind : kAll) {
      const LateStreams late({behind});
      Rounds rounds(**device);
      ASSERT_EQ(rounds.Place(0, 0), OkStatus());
      broken = what;
      const Status status = rounds.Place(0, 1);
      broken = Broken::kNothing;
      EXPECT_EQ(status.code(), StatusCode::kInternal) << status;
      // The table has not heard of it; the same placements come again.
      for (uint32_t round = 1; round < kRounds; ++round) {
        ASSERT_EQ(rounds.Place(0, round), OkStatus());
      }
      EXPECT_EQ(rounds.Read(rounds.Attend(0)), Expected(0).back());
    }
    EXPECT_EQ((*device)->Synchronize(), OkStatus());
  }
}

TEST(StagingBuffersFailureTest, ADriverThatRecordsNothingIsAnErrorWithItsWords) {
  static const kernels::CudaLibrary kLibrary = BreakableLibrary();
  const auto device = MakeCudaDevice(kLibrary);
  ASSERT_TRUE(device.ok()) << device.status();
  Rounds rounds(**device);
  broken = Broken::kRecord;
  const Status status = rounds.Place(0, 0);
  broken = Broken::kNothing;
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(std::string(Message(status)), HasSubstr("unspecified launch failure"));
}

int64_t allocations_left = 0;

TEST(StagingBuffersFailureTest, WithoutMemoryForThemThereIsNoCache) {
  kernels::CudaLibrary library = FakeCudaLibrary();
  library.allocate = [](void* stream, size_t bytes, void** memory) -> const char* {
    if (allocations_left-- == 0) return "out of memory";
    return FakeCudaLibrary().allocate(stream, bytes, memory);
  };
  library.pin = [](size_t bytes, void** memory) -> const char* {
    if (allocations_left-- == 0) return "out of memory";
    return FakeCudaLibrary().pin(bytes, memory);
  };
  const auto device = MakeCudaDevice(library);
  ASSERT_TRUE(device.ok()) << device.status();
  const std::vector<CacheLayout> layouts(kLayers, {.window_pages = 2, .selectable_pages = kSlots});
  for (const uint32_t buffers : {1u, 2u}) {
    int64_t allowed = 0;
    for (;; ++allowed) {
      allocations_left = allowed;
      const auto cache = BudgetCache::Create(TestSpec(), device->get(), layouts, buffers);
      if (cache.ok()) break;
      ASSERT_TRUE(IsOutOfDeviceMemory(cache.status())) << cache.status();
    }
    // Workspace, two pools a layer, and the two sides of each buffer.
    EXPECT_EQ(allowed, 1 + 2 * kLayers + 2 * buffers);
  }
  EXPECT_EQ((*device)->Synchronize(), OkStatus());
}

}  // namespace
}  // namespace quire::worker
