// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "common/json/json.h"
#include "gpuworker/model/checkpoint/pages_spec.h"
#include "gpuworker/model/checkpoint/safetensors_builder.h"
#include "gpuworker/model/dense_cache.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"

namespace quire::worker {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;
using testing::WriteFile;

constexpr char kGoldens[] = QUIRE_SOURCE_DIR "/tests/data/golden/";

std::unique_ptr<Decoder> Loaded(const std::string& directory) {
  auto decoder = Decoder::Load(directory, &CpuDevice());
  EXPECT_TRUE(decoder.ok()) << decoder.status();
  return decoder.ok() ? std::move(*decoder) : nullptr;
}

/// A copy of a golden checkpoint that a test may change.
class EditedCheckpoint {
 public:
  explicit EditedCheckpoint(const std::string& golden) {
    std::filesystem::copy(kGoldens + golden, directory_.path(),
                          std::filesystem::copy_options::recursive);
  }
  const std::string& path() const { return directory_.path(); }
  std::string operator/(const std::string& name) const { return directory_ / name; }

  void SetConfig(const char* field, const nlohmann::json& value) {
    nlohmann::json config = nlohmann::json::parse(Read("config.json"));
    config[field] = value;
    WriteFile(directory_ / "config.json", config.dump());
  }
  /// Replaces the first `from` in the header of model.safetensors.
  void EditHeader(const std::string& from, const std::string& to) {
    const std::string bytes = Read("model.safetensors");
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    std::string header = bytes.substr(sizeof length, length);
    const size_t at = header.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    header.replace(at, from.size(), to);
    WriteFile(directory_ / "model.safetensors",
              testing::Safetensors(header, bytes.substr(sizeof length + length)));
  }

 private:
  std::string Read(const std::string& name) {
    auto text = ReadTextFile(directory_ / name, 1 << 24);
    EXPECT_TRUE(text.ok()) << text.status();
    return *text;
  }
  const TempDir directory_;
};

void ExpectLoadError(const std::string& directory, StatusCode code,
                     std::initializer_list<const char*> parts) {
  const auto decoder = Decoder::Load(directory, &CpuDevice());
  ASSERT_FALSE(decoder.ok());
  EXPECT_EQ(decoder.status().code(), code) << decoder.status();
  for (const char* part : parts) {
    EXPECT_THAT(std::string(decoder.status().message()), HasSubstr(part));
  }
}

std::vector<TokenId> Tokens(size_t count) {
  std::vector<TokenId> tokens(count);
  for (size_t i = 0; i < count; ++i) tokens[i] = static_cast<TokenId>(i * 37 % 96);
  return tokens;
}

/// Passes steps on to a dense cache and remembers them.
class Recorder final : public AttentionBackend {
 public:
  explicit Recorder(const ModelConfig& config)
      : cache_(config, &CpuDevice(), config.max_positions) {}
  Status Attend(const LayerStep& step) override {
    steps.push_back(step);
    return cache_.Attend(step);
  }
  std::vector<LayerStep> steps;

 private:
  DenseCache cache_;
};

/// A device without a single kernel.
class BareDevice final : public Device {
 public:
  std::string_view name() const override { return "bare"; }
  const kernels::KernelTable& kernels() const override { return table_; }
  void* stream() const override { return nullptr; }
  MemoryType memory_type() const override { return MemoryType::kHost; }
  Status CopyToDevice(void*, const void*, size_t) override { return Internal("not used"); }
  Status CopyToHost(void*, const void*, size_t) override { return Internal("not used"); }
  Status CopyOnDevice(void*, const void*, size_t) override { return Internal("not used"); }
  Status Synchronize() override { return OkStatus(); }

 protected:
  void* AllocateBytes(size_t) override { return nullptr; }
  void FreeBytes(void*) override {}

 private:
  const kernels::KernelTable table_{};
};

TEST(DecoderLoad, AKernelThatTheDeviceDoesNotHaveIsNamed) {
  BareDevice device;
  const auto decoder = Decoder::Load(std::string(kGoldens) + "llama-yarn", &device);
  EXPECT_EQ(decoder.status().code(), StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(decoder.status().message()), HasSubstr("device bare has no kernel"));
  ModelConfig config;
  config.num_layers = 1;
  EXPECT_EQ(DenseCache(config, &device, 1).Attend({}).code(), StatusCode::kUnimplemented);
}

TEST(DecoderLoad, ADirectoryWithoutAModelIsNotFound) {
  const TempDir empty;
  ExpectLoadError(empty.path(), StatusCode::kNotFound, {"config.json"});
  std::filesystem::copy(std::string(kGoldens) + "llama-yarn/config.json", empty.path());
  ExpectLoadError(empty.path(), StatusCode::kNotFound, {"model.safetensors"});
}

TEST(DecoderLoad, AMissingTensorIsNamed) {
  EditedCheckpoint checkpoint("llama-yarn");
  checkpoint.EditHeader("layers.1.self_attn.k_proj", "layers.1.self_attn.x_proj");
  ExpectLoadError(checkpoint.path(), StatusCode::kInvalidArgument,
                  {"model.safetensors", "model.layers.1.self_attn.k_proj.weight", "missing"});
}

TEST(DecoderLoad, ATensorOfAnotherShapeIsNamedWithBothShapes) {
  EditedCheckpoint checkpoint("llama-yarn");
  checkpoint.SetConfig("intermediate_size", 47);
  ExpectLoadError(checkpoint.path(), StatusCode::kInvalidArgument,
                  {"model.layers.0.mlp.gate_proj.weight", "[48, 32]", "[47, 32]"});
}

TEST(DecoderLoad, ATensorThatTheModelHasNoPlaceForIsNamed) {
  EditedCheckpoint checkpoint("llama-linear-bias");
  checkpoint.SetConfig("mlp_bias", false);
  ExpectLoadError(checkpoint.path(), StatusCode::kInvalidArgument,
                  {"mlp.down_proj.bias", "no place"});
}

TEST(DecoderLoad, UntiedEmbeddingsNeedAnOutputProjection) {
  EditedCheckpoint checkpoint("llama-llama3");
  checkpoint.SetConfig("tie_word_embeddings", false);
  ExpectLoadError(checkpoint.path(), StatusCode::kInvalidArgument, {"lm_head.weight", "missing"});
}

TEST(DecoderLoad, AnOutputThatIsTiedToTheEmbeddingMustEqualIt) {
  EditedCheckpoint checkpoint("llama-yarn");
  checkpoint.SetConfig("tie_word_embeddings", true);
  ExpectLoadError(checkpoint.path(), StatusCode::kInvalidArgument,
                  {"lm_head.weight differs from model.embed_tokens.weight"});
}

TEST(DecoderLoad, WeightsOfAnotherTypeThanTheConfigSaysAreRefused) {
  EditedCheckpoint checkpoint("llama-yarn");
  checkpoint.SetConfig("dtype", "bfloat16");
  ExpectLoadError(checkpoint.path(), StatusCode::kInvalidArgument,
                  {"model.embed_tokens.weight is F32, but config.json says bfloat16"});
}

TEST(DecoderLoad, AGenerationConfigOfAnotherModelIsRefused) {
  EditedCheckpoint checkpoint("llama-yarn");
  testing::WriteFile(checkpoint / "generation_config.json", R"({"eos_token_id": 7})");
  ExpectLoadError(checkpoint.path(), StatusCode::kInvalidArgument,
                  {"generation_config.json: eos_token_id is 7"});
}

TEST(DecoderLoad, ATypeThatIsNotAFloatIsNamed) {
  EditedCheckpoint checkpoint("llama-yarn");
  checkpoint.EditHeader(R"("model.norm.weight":{"dtype":"F32")",
                        R"("model.norm.weight":{"dtype":"I32")");
  ExpectLoadError(checkpoint.path(), StatusCode::kInvalidArgument,
                  {"model.safetensors", "model.norm.weight", "I32"});
}

TEST(DecoderLoad, ATruncatedCheckpointIsRefused) {
  EditedCheckpoint checkpoint("llama-yarn");
  const std::string file = checkpoint / "model.safetensors";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  ExpectLoadError(checkpoint.path(), StatusCode::kInvalidArgument,
                  {"model.safetensors", "truncated"});
}

TEST(DecoderLoad, HeadCountsThatDoNotDivideAreRefusedWithBothNumbers) {
  EditedCheckpoint checkpoint("llama-yarn");
  checkpoint.SetConfig("num_attention_heads", 4);
  checkpoint.SetConfig("num_key_value_heads", 3);
  ExpectLoadError(checkpoint.path(), StatusCode::kInvalidArgument,
                  {"config.json",
                   "num_attention_heads is 4, must be a multiple of "
                   "num_key_value_heads 3"});
}

TEST(DecoderLoad, ImpossibleShapesNeverAllocate) {
  EditedCheckpoint checkpoint("llama-yarn");
  checkpoint.SetConfig("vocab_size", 1 << 24);
  checkpoint.SetConfig("hidden_size", 1 << 20);
  ExpectLoadError(checkpoint.path(), StatusCode::kInvalidArgument, {"model.embed_tokens.weight"});
}

class Forward : public ::testing::Test {
 protected:
  Forward() : checkpoint_("llama-llama3") {
    checkpoint_.SetConfig("max_position_embeddings", 2000);
    decoder_ = Loaded(checkpoint_.path());
  }
  std::vector<float> Logits(size_t rows) const {
    return std::vector<float>(rows * decoder_->config().vocab_size, -1.0f);
  }
  Status Run(const std::vector<TokenId>& tokens, uint64_t first,
             AttentionBackend& attention) const {
    return decoder_->Forward(tokens, first, attention, Decoder::Logits::kNone, nullptr);
  }
  void ExpectInvalid(const std::vector<TokenId>& tokens, uint64_t first, const char* part) const {
    Recorder recorder(decoder_->config());
    const Status status = Run(tokens, first, recorder);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    EXPECT_TRUE(recorder.steps.empty());
  }
  EditedCheckpoint checkpoint_;
  std::unique_ptr<Decoder> decoder_;
};

TEST_F(Forward, RefusesTokensOutsideTheVocabularyBeforeItTouchesTheCache) {
  ExpectInvalid({1, 2, 96}, 0, "token 2 has id 96");
  ExpectInvalid({-1}, 0, "token 0 has id -1");
  ExpectInvalid({}, 0, "no tokens");
}

TEST_F(Forward, RefusesPositionsPastTheContext) {
  ExpectInvalid(Tokens(2001), 0, "context of 2000");
  ExpectInvalid({1}, 2000, "context of 2000");
  ExpectInvalid({1, 2}, 1999, "context of 2000");
  ExpectInvalid({1, 2}, ~uint64_t{0}, "context of 2000");
}

// Within the context dynamic NTK turns keys as no scaling does; beyond it every cached key would
// have to be turned anew with each token.
TEST(DynamicNtk, IsPlainWithinTheContextAndRefusesPositionsBeyondIt) {
  EditedCheckpoint plain("llama-llama3"), dynamic("llama-llama3");
  for (EditedCheckpoint* checkpoint : {&plain, &dynamic}) {
    checkpoint->SetConfig("max_position_embeddings", 64);
  }
  plain.SetConfig("rope_parameters", {{"rope_type", "default"}, {"rope_theta", 500.0}});
  dynamic.SetConfig("rope_parameters",
                    {{"rope_type", "dynamic"}, {"rope_theta", 500.0}, {"factor", 4.0}});
  std::vector<std::vector<float>> logits;
  for (const EditedCheckpoint* checkpoint : {&plain, &dynamic}) {
    const auto decoder = Loaded(checkpoint->path());
    ASSERT_NE(decoder, nullptr);
    DenseCache cache(decoder->config(), &CpuDevice(), 256);
    logits.emplace_back(decoder->config().vocab_size);
    ASSERT_EQ(decoder->Forward(Tokens(64), 0, cache, Decoder::Logits::kLast, logits.back().data()),
              OkStatus());
    const std::vector<TokenId> next = {1};
    const Status status =
        decoder->Forward(next, 64, cache, Decoder::Logits::kLast, logits.back().data());
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("1 tokens from position 64 on pass the end of the model's context of 64 "
                          "positions; use a shorter prompt or fewer new tokens"));
    EXPECT_EQ(cache.length(), 64u);
  }
  EXPECT_EQ(logits[0], logits[1]);
}

TEST_F(Forward, TheLastRowIsTheLastOfAll) {
  const std::vector<TokenId> tokens = Tokens(1100);
  const size_t vocab = decoder_->config().vocab_size;
  std::vector<float> all = Logits(tokens.size());
  std::vector<float> last = Logits(1);
  DenseCache a(decoder_->config(), &CpuDevice(), 2000);
  DenseCache b(decoder_->config(), &CpuDevice(), 2000);
  ASSERT_TRUE(decoder_->Forward(tokens, 0, a, Decoder::Logits::kAll, all.data()).ok());
  ASSERT_TRUE(decoder_->Forward(tokens, 0, b, Decoder::Logits::kLast, last.data()).ok());
  for (size_t i = 0; i < vocab; ++i) EXPECT_NEAR(last[i], all[all.size() - vocab + i], 1e-4);
}

TEST_F(Forward, LongPromptsRunInBlocksOfBoundedSize) {
  const uint32_t block = Decoder::kBlockTokens;
  Recorder recorder(decoder_->config());
  ASSERT_TRUE(Run(Tokens(2 * block + 5), 0, recorder).ok());
  ASSERT_EQ(recorder.steps.size(), 3u * decoder_->config().num_layers);
  uint64_t position = 0;
  for (size_t i = 0; i < recorder.steps.size(); ++i) {
    const LayerStep& step = recorder.steps[i];
    EXPECT_EQ(step.layer, i % decoder_->config().num_layers);
    EXPECT_EQ(step.first_position, position);
    EXPECT_EQ(step.num_tokens, i < 4 ? block : 5u);
    if (step.layer + 1 == decoder_->config().num_layers) position += step.num_tokens;
  }
}

TEST_F(Forward, BlocksDoNotChangeTheResult) {
  const std::vector<TokenId> tokens = Tokens(Decoder::kBlockTokens + 200);
  std::vector<float> whole = Logits(1);
  std::vector<float> parts = Logits(1);
  DenseCache a(decoder_->config(), &CpuDevice(), 2000);
  DenseCache b(decoder_->config(), &CpuDevice(), 2000);
  ASSERT_TRUE(decoder_->Forward(tokens, 0, a, Decoder::Logits::kLast, whole.data()).ok());
  for (size_t at = 0; at < tokens.size(); at += 100) {
    const std::span<const TokenId> part(tokens.data() + at,
                                        std::min<size_t>(100, tokens.size() - at));
    ASSERT_TRUE(decoder_->Forward(part, at, b, Decoder::Logits::kLast, parts.data()).ok());
  }
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(whole[i], parts[i], 1e-4);
}

TEST_F(Forward, TheBackendsErrorComesBackWithItsLayer) {
  class Failing final : public AttentionBackend {
    Status Attend(const LayerStep& step) override {
      return step.layer == 1 ? Unavailable("the server is gone") : OkStatus();
    }
  } failing;
  const Status status = Run({1, 2}, 0, failing);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("layer 1: the server is gone"));
}

TEST_F(Forward, ConcurrentCallsWithTheirOwnCachesAgree) {
  const std::vector<TokenId> tokens = Tokens(150);
  std::vector<std::vector<float>> results(4, Logits(1));
  std::vector<std::thread> threads;
  for (std::vector<float>& logits : results) {
    threads.emplace_back([&] {
      DenseCache cache(decoder_->config(), &CpuDevice(), 150);
      EXPECT_TRUE(decoder_->Forward(tokens, 0, cache, Decoder::Logits::kLast, logits.data()).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& logits : results) EXPECT_EQ(logits, results[0]);
}

TEST(DecoderKvSpec, DescribesThePagesAndIsValid) {
  const std::pair<const char*, AttentionKind> models[] = {
      {"llama-yarn", AttentionKind::kMha},
      {"qwen3-head-dim", AttentionKind::kGqa},
      {"llama-yarn-mscale", AttentionKind::kMqa}};
  for (const auto& [name, kind] : models) {
    const auto decoder = Loaded(std::string(kGoldens) + name);
    ASSERT_NE(decoder, nullptr);
    const KvSpec spec = decoder->MakeKvSpec(DType::kF16, 16, 4);
    EXPECT_EQ(Problem(spec), "");
    EXPECT_EQ(spec.attention, kind);
    EXPECT_EQ(spec.dtype, DType::kF16);
    EXPECT_EQ(spec.page_tokens, 16u);
    EXPECT_EQ(spec.segment_pages, 4u);
    EXPECT_EQ(spec.num_layers, 2u);
    EXPECT_EQ(spec.num_query_heads, 4u);
    EXPECT_EQ(spec.num_kv_heads, decoder->config().num_kv_heads);
    EXPECT_EQ(spec.head_dim, decoder->config().head_dim);
    EXPECT_EQ(spec.rope, decoder->config().rope);
    EXPECT_THAT(spec.model, HasSubstr("ForCausalLM-"));
  }
}

TEST(DecoderKvSpec, IsTheSameForTheSameModelWhereverItLies) {
  EditedCheckpoint copy("mistral-sharded");
  const auto here = Loaded(std::string(kGoldens) + "mistral-sharded");
  const auto there = Loaded(copy.path());
  ASSERT_TRUE(here && there);
  EXPECT_EQ(here->MakeKvSpec(DType::kF32, 32, 8), there->MakeKvSpec(DType::kF32, 32, 8));
}

TEST(DecoderKvSpec, IsReadFromTheFilesAlone) {
  for (const char* name : {"llama-yarn", "mistral-sharded", "deepseek-v2", "gemma2"}) {
    const std::string directory = std::string(kGoldens) + name;
    const auto decoder = Loaded(directory);
    ASSERT_NE(decoder, nullptr);
    const auto spec = ReadSpecOfPages(directory, {.dtype = DType::kBF16});
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(*spec, decoder->MakeKvSpec(DType::kBF16, 32, 8)) << name;
  }
  EXPECT_EQ(ReadSpecOfPages("/nowhere", {}).status().code(), StatusCode::kNotFound);
}

TEST(DecoderKvSpec, DiffersWhenTheNumbersDiffer) {
  EditedCheckpoint copy("mistral-sharded");
  copy.SetConfig("rms_norm_eps", 1e-3);
  const auto here = Loaded(std::string(kGoldens) + "mistral-sharded");
  const auto other_epsilon = Loaded(copy.path());
  const auto other_weights = Loaded(std::string(kGoldens) + "llama-yarn");
  ASSERT_TRUE(here && other_epsilon && other_weights);
  const auto hash = [](const Decoder& decoder) {
    return decoder.MakeKvSpec(DType::kF32, 32, 8).weights_hash;
  };
  EXPECT_NE(hash(*here), hash(*other_epsilon));
  EXPECT_NE(hash(*here), hash(*other_weights));
}

TEST(DecoderKvSpec, TakesTheNameThatTheConfigGives) {
  EditedCheckpoint copy("llama-yarn");
  copy.SetConfig("_name_or_path", "org/recall");
  const auto decoder = Loaded(copy.path());
  ASSERT_NE(decoder, nullptr);
  EXPECT_EQ(decoder->MakeKvSpec(DType::kF32, 32, 8).model, "recall");
}

}  // namespace
}  // namespace quire::worker
