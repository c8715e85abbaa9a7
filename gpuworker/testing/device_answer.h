// SPDX-License-Identifier: Apache-2.0
//
// A question about a document, asked on a device: for tests that compare devices.
#ifndef QUIRE_GPUWORKER_TESTING_DEVICE_ANSWER_H_
#define QUIRE_GPUWORKER_TESTING_DEVICE_ANSWER_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "gpuworker/testing/engine_fixture.h"

namespace quire::worker::testing {

/// Logits after each token of a question about a document, then what was generated.
struct DeviceAnswer {
  std::vector<float> logits;
  std::vector<TokenId> tokens;
  SequenceStats stats;
};

struct AskOptions {
  quire::testing::TinyModel model = {};
  uint32_t recall_buffers = 2;
  uint32_t new_tokens = 8;
  /// Called before the step of each generated token; the last one has none.
  std::function<void()> before_step = {};
};

/// Tokens that the sequence has before it generates.
inline constexpr uint64_t kAskedTokens = 61 + 20;

inline DeviceAnswer AskDevice(Device* device, std::string_view policy,
                              const AskOptions& asked = {}) {
  EngineOptions options = EngineFixture::Small();
  options.retrieval.policy = policy;
  options.retrieval.recall_buffers = asked.recall_buffers;
  EngineFixture fixture(asked.model, options, device);
  fixture.Ingest(RandomTokens(61, 3));
  DeviceAnswer answer;
  SequenceOptions opened;
  opened.logits_observer = [&](uint64_t, std::span<const float> logits) {
    answer.logits.insert(answer.logits.end(), logits.begin(), logits.end());
  };
  const auto sequence = fixture.Open(opened);
  EXPECT_EQ(sequence->Append(RandomTokens(20, 4)), OkStatus());
  const auto generation =
      sequence->Generate({.max_new_tokens = asked.new_tokens, .on_token = [&](TokenId) {
                            if (asked.before_step) asked.before_step();
                            return true;
                          }});
  EXPECT_TRUE(generation.ok()) << generation.status();
  if (generation.ok()) answer.tokens = generation->tokens;
  answer.stats = sequence->stats();
  return answer;
}

/// The same tokens for the same bytes moved, and logits that are no further apart than `tolerance`.
inline void ExpectSameAnswer(const DeviceAnswer& answer, const DeviceAnswer& expected,
                             float tolerance) {
  ASSERT_EQ(answer.logits.size(), expected.logits.size());
  for (size_t i = 0; i < answer.logits.size(); ++i) {
    ASSERT_NEAR(answer.logits[i], expected.logits[i], tolerance) << "at " << i;
  }
  EXPECT_EQ(answer.tokens, expected.tokens);
  EXPECT_EQ(answer.stats.moved.units, expected.stats.moved.units);
  EXPECT_EQ(answer.stats.reopened, 0u);
}

}  // namespace quire::worker::testing

#endif  // QUIRE_GPUWORKER_TESTING_DEVICE_ANSWER_H_
