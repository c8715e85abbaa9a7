// SPDX-License-Identifier: Apache-2.0
#include "client/cli/retrieval_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

namespace quire::cli {
namespace {

using ::testing::ElementsAre;
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
               flags_.window_tokens || flags_.uncompressed_layers || flags_.side);
  const worker::RetrievalOptions options = flags_.Options();
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
  const worker::RetrievalOptions options = flags_.Options();
  EXPECT_EQ(options.policy, "streaming");
  EXPECT_EQ(options.budget_tokens, 512u);
  EXPECT_EQ(options.sink_tokens, 0u);
  EXPECT_EQ(options.window_tokens, 128u);
  EXPECT_THAT(options.uncompressed_layers, ElementsAre(0, 2));
  EXPECT_EQ(options.side, worker::SelectionSide::kServer);
}

TEST_F(RetrievalFlagsTest, NoneIsAListOfLayersToo) {
  app_.parse("--uncompressed-layers none", false);
  ASSERT_TRUE(flags_.uncompressed_layers.has_value());
  EXPECT_THAT(*flags_.uncompressed_layers, IsEmpty());
}

TEST_F(RetrievalFlagsTest, TheHelpShowsTheDefaults) {
  const std::string help = app_.help();
  for (const char* value : {"=quest", "=768", "=32", "=64", "=none", "=worker"}) {
    EXPECT_THAT(help, ::testing::HasSubstr(value));
  }
}

}  // namespace
}  // namespace quire::cli
