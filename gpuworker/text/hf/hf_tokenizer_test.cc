// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/hf/hf_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/base/random.h"
#include "common/base/utf8.h"
#include "common/json/json.h"
#include "tests/kit/paths.h"

namespace quire::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kGoldens[] = QUIRE_SOURCE_DIR "/tests/data/golden/text/";

/// tools/golden/make_text_golden.py has made these with Hugging Face's `tokenizers`.
constexpr const char* kFamilies[] = {"llama3", "qwen", "mistral_nemo", "gpt2", "llama2", "mistral"};

nlohmann::json ReadJson(const std::string& name) {
  auto text = ReadTextFile(kGoldens + name, 16 << 20);
  EXPECT_TRUE(text.ok()) << text.status();
  return nlohmann::json::parse(*text);
}

HfTokenizer Read(const nlohmann::json& json) {
  auto tokenizer = HfTokenizer::Parse(json, "tokenizer.json");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

std::vector<TokenId> Encode(const HfTokenizer& tokenizer, std::string_view text) {
  auto ids = tokenizer.Encode(text);
  EXPECT_TRUE(ids.ok()) << ids.status();
  return *std::move(ids);
}

/// CRC-32 of IEEE 802.3, as Python's zlib has it.
uint32_t Crc32(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
  }
  return ~crc;
}

class HfTokenizerGolden : public ::testing::TestWithParam<const char*> {
 protected:
  const nlohmann::json goldens_ = ReadJson("encodings.json");
  const nlohmann::json& family_ = goldens_["families"][GetParam()];
  const HfTokenizer tokenizer_ = Read(ReadJson(std::string(GetParam()) + ".json"));
};

TEST_P(HfTokenizerGolden, GivesTheIdsAndTheTextOfThePackage) {
  const auto texts = goldens_["texts"].get<std::vector<std::string>>();
  ASSERT_GT(texts.size(), 200u);
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto ids = family_["ids"][i].get<std::vector<TokenId>>();
    EXPECT_EQ(Encode(tokenizer_, texts[i]), ids) << texts[i];
    EXPECT_EQ(*tokenizer_.Decode(ids), family_["decoded"][i].get<std::string>()) << texts[i];
  }
}

TEST_P(HfTokenizerGolden, GivesTheIdsOfThePackageForALineOfHalfAMegabyte) {
  std::string line;
  for (int repeat = 0; repeat < goldens_["long_repeats"].get<int>(); ++repeat) {
    for (std::string text : goldens_["texts"].get<std::vector<std::string>>()) {
      std::ranges::replace(text, '\n', ' ');
      line += text + ' ';
    }
  }
  // The script joins the texts of one repeat by spaces, and the repeats by nothing.
  std::string joined;
  const size_t period = line.size() / goldens_["long_repeats"].get<size_t>();
  for (size_t at = 0; at < line.size(); at += period) joined += line.substr(at, period - 1);
  ASSERT_EQ(joined.size(), goldens_["long_bytes"].get<size_t>());
  const std::vector<TokenId> ids = Encode(tokenizer_, joined);
  EXPECT_EQ(ids.size(), family_["long_count"].get<size_t>());
  std::string list;
  for (const TokenId id : ids) list += (list.empty() ? "" : ",") + std::to_string(id);
  EXPECT_EQ(Crc32(list), family_["long_crc32"].get<uint32_t>());
}

TEST_P(HfTokenizerGolden, BeginsTextsAsTheFileSays) {
  std::vector<TokenId> ids = tokenizer_.starts();
  std::ranges::copy(Encode(tokenizer_, "a text"), std::back_inserter(ids));
  EXPECT_EQ(ids, family_["with_special"].get<std::vector<TokenId>>());
}

TEST_P(HfTokenizerGolden, TokensOneByOneGiveTheSameText) {
  for (const auto& ids_of_text : family_["ids"]) {
    const auto ids = ids_of_text.get<std::vector<TokenId>>();
    std::string bytes;
    bool first = true;
    for (const TokenId id : ids) {
      bytes += *tokenizer_.BytesOf(id, first);
      first = first && tokenizer_.IsSpecial(id);
    }
    const std::string whole = *tokenizer_.Decode(ids);
    if (!FirstInvalidUtf8(bytes)) EXPECT_EQ(bytes, whole);
  }
}

TEST_P(HfTokenizerGolden, BytesThatAreNoTextCountAsReplacements) {
  SeededRandom random(7);
  for (int round = 0; round < 300; ++round) {
    std::string bytes(random.Below(60), '\0');
    for (char& c : bytes) c = static_cast<char>(random.Below(256));
    EXPECT_EQ(Encode(tokenizer_, bytes), Encode(tokenizer_, ReplaceInvalidUtf8(bytes)));
  }
}

TEST_P(HfTokenizerGolden, RefusesIdsThatAreNoTokens) {
  for (const TokenId id : {-1, static_cast<TokenId>(tokenizer_.vocab_size()), 1 << 30}) {
    const auto text = tokenizer_.Decode(std::vector<TokenId>{id});
    ASSERT_FALSE(text.ok());
    EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(text.status().message()), HasSubstr(std::to_string(id)));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, HfTokenizerGolden, ::testing::ValuesIn(kFamilies),
                         [](const auto& family) { return std::string(family.param); });

/// A byte-level tokenizer of single bytes and the merges "ab" and "abc".
nlohmann::json Small() {
  return nlohmann::json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true, "trim_offsets": true},
    "post_processor": null,
    "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "\u0120": 5},
              "merges": ["a b", ["ab", "c"]]}})");
}

TEST(HfTokenizer, JoinsInTheOrderOfTheMerges) {
  const HfTokenizer tokenizer = Read(Small());
  EXPECT_THAT(Encode(tokenizer, "abcab ba"), ElementsAre(4, 3, 5, 1, 0));
  EXPECT_THAT(Encode(tokenizer, ""), IsEmpty());
  EXPECT_EQ(*tokenizer.Decode(std::vector<TokenId>{4, 5, 0}), "abc a");
}

TEST(HfTokenizer, LeavesOutWhatHasNoTokenWhereThereIsNoUnknownOne) {
  EXPECT_THAT(Encode(Read(Small()), "axb"), ElementsAre(3));
}

TEST(HfTokenizer, FindsTokensByName) {
  const HfTokenizer tokenizer = Read(ReadJson("llama3.json"));
  const auto end = tokenizer.Find("<|eot_id|>");
  ASSERT_TRUE(end);
  EXPECT_THAT(Encode(tokenizer, "<|eot_id|>"), ElementsAre(*end));
  EXPECT_EQ(*tokenizer.Decode(std::vector<TokenId>{*end}), "");
  EXPECT_EQ(tokenizer.Find("no such token"), std::nullopt);
}

TEST(HfTokenizer, RefusesFilesThatAskForWhatIsNotKnown) {
  const auto with = [](const char* pointer, const nlohmann::json& value) {
    nlohmann::json file = Small();
    file[nlohmann::json::json_pointer(pointer)] = value;
    return file;
  };
  const nlohmann::json same_id = nlohmann::json::parse(R"([{"id": 1, "content": "<s>"}])");
  const std::pair<nlohmann::json, const char*> files[] = {
      {nlohmann::json::array(), "not a JSON object"},
      {with("/model", nullptr), "model"},
      {with("/model/type", "Unigram"), "Unigram"},
      {with("/model/dropout", 0.1), "dropout"},
      {with("/model/end_of_word_suffix", "</w>"), "end_of_word_suffix"},
      {with("/model/unk_token", "<unk>"), "<unk>"},
      {with("/model/vocab/a", -1), "vocab"},
      {with("/model/vocab/d", 1u), "id 1"},
      {with("/model/merges", {"a d"}), "\"ad\""},
      {with("/model/merges", {"a b c"}), "entry 0"},
      {with("/model/novelty", 1), "novelty"},
      {with("/normalizer", {{"type", "Precompiled"}}), "Precompiled"},
      {with("/pre_tokenizer", {{"type", "BertPreTokenizer"}}), "BertPreTokenizer"},
      {with("/pre_tokenizer",
            {{"type", "Split"}, {"pattern", {{"Regex", "("}}}, {"behavior", "Isolated"}}),
       "does not compile"},
      {with("/pre_tokenizer",
            {{"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "Sometimes"}}),
       "Sometimes"},
      {with("/decoder", {{"type", "WordPiece"}}), "WordPiece"},
      {with("/post_processor", {{"type", "RobertaProcessing"}}), "RobertaProcessing"},
      {with("/truncation", {{"max_length", 8}}), "truncation"},
      {with("/added_tokens", same_id), "id 1"},
      {with("/secret", 1), "secret"},
  };
  for (const auto& [file, message] : files) {
    const auto tokenizer = HfTokenizer::Parse(file, "tokenizer.json");
    ASSERT_FALSE(tokenizer.ok()) << message;
    EXPECT_EQ(tokenizer.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr("tokenizer.json"));
    EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr(message));
  }
}

}  // namespace
}  // namespace quire::worker
