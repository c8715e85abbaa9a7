// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/json/json.h"
#include "gpuworker/model/checkpoint/config.h"
#include "tests/kit/paths.h"

namespace quire::worker {
namespace {

TEST(RopeTable, FrequenciesAndMagnitudeEqualTransformersForWellKnownModels) {
  auto text = ReadTextFile(QUIRE_SOURCE_DIR "/tests/data/golden/rope.json", 1 << 20);
  ASSERT_TRUE(text.ok()) << text.status();
  const nlohmann::json cases = nlohmann::json::parse(*text);
  ASSERT_GE(cases.size(), 8u);
  for (const auto& [name, golden] : cases.items()) {
    auto config = ParseModelConfig(golden["config"].dump(), name);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_NEAR(config->rope.attention_factor, golden["attention_factor"].get<double>(), 1e-12)
        << name;
    const auto expected = golden["inverse_frequencies"].get<std::vector<double>>();
    const RopeTable table(config->rope);
    ASSERT_EQ(table.inverse_frequencies().size(), expected.size()) << name;
    for (size_t i = 0; i < expected.size(); ++i) {
      // Theirs are single precision.
      EXPECT_NEAR(table.inverse_frequencies()[i] / expected[i], 1.0, 2e-6) << name << " pair " << i;
    }
  }
}

/// LongRoPE of eight channels stretched from 64 to 256 positions; `context` is where the model
/// ends.
ModelConfig LongRope(int context) {
  const nlohmann::json config = {{"architectures", {"LlamaForCausalLM"}},
                                 {"hidden_size", 16},
                                 {"intermediate_size", 32},
                                 {"num_hidden_layers", 1},
                                 {"num_attention_heads", 2},
                                 {"vocab_size", 100},
                                 {"rms_norm_eps", 1e-6},
                                 {"rope_theta", 500.0},
                                 {"max_position_embeddings", context},
                                 {"original_max_position_embeddings", 64},
                                 {"rope_scaling",
                                  {{"rope_type", "longrope"},
                                   {"short_factor", {1.0, 1.1, 1.25, 1.5}},
                                   {"long_factor", {1.0, 2.0, 5.0, 20.0}}}}};
  auto parsed = ParseModelConfig(config.dump(), "config.json");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return *parsed;
}

/// Frequency i is theta^(-2i/d) / factor_i, and cosines and sines are times the magnitude.
void ExpectLongRope(const ModelConfig& config, const std::vector<double>& factors, double magnitude,
                    const std::vector<uint64_t>& positions) {
  const RopeTable table(config.rope);
  for (const uint64_t position : positions) {
    std::vector<float> cosines(4), sines(4);
    table.Fill(position, 1, cosines.data(), sines.data());
    for (size_t i = 0; i < 4; ++i) {
      const double frequency = std::pow(500.0, -2.0 * static_cast<double>(i) / 8) / factors[i];
      EXPECT_NEAR(table.inverse_frequencies()[i], frequency, 1e-12) << i;
      const double angle = static_cast<double>(position) * frequency;
      EXPECT_NEAR(cosines[i], magnitude * std::cos(angle), 1e-6) << position << ", " << i;
      EXPECT_NEAR(sines[i], magnitude * std::sin(angle), 1e-6) << position << ", " << i;
    }
  }
}

// Stored keys mean the same to sequences of any length, so positions within the original context
// are rotated as those beyond it.
TEST(RopeTable, LongRopeHasOneRotationForAPositionWithinAndBeyondTheOriginalContext) {
  const double magnitude = std::sqrt(1 + std::log(256.0 / 64) / std::log(64.0));
  ExpectLongRope(LongRope(256), {1.0, 2.0, 5.0, 20.0}, magnitude, {0, 1, 10, 63, 64, 65, 255});
  EXPECT_DOUBLE_EQ(LongRope(256).rope.attention_factor, magnitude);
}

TEST(RopeTable, LongRopeOfAModelThatEndsWithTheOriginalContextIsShort) {
  ExpectLongRope(LongRope(64), {1.0, 1.1, 1.25, 1.5}, 1.0, {0, 1, 10, 63});
  EXPECT_EQ(LongRope(64).rope.attention_factor, 1.0);
  EXPECT_NE(LongRope(64).rope, LongRope(256).rope) << "their keys must never meet";
}

TEST(RopeTable, RowsAreCosinesAndSinesTimesTheMagnitude) {
  RopeSpec spec{.rotary_dim = 8, .theta = 100.0};
  spec.attention_factor = 1.25;
  const RopeTable table(spec);
  std::vector<float> cosines(3 * 4);
  std::vector<float> sines(3 * 4);
  table.Fill(1000, 3, cosines.data(), sines.data());
  for (int row = 0; row < 3; ++row) {
    for (int pair = 0; pair < 4; ++pair) {
      const double angle = (1000 + row) * std::pow(100.0, -2.0 * pair / 8);
      EXPECT_FLOAT_EQ(cosines[row * 4 + pair], static_cast<float>(1.25 * std::cos(angle)));
      EXPECT_FLOAT_EQ(sines[row * 4 + pair], static_cast<float>(1.25 * std::sin(angle)));
    }
  }
}

TEST(RopeTable, FarPositionsKeepTheirPrecision) {
  const RopeTable table({.rotary_dim = 4, .theta = 10000.0});
  constexpr uint64_t kFar = 1'000'000;
  std::vector<float> cosines(2);
  std::vector<float> sines(2);
  table.Fill(kFar, 1, cosines.data(), sines.data());
  EXPECT_NEAR(cosines[1], std::cos(kFar * 0.01), 1e-6);
  EXPECT_NEAR(sines[0], std::sin(static_cast<double>(kFar)), 1e-6);
}

TEST(RopeTable, LinearDividesEveryFrequency) {
  RopeSpec spec{.rotary_dim = 16};
  const RopeTable plain(spec);
  spec.scaling = RopeScaling::kLinear;
  spec.factor = 4;
  const RopeTable linear(spec);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_DOUBLE_EQ(linear.inverse_frequencies()[i] * 4, plain.inverse_frequencies()[i]);
  }
}

TEST(RopeTable, AYarnRampOfNoWidthIsFinite) {
  const RopeTable table({.scaling = RopeScaling::kYarn,
                         .rotary_dim = 4,
                         .factor = 8,
                         .original_context = 1,
                         .beta_fast = 32,
                         .beta_slow = 1});
  for (double frequency : table.inverse_frequencies()) EXPECT_TRUE(std::isfinite(frequency));
}

}  // namespace
}  // namespace quire::worker
