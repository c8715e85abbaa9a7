// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/checkpoint/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/json/json.h"
#include "tests/kit/paths.h"

namespace quire::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A config of `architecture` with `changes` merged in; a null in `changes` removes the field.
std::string Config(const std::string& architecture, const std::string& changes = "{}") {
  nlohmann::json config = {{"architectures", {architecture}},
                           {"hidden_size", 64},
                           {"intermediate_size", 96},
                           {"num_hidden_layers", 2},
                           {"num_attention_heads", 8},
                           {"num_key_value_heads", 2},
                           {"vocab_size", 100},
                           {"max_position_embeddings", 256}};
  if (architecture == "MistralForCausalLM") config["sliding_window"] = 256;
  config.merge_patch(nlohmann::json::parse(changes));
  return config.dump();
}

ModelConfig Parsed(const std::string& text) {
  auto config = ParseModelConfig(text, "config.json");
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *config : ModelConfig{};
}

TEST(ModelConfig, FieldsAreReadAndDefaultsAreHuggingFaces) {
  const ModelConfig config = Parsed(Config("LlamaForCausalLM"));
  EXPECT_EQ(config.architecture, Architecture::kLlama);
  EXPECT_EQ(config.hidden_size, 64u);
  EXPECT_EQ(config.intermediate_size, 96u);
  EXPECT_EQ(config.num_layers, 2u);
  EXPECT_EQ(config.num_query_heads, 8u);
  EXPECT_EQ(config.num_kv_heads, 2u);
  EXPECT_EQ(config.head_dim, 8u);
  EXPECT_EQ(config.vocab_size, 100u);
  EXPECT_EQ(config.max_positions, 256u);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_FALSE(config.qkv_bias || config.output_bias || config.mlp_bias || config.qk_norm);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_FALSE(config.bos_id.has_value());
  EXPECT_TRUE(config.eos_ids.empty());
  EXPECT_EQ(config.rope.scaling, RopeScaling::kNone);
  EXPECT_EQ(config.rope.theta, 10000.0);
  EXPECT_EQ(config.rope.rotary_dim, 8u);
}

TEST(ModelConfig, ArchitecturesDecideBiasesAndNorms) {
  const char* bias = R"({"attention_bias": true, "mlp_bias": true, "head_dim": 8})";
  const ModelConfig llama = Parsed(Config("LlamaForCausalLM", bias));
  EXPECT_TRUE(llama.qkv_bias && llama.output_bias && llama.mlp_bias && !llama.qk_norm);
  const ModelConfig mistral = Parsed(Config("MistralForCausalLM"));
  EXPECT_FALSE(mistral.qkv_bias || mistral.output_bias || mistral.mlp_bias || mistral.qk_norm);
  const ModelConfig qwen2 = Parsed(Config("Qwen2ForCausalLM"));
  EXPECT_TRUE(qwen2.qkv_bias && !qwen2.output_bias && !qwen2.mlp_bias && !qwen2.qk_norm);
  const ModelConfig qwen3 = Parsed(Config("Qwen3ForCausalLM"));
  EXPECT_TRUE(!qwen3.qkv_bias && !qwen3.output_bias && !qwen3.mlp_bias && qwen3.qk_norm);
  EXPECT_EQ(qwen3.head_dim, 128u);  // The class's default, whatever the hidden size.
  EXPECT_TRUE(
      Parsed(Config("Qwen3ForCausalLM", R"({"attention_bias": true, "head_dim": 8})")).output_bias);
}

/// A config of a DeepSeek model without experts.
std::string Deepseek(const std::string& changes = "{}") {
  nlohmann::json config = {{"num_key_value_heads", 8}, {"first_k_dense_replace", 2},
                           {"q_lora_rank", 24},        {"kv_lora_rank", 16},
                           {"qk_rope_head_dim", 6},    {"qk_nope_head_dim", 10},
                           {"v_head_dim", 12}};
  config.merge_patch(nlohmann::json::parse(changes));
  return Config("DeepseekV3ForCausalLM", config.dump());
}

TEST(ModelConfig, LatentAttentionCachesOneRowForAllHeads) {
  const ModelConfig config = Parsed(Deepseek());
  ASSERT_TRUE(config.latent.has_value());
  EXPECT_EQ(config.num_query_heads, 8u);
  EXPECT_EQ(config.num_kv_heads, 1u);
  EXPECT_EQ(config.head_dim, 22u);
  EXPECT_EQ(config.value_dim(), 16u);
  EXPECT_EQ(config.rotary_first(), 16u);
  EXPECT_EQ(config.rope.rotary_dim, 6u);
  EXPECT_TRUE(config.rope.interleaved);
  EXPECT_EQ(config.latent->query_rank, 24u);
  EXPECT_EQ(config.latent->value_dim, 12u);
  EXPECT_DOUBLE_EQ(config.latent->score_scale, 0.25);
  nlohmann::json direct = nlohmann::json::parse(Deepseek());
  direct["q_lora_rank"] = nullptr;
  EXPECT_EQ(Parsed(direct.dump()).latent->query_rank, 0u);
  const ModelConfig yarn = Parsed(Deepseek(R"({"rope_scaling": {"type": "yarn", "factor": 40,
      "mscale": 0.5, "mscale_all_dim": 0.5, "original_max_position_embeddings": 64}})"));
  const double magnitude = 0.1 * 0.5 * std::log(40.0) + 1.0;
  EXPECT_DOUBLE_EQ(yarn.latent->score_scale, 0.25 * magnitude * magnitude);
  EXPECT_DOUBLE_EQ(yarn.rope.attention_factor, 1.0);
}

// The fields of the files that are published, and not only those that are needed.
TEST(ModelConfig, PublishedConfigsAreAccepted) {
  struct Published {
    const char* name;
    double theta;
    RopeScaling scaling;
  };
  auto text = ReadTextFile(QUIRE_SOURCE_DIR "/tests/data/published_configs.json", 1 << 20);
  ASSERT_TRUE(text.ok()) << text.status();
  const nlohmann::json all = nlohmann::json::parse(*text);
  const std::vector<Published> expected = {
      {"Llama-2-7b-hf", 1e4, RopeScaling::kNone},
      {"Meta-Llama-3-8B", 5e5, RopeScaling::kNone},
      {"Llama-3.1-8B-Instruct", 5e5, RopeScaling::kLlama3},
      {"Llama-3.2-1B", 5e5, RopeScaling::kLlama3},
      {"Mistral-7B-v0.3", 1e6, RopeScaling::kNone},
      {"Qwen2-7B-Instruct", 1e6, RopeScaling::kNone},
      {"Qwen2.5-7B", 1e6, RopeScaling::kNone},
      {"Qwen3-8B", 1e6, RopeScaling::kNone},
      {"Qwen3-8B as transformers 5 writes it", 1e6, RopeScaling::kNone},
      {"Qwen3-8B with parameters by layer type", 1e6, RopeScaling::kNone},
      {"SmolLM2-135M", 1e5, RopeScaling::kNone},
      {"Mistral-7B-v0.1", 1e4, RopeScaling::kNone},
      {"Mixtral-8x7B-v0.1", 1e6, RopeScaling::kNone},
      {"Qwen3-30B-A3B", 1e6, RopeScaling::kNone},
      {"Phi-3-mini-4k-instruct", 1e4, RopeScaling::kNone},
      {"Phi-3-mini-128k-instruct", 1e4, RopeScaling::kLongRope},
      {"gemma-2-2b", 1e4, RopeScaling::kNone},
      {"gemma-3-1b-it", 1e6, RopeScaling::kNone},
  };
  ASSERT_EQ(all.size(), expected.size());
  for (const Published& published : expected) {
    const auto config = ParseModelConfig(all.at(published.name).dump(), published.name);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->rope.theta, published.theta) << published.name;
    EXPECT_EQ(config->rope.scaling, published.scaling) << published.name;
  }
}

// A setting that is never read gives other numbers than its author meant: each is named.
TEST(ModelConfig, NoFieldOfAPublishedConfigGoesUnread) {
  auto text = ReadTextFile(QUIRE_SOURCE_DIR "/tests/data/published_configs.json", 1 << 20);
  ASSERT_TRUE(text.ok()) << text.status();
  const nlohmann::json config = nlohmann::json::parse(*text).at("Llama-3.1-8B-Instruct");
  for (const auto& [field, value] : config.items()) {
    nlohmann::json renamed = config;
    renamed.erase(field);
    renamed[field + "_"] = value;
    if (value.is_null()) continue;
    EXPECT_FALSE(ParseModelConfig(renamed.dump(), "config.json").ok()) << field;
  }
  for (const auto& [field, value] : config["rope_scaling"].items()) {
    nlohmann::json renamed = config;
    renamed["rope_scaling"].erase(field);
    renamed["rope_scaling"][field + "_"] = value;
    EXPECT_FALSE(ParseModelConfig(renamed.dump(), "config.json").ok()) << field;
  }
}

TEST(ModelConfig, ParametersByLayerTypeAreThoseOfTheLayersThatThereAre) {
  const auto rope = [](const char* changes) {
    return Parsed(Config("Qwen3ForCausalLM", changes)).rope;
  };
  EXPECT_EQ(rope(R"({"rope_parameters": {"full_attention": {"rope_theta": 5e5}}})").theta, 5e5);
  // No layer slides.
  EXPECT_EQ(rope(R"({"layer_types": ["full_attention", "full_attention"], "rope_parameters": {
      "full_attention": {"rope_theta": 5e5}, "sliding_attention": {"rope_theta": 1e4}}})")
                .theta,
            5e5);
  // Some do, in a window that is never left, and are rotated as the others.
  EXPECT_EQ(rope(R"({"layer_types": ["full_attention", "sliding_attention"],
      "sliding_window": 256, "use_sliding_window": true, "rope_parameters": {
      "full_attention": {"rope_theta": 5e5}, "sliding_attention": {"rope_theta": 5e5}}})")
                .theta,
            5e5);
}

TEST(ModelConfig, TwoSpellingsThatAgreeAreOne) {
  const RopeSpec both = Parsed(Config("LlamaForCausalLM", R"({"rope_theta": 5e5,
      "rope_scaling": {"type": "linear", "factor": 4},
      "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500000}})"))
                            .rope;
  EXPECT_EQ(both.theta, 5e5);
  EXPECT_EQ(both.scaling, RopeScaling::kLinear);
  EXPECT_EQ(both.factor, 4);
}

TEST(ModelConfig, AbsentKeyValueHeadsTakeTheClassDefaultAndNullTheQueryHeads) {
  const std::string absent = R"({"num_key_value_heads": null, "num_attention_heads": 32})";
  EXPECT_EQ(Parsed(Config("LlamaForCausalLM", absent)).num_kv_heads, 32u);
  EXPECT_EQ(Parsed(Config("MistralForCausalLM", absent)).num_kv_heads, 8u);
  nlohmann::json null = nlohmann::json::parse(Config("MistralForCausalLM", absent));
  null["num_key_value_heads"] = nullptr;
  EXPECT_EQ(Parsed(null.dump()).num_kv_heads, 32u);
}

TEST(ModelConfig, TokenIdsMayBeOneOrSeveral) {
  const ModelConfig one =
      Parsed(Config("LlamaForCausalLM", R"({"bos_token_id": 5, "eos_token_id": 7})"));
  EXPECT_EQ(one.bos_id, 5);
  EXPECT_THAT(one.eos_ids, ElementsAre(7));
  const ModelConfig list = Parsed(Config("LlamaForCausalLM", R"({"eos_token_id": [7, 99]})"));
  EXPECT_THAT(list.eos_ids, ElementsAre(7, 99));
}

TEST(ModelConfig, TheNameIsTheLastPartOfThePath) {
  EXPECT_EQ(
      Parsed(Config("LlamaForCausalLM", R"({"_name_or_path": "org/recall-small"})")).model_name,
      "recall-small");
  EXPECT_EQ(Parsed(Config("LlamaForCausalLM", R"({"_name_or_path": "/models/x/"})")).model_name,
            "x");
  EXPECT_EQ(Parsed(Config("LlamaForCausalLM")).model_name, "");
}

TEST(ModelConfig, BothSpellingsOfRopeMeanTheSame) {
  const ModelConfig now =
      Parsed(Config("LlamaForCausalLM", R"({"rope_parameters": {"rope_theta": 5e5,
      "rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
      "original_max_position_embeddings": 64}})"));
  const ModelConfig before =
      Parsed(Config("LlamaForCausalLM", R"({"rope_theta": 500000.0, "rope_scaling": {
      "type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
      "original_max_position_embeddings": 64}})"));
  EXPECT_EQ(now.rope, before.rope);
  EXPECT_EQ(now.rope.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(now.rope.theta, 5e5);
  EXPECT_EQ(now.rope.original_context, 64);
}

TEST(ModelConfig, TheOriginalContextIsTheContextUnlessGiven) {
  const char* yarn = R"({"rope_scaling": {"type": "yarn", "factor": 4}})";
  EXPECT_EQ(Parsed(Config("LlamaForCausalLM", yarn)).rope.original_context, 256);
  const char* top =
      R"({"original_max_position_embeddings": 32, "rope_scaling": {"type": "yarn", "factor": 4}})";
  EXPECT_EQ(Parsed(Config("LlamaForCausalLM", top)).rope.original_context, 32);
}

TEST(ModelConfig, AWindowThatNoPositionReachesIsIgnored) {
  for (const char* changes : {R"({"sliding_window": 256})", R"({"sliding_window": 300})"}) {
    EXPECT_THAT(Parsed(Config("MistralForCausalLM", changes)).Windows(), IsEmpty());
  }
  const char* unused = R"({"sliding_window": 16, "use_sliding_window": false})";
  EXPECT_THAT(Parsed(Config("Qwen2ForCausalLM", unused)).Windows(), IsEmpty());
  const char* top_layers =
      R"({"sliding_window": 16, "use_sliding_window": true, "max_window_layers": 2})";
  EXPECT_THAT(Parsed(Config("Qwen2ForCausalLM", top_layers)).Windows(), IsEmpty());
}

TEST(ModelConfig, DynamicScalingIsNoneAsFarAsTheContextGoes) {
  const RopeSpec rope =
      Parsed(Config("LlamaForCausalLM", R"({"rope_scaling": {"type": "dynamic", "factor": 2}})"))
          .rope;
  EXPECT_EQ(rope, Parsed(Config("LlamaForCausalLM")).rope);
}

TEST(ModelConfig, LongRopeTakesTheFactorsOfTheModelsWholeContext) {
  const std::string factors =
      R"("short_factor": [1, 1, 1, 1.5], "long_factor": [1, 2, 4, 8], "type": "longrope")";
  const RopeSpec same =
      Parsed(Config("LlamaForCausalLM", R"({"rope_scaling": {)" + factors + "}}")).rope;
  EXPECT_EQ(same.scaling, RopeScaling::kLongRope);
  EXPECT_EQ(same.pair_factors, (std::vector<double>{1, 1, 1, 1.5}));
  EXPECT_EQ(same.attention_factor, 1.0);
  const RopeSpec longer = Parsed(Config("LlamaForCausalLM", R"({"rope_scaling": {)" + factors +
                                                                R"(},
      "original_max_position_embeddings": 64})"))
                              .rope;
  EXPECT_EQ(longer.pair_factors, (std::vector<double>{1, 2, 4, 8}));
  EXPECT_DOUBLE_EQ(longer.attention_factor, std::sqrt(1 + std::log(4.0) / std::log(64.0)));
  EXPECT_TRUE(longer.CanRebase());
}

TEST(ModelConfig, APartOfEachHeadIsRotatedWhereTheConfigSaysSo) {
  const auto rotated = [](const char* changes) {
    return Parsed(Config("LlamaForCausalLM", changes)).rope.rotary_dim;
  };
  EXPECT_EQ(rotated(R"({"partial_rotary_factor": 0.5})"), 4u);
  EXPECT_EQ(rotated(R"({"partial_rotary_factor": 0.75, "head_dim": 128})"), 96u);
  EXPECT_EQ(rotated(R"({"partial_rotary_factor": 0.25,
      "rope_parameters": {"partial_rotary_factor": 0.25}})"),
            2u);
}

TEST(ModelConfig, AYarnRampBetweenPairsIsKeptAsFactorsOfPairs) {
  const auto rope = [](const char* truncate) {
    return Parsed(Config("LlamaForCausalLM",
                         std::string(R"({"rope_scaling": {"type": "yarn", "factor": 4,
      "beta_fast": 8, "beta_slow": 0.5, "truncate": )") +
                             truncate + "}}"))
        .rope;
  };
  EXPECT_EQ(rope("true").scaling, RopeScaling::kYarn);
  const RopeSpec between = rope("false");
  EXPECT_EQ(between.scaling, RopeScaling::kLongRope);
  EXPECT_EQ(between.attention_factor, rope("true").attention_factor);
  // The ramp goes from the pair that turns 8 times in 256 positions to one that turns half a time.
  // For them log(256 / (2 pi turns)) * 8 / (2 log 10000) is 0.70697 and 1.91109.
  const double stretched = (1 - 0.70697) / (1.91109 - 0.70697);
  ASSERT_EQ(between.pair_factors.size(), 4u);
  EXPECT_EQ(between.pair_factors[0], 1.0);
  EXPECT_NEAR(between.pair_factors[1], 1 / (stretched / 4 + 1 - stretched), 1e-5);
  EXPECT_DOUBLE_EQ(between.pair_factors[2], 4.0);
  EXPECT_DOUBLE_EQ(between.pair_factors[3], 4.0);
}

TEST(ModelConfig, ExpertsAreReadAndDefaultsAreHuggingFaces) {
  const ExpertsConfig mixtral = Parsed(Config("MixtralForCausalLM")).experts;
  EXPECT_EQ(mixtral.num_experts, 8u);
  EXPECT_EQ(mixtral.experts_per_token, 2u);
  EXPECT_EQ(mixtral.intermediate_size, 96u);
  EXPECT_TRUE(mixtral.normalized && mixtral.Has(0) && mixtral.Has(1) && !mixtral.Has(2));
  const ModelConfig qwen = Parsed(Config("Qwen3MoeForCausalLM"));
  EXPECT_TRUE(qwen.qk_norm);
  EXPECT_EQ(qwen.experts.num_experts, 128u);
  EXPECT_EQ(qwen.experts.experts_per_token, 8u);
  EXPECT_EQ(qwen.experts.intermediate_size, 768u);
  EXPECT_FALSE(qwen.experts.normalized);
  EXPECT_EQ(Parsed(Config("LlamaForCausalLM")).experts.num_experts, 0u);
}

TEST(ModelConfig, LayersWithoutExpertsAreThoseThatTheConfigSays) {
  const auto layers = [](const char* changes) {
    return Parsed(Config("Qwen3MoeForCausalLM", changes)).experts.layers;
  };
  EXPECT_THAT(layers(R"({"mlp_only_layers": [0]})"), ElementsAre(false, true));
  EXPECT_THAT(layers(R"({"num_hidden_layers": 4, "decoder_sparse_step": 2})"),
              ElementsAre(false, true, false, true));
  EXPECT_THAT(layers(R"({"mlp_only_layers": [0, 1]})"), IsEmpty());
}

TEST(ModelConfig, GemmaHasCapsScalesAndAPatternOfWindows) {
  const ModelConfig second =
      Parsed(Config("Gemma2ForCausalLM", R"({"num_hidden_layers": 3, "sliding_window": 64})"));
  EXPECT_TRUE(second.is_gemma() && second.tied_embeddings && !second.qk_norm);
  EXPECT_EQ(second.head_dim, 256u);
  EXPECT_EQ(second.gemma.attention_soft_cap, 50);
  EXPECT_EQ(second.gemma.logit_soft_cap, 30);
  EXPECT_EQ(second.gemma.query_scale, 1);
  EXPECT_FALSE(second.gemma.local_rope.has_value());
  EXPECT_THAT(second.Windows(), ElementsAre(64u, 0u, 64u));
  const ModelConfig third = Parsed(Config("Gemma3ForCausalLM", R"({"num_hidden_layers": 3,
      "sliding_window": 64, "sliding_window_pattern": 3, "query_pre_attn_scalar": 64,
      "rope_scaling": {"rope_type": "linear", "factor": 8}})"));
  EXPECT_TRUE(third.qk_norm);
  EXPECT_EQ(third.gemma.attention_soft_cap, 0);
  EXPECT_EQ(third.gemma.logit_soft_cap, 0);
  EXPECT_EQ(third.gemma.query_scale, 2);
  EXPECT_THAT(third.Windows(), ElementsAre(64u, 64u, 0u));
  EXPECT_EQ(third.rope.theta, 1e6);
  EXPECT_EQ(third.rope.factor, 8);
  ASSERT_TRUE(third.gemma.local_rope.has_value());
  EXPECT_EQ(third.gemma.local_rope->theta, 1e4);
  EXPECT_EQ(third.gemma.local_rope->scaling, RopeScaling::kNone);
}

TEST(ModelConfig, BothSpellingsOfGemmasRotationsMeanTheSame) {
  const auto gemma = [](const char* changes) {
    return Parsed(Config("Gemma3ForCausalLM", changes));
  };
  const ModelConfig before = gemma(R"({"num_hidden_layers": 6, "rope_local_base_freq": 500,
      "rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4}})");
  const ModelConfig now = gemma(R"({"num_hidden_layers": 6, "rope_parameters": {
      "full_attention": {"rope_type": "linear", "factor": 4, "rope_theta": 5e5},
      "sliding_attention": {"rope_type": "default", "rope_theta": 500}}})");
  EXPECT_EQ(now.rope, before.rope);
  EXPECT_EQ(now.gemma.local_rope, before.gemma.local_rope);
  EXPECT_EQ(now.gemma.local_rope->theta, 500);
}

struct BadConfig {
  const char* label;
  std::string text;
  const char* message;  ///< Part of the error.
};

class BadConfigs : public ::testing::TestWithParam<BadConfig> {};

TEST_P(BadConfigs, IsRefusedNamingTheField) {
  auto config = ParseModelConfig(GetParam().text, "config.json");
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(config.status().message()), HasSubstr("config.json"));
  EXPECT_THAT(std::string(config.status().message()), HasSubstr(GetParam().message));
}

BadConfig Llama(const char* label, const char* changes, const char* message) {
  return {label, Config("LlamaForCausalLM", changes), message};
}
BadConfig Rope(const char* label, const std::string& scaling, const char* message) {
  return {label, Config("LlamaForCausalLM", R"({"rope_scaling": )" + scaling + "}"), message};
}

INSTANTIATE_TEST_SUITE_P(
    Corpus, BadConfigs,
    ::testing::Values(
        BadConfig{"Empty", "", "not valid JSON"}, BadConfig{"AList", "[1]", "not a JSON object"},
        BadConfig{"KeyTwice", R"({"hidden_size": 1, "hidden_size": 2})", "given twice"},
        BadConfig{"OtherArchitecture", Config("GPT2LMHeadModel"), "GPT2LMHeadModel"},
        Llama("NoArchitecture", R"({"architectures": null})", "architectures"),
        Llama("TwoArchitectures", R"({"architectures": ["A", "B"]})", "architectures"),
        Llama("ArchitectureIsANumber", R"({"architectures": [1]})", "architectures"),
        Llama("NoHiddenSize", R"({"hidden_size": null})", "hidden_size is missing"),
        Llama("ZeroHiddenSize", R"({"hidden_size": 0})", "hidden_size is 0"),
        Llama("NegativeLayers", R"({"num_hidden_layers": -1})", "num_hidden_layers is -1"),
        Llama("HugeLayers", R"({"num_hidden_layers": 4000000000})", "num_hidden_layers"),
        Llama("SizeBeyondUint64", R"({"vocab_size": 99999999999999999999})", "vocab_size"),
        Llama("FractionalSize", R"({"intermediate_size": 96.5})", "intermediate_size"),
        Llama("SizeIsAString", R"({"vocab_size": "100"})", "vocab_size"),
        BadConfig{"SizeIsALongString",
                  Config("LlamaForCausalLM", R"({"vocab_size": ")" + std::string(80, 'x') + "\"}"),
                  "xxx..."},
        Llama("NoContext", R"({"max_position_embeddings": 0})", "max_position_embeddings"),
        Llama("HeadsDoNotGroup", R"({"num_key_value_heads": 3})", "num_attention_heads"),
        Llama("MoreKvHeadsThanHeads", R"({"num_key_value_heads": 16})", "num_attention_heads"),
        Llama("ZeroKvHeads", R"({"num_key_value_heads": 0})", "num_key_value_heads"),
        Llama("HiddenNotDivisible", R"({"hidden_size": 65})", "hidden_size is 65"),
        Llama("HeadDimTooLarge", R"({"head_dim": 5000})", "head_dim"),
        Llama("HeadDimOdd", R"({"head_dim": 7})", "head_dim is 7"),
        Llama("DerivedHeadDimTooLarge", R"({"hidden_size": 1048576, "num_attention_heads": 2})",
              "hidden_size"),
        Llama("NegativeEps", R"({"rms_norm_eps": -1e-6})", "rms_norm_eps"),
        Llama("EpsIsAString", R"({"rms_norm_eps": "1e-6"})", "rms_norm_eps"),
        Llama("OtherActivation", R"({"hidden_act": "gelu"})", "hidden_act is gelu"),
        Llama("Quantised", R"({"quantization_config": {"bits": 4}})", "quantization_config"),
        Llama("TieIsANumber", R"({"tie_word_embeddings": 1})", "tie_word_embeddings"),
        Llama("BosOutsideVocabulary", R"({"bos_token_id": 100})", "bos_token_id"),
        Llama("EosOutsideVocabulary", R"({"eos_token_id": [1, 100]})", "eos_token_id"),
        Llama("EosIsAString", R"({"eos_token_id": "</s>"})", "eos_token_id"),
        Llama("NothingRotated", R"({"partial_rotary_factor": 0})", "partial_rotary_factor"),
        Llama("OddRotation", R"({"partial_rotary_factor": 0.4})", "3 of the 8 channels"),
        Rope("OddRotationOfTheScaling", R"({"partial_rotary_factor": 0.4})",
             "rope_scaling: partial_rotary_factor"),
        Llama("ZeroTheta", R"({"rope_theta": 0})", "rope_theta"),
        Llama("ThetaOfOne", R"({"rope_theta": 1})", "rope_theta"),
        BadConfig{"InfiniteTheta", R"({"rope_theta": 1e999})", "not valid JSON"},
        Llama("UnknownField", R"({"logit_scale": 0.5})", "logit_scale is 0.5"),
        Llama("FieldOfAnotherFamily", R"({"attn_logit_softcapping": 50})",
              "attn_logit_softcapping"),
        Llama("CodeOfItsOwn", R"({"auto_map": {"AutoModel": "modeling.M"}})", "auto_map"),
        Llama("OtherModelType", R"({"model_type": "gemma"})", "model_type is gemma"),
        Llama("InterleavedRotation", R"({"rope_interleaved": true})", "rope_interleaved is true"),
        Llama("WeightsInEightBits", R"({"torch_dtype": "float8_e4m3fn"})",
              "torch_dtype is float8_e4m3fn"),
        Llama("TwoDtypes", R"({"torch_dtype": "float16", "dtype": "bfloat16"})",
              "dtype is bfloat16"),
        Llama("LlamaWithAWindow", R"({"sliding_window": 64})", "sliding_window is 64"),
        Llama("LlamaWithSlidingLayers",
              R"({"sliding_window": 64, "layer_types": ["full_attention", "sliding_attention"]})",
              "sliding_window is 64"),
        Llama("SlidingLayersWithoutAWindow",
              R"({"layer_types": ["full_attention", "sliding_attention"]})",
              "there is no sliding_window"),
        Llama("LayerTypesOfAnotherDepth", R"({"layer_types": ["full_attention"]})",
              "one type for each of the 2 layers"),
        Llama("UnknownLayerType", R"({"layer_types": ["full_attention", "linear_attention"]})",
              "linear_attention"),
        BadConfig{"MistralWithBias", Config("MistralForCausalLM", R"({"attention_bias": true})"),
                  "attention_bias is true"},
        BadConfig{"Qwen2WithoutBias", Config("Qwen2ForCausalLM", R"({"attention_bias": false})"),
                  "attention_bias is false"},
        BadConfig{"Qwen3WithBiasInTheMlp", Config("Qwen3ForCausalLM", R"({"mlp_bias": true})"),
                  "mlp_bias is true"},
        Llama("TwoThetas", R"({"rope_theta": 1e4, "rope_parameters": {"rope_theta": 5e5}})",
              "rope_theta is 500000, but 10000 at the top level"),
        Llama(
            "TwoPartsRotated",
            R"({"partial_rotary_factor": 1.0, "rope_parameters": {"partial_rotary_factor": 0.5}})",
            "partial_rotary_factor is 0.5, but 1 at the top level"),
        Llama("TwoScalings",
              R"({"rope_scaling": {"type": "linear", "factor": 4},
                  "rope_parameters": {"rope_type": "linear", "factor": 8}})",
              "says factor 8, which contradicts 4"),
        Llama("ScalingInOneSpellingOnly",
              R"({"rope_scaling": {"type": "linear", "factor": 4},
                  "rope_parameters": {"rope_type": "default", "rope_theta": 10000}})",
              "contradicts \"linear\""),
        Rope("TwoTypes", R"({"type": "linear", "rope_type": "yarn", "factor": 4})", "contradicts"),
        Rope("UnknownParameter", R"({"rope_type": "linear", "factor": 4, "mrope_section": [1]})",
             "rope_scaling: mrope_section"),
        Rope("FactorOfNothing", R"({"rope_type": "default", "factor": 4})", "factor is 4"),
        Llama("ParametersOfOtherLayers",
              R"({"rope_parameters": {"sliding_attention": {"rope_theta": 5e5}}})",
              "rope_parameters has no parameters of full_attention layers"),
        Llama("ParametersBesideLayerTypes",
              R"({"rope_parameters": {"rope_theta": 1e4, "full_attention": {"rope_theta": 5e5}}})",
              "give one or the other"),
        Llama("LayersRotatedDifferently",
              R"({"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 256,
                  "rope_parameters": {"full_attention": {"rope_theta": 5e5},
                                      "sliding_attention": {"rope_theta": 1e4}}})",
              "differs between full_attention and sliding_attention"),
        Llama("RopeIsAList", R"({"rope_parameters": [1]})", "rope_parameters"),
        Rope("DynamicWithoutFactor", R"({"type": "dynamic"})", "factor is missing"),
        Rope("LongRopeWithoutFactors", R"({"rope_type": "longrope"})", "short_factor is missing"),
        Rope("LongRopeWithTooFewFactors", R"({"type": "su", "short_factor": [1, 1, 1]})",
             "a list of 4 numbers"),
        Rope("LongRopeWithAFactorOfZero",
             R"({"rope_type": "longrope", "short_factor": [1, 0, 1, 1]})", "short_factor has 0"),
        Rope("LongRopeWithAWord", R"({"rope_type": "longrope", "short_factor": [1, "2", 1, 1]})",
             "short_factor has"),
        Rope("UnknownRope", R"({"rope_type": "spiral"})", "spiral"),
        Rope("NoFactor", R"({"rope_type": "linear"})", "factor is missing"),
        Rope("FactorBelowOne", R"({"rope_type": "linear", "factor": 0.5})", "factor"),
        Rope("Llama3WithoutBands", R"({"rope_type": "llama3", "factor": 8})", "low_freq_factor"),
        Rope("Llama3BandsReversed",
             R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 1})",
             "high_freq_factor"),
        Rope("YarnZeroBeta", R"({"rope_type": "yarn", "factor": 4, "beta_fast": 0})", "beta_fast"),
        BadConfig{"DeepseekExperts", Deepseek(R"({"first_k_dense_replace": 1})"),
                  "layers 1 to 1 have routed experts"},
        BadConfig{"DeepseekFewerKvHeads", Deepseek(R"({"num_key_value_heads": 2})"),
                  "num_key_value_heads is 2"},
        BadConfig{"DeepseekOddRotation", Deepseek(R"({"qk_rope_head_dim": 5})"),
                  "qk_rope_head_dim is 5"},
        BadConfig{"DeepseekOtherHeadDim", Deepseek(R"({"head_dim": 64})"), "head_dim is 64"},
        BadConfig{"DeepseekMlpBias", Deepseek(R"({"mlp_bias": true})"), "mlp_bias is true"},
        BadConfig{"MistralWithTwoKindsOfLayers",
                  Config("MistralForCausalLM",
                         R"({"layer_types": ["full_attention", "sliding_attention"]})"),
                  "layers of a MistralForCausalLM are all alike"},
        BadConfig{"QwenWindowThatIsNotUsed",
                  Config("Qwen3ForCausalLM", R"({"sliding_window": 64, "use_sliding_window": false,
                         "layer_types": ["full_attention", "sliding_attention"]})"),
                  "there is no sliding_window"},
        BadConfig{"MoreExpertsThanThereAre",
                  Config("MixtralForCausalLM", R"({"num_experts_per_tok": 9})"),
                  "num_experts_per_tok is 9, more than the 8 experts"},
        BadConfig{"TwoNumbersOfExperts",
                  Config("Qwen3MoeForCausalLM", R"({"num_experts": 16, "num_local_experts": 8})"),
                  "num_experts is 16, but num_local_experts is 8"},
        BadConfig{"ALayerThatIsNotThere",
                  Config("Qwen3MoeForCausalLM", R"({"mlp_only_layers": [2]})"),
                  "mlp_only_layers has 2"},
        Llama("ALlamaWithExperts", R"({"num_local_experts": 8})", "num_local_experts is 8"),
        BadConfig{"GemmaWithSilu", Config("Gemma2ForCausalLM", R"({"hidden_activation": "silu"})"),
                  "hidden_activation is silu; only gelu_pytorch_tanh"},
        BadConfig{"GemmaWithoutAWindow", Config("Gemma3ForCausalLM", R"({"sliding_window": 0})"),
                  "sliding_window is 0"},
        BadConfig{"GemmaThatLooksAhead",
                  Config("Gemma3ForCausalLM", R"({"use_bidirectional_attention": true})"),
                  "use_bidirectional_attention is true"},
        BadConfig{"CodeOfAnotherPhi",
                  Config("Phi3ForCausalLM", R"({"auto_map": {"AutoModel": "modeling_x.Phi"}})"),
                  "auto_map names"},
        BadConfig{"ZeroWindow", Config("MistralForCausalLM", R"({"sliding_window": 0})"),
                  "sliding_window is 0"}),
    [](const auto& info) { return std::string(info.param.label); });

TEST(ModelConfig, AMistralWithoutWindowFieldHasTheClassDefault) {
  const char* long_context = R"({"sliding_window": null, "max_position_embeddings": 8192})";
  EXPECT_THAT(Parsed(Config("MistralForCausalLM", long_context)).Windows(),
              ElementsAre(4096u, 4096u));
  nlohmann::json null = nlohmann::json::parse(Config("MistralForCausalLM", long_context));
  null["sliding_window"] = nullptr;
  EXPECT_THAT(Parsed(null.dump()).Windows(), IsEmpty());
}

TEST(ModelConfig, WindowsAreThoseOfTheLayersThatSlide) {
  EXPECT_THAT(Parsed(Config("MistralForCausalLM", R"({"sliding_window": 64})")).Windows(),
              ElementsAre(64u, 64u));
  const char* top = R"({"sliding_window": 64, "use_sliding_window": true, "max_window_layers": 1})";
  EXPECT_THAT(Parsed(Config("Qwen2ForCausalLM", top)).Windows(), ElementsAre(0u, 64u));
  const char* listed = R"({"sliding_window": 64, "use_sliding_window": true,
                           "layer_types": ["sliding_attention", "full_attention"]})";
  EXPECT_THAT(Parsed(Config("Qwen3ForCausalLM", listed)).Windows(), ElementsAre(64u, 0u));
}

TEST(ModelConfig, AnArchitectureThatIsNotComputedIsComparedWithTheNearest) {
  const auto message = [](const char* architecture) {
    return std::string(ParseModelConfig(Config(architecture), "c").status().message());
  };
  EXPECT_THAT(message("GPT2LMHeadModel"),
              HasSubstr("the nearest is LlamaForCausalLM, but this one has learned positions"));
  EXPECT_THAT(message("Qwen3NextForCausalLM"), HasSubstr("layers of linear attention"));
  EXPECT_THAT(message("Qwen2FancyForCausalLM"),
              HasSubstr("by its name the nearest is Qwen2ForCausalLM"));
  EXPECT_THAT(message("NobodysModel"), HasSubstr("the nearest is LlamaForCausalLM"));
}

TEST(LoadModelConfig, AMissingFileIsNotFound) {
  EXPECT_EQ(LoadModelConfig("no/such/config.json").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace quire::worker
