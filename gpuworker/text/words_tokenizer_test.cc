// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/words_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/base/random.h"
#include "common/json/json.h"
#include "gpuworker/text/tokenizer.h"
#include "tests/kit/paths.h"

namespace quire::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kWordGoldens[] = QUIRE_SOURCE_DIR "/tests/data/golden/tokenizer";

/// A well-formed file with `pieces` after the bytes.
nlohmann::json File(const std::vector<std::string>& pieces) {
  std::vector<std::string> tokens = {"<bos>", "<eos>"};
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char* digits = "0123456789ABCDEF";
    tokens.push_back(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">");
  }
  tokens.insert(tokens.end(), pieces.begin(), pieces.end());
  return {
      {"format", "quire-words"}, {"version", 1}, {"bos_id", 0}, {"eos_id", 1}, {"tokens", tokens}};
}

Tokenizer Of(const std::vector<std::string>& pieces) {
  auto tokenizer = Tokenizer::Parse(File(pieces).dump(), "tokenizer.json");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *tokenizer;
}

TokenId Byte(char c) { return 2 + static_cast<unsigned char>(c); }

TEST(WordsTokenizer, EncodesAsTheTrainerDoes) {
  auto tokenizer = Tokenizer::Load(std::string(kWordGoldens) + "/tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  auto text = ReadTextFile(std::string(kWordGoldens) + "/encodings.json", 1 << 20);
  ASSERT_TRUE(text.ok()) << text.status();
  const nlohmann::json cases = nlohmann::json::parse(*text);
  ASSERT_GT(cases.size(), 100u);
  for (const auto& golden : cases) {
    const auto ids = golden["ids"].get<std::vector<TokenId>>();
    EXPECT_EQ(*tokenizer->Encode(golden["text"].get<std::string>()), ids) << golden["text"];
    EXPECT_EQ(*tokenizer->Decode(ids), golden["text"].get<std::string>());
  }
}

TEST(WordsTokenizer, TakesOneSpaceIntoTheFollowingPiece) {
  const Tokenizer tokenizer = Of({"a", " a", " ", " 7"});
  EXPECT_THAT(*tokenizer.Encode("a a  a"), ElementsAre(258, 259, 260, 259));
  EXPECT_THAT(*tokenizer.Encode(" 7 "), ElementsAre(261, 260));
  EXPECT_THAT(*tokenizer.Encode(""), IsEmpty());
}

TEST(WordsTokenizer, SpellsUnknownPiecesInBytesWithTheirSpace) {
  const Tokenizer tokenizer = Of({" ab"});
  EXPECT_THAT(*tokenizer.Encode(" abc"), ElementsAre(Byte(' '), Byte('a'), Byte('b'), Byte('c')));
  EXPECT_THAT(*tokenizer.Encode(" ab"), ElementsAre(258));
  EXPECT_THAT(*tokenizer.Encode("ab"), ElementsAre(Byte('a'), Byte('b')));
  EXPECT_THAT(*tokenizer.Encode("<bos>"),
              ElementsAre(Byte('<'), Byte('b'), Byte('o'), Byte('s'), Byte('>')));
}

TEST(WordsTokenizer, IsLosslessForAnyBytes) {
  const Tokenizer tokenizer = Of({"a", " a", "b", " ", "\n", ".", " ."});
  SeededRandom random(3);
  for (int round = 0; round < 500; ++round) {
    std::string text(random.Below(40), '\0');
    for (char& c : text)
      c = random.Below(2) == 0 ? "ab .\n "[random.Below(6)] : static_cast<char>(random.Below(256));
    EXPECT_EQ(*tokenizer.Decode(*tokenizer.Encode(text)), text);
  }
}

TEST(WordsTokenizer, BosAndEosDecodeToNothing) {
  const Tokenizer tokenizer = Of({"a"});
  EXPECT_EQ(tokenizer.starts(), std::vector<TokenId>{0});
  EXPECT_EQ(tokenizer.ends(), std::vector<TokenId>{1});
  EXPECT_EQ(tokenizer.vocab_size(), 259u);
  EXPECT_EQ(*tokenizer.Decode(std::vector<TokenId>{0, 258, 1}), "a");
}

TEST(WordsTokenizer, DecodeRefusesUnknownIds) {
  const Tokenizer tokenizer = Of({});
  for (TokenId id : {-1, 258, 1 << 30}) {
    const auto text = tokenizer.Decode(std::vector<TokenId>{2, id});
    ASSERT_FALSE(text.ok());
    EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(text.status().message()), HasSubstr(std::to_string(id)));
  }
}

TEST(WordsTokenizer, RefusesFilesThatAreNotOne) {
  const auto with = [](const char* field, const nlohmann::json& value) {
    nlohmann::json file = File({"a"});
    file[field] = value;
    return file.dump();
  };
  nlohmann::json wrong_byte = File({"a"});
  wrong_byte["tokens"][2 + 0x41] = "A";
  const std::pair<std::string, const char*> files[] = {
      {with("format", "bpe"), "format"},
      {with("version", 2), "version"},
      {with("bos_id", 1), "bos_id"},
      {with("eos_id", 0), "eos_id"},
      {with("tokens", nullptr), "tokens"},
      {with("tokens", {"<bos>", "<eos>"}), "tokens"},
      {wrong_byte.dump(), "<0x41>"},
      {with("added_tokens", {"<think>"}), "added_tokens"},
      {with("normalizer", {{"type", "NFC"}}), "normalizer"},
      {with("pre_tokenizer", {{"type", "ByteLevel"}}), "pre_tokenizer"},
      {File({"a", "a"}).dump(), "twice"},
      {File({""}).dump(), "not a piece"},
      {File({"two words"}).dump(), "not a piece"},
      {File({"12"}).dump(), "not a piece"},
  };
  for (const auto& [text, message] : files) {
    const auto tokenizer = Tokenizer::Parse(text, "tokenizer.json");
    ASSERT_FALSE(tokenizer.ok()) << message;
    EXPECT_EQ(tokenizer.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr("tokenizer.json"));
    EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr(message));
  }
}

}  // namespace
}  // namespace quire::worker
