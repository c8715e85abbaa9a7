// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/worker/retrieval_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

namespace quire::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RetrievalFlagsTest : public ::testing::Test {
 protected:
  RetrievalFlagsTest() { AddRetrievalFlags(app_, flags_); }
  CLI::App app_;
  RetrievalFlags flags_;
};

TEST_F(RetrievalFlagsTest, WhatIsNotGivenIsUnsetAndTheDefaultApplies) {
  app_.parse("", false);
  EXPECT_FALSE(flags_.policy || flags_.budget_tokens || flags_.sink_tokens ||
               flags_.window_tokens || flags_.uncompressed_layers || flags_.side ||
               flags_.correction_threshold || flags_.correct_retrieval_heads ||
               flags_.recall_deadline_ms || flags_.units_per_buffer || flags_.key_rank ||
               flags_.selection_memory);
  const worker::RetrievalOptions options = flags_.Options(32).value();
  EXPECT_EQ(options.policy, "quest");
  EXPECT_EQ(options.budget_tokens, 768u);
  EXPECT_EQ(options.sink_tokens, 32u);
  EXPECT_EQ(options.window_tokens, 64u);
  EXPECT_THAT(options.uncompressed_layers, IsEmpty());
  EXPECT_EQ(options.side, worker::SelectionSide::kWorker);
}

TEST_F(RetrievalFlagsTest, WhatIsGivenIsTaken) {
  app_.parse(
      "--policy streaming --budget 512 --sinks 0 --window 128 --uncompressed-layers 0,2 --select "
      "server",
      false);
  const worker::RetrievalOptions options = flags_.Options(32).value();
  EXPECT_EQ(options.policy, "streaming");
  EXPECT_EQ(options.budget_tokens, 512u);
  EXPECT_EQ(options.sink_tokens, 0u);
  EXPECT_EQ(options.window_tokens, 128u);
  EXPECT_THAT(options.uncompressed_layers, ElementsAre(0, 2));
  EXPECT_EQ(options.side, worker::SelectionSide::kServer);
}

TEST_F(RetrievalFlagsTest, HeadsToCorrectAreAnOptionOfFreeKvAlone) {
  app_.parse("--policy freekv --correct-heads retrieval", false);
  EXPECT_TRUE(flags_.OptionsOfPolicy(32).value().correct_retrieval_heads);
  flags_.policy = "quest";
  EXPECT_THAT(std::string(flags_.OptionsOfPolicy(32).status().message()),
              HasSubstr("--correct-heads is an option of the policy freekv"));
}

TEST_F(RetrievalFlagsTest, PublishedOptionsAreThePolicysAndWhatIsGivenGoesBefore) {
  app_.parse("--policy clusterkv --published --window 128", false);
  const worker::RetrievalOptions options = flags_.Options(32).value();
  EXPECT_EQ(options.policy, "clusterkv");
  EXPECT_EQ(options.sink_tokens, 32u);
  EXPECT_EQ(options.window_tokens, 128u);
  EXPECT_EQ(options.budget_tokens, 32u + 64 + 1024);
  EXPECT_THAT(options.uncompressed_layers, ElementsAre(0, 1));
}

TEST_F(RetrievalFlagsTest, ALayerThatAPolicyKeepsIsKeptUnlessTheFlagSaysOtherwise) {
  app_.parse("--policy freekv", false);
  EXPECT_THAT(flags_.Options(32)->uncompressed_layers, ElementsAre(0));
  EXPECT_EQ(flags_.Options(32)->budget_tokens, 768u);
  flags_.policy = "clusterkv";
  EXPECT_THAT(flags_.Options(32)->uncompressed_layers, ElementsAre(0, 1));
  flags_.policy = "quest";  // The default's own.
  EXPECT_THAT(flags_.Options(32)->uncompressed_layers, IsEmpty());
  app_.parse("--policy freekv --uncompressed-layers none", false);
  EXPECT_THAT(flags_.Options(32)->uncompressed_layers, IsEmpty());
}

TEST_F(RetrievalFlagsTest, TheLayoutOfRecallsIsThePublishedOneOnlyWhereItIsAskedFor) {
  app_.parse("--policy arkvale", false);
  EXPECT_EQ(flags_.Options(32)->recall_layout, worker::RecallLayout::kUnits);
  flags_.published = true;
  EXPECT_EQ(flags_.Options(32)->recall_layout, worker::RecallLayout::kRows);
}

TEST_F(RetrievalFlagsTest, HowARecallWaitsAndIsTakenInCanBeGiven) {
  app_.parse("--policy freekv --tau 0.9 --recall-deadline-ms 2.5 --units-per-buffer 16", false);
  const worker::RetrievalOptions options = flags_.Options(32).value();
  EXPECT_FLOAT_EQ(options.correction_threshold, 0.9f);
  EXPECT_EQ(options.recall_deadline, std::chrono::microseconds(2500));
  EXPECT_EQ(options.units_per_buffer, 16u);
  EXPECT_EQ(flags_.RecallDeadlineMicros(), 2500u);
}

TEST_F(RetrievalFlagsTest, TheRankOfKeysCanBeGivenBesideWhatIsPublished) {
  app_.parse("--policy shadowkv --published --key-rank 64", false);
  const worker::RetrievalOptions options = flags_.Options(32).value();
  EXPECT_EQ(options.policy, "shadowkv");
  EXPECT_EQ(options.key_rank, 64u);
  EXPECT_EQ(RetrievalFlags().Options(32)->key_rank, 0u);
}

TEST_F(RetrievalFlagsTest, SelectionsLookBackUnlessThePublishedChoiceIsAskedFor) {
  app_.parse("--policy specontext", false);
  EXPECT_GT(flags_.Options(32)->selection_memory, 1u);
  flags_.published = true;
  EXPECT_EQ(flags_.Options(32)->selection_memory, 1u);
  flags_.selection_memory = 3;
  EXPECT_EQ(flags_.Options(32)->selection_memory, 3u);
}

// A worker's calls may name another policy than its own, which reads them.
TEST_F(RetrievalFlagsTest, AFlagThatThePolicyDoesNotReadIsRefusedUnlessCallsNameTheirs) {
  const auto refusal = [&](const std::string& line) {
    app_.parse(line, false);
    EXPECT_TRUE(flags_.Options(32).ok());
    return std::string(flags_.OptionsOfPolicy(32).status().message());
  };
  EXPECT_THAT(refusal("--tau 0.9"), HasSubstr("--tau is an option of the policy freekv"));
  flags_ = {};
  EXPECT_THAT(refusal("--recall-deadline-ms 5 --policy shadowkv"),
              HasSubstr("--recall-deadline-ms is an option of the policy freekv"));
  flags_ = {};
  EXPECT_THAT(refusal("--key-rank 5 --policy freekv"), HasSubstr("--key-rank is an option of"));
  flags_ = {};
  EXPECT_EQ(refusal("--policy freekv --tau 0.9 --recall-deadline-ms 5"), "");
  flags_ = {};
  EXPECT_EQ(refusal("--policy shadowkv --key-rank 5"), "");
  flags_ = {};
  EXPECT_THAT(refusal("--selection-memory 5 --policy freekv"),
              HasSubstr("--selection-memory is an option of the policy specontext"));
  flags_ = {};
  EXPECT_EQ(refusal("--policy specontext --selection-memory 5"), "");
}

TEST_F(RetrievalFlagsTest, ADeadlineBelowZeroIsRefused) {
  EXPECT_THROW(app_.parse("--recall-deadline-ms -1", false), CLI::ValidationError);
}

TEST_F(RetrievalFlagsTest, TheHostCacheIsASizeAndOffUnlessGiven) {
  uint64_t bytes = 0;
  AddHostCacheFlag(app_, &bytes);
  app_.parse("", false);
  EXPECT_EQ(bytes, 0u);
  app_.parse("--host-cache-bytes 64MiB", false);
  EXPECT_EQ(bytes, 64u << 20);
}

TEST(HostMemoryTest, WhatAloneIsMoreThanThereIsIsRefusedAndTheSumIsSaid) {
  const MemoryLimit limit{1000, "the limit in /group/memory.max"};
  const auto refusal = [&](const HostMemoryAsked& asked) {
    return std::string(CheckHostMemory(asked, limit).message());
  };
  EXPECT_THAT(refusal({.cache = 1001}),
              HasSubstr("--host-cache-bytes is 1001, more than the limit in /group/memory.max"));
  EXPECT_THAT(refusal({.slots = 1001}), HasSubstr("--slot-bytes is 1001, more than"));
  EXPECT_EQ(refusal({.slots = 1001, .slots_are_default = true}), "");
  EXPECT_THAT(refusal({.device = 1001}), HasSubstr("--device-memory is 1001, more than"));
  EXPECT_TRUE(MemoryMayNotSuffice({.cache = 1, .device = 1000}, limit));
  EXPECT_EQ(refusal({.cache = 1000, .slots = 1000}), "");
  EXPECT_TRUE(MemoryMayNotSuffice({.slots = 1001, .slots_are_default = true}, limit));
  EXPECT_TRUE(MemoryMayNotSuffice({.cache = 1, .slots = 1000}, limit));
  EXPECT_TRUE(MemoryMayNotSuffice({.cache = UINT64_MAX, .slots = 1}, limit));
  EXPECT_FALSE(MemoryMayNotSuffice({.cache = 500, .slots = 500}, limit));
}

TEST_F(RetrievalFlagsTest, NoneIsAListOfLayersToo) {
  app_.parse("--uncompressed-layers none", false);
  ASSERT_TRUE(flags_.uncompressed_layers.has_value());
  EXPECT_THAT(*flags_.uncompressed_layers, IsEmpty());
}

TEST_F(RetrievalFlagsTest, TheHelpShowsTheDefaults) {
  const std::string help = app_.help();
  for (const char* value : {"=quest", "=768", "=32", "=64", "freekv: 0", "=worker"}) {
    EXPECT_THAT(help, ::testing::HasSubstr(value));
  }
}

}  // namespace
}  // namespace quire::cli
