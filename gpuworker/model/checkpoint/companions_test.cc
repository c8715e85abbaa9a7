// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/checkpoint/companions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "gpuworker/model/checkpoint/safetensors_builder.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"

namespace quire::worker {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;
using testing::WriteFile;

void ExpectRefused(const Status& status, const std::string& part) {
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(status)), HasSubstr(part));
}

class CompanionsTest : public ::testing::Test {
 protected:
  Status Check(const std::string& generation, const std::string& tokenizer) {
    if (!generation.empty()) WriteFile(directory_ / "generation_config.json", generation);
    if (!tokenizer.empty()) WriteFile(directory_ / "tokenizer_config.json", tokenizer);
    config_ = {.vocab_size = 200000, .bos_id = 128000, .eos_ids = {128001}};
    return ReadCompanions(directory_.path(), &config_);
  }
  const TempDir directory_;
  ModelConfig config_;
};

TEST_F(CompanionsTest, ACheckpointNeedsNone) { EXPECT_EQ(Check("", ""), OkStatus()); }

TEST_F(CompanionsTest, FurtherEndsOfAChatModelAreAccepted) {
  const char* tokenizer =
      R"({"eos_token": "<|eot_id|>", "added_tokens_decoder": {
          "128001": {"content": "<|end_of_text|>"}, "128009": {"content": "<|eot_id|>"}}})";
  EXPECT_EQ(Check(R"({"bos_token_id": 128000, "eos_token_id": [128001, 128009],
                      "temperature": 0.6})",
                  tokenizer),
            OkStatus());
  EXPECT_THAT(config_.eos_ids, ::testing::ElementsAre(128001, 128009)) << "all of them end";
  EXPECT_EQ(Check("", R"({"eos_token": {"content": "</s>"}})"), OkStatus()) << "it has no id";
}

TEST_F(CompanionsTest, AnEndOfAnotherCheckpointIsRefused) {
  ExpectRefused(Check(R"({"eos_token_id": 2})", ""),
                "generation_config.json: eos_token_id is 2, but eos_token_id of config.json is "
                "128001");
  ExpectRefused(Check(R"({"eos_token_id": 128001})", R"({"eos_token": {"content": "</s>"},
      "added_tokens_decoder": {"2": {"content": "</s>"}}})"),
                "tokenizer_config.json: eos_token is 2");
  ExpectRefused(Check(R"({"bos_token_id": 1})", ""),
                "generation_config.json: bos_token_id is 1, but that of config.json is 128000");
  ExpectRefused(Check(R"({"eos_token_id": "2"})", ""), "must be an id or a list of ids");
  ExpectRefused(Check(R"({"eos_token_id": [128001, -1]})", ""), "must be an id or a list of ids");
  ExpectRefused(Check("[]", ""), "not a JSON object");
  ExpectRefused(Check("{", ""), "not valid JSON");
}

TEST(CheckTextSettingsTest, WhatTextBecomesHereIsWhatTheFileSays) {
  const auto check = [](const std::string& text) {
    return CheckTextSettings(text, "tokenizer_config.json", /*begins_texts=*/true);
  };
  EXPECT_EQ(check(R"({"add_bos_token": true, "add_eos_token": false, "model_max_length": 4096,
                      "tokenizer_class": "QuireWords", "eos_token": "<eos>"})"),
            OkStatus());
  EXPECT_EQ(check("{}"), OkStatus());
  ExpectRefused(check(R"({"add_bos_token": false})"),
                "tokenizer_config.json: add_bos_token is false, but tokenizer.json puts a token");
  EXPECT_EQ(CheckTextSettings(R"({"add_bos_token": false})", "tokenizer_config.json",
                              /*begins_texts=*/false),
            OkStatus());
  for (const char* const field :
       {"add_eos_token", "add_prefix_space", "do_lower_case", "split_special_tokens"}) {
    ExpectRefused(check("{\"" + std::string(field) + "\": true}"),
                  std::string(field) + " is true, which is not done here");
  }
  ExpectRefused(check(R"({"normalizer": "nfkc"})"), "normalizer");
  const TempDir directory;
  const auto tokenizer = Tokenizer::Load(QUIRE_SOURCE_DIR "/models/recall-small/tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(CheckTextSettingsOf(directory.path(), *tokenizer), OkStatus());
  WriteFile(directory / "tokenizer_config.json", R"({"add_eos_token": true})");
  ExpectRefused(CheckTextSettingsOf(directory.path(), *tokenizer), "add_eos_token is true");
}

TEST(CheckTokenizerTest, AVocabularyAndItsEndsMustBeTheModels) {
  const auto tokenizer = Tokenizer::Load(QUIRE_SOURCE_DIR "/models/recall-small/tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto check = [&](const ModelConfig& config) {
    return CheckTokenizer(*tokenizer, "tokenizer.json", config);
  };
  const auto size = static_cast<uint32_t>(tokenizer->vocab_size());
  EXPECT_EQ(check({.vocab_size = size}), OkStatus());
  EXPECT_EQ(check({.vocab_size = size + 64, .bos_id = 0, .eos_ids = {5, 1}}), OkStatus());
  ExpectRefused(check({.vocab_size = size - 1}), "tokens, but vocab_size of config.json is");
  ExpectRefused(check({.vocab_size = size, .bos_id = 1}), "texts begin with 0");
  ExpectRefused(check({.vocab_size = size, .eos_ids = {2}}), "sequences end with 1");
}

}  // namespace
}  // namespace quire::worker
