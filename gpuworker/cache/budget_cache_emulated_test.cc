// SPDX-License-Identifier: Apache-2.0
//
// The budget cache over the CUDA kernels themselves, whose source runs on the CPU
// (kernels/simt/simt.h): one token after another over more keys than a block takes, given anew and
// recorded.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "common/base/random.h"
#include "gpuworker/cache/budget_cache.h"
#include "gpuworker/device/cuda_device.h"
#include "gpuworker/device/recorded_work.h"
#include "quire/layout.h"

namespace quire::worker {
namespace {

constexpr uint32_t kLayers = 2;
constexpr uint32_t kPrompt = 203;  // The last page is open.
constexpr uint32_t kTokens = 12;   // One at a time; a page begins among them.

/// One device, never destroyed.
Device& EmulatedDevice() {
  static Device* const device = MakeCudaDevice(*quire_cuda_library())->release();
  return *device;
}

KvSpec TestSpec(DType dtype, uint32_t page_tokens, bool latent) {
  KvSpec spec;
  spec.model = "test";
  spec.dtype = dtype;
  spec.num_layers = kLayers;
  spec.num_query_heads = 6;
  spec.num_kv_heads = 2;
  spec.head_dim = 40;
  spec.page_tokens = page_tokens;
  spec.segment_pages = 2;
  if (!latent) return spec;
  spec.attention = AttentionKind::kMla;
  spec.num_kv_heads = 1;
  spec.head_dim = 0;
  spec.latent_dim = 32;
  spec.latent_rope_dim = 8;
  return spec;
}

/// Floats that both devices have.
class Rows {
 public:
  Rows(size_t count, uint64_t seed) : host_(count) {
    SeededRandom random(seed);
    for (float& value : host_) value = static_cast<float>(random.Normal());
    memory_ = *EmulatedDevice().Allocate(count * sizeof(float));
    EXPECT_EQ(EmulatedDevice().CopyToDevice(memory_.data(), host_.data(), count * sizeof(float)),
              OkStatus());
  }
  const float* On(const Device& device, size_t at) const {
    return (device.reads_host_memory() ? host_.data() : memory_.as<const float>()) + at;
  }

 private:
  std::vector<float> host_;
  DeviceBuffer memory_;
};

struct Case {
  DType dtype;
  uint32_t page_tokens;
  bool latent = false;
};

class BudgetCacheEmulatedTest : public ::testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<BudgetCache> Make(Device& device) {
    const std::vector<CacheLayout> layouts(kLayers, {.everything = true});
    auto cache = BudgetCache::Create(spec_, &device, layouts);
    EXPECT_TRUE(cache.ok()) << cache.status();
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      EXPECT_EQ((*cache)->AppendTokens(layer, keys_.On(device, 0), values_.On(device, 0), kPrompt),
                OkStatus());
    }
    return *std::move(cache);
  }
  std::vector<std::byte> Export(const BudgetCache& cache, Device& device, uint32_t page,
                                uint32_t rows) {
    const size_t bytes = spec_.num_kv_heads * UnitBytes(spec_);
    const DeviceBuffer units = *device.Allocate(bytes);
    std::vector<std::byte> exported(bytes);
    EXPECT_EQ(cache.ExportPage(0, page, rows, units.data()), OkStatus());
    EXPECT_EQ(device.CopyToHost(exported.data(), units.data(), bytes), OkStatus());
    return exported;
  }

  const KvSpec spec_ = TestSpec(GetParam().dtype, GetParam().page_tokens, GetParam().latent);
  const size_t row_ = size_t{spec_.num_kv_heads} * spec_.key_dim();
  const size_t query_ = size_t{spec_.num_query_heads} * spec_.key_dim();
  const size_t out_ = size_t{spec_.num_query_heads} * spec_.value_dim();
  const Rows keys_{(kPrompt + kTokens) * row_, 1};
  const Rows values_{(kPrompt + kTokens) * row_, 2};
  const Rows queries_{kTokens * query_, 3};
};

TEST_P(BudgetCacheEmulatedTest, AppendedTokensAreTheCpus) {
  const auto expected = Make(CpuDevice()), cache = Make(EmulatedDevice());
  const uint32_t pages = expected->table(0).num_pages();
  for (uint32_t page = 0; page < pages; ++page) {
    const uint32_t rows = page + 1 < pages ? spec_.page_tokens : kPrompt - page * spec_.page_tokens;
    EXPECT_EQ(Export(*cache, EmulatedDevice(), page, rows),
              Export(*expected, CpuDevice(), page, rows))
        << page;
  }
}

TEST_P(BudgetCacheEmulatedTest, OneTokenOverManyIsTheCpus) {
  Device& device = EmulatedDevice();
  const auto expected = Make(CpuDevice()), anew = Make(device), recorded = Make(device);
  RecordedWork<std::shared_ptr<const void>> work(&device);
  const DeviceBuffer out = *device.Allocate(out_ * sizeof(float));
  // A recorded launch reads and writes the same places each time.
  const DeviceBuffer k = *device.Allocate(row_ * sizeof(float));
  const DeviceBuffer v = *device.Allocate(row_ * sizeof(float));
  const DeviceBuffer q = *device.Allocate(query_ * sizeof(float));
  const auto fetch = [&] {
    std::vector<float> values(out_);
    EXPECT_EQ(device.CopyToHost(values.data(), out.data(), out_ * sizeof(float)), OkStatus());
    return values;
  };
  for (uint32_t token = 0; token < kTokens; ++token) {
    const size_t row = (kPrompt + token) * row_, query = token * query_;
    std::vector<float> want(out_);
    std::vector<std::vector<float>> got;
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      const auto append = [&](BudgetCache& cache, const Device& on) {
        return cache.AppendTokens(layer, keys_.On(on, row), values_.On(on, row), 1);
      };
      ASSERT_EQ(append(*expected, CpuDevice()), OkStatus());
      ASSERT_EQ(expected->AttendDense(layer, queries_.On(CpuDevice(), query), 1, want.data()),
                OkStatus());
      ASSERT_EQ(append(*anew, device), OkStatus());
      ASSERT_EQ(anew->AttendDense(layer, queries_.On(device, query), 1, out.as<float>()),
                OkStatus());
      got.push_back(fetch());
      ASSERT_EQ(anew->Attend(layer, queries_.On(device, query), out.as<float>()), OkStatus());
      got.push_back(fetch());
    }
    ASSERT_EQ(device.CopyOnDevice(k.data(), keys_.On(device, row), row_ * 4), OkStatus());
    ASSERT_EQ(device.CopyOnDevice(v.data(), values_.On(device, row), row_ * 4), OkStatus());
    ASSERT_EQ(device.CopyOnDevice(q.data(), queries_.On(device, query), query_ * 4), OkStatus());
    ASSERT_EQ(recorded->PrepareToken(), OkStatus());
    ASSERT_EQ(
        work.Run(recorded->recording_key(),
                 [&]() -> Status {
                   for (uint32_t layer = 0; layer < kLayers; ++layer) {
                     QUIRE_RETURN_IF_ERROR(recorded->RunToken(layer, k.as<float>(), v.as<float>(),
                                                              q.as<float>(), out.as<float>()));
                   }
                   return OkStatus();
                 }),
        OkStatus());
    got.push_back(fetch());
    for (size_t i = 0; i < got.size(); ++i) {
      for (size_t c = 0; c < out_; ++c) {
        ASSERT_NEAR(got[i][c], want[c], 1e-3) << token << ", " << i << ", " << c;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Pages, BudgetCacheEmulatedTest,
                         ::testing::Values(Case{DType::kF32, 16}, Case{DType::kF16, 7},
                                           Case{DType::kBF16, 32}, Case{DType::kF32, 16, true},
                                           Case{DType::kBF16, 7, true}),
                         [](const auto& info) {
                           return std::string(info.param.latent ? "latent_" : "") +
                                  Name(info.param.dtype) + "Pages" +
                                  std::to_string(info.param.page_tokens);
                         });

}  // namespace
}  // namespace quire::worker
