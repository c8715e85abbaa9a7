// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/head/draft_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "gpuworker/model/rope_table.h"

namespace quire::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Shape of the EAGLE-3 drafts for Llama-3.1-8B.
constexpr char kLlamaDraft[] = R"({"architectures": ["LlamaForCausalLMEagle3"],
  "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
  "draft_vocab_size": 32000, "max_position_embeddings": 2048, "rms_norm_eps": 1e-05,
  "num_hidden_layers": 1, "intermediate_size": 14336, "torch_dtype": "float16"})";

std::string DraftError(const std::string& text) {
  const auto config = ParseDraftConfig(text, "draft");
  EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument) << text;
  return std::string(config.status().message());
}

TEST(DraftConfigTest, ADraftOfLlamaHasTheUsualDefaults) {
  const auto config = ParseDraftConfig(kLlamaDraft, "draft");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->head_dim, 128u);
  EXPECT_EQ(config->max_positions, 2048u);
  EXPECT_EQ(config->rope_theta, 10000.0);
  EXPECT_EQ(config->mode, HeadMode::kEagle);
}

TEST(DraftConfigTest, FieldsThatMakeNoSenseAreNamed) {
  EXPECT_THAT(DraftError("{}"), HasSubstr("hidden_size"));
  EXPECT_THAT(DraftError("[]"), HasSubstr("no JSON object"));
  EXPECT_THAT(DraftError(R"({"hidden_size": 64, "num_attention_heads": 6,
                             "num_key_value_heads": 4, "vocab_size": 9})"),
              HasSubstr("num_key_value_heads is 4, which does not divide"));
  EXPECT_THAT(DraftError(R"({"hidden_size": 12, "num_attention_heads": 4, "vocab_size": 9})"),
              HasSubstr("head_dim is 3; it must be even"));
  EXPECT_THAT(DraftError(R"({"hidden_size": 64, "num_attention_heads": 4, "vocab_size": 9,
                             "retrieval_head_mode": "guess"})"),
              HasSubstr("must be eagle, embed_only or trained"));
}

TEST(DraftConfigTest, BeyondTheDraftsContextYarnStretchesIt) {
  const auto config = ParseDraftConfig(kLlamaDraft, "draft");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(DraftRope(*config, 2048).scaling, RopeScaling::kNone);
  const RopeSpec rope = DraftRope(*config, 32768);
  EXPECT_EQ(rope.scaling, RopeScaling::kYarn);
  EXPECT_EQ(rope.factor, 16);
  EXPECT_DOUBLE_EQ(rope.attention_factor, 0.1 * std::log(16.0) + 1);
  // Fast pairs turn as before, slow ones 16 times slower. Pair i makes 2048 f_i / 2 pi turns within
  // the draft's context. The ramp lies between 32 turns and 1.
  const RopeTable plain(DraftRope(*config, 2048)), stretched(rope);
  const auto& f = plain.inverse_frequencies();
  const auto& g = stretched.inverse_frequencies();
  EXPECT_DOUBLE_EQ(g.front(), f.front());
  EXPECT_NEAR(g.back(), f.back() / 16, 1e-12);
  for (size_t i = 0; i < f.size(); ++i) {
    EXPECT_LE(g[i], f[i]);
    EXPECT_GE(g[i], f[i] / 16 - 1e-12);
    if (2048 * f[i] / (2 * M_PI) > 40) EXPECT_DOUBLE_EQ(g[i], f[i]) << i;
  }
}

TEST(DraftConfigTest, FeaturesComeFromALowAMiddleAndAHighLayer) {
  EXPECT_THAT(FeatureLayers(32), ElementsAre(2, 16, 29));
  EXPECT_THAT(FeatureLayers(4), ElementsAre(1, 2, 3));
  EXPECT_THAT(FeatureLayers(1), ElementsAre(0, 0, 0));
}

TEST(DraftConfigTest, ModesHaveNames) {
  for (const std::string_view name : HeadModeNames()) {
    ASSERT_TRUE(FindHeadMode(name)) << name;
    EXPECT_EQ(Name(*FindHeadMode(name)), name);
  }
  EXPECT_FALSE(FindHeadMode("other"));
}

}  // namespace
}  // namespace quire::worker
