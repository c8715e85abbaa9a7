// SPDX-License-Identifier: Apache-2.0
//
// The engine over the CUDA library and kernels, whose sources run on the CPU (kernels/simt/simt.h).
// Covers streams, recorded steps, recall and every kernel of a step.
#include <gtest/gtest.h>

#include <atomic>

#include "gpuworker/device/cuda_device.h"
#include "gpuworker/retrieval/policy.h"
#include "gpuworker/testing/device_answer.h"
#include "gpuworker/testing/recorded_steps.h"

namespace quire::worker {
namespace {

using testing::AskDevice;
using testing::AskOptions;
using testing::DeviceAnswer;
using testing::ExpectLaunchesOfSteps;
using testing::ExpectSameAnswer;

std::atomic<int64_t> graph_launches{0};

/// One device, never destroyed.
Device& EmulatedDevice() {
  static Device* const device = [] {
    static kernels::CudaLibrary library = *quire_cuda_library();
    library.launch = [](void* graph, void* stream) {
      ++graph_launches;
      return quire_cuda_library()->launch(graph, stream);
    };
    return MakeCudaDevice(library)->release();
  }();
  return *device;
}

class EngineEmulatedTest : public ::testing::TestWithParam<std::string_view> {};

TEST_P(EngineEmulatedTest, TheKernelsOfAGpuAnswerAsTheCpuDoes) {
  const DeviceAnswer expected = AskDevice(&CpuDevice(), GetParam());
  const int64_t before = graph_launches;
  const DeviceAnswer answer = AskDevice(&EmulatedDevice(), GetParam());
  EXPECT_GT(graph_launches, before);  // Steps were replayed.
  ExpectSameAnswer(answer, expected, 1e-4f);
}

INSTANTIATE_TEST_SUITE_P(Policies, EngineEmulatedTest, ::testing::ValuesIn(PolicyNames()),
                         [](const auto& info) { return std::string(info.param); });

// Two layers of sliding attention behind one that attends to everything.
TEST(EngineEmulatedStepTest, ModelsWithSlidingWindowsAnswerAsOnTheCpu) {
  const AskOptions asked{.model = {.architecture = Architecture::kQwen2,
                                   .num_layers = 3,
                                   .sliding_window = 10,
                                   .full_layers = 1},
                         .new_tokens = 14};
  for (const std::string_view policy : {"streaming", "full", "freekv"}) {
    ExpectSameAnswer(AskDevice(&EmulatedDevice(), policy, asked),
                     AskDevice(&CpuDevice(), policy, asked), 1e-4f);
  }
}

// The choice of experts stays on the device, so a step without other host work is one launch.
TEST(EngineEmulatedStepTest, ModelsWithExpertsAnswerAsOnTheCpu) {
  const AskOptions asked{.model = {.architecture = Architecture::kMixtral, .sliding_window = 10},
                         .new_tokens = 6};
  const int64_t before = graph_launches;
  ExpectSameAnswer(AskDevice(&EmulatedDevice(), "full", asked),
                   AskDevice(&CpuDevice(), "full", asked), 1e-4f);
  EXPECT_GT(graph_launches, before);
}

// Pages of latents: absorbed queries, the kernels over latents, and recalls of rows without values.
TEST(EngineEmulatedLatentTest, TheKernelsOfAGpuAnswerAsTheCpuDoes) {
  const testing::AskOptions latent{.model = quire::testing::TinyLatentModel()};
  for (const std::string_view policy : {"full", "streaming", "quest", "freekv", "specontext"}) {
    SCOPED_TRACE(policy);
    const DeviceAnswer expected = AskDevice(&CpuDevice(), policy, latent);
    const int64_t before = graph_launches;
    const DeviceAnswer answer = AskDevice(&EmulatedDevice(), policy, latent);
    EXPECT_GT(graph_launches, before);  // Steps were replayed.
    ExpectSameAnswer(answer, expected, 1e-4f);
  }
}

// Over page boundaries, at which the pools of "full" grow.
TEST(EngineEmulatedStepTest, AStepThatNeedsNoHostIsOneLaunch) {
  for (const std::string_view policy : {"streaming", "full", "quest"}) {
    ExpectLaunchesOfSteps(
        &EmulatedDevice(), [] { return graph_launches.load(); }, policy, 14, 1e-4f);
  }
}

// Here what is captured breaks in the middle, as by work that a capture cannot hold.
TEST(EngineEmulatedStepTest, WhereNothingCanBeRecordedStepsRunAsTheyAre) {
  kernels::CudaLibrary library = *quire_cuda_library();
  library.begin_capture = [](void* recorder) {
    const char* const begun = quire_cuda_library()->begin_capture(recorder);
    (void)quire_cuda_library()->synchronize(recorder);
    return begun;
  };
  library.launch = [](void*, void*) -> const char* { return "nothing was recorded"; };
  const auto device = MakeCudaDevice(library);
  ASSERT_TRUE(device.ok()) << device.status();
  for (const std::string_view policy : {"full", "quest"}) {
    ExpectSameAnswer(AskDevice(device->get(), policy), AskDevice(&CpuDevice(), policy), 1e-4f);
  }
}

}  // namespace
}  // namespace quire::worker
