// SPDX-License-Identifier: Apache-2.0
//
// Kernels of a token, recorded once and launched for each token, on a device whose memory the host
// cannot access. Results equal those of unrecorded kernels bit for bit.
#include "gpuworker/cache/step_lists.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "gpuworker/cache/budget_cache.h"
#include "gpuworker/device/recorded_work.h"
#include "gpuworker/testing/fake_cuda_device.h"
#include "quire/layout.h"

namespace quire::worker {
namespace {

using testing::FakeCudaDevice;
using testing::FakeCudaLaunches;
using testing::FakeCudaStream;
using testing::LateStreams;

constexpr uint32_t kLayers = 3;
constexpr uint32_t kTokensOfPage = 4;
constexpr CacheLayout kEverything = {.everything = true};
constexpr CacheLayout kWindow = {.sink_pages = 1, .window_pages = 3};

KvSpec TestSpec() {
  KvSpec spec;
  spec.model = "test";
  spec.dtype = DType::kF16;
  spec.num_layers = kLayers;
  spec.num_query_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 8;
  spec.page_tokens = kTokensOfPage;
  spec.segment_pages = 2;
  return spec;
}

std::unique_ptr<BudgetCache> Make(const std::vector<CacheLayout>& layouts,
                                  Device& device = FakeCudaDevice()) {
  auto cache = BudgetCache::Create(TestSpec(), &device, layouts);
  EXPECT_TRUE(cache.ok()) << cache.status();
  return *std::move(cache);
}

/// Rows of all layers at one place on the device.
class Rows {
 public:
  explicit Rows(size_t row) : row_(row), memory_(*FakeCudaDevice().Allocate(kLayers * row * 4)) {}
  /// Without waiting for what it is behind.
  void CopyTo(Rows& to) const {
    EXPECT_EQ(
        FakeCudaDevice().CopyOnDevice(to.memory_.data(), memory_.data(), memory_.size_bytes()),
        OkStatus());
  }
  void Fill(uint64_t seed) {
    SeededRandom random(seed);
    std::vector<float> values(kLayers * row_);
    for (float& value : values) value = static_cast<float>(random.Normal());
    EXPECT_EQ(FakeCudaDevice().CopyToDevice(memory_.data(), values.data(), values.size() * 4),
              OkStatus());
  }
  float* Of(uint32_t layer) const { return memory_.as<float>() + layer * row_; }
  std::vector<float> Fetch() const {
    std::vector<float> values(kLayers * row_);
    EXPECT_EQ(FakeCudaDevice().CopyToHost(values.data(), memory_.data(), values.size() * 4),
              OkStatus());
    return values;
  }

 private:
  const size_t row_;
  DeviceBuffer memory_;
};

/// Tokens of a sequence, each in every layer.
class Tokens {
 public:
  void Next() {
    ++next_;
    k_.Fill(3 * next_);
    v_.Fill(3 * next_ + 1);
    q_.Fill(3 * next_ + 2);
  }
  /// Its attention where kernels are given anew, [kLayers][n_q][d].
  std::vector<float> GivenAnew(BudgetCache& cache) const {
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      EXPECT_EQ(cache.AppendTokens(layer, k_.Of(layer), v_.Of(layer), 1), OkStatus());
      EXPECT_EQ(cache.table(layer).layout().everything
                    ? cache.AttendDense(layer, q_.Of(layer), 1, out_.Of(layer))
                    : cache.Attend(layer, q_.Of(layer), out_.Of(layer)),
                OkStatus());
    }
    return out_.Fetch();
  }
  /// The same as the stretch of `work` that the cache names, to `recorded`.
  void Record(BudgetCache& cache, RecordedWork<std::shared_ptr<const void>>& work) const {
    EXPECT_EQ(cache.PrepareToken(), OkStatus());
    const Status run = work.Run(cache.recording_key(), [&]() -> Status {
      for (uint32_t layer = 0; layer < kLayers; ++layer) {
        QUIRE_RETURN_IF_ERROR(
            cache.RunToken(layer, k_.Of(layer), v_.Of(layer), q_.Of(layer), recorded_.Of(layer)));
      }
      return OkStatus();
    });
    EXPECT_EQ(run, OkStatus());
  }
  const Rows& recorded() const { return recorded_; }

 private:
  uint64_t next_ = 0;
  Rows k_{16}, v_{16}, q_{32}, out_{32}, recorded_{32};
};

/// All layers of the newest page.
std::vector<std::byte> NewestPage(const BudgetCache& cache) {
  const size_t bytes = 2 * UnitBytes(TestSpec());
  const DeviceBuffer units = *FakeCudaDevice().Allocate(bytes);
  std::vector<std::byte> pages(kLayers * bytes);
  const uint64_t tokens = cache.table(0).num_tokens();
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    EXPECT_EQ(
        cache.ExportPage(layer, cache.table(layer).num_pages() - 1,
                         static_cast<uint32_t>((tokens - 1) % kTokensOfPage + 1), units.data()),
        OkStatus());
    EXPECT_EQ(FakeCudaDevice().CopyToHost(pages.data() + layer * bytes, units.data(), bytes),
              OkStatus());
  }
  return pages;
}

struct Ran {
  size_t keys = 0;  ///< Keys in the cache.
  int64_t launches = 0;
};

/// Runs `count` tokens in both ways over caches of `layouts`.
Ran ExpectTheSame(const std::vector<CacheLayout>& layouts, int count) {
  const auto plain = Make(layouts), prepared = Make(layouts);
  RecordedWork<std::shared_ptr<const void>> work(&FakeCudaDevice());
  std::set<std::shared_ptr<const void>> keys;
  Tokens tokens;
  const int64_t before = FakeCudaLaunches();
  for (int token = 0; token < count; ++token) {
    SCOPED_TRACE(token);
    tokens.Next();
    const std::vector<float> expected = tokens.GivenAnew(*plain);
    tokens.Record(*prepared, work);
    EXPECT_EQ(tokens.recorded().Fetch(), expected);
    EXPECT_EQ(NewestPage(*prepared), NewestPage(*plain));
    keys.insert(prepared->recording_key());
  }
  return {keys.size(), FakeCudaLaunches() - before};
}

// Forty tokens are ten pages: the window, of three, moves on six times.
TEST(StepListsTest, ARecordedTokenOfAWindowIsOneThatIsGivenAnew) {
  const Ran ran = ExpectTheSame({kWindow, kWindow, kWindow}, 40);
  EXPECT_EQ(ran.keys, 1u);
  EXPECT_EQ(ran.launches, 39);
}

// Pools that grow move; what was recorded over them is not launched again.
TEST(StepListsTest, ARecordedTokenIsOneThatIsGivenAnewWhilePoolsGrow) {
  const Ran ran = ExpectTheSame({kEverything, kEverything, kEverything}, 40);
  EXPECT_EQ(ran.keys, 10u);
  EXPECT_EQ(ran.launches, 30);
}

TEST(StepListsTest, LayersOfSeveralLayoutsHaveTheirOwnLists) {
  const CacheLayout longer = {.sink_pages = 0, .window_pages = 5};
  for (const auto& layouts :
       {std::vector{kWindow, kEverything, longer}, std::vector{kEverything, kWindow, kEverything},
        std::vector{longer, kWindow, longer}}) {
    ExpectTheSame(layouts, 30);
  }
}

// The lists of a token are set before the device has run the one before it.
TEST(StepListsTest, ADeviceThatIsBehindReadsTheListsOfEachToken) {
  constexpr int kCount = 20;
  const std::vector<CacheLayout> layouts(kLayers, kWindow);
  const auto plain = Make(layouts), prepared = Make(layouts);
  std::vector<std::vector<float>> expected;
  Tokens same;
  for (int token = 0; token < kCount; ++token) {
    same.Next();
    expected.push_back(same.GivenAnew(*plain));
  }
  RecordedWork<std::shared_ptr<const void>> work(&FakeCudaDevice());
  Tokens tokens;
  std::vector<Rows> outs;
  for (int token = 0; token < kCount; ++token) outs.emplace_back(32);
  {
    const LateStreams late({FakeCudaStream::kCompute});
    for (Rows& out : outs) {
      tokens.Next();
      tokens.Record(*prepared, work);
      tokens.recorded().CopyTo(out);
    }
    EXPECT_TRUE(late.RunOrder().empty());  // Without a wait, nothing runs.
  }
  for (size_t token = 0; token < outs.size(); ++token) {
    EXPECT_EQ(outs[token].Fetch(), expected[token]) << token;
  }
}

TEST(StepListsTest, CachesThatSelectOrReadTheHostsListsAreNotRecordable) {
  EXPECT_TRUE(Make({kWindow, kEverything, kWindow})->recordable());
  const CacheLayout selects = {.window_pages = 2, .selectable_pages = 1};
  EXPECT_FALSE(Make({kWindow, selects, kWindow})->recordable());
  EXPECT_FALSE(Make({kWindow, kEverything, kWindow}, CpuDevice())->recordable());
}

TEST(StepListsTest, NoTwoCachesHaveOneKey) {
  const auto one = Make({kWindow, kWindow, kWindow}), other = Make({kWindow, kWindow, kWindow});
  EXPECT_NE(one->recording_key(), other->recording_key());
}

}  // namespace
}  // namespace quire::worker
