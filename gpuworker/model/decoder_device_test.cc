// SPDX-License-Identifier: Apache-2.0
//
// The decoder on a device whose memory the host cannot touch and that records.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpuworker/model/decoder.h"
#include "gpuworker/model/dense_cache.h"
#include "gpuworker/testing/fake_cuda_device.h"
#include "tests/kit/paths.h"

namespace quire::worker {
namespace {

using testing::FakeCudaDevice;
using testing::FakeCudaLaunches;
using testing::FakeCudaLibrary;

constexpr char kModel[] = QUIRE_SOURCE_DIR "/tests/data/golden/llama-llama3";

/// One model over a dense cache, token by token after a prompt.
class Generation {
 public:
  explicit Generation(Device& device, const std::string& model = kModel)
      : decoder_(std::move(Decoder::Load(model, &device)).value()),
        cache_(decoder_->config(), &device, 64) {}

  /// Logits after each of `tokens`.
  std::vector<std::vector<float>> Steps(const std::vector<TokenId>& tokens) {
    std::vector<std::vector<float>> steps;
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::vector<float> logits(decoder_->config().vocab_size);
      const Status status = decoder_->Forward({&tokens[i], 1}, cache_.length(), cache_,
                                              Decoder::Logits::kLast, logits.data());
      EXPECT_EQ(status, OkStatus());
      steps.push_back(std::move(logits));
    }
    return steps;
  }
  Decoder& decoder() { return *decoder_; }

 private:
  std::unique_ptr<Decoder> decoder_;
  DenseCache cache_;
};

TEST(DecoderDeviceTest, StepsThatAreReplayedEqualThoseThatAreRun) {
  const std::vector<TokenId> tokens = {3, 14, 15, 9, 2, 6, 5, 35};
  Generation cpu(CpuDevice());
  const auto expected = cpu.Steps(tokens);
  Generation cuda(FakeCudaDevice());
  const int64_t before = FakeCudaLaunches();
  const auto steps = cuda.Steps(tokens);
  for (size_t i = 0; i < tokens.size(); ++i) EXPECT_EQ(steps[i], expected[i]) << "step " << i;
  // Everything around the attention of each layer, in every step but the first.
  const int64_t stretches = cuda.decoder().config().num_layers + 1;
  EXPECT_EQ(FakeCudaLaunches() - before, stretches * static_cast<int64_t>(tokens.size() - 1));
}

// The device decides what a layer chooses by token, and where it looks.
TEST(DecoderDeviceTest, EveryKindOfLayerIsReplayed) {
  const std::vector<TokenId> tokens = {3, 14, 15, 9, 2, 6, 5, 35};
  for (const std::string name :
       {"mistral-window", "mixtral", "qwen3-moe", "phi3-longrope", "gemma2", "gemma3"}) {
    SCOPED_TRACE(name);
    const std::string model = QUIRE_SOURCE_DIR "/tests/data/golden/" + name;
    Generation cpu(CpuDevice(), model);
    Generation cuda(FakeCudaDevice(), model);
    const int64_t before = FakeCudaLaunches();
    EXPECT_EQ(cuda.Steps(tokens), cpu.Steps(tokens));
    const int64_t stretches = cuda.decoder().config().num_layers + 1;
    EXPECT_EQ(FakeCudaLaunches() - before, stretches * static_cast<int64_t>(tokens.size() - 1));
  }
}

TEST(DecoderDeviceTest, BlocksOfOtherLengthsBetweenStepsDoNotMix) {
  const std::vector<TokenId> prompt = {7, 8, 9, 10, 11};
  std::vector<std::vector<float>> results;
  for (Device* const device : {&CpuDevice(), &FakeCudaDevice()}) {
    Generation run(*device);
    run.Steps({1, 2, 3});
    DenseCache cache(run.decoder().config(), device, 64);
    std::vector<float> logits(prompt.size() * run.decoder().config().vocab_size);
    for (int repeat = 0; repeat < 3; ++repeat) {
      ASSERT_EQ(cache.Truncate(0), OkStatus());
      ASSERT_EQ(run.decoder().Forward(prompt, 0, cache, Decoder::Logits::kAll, logits.data()),
                OkStatus());
      results.push_back(logits);
    }
    results.push_back(run.Steps({4}).front());
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(results[i], results[i + 4]) << i;
  EXPECT_EQ(results[0], results[2]);
}

int64_t kept_graphs = 0;
int64_t most_graphs = 0;

/// The fake library, with the graphs counted that it keeps.
kernels::CudaLibrary CountingLibrary() {
  kept_graphs = most_graphs = 0;
  kernels::CudaLibrary library = FakeCudaLibrary();
  library.end_capture = [](void* recorder, void** graph) {
    most_graphs = std::max(most_graphs, ++kept_graphs);
    return FakeCudaLibrary().end_capture(recorder, graph);
  };
  library.free_graph = [](void* graph) {
    --kept_graphs;
    FakeCudaLibrary().free_graph(graph);
  };
  return library;
}

TEST(DecoderDeviceTest, OfBlocksOfManyLengthsTheLastEightLengthsStayRecorded) {
  const kernels::CudaLibrary library = CountingLibrary();
  const auto device = std::move(MakeCudaDevice(library)).value();
  constexpr size_t kLongest = 20;
  std::vector<TokenId> prompt(kLongest);
  for (size_t i = 0; i < kLongest; ++i) prompt[i] = static_cast<TokenId>(i + 1);
  std::vector<std::vector<float>> results;
  for (Device* const one : {&CpuDevice(), device.get()}) {
    Generation run(*one);
    DenseCache cache(run.decoder().config(), one, 64);
    for (size_t length = kLongest; length > 0; --length) {  // In the pass of the longest.
      std::vector<float> logits(run.decoder().config().vocab_size);
      for (int repeat = 0; repeat < 3; ++repeat) {
        ASSERT_EQ(cache.Truncate(0), OkStatus());
        ASSERT_EQ(run.decoder().Forward({prompt.data(), length}, 0, cache, Decoder::Logits::kLast,
                                        logits.data()),
                  OkStatus());
      }
      results.push_back(logits);
    }
    const int64_t stretches = run.decoder().config().num_layers + 1;
    EXPECT_EQ(most_graphs, one == device.get() ? 8 * stretches : 0);
  }
  for (size_t i = 0; i < kLongest; ++i) EXPECT_EQ(results[i], results[i + kLongest]) << i;
  EXPECT_EQ(kept_graphs, 0);  // They went with the passes.
}

TEST(DecoderDeviceTest, LongBlocksAreNotRecorded) {
  Generation run(FakeCudaDevice());
  DenseCache cache(run.decoder().config(), &FakeCudaDevice(), 128);
  std::vector<float> logits(run.decoder().config().vocab_size);
  for (const size_t length : {64, 65}) {
    const std::vector<TokenId> prompt(length, 7);
    const int64_t before = FakeCudaLaunches();
    for (int repeat = 0; repeat < 3; ++repeat) {
      ASSERT_EQ(cache.Truncate(0), OkStatus());
      ASSERT_EQ(run.decoder().Forward(prompt, 0, cache, Decoder::Logits::kLast, logits.data()),
                OkStatus());
    }
    const int64_t stretches = run.decoder().config().num_layers + 1;
    EXPECT_EQ(FakeCudaLaunches() - before, length == 64 ? 2 * stretches : 0);
  }
}

}  // namespace
}  // namespace quire::worker
