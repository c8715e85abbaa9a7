// SPDX-License-Identifier: Apache-2.0
//
// `quire demo` as people run it: its promises over the bundled documents, and over others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/kit/child_process.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"
#include "transport/ucx/ucx.h"

namespace quire {
namespace {

using testing::ChildResult;
using ::testing::HasSubstr;
using testing::TempDir;

ChildResult Demo(const std::vector<std::string>& more) {
  std::vector<std::string> args = {"demo", "--model", QUIRE_BUNDLED_MODEL};
  args.insert(args.end(), more.begin(), more.end());
  ChildResult result = testing::RunChild(std::string(QUIRE_BINARY_DIR) + "/bin/quire", args);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result;
}

/// The last line of `text`, parsed; null when it is no JSON.
nlohmann::json LastLine(const std::string& text) {
  const size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return nullptr;
  const size_t begin = text.rfind('\n', end);
  const std::string line = text.substr(begin == std::string::npos ? 0 : begin + 1);
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  return json.is_discarded() ? nlohmann::json() : json;
}

TEST(DemoProcessTest, TheBundledDocumentsAreAnsweredWithAQuarterResident) {
  const ChildResult result = Demo({"--json"});
  const nlohmann::json demo = LastLine(result.out);
  for (const char* key :
       {"questions", "full_correct", "sparse_correct", "budget_ratio", "bytes_full", "bytes_moved",
        "bytes_units", "bytes_digests", "bytes_at_open", "moved_ratio", "dense_max_abs_logit_diff",
        "logits_compared", "tokens_per_s_full", "tokens_per_s_sparse", "ssd_reads", "documents",
        "min_context_tokens"}) {
    ASSERT_TRUE(demo.contains(key) && demo[key].is_number()) << key << " in " << demo;
    EXPECT_GT(demo[key], 0) << key;
  }
  const double questions = demo["questions"];
  EXPECT_GE(questions, 100);
  EXPECT_GE(demo["documents"], 20);
  EXPECT_GE(demo["min_context_tokens"], 4096);
  EXPECT_GE(demo["full_correct"], 0.9 * questions);
  EXPECT_GE(demo["sparse_correct"].get<double>(),
            demo["full_correct"].get<double>() - 0.02 * questions);
  EXPECT_LE(demo["budget_ratio"], 0.25);
  EXPECT_LE(demo["moved_ratio"], 0.50);
  EXPECT_LE(demo["dense_max_abs_logit_diff"], 1e-3);
  const uint64_t parts = demo["bytes_units"].get<uint64_t>() +
                         demo["bytes_digests"].get<uint64_t>() +
                         demo["bytes_at_open"].get<uint64_t>();
  EXPECT_EQ(demo["bytes_moved"], parts);
  EXPECT_DOUBLE_EQ(demo["moved_ratio"],
                   static_cast<double>(parts) / demo["bytes_full"].get<double>());
  EXPECT_THAT(result.out, HasSubstr("Answered right, all pages resident: "));
  const nlohmann::json& across = demo["across_documents"];
  ASSERT_TRUE(across.is_object()) << across;
  EXPECT_EQ(across["documents"].size(), 10u);
  EXPECT_GT(across["prompt_tokens"], 7000);
  ASSERT_EQ(across["methods"].size(), 4u);
  for (const nlohmann::json& row : across["methods"]) {
    const bool full = row["method"] == "full";
    EXPECT_EQ(row["requests"] == 0, full) << row;
    EXPECT_EQ(row["recompute_ratio"] == 1.0, full) << row;
    EXPECT_LE(row["bytes_fetched"], row["bytes_of_documents"]) << row;
  }
  EXPECT_EQ(across["methods"][3]["method"], "samkv");
  EXPECT_LT(across["methods"][3]["sequence_ratio"], 0.5);
  EXPECT_THAT(result.out, HasSubstr("One question across 10 documents"));
}

TEST(DemoProcessTest, TextsOfOnesOwnAreReadAndAskedAbout) {
  const TempDir dir;
  std::ofstream(dir / "boat.txt") << "The old boat left the quiet harbour before the storm. It "
                                     "carried apples and letters for the lighthouse.\n";
  std::ofstream(dir / "garden.md") << "In the garden behind the house grew seven pear trees.\n";
  std::ofstream(dir / "ignored.csv") << "a,b\n";
  const ChildResult result = Demo({"--docs", dir.path(), "--json"});
  const nlohmann::json demo = LastLine(result.out);
  EXPECT_EQ(demo["documents"], 2) << result.out;
  EXPECT_EQ(demo["questions"], 3);
  EXPECT_GT(demo["logits_compared"], 0);
  EXPECT_LE(demo["dense_max_abs_logit_diff"], 1e-3);
  EXPECT_THAT(result.out, HasSubstr("boat.txt"));
  EXPECT_THAT(result.out, HasSubstr("garden.md"));
}

/// The first `count` bundled documents with their questions, in `dir`.
void CopyDossiers(int count, const TempDir& dir) {
  const std::filesystem::path bundled = std::string(QUIRE_BUNDLED_MODEL) + "/documents";
  for (int i = 1; i <= count; ++i) {
    const std::string name = "dossier-0" + std::to_string(i) + ".txt";
    std::filesystem::copy_file(bundled / name, dir / name);
  }
  std::ifstream all(bundled / "questions.jsonl");
  std::ofstream asked(dir / "questions.jsonl");
  for (std::string line; std::getline(all, line);) {
    const std::string document = nlohmann::json::parse(line)["document"];
    if (std::filesystem::exists(dir / document)) asked << line << "\n";
  }
}

TEST(DemoProcessTest, SpeculationAnswersAsFullAttentionDoes) {
  const TempDir dir;
  CopyDossiers(2, dir);
  const nlohmann::json demo =
      LastLine(Demo({"--docs", dir.path(), "--json", "--policy", "freekv"}).out);
  EXPECT_EQ(demo["policy"], "freekv");
  EXPECT_EQ(demo["documents"], 2);
  const double questions = demo["questions"];
  EXPECT_EQ(questions, 12);
  EXPECT_GE(demo["full_correct"], 0.9 * questions);
  EXPECT_GE(demo["sparse_correct"].get<double>(), demo["full_correct"].get<double>() - 1);
  // The first of the model's four layers keeps every page, the others at most a quarter.
  EXPECT_GT(demo["budget_ratio"], 0.25);
  EXPECT_LE(demo["budget_ratio"], (1 + 3 * 0.25) / 4);
  EXPECT_GT(demo["bytes_units"], 0) << "nothing was recalled";
  EXPECT_LE(demo["dense_max_abs_logit_diff"], 1e-3);
}

TEST(DemoProcessTest, WhatAHeadChoseBeforeTheStepAnswersAsFullAttentionDoes) {
  const TempDir dir;
  CopyDossiers(2, dir);
  const nlohmann::json demo = LastLine(
      Demo({"--docs", dir.path(), "--json", "--policy", "specontext", "--budget", "512"}).out);
  EXPECT_EQ(demo["policy"], "specontext");
  EXPECT_EQ(demo["questions"], 12);
  EXPECT_GE(demo["sparse_correct"].get<double>(), demo["full_correct"].get<double>() - 1);
  EXPECT_LE(demo["budget_ratio"], 0.13);
  EXPECT_GT(demo["bytes_units"], 0) << "nothing was recalled";
}

TEST(DemoProcessTest, EveryTransportBringsTheSamePages) {
  const TempDir dir;
  // A long one: most of it is not resident.
  std::filesystem::copy_file(std::string(QUIRE_BUNDLED_MODEL) + "/documents/dossier-01.txt",
                             dir / "dossier.txt");
  for (const std::string policy : {"quest", "freekv"}) {
    const auto demo_over = [&](const std::string& transport) {
      return LastLine(
          Demo({"--docs", dir.path(), "--json", "--policy", policy, "--transport", transport}).out);
    };
    const nlohmann::json loopback = demo_over("loopback");
    EXPECT_GT(loopback["bytes_units"], 0) << "nothing was recalled";
    for (const std::string transport : {"shm", "grpc", "ucx"}) {
      if (transport == "ucx" && !UcxAvailable()) continue;
      const nlohmann::json demo = demo_over(transport);
      EXPECT_EQ(demo["transport"], transport);
      EXPECT_EQ(demo["units_landed"], 0);
      for (const char* key :
           {"answers_crc32c", "bytes_moved", "bytes_units", "dense_max_abs_logit_diff",
            "logits_compared", "questions", "sparse_correct"}) {
        EXPECT_EQ(demo[key], loopback[key]) << policy << " " << transport << " " << key;
      }
    }
  }
}

TEST(DemoProcessTest, TextsWithNothingToAskForAreRefusedBeforeTheyAreRead) {
  const TempDir dir;
  std::ofstream(dir / "a.txt") << "Short.\n";
  std::ofstream(dir / "b.txt") << "Shorter.\n";
  const ChildResult result =
      testing::RunChild(std::string(QUIRE_BINARY_DIR) + "/bin/quire",
                        {"demo", "--model", QUIRE_BUNDLED_MODEL, "--docs", dir.path(), "--json"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(LastLine(result.out)["error"]["code"], "INVALID_ARGUMENT") << result.out;
  EXPECT_THAT(result.err, HasSubstr("put a questions.jsonl beside the texts"));
}

TEST(DemoProcessTest, AModelWithoutATokenizerIsRefusedWithTheRemedy) {
  const TempDir dir;
  for (const char* file : {"config.json", "model.safetensors"}) {
    std::filesystem::create_symlink(std::string(QUIRE_BUNDLED_MODEL) + "/" + file, dir / file);
  }
  const ChildResult result = testing::RunChild(
      std::string(QUIRE_BINARY_DIR) + "/bin/quire",
      {"demo", "--model", dir.path(), "--docs", std::string(QUIRE_BUNDLED_MODEL) + "/documents"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("tokenizer.json"));
  EXPECT_THAT(result.err, HasSubstr("name a model with --model DIR that has one"));
}

}  // namespace
}  // namespace quire
