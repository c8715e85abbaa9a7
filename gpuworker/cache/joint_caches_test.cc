// SPDX-License-Identifier: Apache-2.0
//
// Caches whose kernels are launched together on a device, beside the same caches on the CPU, each
// for itself. Streams are as late as the test wants.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/random.h"
#include "gpuworker/cache/budget_cache.h"
#include "gpuworker/testing/fake_cuda_device.h"
#include "quire/layout.h"

namespace quire::worker {
namespace {

using testing::FakeCudaDevice;
using testing::FakeCudaHostWaits;
using testing::FakeCudaStream;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using testing::LateStreams;
using ::testing::Pointwise;

constexpr uint32_t kSequences = 3;
constexpr uint32_t kSelectable = 3;
constexpr uint32_t kJointTokens = 6 * 4;  // Two window pages, and four to select from.
constexpr uint32_t kSeen = 6;             // Tokens in a sliding window: rows of three pages.
constexpr float kSoftCap = 1.5f;

KvSpec JointSpec() {
  KvSpec spec;
  spec.model = "test";
  spec.dtype = DType::kF32;
  spec.num_layers = 4;
  spec.num_query_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 8;
  spec.page_tokens = 4;
  spec.segment_pages = 2;
  return spec;
}

/// The second layer holds everything. The others see a sliding window, of its pages or of all.
std::vector<CacheLayout> Layouts() {
  return {{.window_pages = 2, .selectable_pages = kSelectable},
          {.everything = true},
          WindowLayout(kSeen, JointSpec().page_tokens, /*context_tokens=*/1000),
          {.everything = true, .window_tokens = kSeen}};
}

std::vector<float> RandomEighths(size_t count, uint64_t seed) {
  SeededRandom random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.Normal());
  return values;
}

std::unique_ptr<BudgetCache> MakeCache(Device& device) {
  auto cache =
      BudgetCache::Create(JointSpec(), &device, Layouts(), /*staging_buffers=*/2, kSoftCap);
  EXPECT_TRUE(cache.ok()) << cache.status();
  EXPECT_EQ((*cache)->StartAt(kJointTokens), OkStatus());
  return *std::move(cache);
}

/// The pages that each head of sequence `i` selects.
std::vector<SlotPlacement> Placements(uint32_t i) {
  std::vector<SlotPlacement> placements;
  for (uint32_t head = 0; head < 2; ++head) {
    for (uint32_t index = 0; index < kSelectable; ++index) {
      placements.push_back(
          {.head = head, .index = index, .generation = 1, .page = (index + i + head) % 4});
    }
  }
  return placements;
}

Payload UnitsOf(uint32_t i) {
  const std::vector<float> values =
      RandomEighths(Placements(i).size() * UnitBytes(JointSpec()) / sizeof(float), 100 + i);
  const auto bytes = std::as_bytes(std::span(values));
  Payload payload;
  payload.Append(std::vector<std::byte>(bytes.begin(), bytes.end()));
  return payload;
}

void Activate(BudgetCache& cache, uint32_t i) {
  for (uint32_t head = 0; head < 2; ++head) {
    std::vector<uint32_t> pages;
    for (const SlotPlacement& placement : Placements(i)) {
      if (placement.head == head) pages.push_back(placement.page);
    }
    std::ranges::sort(pages);
    ASSERT_EQ(cache.table(0).Activate(head, pages), OkStatus());
  }
}

/// One token of sequence `i` in `layer`.
struct TokenRows {
  TokenRows(uint32_t i, uint32_t layer)
      : q(RandomEighths(32, 10 * i + layer)),
        k(RandomEighths(16, 1000 + 10 * i + layer)),
        v(RandomEighths(16, 2000 + 10 * i + layer)) {}
  std::vector<float> q, k, v;
};

/// Attention of sequence `i` alone in `layer`.
std::vector<float> Alone(uint32_t i, uint32_t layer) {
  const auto cache = MakeCache(CpuDevice());
  const TokenRows token(i, layer);
  if (layer == 0) {
    EXPECT_EQ(cache->PlaceUnits(0, Placements(i), UnitsOf(i)), OkStatus());
    Activate(*cache, i);
  }
  EXPECT_EQ(cache->AppendTokens(layer, token.k.data(), token.v.data(), 1), OkStatus());
  std::vector<float> out(token.q.size());
  EXPECT_EQ(cache->Attend(layer, token.q.data(), out.data()), OkStatus());
  return out;
}

/// kSequences caches on the device, and one token of each.
class JointCaches {
 public:
  JointCaches()
      : work_(&device_),
        attention_(JointSpec(), &device_, kSoftCap),
        staging_(*JointStaging::Create(JointSpec(), &device_)) {
    for (uint32_t i = 0; i < kSequences; ++i) {
      caches_.push_back(MakeCache(device_));
      caches_.back()->ShareStaging(staging_.get());
    }
    for (DeviceBuffer* const rows : {&q_, &k_, &v_, &out_}) {
      *rows = *device_.Allocate(kSequences * 32 * sizeof(float));
    }
  }

  /// Writes what sequence `i` recalls.
  void Recall(uint32_t i) {
    EXPECT_EQ(caches_[i]->PlaceUnits(0, Placements(i), UnitsOf(i)), OkStatus());
    Activate(*caches_[i], i);
  }
  void Load(uint32_t layer) {
    for (uint32_t i = 0; i < kSequences; ++i) {
      const TokenRows token(i, layer);
      Send(q_, i, token.q);
      Send(k_, i, token.k);
      Send(v_, i, token.v);
    }
  }
  /// Attention of the sequences `members`, in this order.
  void Attend(uint32_t layer, const std::vector<uint32_t>& members) {
    for (const uint32_t i : members) {
      EXPECT_EQ(
          caches_[i]->AppendToken(layer, k_.as<float>() + i * 16, v_.as<float>() + i * 16, &work_),
          OkStatus());
    }
    EXPECT_EQ(work_.Launch(), OkStatus());
    EXPECT_EQ(staging_->Launch(), OkStatus());
    for (const uint32_t i : members) {
      EXPECT_EQ(caches_[i]->HoldForUnits(), OkStatus());
      caches_[i]->AddAttention(layer, q_.as<float>() + i * 32, out_.as<float>() + i * 32,
                               &attention_);
    }
    EXPECT_EQ(attention_.Launch(), OkStatus());
    for (const uint32_t i : members) EXPECT_EQ(caches_[i]->OnAttended(layer), OkStatus());
  }
  std::vector<float> Result(uint32_t i) {
    std::vector<float> out(32);
    EXPECT_EQ(device_.CopyToHost(out.data(), out_.as<float>() + i * 32, 32 * sizeof(float)),
              OkStatus());
    return out;
  }
  void End(uint32_t i) { caches_[i].reset(); }
  JointStaging& staging() { return *staging_; }
  BudgetCache& cache(uint32_t i) { return *caches_[i]; }

 private:
  void Send(const DeviceBuffer& to, uint32_t i, const std::vector<float>& row) {
    EXPECT_EQ(device_.CopyToDevice(to.as<float>() + i * row.size(), row.data(),
                                   row.size() * sizeof(float)),
              OkStatus());
  }

  Device& device_ = FakeCudaDevice();
  JointWork work_;
  JointAttention attention_;
  std::unique_ptr<JointStaging> staging_;
  std::vector<std::unique_ptr<BudgetCache>> caches_;
  DeviceBuffer q_, k_, v_, out_;
};

TEST(JointCachesTest, AttendAsEachAloneWhateverStreamIsLate) {
  using enum FakeCudaStream;
  const std::vector<std::vector<FakeCudaStream>> cases = {
      {}, {kCompute}, {kCopy}, {kConvert}, {kCopy, kConvert}, {kCompute, kCopy, kConvert}};
  for (const auto& streams : cases) {
    JointCaches caches;
    const LateStreams late(streams);
    for (uint32_t i = 0; i < kSequences; ++i) caches.Recall(i);
    for (uint32_t layer = 0; layer < JointSpec().num_layers; ++layer) {
      SCOPED_TRACE(layer);
      caches.Load(layer);
      caches.Attend(layer, {0, 1, 2});
      for (uint32_t i = 0; i < kSequences; ++i) EXPECT_EQ(caches.Result(i), Alone(i, layer)) << i;
    }
  }
}

// Dense attention has a window of its own. Rows before it are zeros, which would weigh something.
TEST(JointCachesTest, SeeTheWindowThatDenseAttentionSees) {
  JointCaches caches;
  for (const uint32_t layer : {2u, 3u}) {
    SCOPED_TRACE(layer);
    caches.Load(layer);
    caches.Attend(layer, {0, 1, 2});
    for (uint32_t i = 0; i < kSequences; ++i) {
      const TokenRows token(i, layer);
      const auto dense = MakeCache(CpuDevice());
      ASSERT_EQ(dense->AppendTokens(3, token.k.data(), token.v.data(), 1), OkStatus());
      std::vector<float> out(token.q.size());
      ASSERT_EQ(dense->AttendDense(3, token.q.data(), 1, out.data()), OkStatus());
      EXPECT_THAT(caches.Result(i), Pointwise(FloatNear(1e-5f), out)) << i;
    }
  }
}

TEST(JointCachesTest, AreServedByAsManyLaunchesAsOne) {
  using enum FakeCudaStream;
  const auto runs = [](const std::vector<uint32_t>& members) {
    JointCaches caches;
    caches.Load(0);
    const LateStreams late({kCompute, kCopy, kConvert});
    const int64_t waits = FakeCudaHostWaits();
    for (const uint32_t i : members) caches.Recall(i);
    caches.Attend(0, members);
    EXPECT_EQ(FakeCudaHostWaits(), waits);
    EXPECT_EQ(caches.Result(members.back()), Alone(members.back(), 0));
    return late.RunOrder();
  };
  const std::vector<FakeCudaStream> one = runs({0});
  EXPECT_EQ(runs({0, 1, 2}), one);
  // Lists of the token, two rows of it, lists of attention, attention, and the result; the units.
  EXPECT_EQ(std::ranges::count(one, kCopy), 1);
  EXPECT_EQ(std::ranges::count(one, kConvert), 1);
}

TEST(JointCachesTest, AttendWhereSomeTakeNoPart) {
  JointCaches caches;
  caches.Recall(0);
  caches.Recall(2);
  caches.Load(0);
  caches.Attend(0, {0, 2});  // Their queries do not follow each other.
  EXPECT_EQ(caches.Result(0), Alone(0, 0));
  EXPECT_EQ(caches.Result(2), Alone(2, 0));
}

TEST(JointCachesTest, ACacheMayEndBeforeItsUnitsAreLaunched) {
  const LateStreams late({FakeCudaStream::kCopy, FakeCudaStream::kConvert});
  JointCaches caches;
  caches.Recall(0);
  caches.Recall(1);
  caches.End(0);
  caches.Load(0);
  caches.Attend(0, {1});
  EXPECT_EQ(caches.Result(1), Alone(1, 0));
}

// More than the first buffers have room for, in one go and in many.
TEST(JointCachesTest, TakeMoreUnitsThanABufferHolds) {
  JointCaches caches;
  BudgetCache& cache = caches.cache(0);
  for (uint32_t round = 0; round < 40; ++round) {
    std::vector<SlotPlacement> placements = Placements(0);
    for (SlotPlacement& placement : placements) placement.generation = round + 1;
    cache.table(0).EmptySelectable();
    ASSERT_EQ(cache.PlaceUnits(0, placements, UnitsOf(0)), OkStatus());
    if (round % 3 == 0) ASSERT_EQ(caches.staging().Launch(), OkStatus());
  }
  Activate(cache, 0);
  caches.Load(0);
  caches.Attend(0, {0});
  EXPECT_EQ(caches.Result(0), Alone(0, 0));
}

// A correction may take the slot of a prefetch that came just before it.
TEST(JointCachesTest, TheLastUnitOfAPlaceIsThatWhichStays) {
  JointCaches caches;
  BudgetCache& cache = caches.cache(0);
  ASSERT_EQ(cache.PlaceUnits(0, Placements(0), UnitsOf(1)), OkStatus());
  cache.table(0).EmptySelectable();
  std::vector<SlotPlacement> again = Placements(0);
  for (SlotPlacement& placement : again) placement.generation = 2;
  ASSERT_EQ(cache.PlaceUnits(0, again, UnitsOf(0)), OkStatus());
  Activate(cache, 0);
  caches.Load(0);
  caches.Attend(0, {0});
  EXPECT_EQ(caches.Result(0), Alone(0, 0));
}

TEST(JointCachesTest, UnitsOfAnotherSizeAreRefused) {
  JointCaches caches;
  const Status status = caches.cache(0).PlaceUnits(0, Placements(0), Payload());
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a payload of 0 bytes for 6 units"));
}

}  // namespace
}  // namespace quire::worker
