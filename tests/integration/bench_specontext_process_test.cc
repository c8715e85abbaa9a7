// SPDX-License-Identifier: Apache-2.0
//
// quire bench specontext as a program, over one question and a few samples, with pages of one size
// and with tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/bench_report.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"

namespace quire {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using testing::ChildResult;
using ::testing::ElementsAre;
using testing::ExpectMachine;
using testing::ExpectPositive;
using testing::ExpectShares;
using testing::Figure;
using ::testing::HasSubstr;
using testing::KeysOf;
using testing::Part;

void ExpectQuality(const json& figures) {
  ExpectShares(figures, {"mass", "mass_p5", "oracle_page_recall", "overlap", "moved_ratio"});
  EXPECT_GE(Figure(figures, "output_error"), 0);
}

TEST(BenchSpeContextProcessTest, EveryModeAndGranularityHasQualityAnswersAndCosts) {
  const json report =
      testing::BenchReport({"specontext", "--page-tokens", "64,1", "--questions", "1",
                            "--decoded-tokens", "4", "--samples", "2", "--other-samples", "1",
                            "--sets", "needle", "--steps", "4", "--model", QUIRE_BUNDLED_MODEL});
  const json variants = Part(report, "variants");
  EXPECT_THAT(KeysOf(variants),
              ElementsAre("eagle_page_64", "eagle_token", "embed_only_page_64", "embed_only_token",
                          "trained_page_64", "trained_page_64_as_published", "trained_token"));
  for (const auto& [name, variant] : variants.items()) {
    SCOPED_TRACE(name);
    ExpectQuality(variant);
    ExpectShares(variant, {"accuracy"});
    ExpectPositive(variant, {"head_ms", "step_ms", "head_share", "quest_step_ms"});
    EXPECT_GE(Figure(variant, "messages_per_step"), 0) << "steps that lack nothing need none";
    EXPECT_LE(Figure(variant, "messages_per_step"), 1) << "all layers and sequences in one message";
    EXPECT_EQ(Figure(report, variant.at("answers_key")), Figure(variant, "accuracy"));
  }
  for (const std::string page : {"page_64", "page_1"}) {
    const json references = Part(Part(report, "references"), page);
    for (const char* const name : {"oracle", "quest"}) ExpectQuality(Part(references, name));
    EXPECT_EQ(Figure(Part(references, "oracle"), "oracle_page_recall"), 1);
  }
  const json first = Part(variants, "trained_page_64");
  EXPECT_EQ(report.at("first"), "trained_page_64");
  for (const char* const key : {"moved_ratio", "overlap", "oracle_page_recall", "head_share",
                                "messages_per_step", "recall_vs_quest"}) {
    EXPECT_EQ(Figure(report, key), Figure(first, key)) << key;
  }
  EXPECT_EQ(Figure(report, "specontext_12_5"), Figure(first, "accuracy"));
  EXPECT_NEAR(Figure(report, "full_minus_specontext"),
              Figure(report, "full") - Figure(report, "specontext_12_5"), 1e-9);
  const json published = Part(variants, "trained_page_64_as_published");
  EXPECT_EQ(Figure(report, "moved_ratio_as_published"), Figure(published, "moved_ratio"));
  EXPECT_EQ(Figure(published, "selection_memory"), 1);
  EXPECT_EQ(Figure(published, "messages_per_step"), 1);
  EXPECT_GT(Figure(first, "selection_memory"), 1);
  EXPECT_EQ(Figure(report, "specontext_12_5_as_published"), Figure(published, "accuracy"));
  ExpectMachine(report);
}

ChildResult SpeContext(std::vector<std::string> args) {
  args.insert(args.begin(), {"bench", "specontext"});
  return testing::RunChild(QUIRE_BINARY_DIR "/bin/quire", std::move(args));
}

TEST(BenchSpeContextProcessTest, SaysWhatIsWrongWithAHeadBeforeItMeasures) {
  const testing::TempDir empty;
  const ChildResult none =
      SpeContext({"--model", QUIRE_BUNDLED_MODEL, "--draft", empty / "missing"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("missing/config.json"));
  const ChildResult eagle = SpeContext({"--model", QUIRE_BUNDLED_MODEL, "--draft-mode", "eagle"});
  EXPECT_EQ(eagle.exit_code, 1);
  EXPECT_THAT(eagle.err, AllOf(HasSubstr("fc.weight"), HasSubstr("3 hidden states of 256")));
  EXPECT_EQ(SpeContext({"--draft-mode", "other"}).exit_code, 2);
}

}  // namespace
}  // namespace quire
