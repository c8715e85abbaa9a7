// SPDX-License-Identifier: Apache-2.0
//
// Launches that a step of a batch makes, and waits of the host. The sources of the
// CUDA kernels run on the CPU (kernels/simt/simt.h), where nothing runs before the host waits for
// it.
#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <map>
#include <string>

#include "gpuworker/device/cuda_device.h"
#include "gpuworker/testing/batch_fixture.h"

namespace quire::worker {
namespace {

using quire::testing::TinyModel;
using testing::BatchTest;
using testing::EngineFixture;
using testing::Stream;

/// One device, never destroyed.
Device& EmulatedDevice() {
  static Device* const device = MakeCudaDevice(*quire_cuda_library())->release();
  return *device;
}

struct StepCost {
  double launches = 0;
  double host_waits = 0;
};

class StepCostTest : public BatchTest {
 protected:
  explicit StepCostTest(const TinyModel& model = {}, HeadMode mode = HeadMode::kTrained)
      : BatchTest(&EmulatedDevice(), EngineFixture::Small(), /*document_tokens=*/61, model, mode) {}

  /// Means over the steps that complete a page once, behind those that open the sequences. Question
  /// and document have the same length for all sequences, and every sequence its own tokens.
  /// Each of them draws its tokens in its own way where they are `drawn`.
  StepCost CostOf(std::string_view policy, uint32_t sequences, bool drawn = false) {
    const auto batch = Make({.max_running = sequences});
    std::vector<Stream> streams;
    for (uint32_t i = 0; i < sequences; ++i) {
      BatchRequest request =
          Request(/*seed=*/i + 1, /*prompt=*/1, kWarmUp + 2 * kSteps, Retrieval(policy));
      if (drawn) request.params.temperature = 0.5f + 0.1f * static_cast<float>(i);
      if (drawn) request.params.top_p = i % 2 == 0 ? 0.9f : 1.0f;
      request.params.seed = i;
      streams.push_back(Submit(*batch, std::move(request)));
    }
    for (uint32_t step = 0; step < kWarmUp; ++step) EXPECT_TRUE(batch->Step());
    const DeviceUse before = EmulatedDevice().use();
    for (uint32_t step = 0; step < kSteps; ++step) EXPECT_TRUE(batch->Step());
    const DeviceUse used = EmulatedDevice().use() - before;
    batch->Stop();
    const auto mean = [](int64_t total) { return static_cast<double>(total) / kSteps; };
    return {mean(used.launches), mean(used.host_waits)};
  }

  /// Prints the costs of batches of 1, 4 and 16, and expects that they hardly grow. A step waits
  /// once for its tokens, and once for each layer whose query decides or whose input is shown.
  void ExpectCostOfOneStep(std::string_view policy, double deciding_layers) {
    constexpr double kMostGrowth = 1.05;
    std::map<uint32_t, StepCost> costs;
    for (const uint32_t sequences : {1, 4, 16}) {
      const StepCost cost = costs[sequences] = CostOf(policy, sequences);
      std::cout << policy << " batch " << sequences << ": launches_per_step " << cost.launches
                << ", host_waits_per_step " << cost.host_waits << '\n';
      EXPECT_LE(cost.launches, kMostGrowth * costs.at(1).launches);
      EXPECT_LE(cost.host_waits, kMostGrowth * costs.at(1).host_waits);
      EXPECT_LE(cost.host_waits, 1 + deciding_layers);
    }
    std::cout << policy << ": launches_growth_1_to_16 "
              << costs.at(16).launches / costs.at(1).launches << ", host_waits_growth_1_to_16 "
              << costs.at(16).host_waits / costs.at(1).host_waits << '\n';
  }

  static constexpr uint32_t kWarmUp = 4;
  static constexpr uint32_t kSteps = 8;
};

TEST_F(StepCostTest, OfFreeKvDoesNotGrowWithTheBatch) {
  ExpectCostOfOneStep("freekv", fixture_.decoder().config().num_layers);
}

TEST_F(StepCostTest, OfSpeContextDoesNotGrowWithTheBatch) {
  ExpectCostOfOneStep("specontext", /*deciding_layers=*/0);
}

// Tokens are drawn on the device, by the kernel that takes the best. Nothing is recalled here: what
// is would depend on the tokens.
TEST_F(StepCostTest, OfDrawnTokensIsThatOfTheBest) {
  const StepCost best = CostOf("full", /*sequences=*/4);
  const StepCost drawn = CostOf("full", /*sequences=*/4, /*drawn=*/true);
  EXPECT_EQ(drawn.launches, best.launches);
  EXPECT_EQ(drawn.host_waits, best.host_waits);
}

class HiddenStatesStepCostTest : public StepCostTest {
 protected:
  HiddenStatesStepCostTest() : StepCostTest({}, HeadMode::kEagle) {}
};

// A head that sees hidden states waits for those of some layers, of all sequences at once.
TEST_F(HiddenStatesStepCostTest, OfSpeContextDoesNotGrowWithTheBatch) {
  ExpectCostOfOneStep("specontext", fixture_.decoder().config().num_layers);
}

/// One layer that attends to everything, and one with a sliding window.
class WindowsStepCostTest : public StepCostTest {
 protected:
  WindowsStepCostTest()
      : StepCostTest(
            {.architecture = Architecture::kQwen2, .sliding_window = 10, .full_layers = 1}) {}
};

TEST_F(WindowsStepCostTest, OfFreeKvDoesNotGrowWithTheBatch) {
  ExpectCostOfOneStep("freekv", /*deciding_layers=*/1);
}

}  // namespace
}  // namespace quire::worker
