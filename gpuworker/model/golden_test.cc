// SPDX-License-Identifier: Apache-2.0
//
// The decoder computes what Hugging Face's transformers computes. Compares logits of tiny random
// checkpoints with files of tools/golden/make_golden.py. Negative controls show that a wrong
// rotation would be noticed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/json/json.h"
#include "gpuworker/model/checkpoint/mapped_file.h"
#include "gpuworker/model/checkpoint/safetensors.h"
#include "gpuworker/model/decoder.h"
#include "gpuworker/model/dense_cache.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"

namespace quire::worker {
namespace {

constexpr double kTolerance = 1e-4;  // max|a - b| / max|b|
constexpr double kNoticeable = 1e-2;

std::string GoldenDirectory(const std::string& name) {
  return QUIRE_SOURCE_DIR "/tests/data/golden/" + name;
}

struct Golden {
  std::vector<TokenId> ids;
  std::vector<float> logits;  ///< [ids][vocab]
};

Golden LoadGolden(const std::string& name) {
  const std::string path = GoldenDirectory(name) + "/golden.safetensors";
  auto mapped = MappedFile::Open(path);
  EXPECT_TRUE(mapped.ok()) << mapped.status();
  auto file = ParseSafetensors(mapped->bytes(), path);
  EXPECT_TRUE(file.ok()) << file.status();
  const TensorView& ids = file->tensors.at("input_ids");
  const TensorView& logits = file->tensors.at("logits");
  EXPECT_EQ(ids.type, TensorType::kI64);
  Golden golden;
  std::vector<int64_t> wide(ids.elements());
  std::memcpy(wide.data(), ids.data.data(), ids.data.size());
  golden.ids.assign(wide.begin(), wide.end());
  golden.logits.resize(logits.elements());
  EXPECT_TRUE(ConvertToFloat(logits, "logits", golden.logits.data()).ok());
  return golden;
}

double RelativeError(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0;
  double largest = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    if (!std::isfinite(a[i])) return INFINITY;
    difference = std::max(difference, std::abs(double{a[i]} - b[i]));
    largest = std::max(largest, std::abs(double{b[i]}));
  }
  return difference / largest;
}

std::unique_ptr<Decoder> LoadDecoder(const std::string& directory) {
  auto decoder = Decoder::Load(directory, &CpuDevice());
  EXPECT_TRUE(decoder.ok()) << decoder.status();
  return decoder.ok() ? std::move(*decoder) : nullptr;
}

/// Logits of `ids`, given to the decoder `chunk` at a time.
std::vector<float> LogitsOf(const Decoder& decoder, const std::vector<TokenId>& ids, size_t chunk) {
  const size_t vocab = decoder.config().vocab_size;
  DenseCache cache(decoder.config(), &CpuDevice(), ids.size());
  std::vector<float> logits(ids.size() * vocab);
  for (size_t at = 0; at < ids.size(); at += chunk) {
    const std::span<const TokenId> part(ids.data() + at, std::min(chunk, ids.size() - at));
    const Status status =
        decoder.Forward(part, at, cache, Decoder::Logits::kAll, logits.data() + at * vocab);
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(cache.length(), ids.size());
  return logits;
}

class GoldenTest : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenTest, PrefillEqualsTransformers) {
  const Golden golden = LoadGolden(GetParam());
  const auto decoder = LoadDecoder(GoldenDirectory(GetParam()));
  ASSERT_NE(decoder, nullptr);
  const double error =
      RelativeError(LogitsOf(*decoder, golden.ids, golden.ids.size()), golden.logits);
  RecordProperty("relative_error", std::to_string(error));
  EXPECT_LE(error, kTolerance);
}

TEST_P(GoldenTest, DecodingTokenByTokenEqualsTransformers) {
  const Golden golden = LoadGolden(GetParam());
  const auto decoder = LoadDecoder(GoldenDirectory(GetParam()));
  ASSERT_NE(decoder, nullptr);
  EXPECT_LE(RelativeError(LogitsOf(*decoder, golden.ids, 1), golden.logits), kTolerance);
}

TEST_P(GoldenTest, UnevenChunksEqualTransformers) {
  const Golden golden = LoadGolden(GetParam());
  const auto decoder = LoadDecoder(GoldenDirectory(GetParam()));
  ASSERT_NE(decoder, nullptr);
  EXPECT_LE(RelativeError(LogitsOf(*decoder, golden.ids, 29), golden.logits), kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, GoldenTest,
                         ::testing::Values("llama-llama3", "llama-linear-bias", "llama-yarn",
                                           "llama-yarn-mscale", "mistral-sharded",
                                           "llama-yarn-partial", "qwen2-bf16", "qwen3-head-dim",
                                           "mistral-window", "qwen2-window", "mixtral",
                                           "mixtral-sharded", "qwen3-moe", "qwen3-moe-sharded",
                                           "phi3-longrope", "phi3-sharded", "gemma2",
                                           "gemma2-sharded", "gemma3", "gemma3-sharded",
                                           "deepseek-v2", "deepseek-v3-bf16", "deepseek-v3-halves"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// One change to a checkpoint's config.json that makes it another model with the same weights.
struct Control {
  const char* label;
  const char* checkpoint;
  const char* pointer;  ///< JSON pointer of the field to replace
  const char* value;    ///< JSON text
};

class NegativeControl : public ::testing::TestWithParam<Control> {};

TEST_P(NegativeControl, ExceedsTheTolerance) {
  const Control& control = GetParam();
  const testing::TempDir directory;
  const std::string source = GoldenDirectory(control.checkpoint);
  std::filesystem::copy(
      source, directory.path(),
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  auto text = ReadTextFile(source + "/config.json", 1 << 20);
  ASSERT_TRUE(text.ok());
  nlohmann::json config = nlohmann::json::parse(*text);
  config[nlohmann::json::json_pointer(control.pointer)] = nlohmann::json::parse(control.value);
  std::ofstream(directory / "config.json") << config.dump();

  const Golden golden = LoadGolden(control.checkpoint);
  const auto decoder = LoadDecoder(directory.path());
  ASSERT_NE(decoder, nullptr);
  EXPECT_GE(RelativeError(LogitsOf(*decoder, golden.ids, golden.ids.size()), golden.logits),
            kNoticeable);
}

INSTANTIATE_TEST_SUITE_P(
    Configs, NegativeControl,
    ::testing::Values(
        Control{"Llama3AsDefault", "llama-llama3", "/rope_parameters", R"({"rope_theta": 500.0})"},
        Control{"Llama3OtherBand", "llama-llama3", "/rope_parameters/low_freq_factor", "2.0"},
        Control{"LinearAsDefault", "llama-linear-bias", "/rope_scaling", "null"},
        Control{"YarnAsLinear", "llama-yarn", "/rope_parameters",
                R"({"rope_type": "linear", "factor": 4.0, "rope_theta": 1000.0})"},
        Control{"YarnMagnitude", "llama-yarn", "/rope_parameters/attention_factor", "1.0"},
        Control{"YarnOtherRamp", "llama-yarn-mscale", "/rope_scaling/beta_fast", "32.0"},
        Control{"YarnOtherMscale", "llama-yarn-mscale", "/rope_scaling/mscale_all_dim", "1.0"},
        Control{"PartAsWholeHeads", "llama-yarn-partial", "/rope_parameters/partial_rotary_factor",
                "1.0"},
        Control{"RampAtWholePairs", "llama-yarn-partial", "/rope_parameters/truncate", "true"},
        Control{"OtherTheta", "qwen3-head-dim", "/rope_parameters/rope_theta", "10000.0"},
        Control{"OneTokenMore", "mistral-window", "/sliding_window", "21"},
        Control{"OneTokenLess", "qwen2-window", "/sliding_window", "16"},
        Control{"OneMoreLayerSlides", "qwen2-window", "/layer_types",
                R"(["sliding_attention", "sliding_attention", "sliding_attention"])"},
        Control{"OneExpertLess", "mixtral", "/num_experts_per_tok", "1"},
        Control{"WeightsAsTheyAre", "qwen3-moe", "/norm_topk_prob", "false"},
        Control{"WeightsThatAddUpToOne", "qwen3-moe-sharded", "/norm_topk_prob", "true"},
        Control{"ShortFactors", "phi3-longrope", "/rope_parameters/long_factor",
                "[1.0, 1.1, 1.2, 1.3]"},
        Control{"NoCapOfScores", "gemma2", "/attn_logit_softcapping", "null"},
        Control{"NoCapOfLogits", "gemma2", "/final_logit_softcapping", "null"},
        Control{"OtherQueryScale", "gemma2", "/query_pre_attn_scalar", "12"},
        Control{"OtherQueryScaleBehindANorm", "gemma3", "/query_pre_attn_scalar", "12"},
        Control{"OneRotation", "gemma3", "/rope_parameters/sliding_attention/rope_theta", "1e6"},
        Control{"OtherPattern", "gemma3-sharded", "/sliding_window_pattern", "2"},
        Control{"LatentScale", "deepseek-v3-bf16", "/rope_scaling/mscale_all_dim", "0.5"},
        Control{"NeighboursAsHalves", "deepseek-v3-bf16", "/rope_interleave", "false"},
        Control{"HalvesAsNeighbours", "deepseek-v3-halves", "/rope_interleave", "true"},
        Control{"OtherThetaOfLatents", "deepseek-v2", "/rope_parameters/rope_theta", "10000.0"},
        Control{"OtherEpsilon", "mistral-sharded", "/rms_norm_eps", "0.1"}),
    [](const auto& info) { return std::string(info.param.label); });

}  // namespace
}  // namespace quire::worker
