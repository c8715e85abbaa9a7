// SPDX-License-Identifier: Apache-2.0
//
// The bundled model does what it is bundled for: with dense attention it answers questions over its
// bundled documents. This is the bar that sparse attention is measured against.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "common/json/json.h"
#include "gpuworker/model/decoder.h"
#include "gpuworker/model/dense_cache.h"
#include "gpuworker/model/sampler.h"
#include "gpuworker/text/tokenizer.h"
#include "tests/kit/paths.h"

namespace quire::worker {
namespace {

constexpr size_t kMaxTextBytes = 1 << 20;
constexpr size_t kDocuments = 4;  ///< Number of bundled documents used, spread over all.
constexpr double kLeastShareCorrect =
    0.8;  ///< The model's own measure is above 0.9; these are few questions.

struct Question {
  std::string document;
  std::string prompt;
  std::string answer;
};

std::vector<Question> LoadQuestions() {
  auto text =
      ReadTextFile(std::string(QUIRE_BUNDLED_MODEL) + "/documents/questions.jsonl", kMaxTextBytes);
  EXPECT_TRUE(text.ok()) << text.status();
  std::istringstream lines(text.ok() ? *text : "");
  std::vector<Question> questions;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json json = nlohmann::json::parse(line);
    questions.push_back({json["document"], json["question"], json["answer"]});
  }
  return questions;
}

class RecallSmall : public ::testing::Test {
 protected:
  void SetUp() override {
    auto decoder = Decoder::Load(QUIRE_BUNDLED_MODEL, &CpuDevice());
    ASSERT_TRUE(decoder.ok()) << decoder.status();
    decoder_ = std::move(*decoder);
    auto tokenizer = Tokenizer::Load(std::string(QUIRE_BUNDLED_MODEL) + "/tokenizer.json");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = std::make_unique<Tokenizer>(std::move(*tokenizer));
    cache_ = std::make_unique<DenseCache>(decoder_->config(), &CpuDevice(),
                                          decoder_->config().max_positions);
    logits_.resize(decoder_->config().vocab_size);
  }

  Status Run(std::span<const TokenId> tokens) {
    return decoder_->Forward(tokens, cache_->length(), *cache_, Decoder::Logits::kLast,
                             logits_.data());
  }

  Status ReadDocument(const std::string& name) {
    QUIRE_ASSIGN_OR_RETURN(
        const std::string text,
        ReadTextFile(std::string(QUIRE_BUNDLED_MODEL) + "/documents/" + name, kMaxTextBytes));
    std::vector<TokenId> tokens = *tokenizer_->Encode(text);
    tokens.insert(tokens.begin(), tokenizer_->starts().front());
    EXPECT_GE(tokens.size(), 4096u) << name;
    QUIRE_RETURN_IF_ERROR(cache_->Truncate(0));
    return Run(tokens);
  }

  /// The greedy continuation of the cached document and the prompt, as long as the expected answer.
  StatusOr<std::string> Answer(const Question& question) {
    const uint64_t document_tokens = cache_->length();
    QUIRE_ASSIGN_OR_RETURN(Sampler greedy, Sampler::Create({}));
    QUIRE_RETURN_IF_ERROR(Run(*tokenizer_->Encode(question.prompt)));
    std::vector<TokenId> answer;
    for (size_t left = (*tokenizer_->Encode(question.answer)).size(); left > 0; --left) {
      QUIRE_ASSIGN_OR_RETURN(const TokenId next, greedy.Sample(logits_));
      answer.push_back(next);
      if (left > 1) QUIRE_RETURN_IF_ERROR(Run({&answer.back(), 1}));
    }
    QUIRE_RETURN_IF_ERROR(cache_->Truncate(document_tokens));
    return tokenizer_->Decode(answer);
  }

  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<DenseCache> cache_;
  std::vector<float> logits_;
};

TEST_F(RecallSmall, TokenizerAndModelBelongTogether) {
  EXPECT_EQ(tokenizer_->vocab_size(), decoder_->config().vocab_size);
  EXPECT_EQ(decoder_->config().bos_id, tokenizer_->starts().front());
  EXPECT_EQ(decoder_->config().eos_ids, std::vector<TokenId>{tokenizer_->ends().front()});
  EXPECT_EQ(Problem(decoder_->MakeKvSpec(DType::kF16, 32, 8)), "");
}

TEST_F(RecallSmall, AnswersQuestionsOverItsDocuments) {
  const std::vector<Question> questions = LoadQuestions();
  std::set<std::string> names;
  for (const Question& question : questions) names.insert(question.document);
  ASSERT_GE(names.size(), 20u);
  size_t asked = 0;
  size_t correct = 0;
  size_t index = 0;
  for (const std::string& name : names) {
    if (index++ % (names.size() / kDocuments) != 0) continue;
    ASSERT_TRUE(ReadDocument(name).ok()) << name;
    for (const Question& question : questions) {
      if (question.document != name) continue;
      auto answer = Answer(question);
      ASSERT_TRUE(answer.ok()) << answer.status();
      ++asked;
      correct += *answer == question.answer ? 1 : 0;
    }
  }
  RecordProperty("asked", static_cast<int>(asked));
  RecordProperty("correct", static_cast<int>(correct));
  ASSERT_GE(asked, 20u);
  EXPECT_GE(correct, kLeastShareCorrect * asked) << correct << " of " << asked;
}

}  // namespace
}  // namespace quire::worker
