// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpuworker/text/text_stream.h"
#include "tests/kit/paths.h"

namespace quire::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kHuggingFace[] = QUIRE_SOURCE_DIR "/tests/data/golden/text/llama2.json";
constexpr char kWords[] = QUIRE_SOURCE_DIR "/models/recall-small/tokenizer.json";

TEST(Tokenizer, ReadsBothKindsOfFiles) {
  for (const char* const path : {kHuggingFace, kWords}) {
    const auto tokenizer = Tokenizer::Load(path);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    const auto ids = tokenizer->Encode("where is the archive?");
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*tokenizer->Decode(*ids), "where is the archive?");
    EXPECT_EQ(tokenizer->starts().size(), 1u);
    EXPECT_TRUE(tokenizer->IsSpecial(tokenizer->starts().front()));
  }
}

TEST(Tokenizer, EndsAreThoseOfTheFileAndOfTheModel) {
  auto tokenizer = Tokenizer::Load(kWords);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  tokenizer->AddEnds(std::vector<TokenId>{7, 1, 7});
  EXPECT_THAT(tokenizer->ends(), ElementsAre(1, 7));
}

TEST(Tokenizer, RefusesWhatIsNoTokenizer) {
  EXPECT_EQ(Tokenizer::Load("no/such/file").status().code(), StatusCode::kNotFound);
  for (const auto& [text, message] :
       {std::pair("", "not valid JSON"), std::pair("[]", "not a JSON object"),
        std::pair(R"({"format": "bpe"})", "format"), std::pair(R"({"version": "1.0"})", "model")}) {
    const auto tokenizer = Tokenizer::Parse(text, "tokenizer.json");
    ASSERT_FALSE(tokenizer.ok());
    EXPECT_EQ(tokenizer.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr(message));
  }
}

TEST(TextStream, GivesOutWholeCharactersOfTokensThatAreBytes) {
  const auto tokenizer = Tokenizer::Load(kHuggingFace);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::string text = "caf\u00e9 \U0001F642 \u6570";
  const auto ids = tokenizer->Encode(text);
  ASSERT_TRUE(ids.ok()) << ids.status();
  TextStream stream(*tokenizer);
  std::string joined;
  for (const TokenId id : *ids) {
    const auto part = stream.Add(id);
    ASSERT_TRUE(part.ok()) << part.status();
    EXPECT_FALSE(FirstInvalidUtf8(*part)) << *part;
    joined += *part;
  }
  EXPECT_EQ(joined + stream.Finish(), text);
}

}  // namespace
}  // namespace quire::worker
