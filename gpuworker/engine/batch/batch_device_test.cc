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
#include "tests/kit/paths.h"

namespace quire::worker {
namespace {

using quire::testing::TinyModel;
using testing::BatchTest;
using testing::EngineFixture;
using testing::FakeCudaDevice;
using testing::FakeCudaStream;
using testing::LateStreams;
using testing::RandomTokens;

class BatchDeviceTest : public BatchTest, public ::testing::WithParamInterface<std::string_view> {
 protected:
  explicit BatchDeviceTest(const TinyModel& model = {}, HeadMode mode = HeadMode::kTrained)
      : BatchTest(&FakeCudaDevice(), EngineFixture::Small(), /*document_tokens=*/61, model, mode) {}

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

// Heads that are not corrected are compared as well, where a step compares for the whole batch.
TEST_F(BatchOnDeviceTest, SequencesThatCorrectRetrievalHeadsGenerateAsAlone) {
  const auto batch = Make();
  std::vector<BatchRequest> requests;
  for (const uint32_t head : {0, 1, 2}) {
    requests.push_back(Ask("freekv", /*seed=*/head + 1, /*prompt=*/5 + head, /*tokens=*/16));
    requests.back().retrieval->correct_retrieval_heads = true;
    requests.back().retrieval->retrieval_heads = {head};
    requests.back().retrieval->correction_threshold = 1.5f;
  }
  requests.push_back(requests.front());
  requests.back().retrieval->retrieval_heads.clear();  // Those of the model.
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

TEST_F(BatchOnDeviceTest, SequencesWhoseSelectionsLookBackGenerateAsAlone) {
  const auto batch = Make();
  std::vector<BatchRequest> requests;
  for (const uint32_t memory : {1, 4, 8}) {
    requests.push_back(Ask("specontext", /*seed=*/memory, /*prompt=*/2 + memory, /*tokens=*/16));
    requests.back().retrieval->selection_memory = memory;
  }
  ExpectAsAlone(*batch, requests);
}

/// One layer that attends to everything, and two with a sliding window.
TinyModel Windowed() {
  return {.architecture = Architecture::kQwen2,
          .num_layers = 3,
          .sliding_window = 10,
          .full_layers = 1};
}

/// Layers take turns, and scores are capped.
TinyModel Gemma() { return {.copied = QUIRE_SOURCE_DIR "/tests/data/golden/gemma2"}; }

/// Models some of whose layers hide the first tokens. The policy within decides about the others.
class WindowsOnDeviceTest : public BatchDeviceTest {
 protected:
  explicit WindowsOnDeviceTest(const TinyModel& model = Windowed(),
                               HeadMode mode = HeadMode::kTrained)
      : BatchDeviceTest(model, mode) {}

  /// Sequences of several policies, and one without a document.
  void ExpectAllAsAlone() {
    const auto batch = Make({.max_running = 4, .step_tokens = 20});
    std::vector<BatchRequest> requests;
    uint32_t seed = 1;
    for (const std::string_view policy : {"full", "streaming", "quest", "freekv", "specontext"}) {
      requests.push_back(Ask(policy, seed, /*prompt=*/3 * seed, /*tokens=*/8 + 3 * seed));
      ++seed;
    }
    requests.push_back({.prompt = RandomTokens(30, 99), .params = {.max_new_tokens = 12}});
    ExpectAsAlone(*batch, requests);
  }
};

TEST_F(WindowsOnDeviceTest, SequencesGenerateAsAlone) { ExpectAllAsAlone(); }

// The last token of a dense prompt is a step by itself, while window layers hold every page.
TEST_F(WindowsOnDeviceTest, ADensePromptMayEndWithAStepOfOneToken) {
  const auto batch = Make({.step_tokens = 20});
  ExpectAsAlone(*batch, {{.prompt = RandomTokens(41, 7), .params = {.max_new_tokens = 12}}});
}

class SoftCapsOnDeviceTest : public WindowsOnDeviceTest {
 protected:
  SoftCapsOnDeviceTest() : WindowsOnDeviceTest(Gemma()) {}
};

TEST_F(SoftCapsOnDeviceTest, SequencesGenerateAsAlone) { ExpectAllAsAlone(); }

/// The parameter says whether the model has sliding windows.
class HiddenStatesOnDeviceTest : public BatchTest, public ::testing::WithParamInterface<bool> {
 protected:
  HiddenStatesOnDeviceTest()
      : BatchTest(&FakeCudaDevice(), EngineFixture::Small(), /*document_tokens=*/61,
                  GetParam() ? Windowed() : TinyModel{}, HeadMode::kEagle) {}

  const LateStreams late_{
      {FakeCudaStream::kCompute, FakeCudaStream::kCopy, FakeCudaStream::kConvert}};
};

// Heads that see hidden states share steps with policies that do not.
TEST_P(HiddenStatesOnDeviceTest, SequencesGenerateAsAlone) {
  const auto batch = Make();
  std::vector<BatchRequest> requests;
  for (const uint32_t seed : {1, 2, 3}) {
    requests.push_back(
        Request(seed, /*prompt=*/3 * seed, /*new_tokens=*/12, Retrieval("specontext")));
    requests.back().retrieval->selection_memory = seed;
  }
  requests.push_back(Request(4, /*prompt=*/5, /*new_tokens=*/12, Retrieval("freekv")));
  ExpectAsAlone(*batch, requests);
}

INSTANTIATE_TEST_SUITE_P(Windows, HiddenStatesOnDeviceTest, ::testing::Bool());

}  // namespace
}  // namespace quire::worker
