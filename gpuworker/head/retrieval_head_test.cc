// SPDX-License-Identifier: Apache-2.0
//
// The head against its definition, written out in double precision.
#include "gpuworker/head/retrieval_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/json/json.h"
#include "gpuworker/head/head_selection.h"
#include "gpuworker/model/checkpoint/pytorch/pytorch_builder.h"
#include "gpuworker/model/checkpoint/random_checkpoint.h"
#include "gpuworker/testing/random_draft.h"
#include "gpuworker/text/tokenizer.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"

namespace quire::worker {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kHidden = 16, kHeads = 4, kKvHeads = 2, kDim = 4, kVocab = 23;
constexpr uint32_t kFeatures = 3 * kHidden;
constexpr testing::DraftShape kShape = {kHidden, kHeads, kKvHeads, kDim, kVocab};

/// A model of random weights, and a draft of it.
class RetrievalHeadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string model = dir_ / "model";
    ASSERT_EQ(WriteRandomCheckpoint(model, {.num_layers = 1,
                                            .num_query_heads = kHeads,
                                            .num_kv_heads = kKvHeads,
                                            .head_dim = kDim,
                                            .intermediate_size = 8,
                                            .vocab_size = kVocab,
                                            .max_positions = 64}),
              OkStatus());
    const auto config = LoadModelConfig(model + "/config.json");
    ASSERT_TRUE(config.ok()) << config.status();
    target_ = {model, *config};
    tensors_ = testing::RandomDraftTensors(kShape, &random_);
    WriteDraft("");
  }

  std::vector<float> RandomValues(size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = random_.Normal();
    return values;
  }

  void WriteDraft(const std::string& more, const testing::DraftShape& shape = kShape) {
    testing::WriteDraft(draft_, shape, tensors_, ", \"max_position_embeddings\": 8" + more);
  }

  HeadWeights Load(HeadMode mode) {
    auto weights = LoadHeadWeights(draft_, target_, mode);
    EXPECT_TRUE(weights.ok()) << weights.status();
    return *std::move(weights);
  }
  std::string LoadError(std::optional<HeadMode> mode = {}) {
    const auto weights = LoadHeadWeights(draft_, target_, mode);
    EXPECT_EQ(weights.status().code(), StatusCode::kInvalidArgument);
    return std::string(weights.status().message());
  }

  using Row = std::vector<double>;
  Row Embedding(const HeadWeights& weights, TokenId token) const {
    std::vector<float> row(kHidden);
    EXPECT_EQ(weights.Embed(token, row.data()), OkStatus());
    return Row(row.begin(), row.end());
  }
  Row Norm(const Row& x, const std::string& name) const {
    double squares = 0;
    for (const double value : x) squares += value * value;
    Row y(x);
    const std::vector<float>& weight = tensors_.at(name).second;
    for (size_t i = 0; i < x.size(); ++i) {
      y[i] *= weight[i] / std::sqrt(squares / static_cast<double>(x.size()) + 1e-5);
    }
    return y;
  }
  Row Times(const std::string& name, const Row& x) const {
    const auto& [shape, weight] = tensors_.at(name);
    Row y(shape[0]);
    for (size_t out = 0; out < shape[0]; ++out) {
      for (size_t in = 0; in < x.size(); ++in) y[out] += weight[out * shape[1] + in] * x[in];
    }
    return y;
  }
  /// Heads of one projected row, each turned by `position` steps of the head's rotation.
  std::vector<Row> Turned(const Row& row, uint64_t position, const RopeSpec& rope) const {
    const std::vector<double> frequencies = RopeTable(rope).inverse_frequencies();
    std::vector<Row> heads;
    for (size_t at = 0; at < row.size(); at += kDim) {
      Row head(kDim);
      for (size_t i = 0; i < kDim / 2; ++i) {
        const double angle = static_cast<double>(position) * frequencies[i];
        const double a = row[at + i], b = row[at + kDim / 2 + i], m = rope.attention_factor;
        head[i] = m * (a * std::cos(angle) - b * std::sin(angle));
        head[kDim / 2 + i] = m * (b * std::cos(angle) + a * std::sin(angle));
      }
      heads.push_back(head);
    }
    return heads;
  }

  /// Weights [n_q][t + 1] of the last of `tokens` by definition; `features` are those of fc, a row
  /// for each token, none for kEmbedOnly.
  Row ByDefinition(const HeadWeights& weights, const std::vector<TokenId>& tokens,
                   const std::vector<Row>& features, uint64_t context) const {
    const RopeSpec rope = DraftRope(weights.config, context);
    std::vector<std::vector<Row>> queries, keys;
    for (size_t t = 0; t < tokens.size(); ++t) {
      Row x = Norm(Embedding(weights, tokens[t]), "midlayer.input_layernorm.weight");
      if (!features.empty()) {
        const Row merged = Norm(Times("fc.weight", features[t]), "midlayer.hidden_norm.weight");
        x.insert(x.end(), merged.begin(), merged.end());
      }
      queries.push_back(Turned(Times("midlayer.self_attn.q_proj.weight", x), t, rope));
      keys.push_back(Turned(Times("midlayer.self_attn.k_proj.weight", x), t, rope));
    }
    Row result;
    for (size_t head = 0; head < kHeads; ++head) {
      Row logits;
      for (size_t t = 0; t < tokens.size(); ++t) {
        double dot = 0;
        for (size_t c = 0; c < kDim; ++c) {
          dot += queries.back()[head][c] * keys[t][head / (kHeads / kKvHeads)][c];
        }
        logits.push_back(std::exp(dot / std::sqrt(double{kDim})));
      }
      double total = 0;
      for (const double value : logits) total += value;
      for (const double value : logits) result.push_back(value / total);
    }
    return result;
  }

  static void ExpectNear(const StatusOr<std::vector<float>>& got, const Row& wanted) {
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(got->size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR((*got)[i], wanted[i], 2e-5) << i;
  }

  testing::TempDir dir_;
  const std::string draft_ = dir_ / "draft";
  SeededRandom random_{5};
  testing::FloatTensors tensors_;
  HeadTarget target_;
  const std::vector<TokenId> tokens_ = {3, 9, 9, 22, 0, 14, 3, 9, 5, 1, 17, 8};
};

TEST_F(RetrievalHeadTest, EmbeddingsAloneByDefinition) {
  const HeadWeights weights = Load(HeadMode::kEmbedOnly);
  RetrievalHead head(&weights, 64);
  ASSERT_EQ(head.Append(tokens_), OkStatus());
  ExpectNear(head.Weights(11), ByDefinition(weights, tokens_, {}, 64));
  ExpectNear(head.Weights(4),
             ByDefinition(weights, {tokens_.begin(), tokens_.begin() + 5}, {}, 64));
}

TEST_F(RetrievalHeadTest, FeaturesOfTheTokenBeforeByDefinition) {
  const HeadWeights weights = Load(HeadMode::kEagle);
  const std::vector<float> given = RandomValues(tokens_.size() * kFeatures);
  std::vector<Row> features;
  for (size_t t = 0; t < tokens_.size(); ++t) {
    const auto row = given.begin() + static_cast<ptrdiff_t>(t * kFeatures);
    features.emplace_back(row, row + kFeatures);
  }
  RetrievalHead head(&weights, 8192);
  ASSERT_EQ(head.Append(tokens_, given), OkStatus());
  ExpectNear(head.Weights(11), ByDefinition(weights, tokens_, features, 8192));
}

TEST_F(RetrievalHeadTest, EmbeddingsOfTheTokensBeforeByDefinition) {
  const HeadWeights weights = Load(HeadMode::kTrained);
  ASSERT_EQ(weights.tokens_before(), 3u);
  std::vector<Row> features;
  for (size_t t = 0; t < tokens_.size(); ++t) {
    Row row;
    for (size_t back = 1; back <= 3; ++back) {
      const Row part = back <= t ? Embedding(weights, tokens_[t - back]) : Row(kHidden);
      row.insert(row.end(), part.begin(), part.end());
    }
    features.push_back(row);
  }
  RetrievalHead head(&weights, 8);
  EXPECT_EQ(head.Append(tokens_).code(), StatusCode::kInvalidArgument) << "12 tokens in 8";
  RetrievalHead longer(&weights, 16);
  ASSERT_EQ(longer.Append(tokens_), OkStatus());
  ExpectNear(longer.Weights(11), ByDefinition(weights, tokens_, features, 16));
}

TEST_F(RetrievalHeadTest, TokensOneByOneAreTheSame) {
  for (const HeadMode mode : {HeadMode::kEmbedOnly, HeadMode::kTrained}) {
    const HeadWeights weights = Load(mode);
    RetrievalHead at_once(&weights, 64), one_by_one(&weights, 64);
    ASSERT_EQ(at_once.Append(tokens_), OkStatus());
    for (const TokenId token : tokens_) {
      ASSERT_EQ(one_by_one.Append({&token, 1}), OkStatus());
    }
    const auto weights_at_once = at_once.Weights(11);
    ASSERT_TRUE(weights_at_once.ok());
    ExpectNear(one_by_one.Weights(11), Row(weights_at_once->begin(), weights_at_once->end()));
    EXPECT_FALSE(one_by_one.Weights(10).ok()) << "its query is gone";
    EXPECT_FALSE(one_by_one.Weights(12).ok());
  }
}

// Tokens whose keys are restored have no queries; those that are kept come back.
TEST_F(RetrievalHeadTest, QueriesOfTheLastTokensAreRenewedWhereverTheirKeysAreFrom) {
  for (const HeadMode mode : {HeadMode::kEmbedOnly, HeadMode::kTrained, HeadMode::kEagle}) {
    const HeadWeights weights = Load(mode);
    RetrievalHead computed(&weights, 64, /*kept_queries=*/3), restored(&weights, 64, 3);
    const bool is_eagle = mode == HeadMode::kEagle;
    const size_t width = is_eagle ? weights.num_features : 0;
    std::vector<float> features(tokens_.size() * width);
    for (float& value : features) value = random_.Normal();
    // In two parts: what is kept is of both.
    const size_t first = tokens_.size() - 1;
    const std::span<const float> all = features;
    ASSERT_EQ(computed.Append(std::span(tokens_).first(first), all.first(first * width)),
              OkStatus());
    ASSERT_EQ(computed.Append(std::span(tokens_).subspan(first), all.last(width)), OkStatus());
    EXPECT_EQ(computed.kept_features().size(), 3 * width);
    const Row wanted = [&] {
      const auto of_token = computed.Weights(9);
      return Row(of_token->begin(), of_token->end());
    }();
    const std::vector<float> keys = computed.Keys(0, tokens_.size());
    EXPECT_EQ(restored.Restore(tokens_, keys).ok(), !is_eagle);
    if (is_eagle) ASSERT_EQ(restored.Restore(tokens_, keys, computed.kept_features()), OkStatus());
    EXPECT_EQ(restored.first_query(), tokens_.size());
    ASSERT_EQ(restored.RenewQueries(), OkStatus());
    EXPECT_EQ(restored.first_query(), 9u);
    ExpectNear(restored.Weights(9), wanted);
    ASSERT_EQ(computed.RenewQueries(), OkStatus());
    EXPECT_EQ(computed.Weights(9).value(), restored.Weights(9).value()) << "to the bit";
  }
}

TEST_F(RetrievalHeadTest, WhatTheHeadCannotTakeIsRefused) {
  const HeadWeights weights = Load(HeadMode::kEmbedOnly);
  RetrievalHead head(&weights, 64);
  EXPECT_THAT(std::string(head.Append(std::vector<TokenId>{kVocab}).message()),
              HasSubstr("token 23 is outside"));
  EXPECT_THAT(std::string(head.Append(tokens_, RandomValues(3)).message()),
              HasSubstr("wants 0 features"));
  EXPECT_EQ(head.num_tokens(), 0u);
}

TEST_F(RetrievalHeadTest, ADraftOfAnotherModelIsRefused) {
  WriteDraft("", {kHidden, kHeads, kKvHeads, kDim, 99});
  EXPECT_THAT(LoadError(), HasSubstr("vocab_size is 99, the model has 23 tokens"));
  WriteDraft("", {kHidden, kHeads, kKvHeads, 8, kVocab});
  EXPECT_THAT(LoadError(),
              HasSubstr("q_proj.weight has shape [16, 32], the draft's config.json asks "
                        "for [32, 32]"));
  WriteDraft("");
  tensors_["fc.weight"].first = {kHidden, kFeatures / 2};
  tensors_["fc.weight"].second.resize(kHidden * kFeatures / 2);
  WriteDraft("");
  EXPECT_THAT(LoadError(HeadMode::kEagle), HasSubstr("has 3 hidden states of 16 values"));
  tensors_.erase("midlayer.self_attn.k_proj.weight");
  WriteDraft("");
  EXPECT_THAT(LoadError(), HasSubstr("tensor midlayer.self_attn.k_proj.weight is missing"));
}

TEST_F(RetrievalHeadTest, ADraftsOwnEmbeddingsGoFirst) {
  tensors_["embed_tokens.weight"] = {{kVocab, kHidden}, RandomValues(kVocab * kHidden)};
  WriteDraft("");
  const HeadWeights weights = Load(HeadMode::kEmbedOnly);
  std::vector<float> row(kHidden);
  ASSERT_EQ(weights.Embed(2, row.data()), OkStatus());
  EXPECT_EQ(row[3], tensors_["embed_tokens.weight"].second[2 * kHidden + 3]);
}

TEST_F(RetrievalHeadTest, ADraftOfPytorchIsTheSame) {
  WriteDraft("");
  const HeadWeights safetensors = Load(HeadMode::kEagle);
  std::filesystem::remove(draft_ + "/model.safetensors");
  testing::WriteFile(draft_ + "/pytorch_model.bin", testing::PytorchFile(tensors_));
  const HeadWeights pickled = Load(HeadMode::kEagle);
  EXPECT_EQ(pickled.q, safetensors.q);
  EXPECT_EQ(pickled.k, safetensors.k);
  EXPECT_EQ(pickled.fc, safetensors.fc);
  tensors_.erase("fc.weight");
  testing::WriteFile(draft_ + "/pytorch_model.bin", testing::PytorchFile(tensors_));
  EXPECT_THAT(LoadError(HeadMode::kEagle),
              HasSubstr("pytorch_model.bin: tensor fc.weight is missing"));
}

// The head that lies beside the bundled model.
TEST(BundledHeadTest, ItFindsThePageThatAQuestionIsAbout) {
  const std::string model = QUIRE_BUNDLED_MODEL;
  const auto config = LoadModelConfig(model + "/config.json");
  ASSERT_TRUE(config.ok()) << config.status();
  const auto weights = LoadHeadWeights(model + "/" + kHeadFolder, {model, *config});
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->mode, HeadMode::kTrained);
  const auto tokenizer = Tokenizer::Load(model + "/tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto text = ReadTextFile(model + "/documents/dossier-01.txt", 1 << 20);
  ASSERT_TRUE(text.ok()) << text.status();

  const std::string key = " Hector Nash has instrument";
  const size_t place = text->find(key);
  ASSERT_NE(place, std::string::npos);
  const size_t page = tokenizer->Encode(text->substr(0, place + key.size()))->size() / 16;
  const auto tokens = tokenizer->Encode(*text + "\nQuestion:" + key);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  RetrievalHead head(&*weights, config->max_positions);
  ASSERT_EQ(head.Append(*tokens), OkStatus());
  const auto of_last = head.Weights(tokens->size() - 1);
  ASSERT_TRUE(of_last.ok()) << of_last.status();
  const std::vector<float> groups = GroupWeights(*of_last, 4, 2, 2);
  for (size_t kv = 0; kv < 2; ++kv) {
    const auto row = std::span(groups).subspan(kv * tokens->size(), tokens->size());
    const std::vector<float> pages = PageWeights(row, 16);
    const auto heavier = std::ranges::count_if(pages, [&](float w) { return w > pages[page]; });
    EXPECT_LT(heavier, 8) << "of " << pages.size() << " pages, KV head " << kv;
  }
}

}  // namespace
}  // namespace quire::worker
