// SPDX-License-Identifier: Apache-2.0
//
// Batches on a device that launches the kernels of all sequences together. Each sequence generates
// what it generates alone, where it has launches of its own. All streams are late, so a missing
// wait changes the tokens.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpuworker/retrieval/policy.h"
#include "gpuworker/testing/batch_fixture.h"
#include "gpuworker/testing/fake_cuda_device.h"

namespace quire::worker {
namespace {

using testing::BatchTest;
using testing::FakeCudaDevice;
using testing::FakeCudaStream;
using testing::LateStreams;

class BatchDeviceTest : public BatchTest, public ::testing::WithParamInterface<std::string_view> {
 protected:
  BatchDeviceTest() : BatchTest(&FakeCudaDevice()) {}

  BatchRequest Ask(std::string_view policy, uint64_t seed, size_t prompt, uint32_t tokens) {
    return Request(seed, prompt, tokens, Retrieval(policy));
  }

  const LateStreams late_{
      {FakeCudaStream::kCompute, FakeCudaStream::kCopy, FakeCudaStream::kConvert}};
};

// Prompts of other lengths complete pages at other steps, and begin and end at others.
TEST_P(BatchDeviceTest, SequencesGenerateAsAlone) {
  const auto batch = Make();
  std::vector<BatchRequest> requests;
  for (const uint32_t i : {1, 2, 3, 4, 5}) {
    requests.push_back(Ask(GetParam(), /*seed=*/i, /*prompt=*/3 * i, /*tokens=*/8 + 3 * i));
  }
  ExpectAsAlone(*batch, requests);
}

TEST_P(BatchDeviceTest, APreemptedSequenceGoesOnAsAlone) {
  const auto batch = Make({.max_running = 2});
  std::vector<BatchRequest> requests;
  for (const uint32_t i : {1, 2, 3, 4}) {
    requests.push_back(Ask(GetParam(), /*seed=*/10 + i, /*prompt=*/2 + i, /*tokens=*/10));
    requests.back().priority = i % 2;
  }
  ExpectAsAlone(*batch, requests);
}

INSTANTIATE_TEST_SUITE_P(Policies, BatchDeviceTest, ::testing::ValuesIn(AllPolicyNames()),
                         [](const auto& info) { return std::string(info.param); });

using BatchOnDeviceTest = BatchDeviceTest;

TEST_F(BatchOnDeviceTest, SequencesOfOtherPoliciesAndBudgetsShareSteps) {
  const auto batch = Make();
  std::vector<BatchRequest> requests = {Ask("freekv", 1, 5, 16), Ask("quest", 2, 7, 16),
                                        Ask("full", 3, 4, 16), Ask("specontext", 4, 9, 16)};
  requests.push_back(Ask("freekv", 5, 6, 16));
  requests.back().retrieval->budget_tokens = 20;
  requests.push_back(Ask("freekv", 6, 3, 16));
  requests.back().retrieval->pooling = kernels::Pooling::kMaxS;
  requests.push_back(Ask("freekv", 7, 3, 16));
  requests.back().retrieval->uncompressed_layers = {0};
  ExpectAsAlone(*batch, requests);
}

TEST_F(BatchOnDeviceTest, DrawnTokensAreThoseOfTheSeed) {
  const auto batch = Make();
  std::vector<BatchRequest> requests = {Ask("freekv", 1, 5, 12), Ask("freekv", 2, 6, 12)};
  requests.back().params.temperature = 0.8f;
  requests.back().params.top_p = 0.9f;
  requests.back().params.seed = 7;
  ExpectAsAlone(*batch, requests);
}

}  // namespace
}  // namespace quire::worker
