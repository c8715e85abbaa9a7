// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/service/documents_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>

namespace quire::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<DocumentName> kNames = {{.name = "a"}, {"books", "b", 3}};

v1::DocumentsPrompt Prompt(const ReuseOptions& options = {}) {
  v1::DocumentsPrompt proto;
  DocumentsToProto(kNames, options, &proto);
  return proto;
}

TEST(DocumentsCallTest, WhatTravelsIsReadBack) {
  ReuseOptions options{.method = ReuseMethod::kSamKv, .epic_tokens = 5, .skip_missing = true};
  options.cacheblend = {.ratio = 0.25, .check_layer = 3, .gradual = true};
  options.selection.stable_layers = {2, 5};
  options.samkv = {.update = RowUpdate::kOverwrite, .rows = SamKvRows::kAttended};
  options.balances_loading = true;
  options.infllm.blocks = 9;
  options.positions = PromptPositions::kCompact;
  options.variants = 3;
  const auto call = DocumentsFromProto(Prompt(options));
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->names, kNames);
  EXPECT_EQ(call->options.method, ReuseMethod::kSamKv);
  EXPECT_EQ(call->options.epic_tokens, 5u);
  EXPECT_TRUE(call->options.skip_missing);
  EXPECT_EQ(call->options.cacheblend.ratio, 0.25);
  EXPECT_EQ(call->options.cacheblend.check_layer, 3u);
  EXPECT_THAT(call->options.selection.stable_layers, ElementsAre(2, 5));
  EXPECT_TRUE(call->options.cacheblend.gradual);
  EXPECT_EQ(call->options.samkv.update, RowUpdate::kOverwrite);
  EXPECT_EQ(call->options.samkv.rows, SamKvRows::kAttended);
  EXPECT_TRUE(call->options.balances_loading);
  EXPECT_EQ(call->options.infllm.blocks, 9u);
  EXPECT_EQ(call->options.positions, PromptPositions::kCompact);
  EXPECT_EQ(call->options.variants, 3u);
}

TEST(DocumentsCallTest, WhatIsLeftOutIsTheDefault) {
  v1::DocumentsPrompt proto;
  *proto.add_names() = Prompt().names(0);
  const auto call = DocumentsFromProto(proto);
  ASSERT_TRUE(call.ok()) << call.status();
  const ReuseOptions defaults;
  EXPECT_EQ(call->options.method, defaults.method);
  EXPECT_EQ(call->options.epic_tokens, defaults.epic_tokens);
  EXPECT_EQ(call->options.cacheblend.ratio, defaults.cacheblend.ratio);
  EXPECT_EQ(call->options.cacheblend.check_layer, std::nullopt);
  EXPECT_THAT(call->options.selection.stable_layers, ElementsAre());
  EXPECT_EQ(call->options.samkv.update, defaults.samkv.update);
  EXPECT_FALSE(call->options.skip_missing);
}

TEST(DocumentsCallTest, WhatIsOutOfRangeIsNamed) {
  const auto message = [](const v1::DocumentsPrompt& proto) {
    const Status status = DocumentsFromProto(proto).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message({}), HasSubstr("names has 0 documents"));
  v1::DocumentsPrompt proto = Prompt();
  while (proto.names_size() <= kMaxDocuments) *proto.add_names() = proto.names(0);
  EXPECT_THAT(message(proto), HasSubstr("names has 65 documents"));
  proto = Prompt();
  proto.set_recompute_ratio(std::numeric_limits<double>::quiet_NaN());
  EXPECT_THAT(message(proto), HasSubstr("recompute_ratio is nan"));
  proto = Prompt();
  proto.set_epic_tokens(kMaxEpicTokens + 1);
  EXPECT_THAT(message(proto), HasSubstr("epic_tokens is 65537"));
  proto = Prompt();
  proto.set_infllm_blocks(kMaxInfLlmBlocks + 1);
  EXPECT_THAT(message(proto), HasSubstr("infllm_blocks is 65537"));
  proto = Prompt();
  proto.set_variants(kMaxVariants + 1);
  EXPECT_THAT(message(proto), HasSubstr("variants is 17"));
  proto = Prompt();
  proto.set_hops(0);
  EXPECT_THAT(message(proto), HasSubstr("hops is 0"));
  proto = Prompt();
  proto.set_hop_pages(kMaxHopPages + 1);
  EXPECT_THAT(message(proto), HasSubstr("hop_pages is 65537"));
  proto = Prompt();
  proto.add_hop_layers(kMaxHopLayers);
  EXPECT_THAT(message(proto), HasSubstr("hop_layers has 4096"));
  proto = Prompt();
  for (int i = 0; i <= kMaxStableLayers; ++i) proto.add_stable_layers(0);
  EXPECT_THAT(message(proto), HasSubstr("stable_layers has 4097 layers"));
  proto = Prompt();
  proto.set_method("blend");
  EXPECT_THAT(message(proto), HasSubstr("no method 'blend'"));
  proto = Prompt();
  proto.mutable_names(1)->set_name("");
  EXPECT_THAT(message(proto), HasSubstr("name"));
}

TEST(DocumentsCallTest, TotalsAreReadBack) {
  const ReuseStats stats{.prompt_tokens = 100,
                         .question_tokens = 7,
                         .recompute_ratio = 0.25,
                         .sequence_ratio = 0.5,
                         .bytes_read = 4096,
                         .bytes_whole = 8192,
                         .requests = 3,
                         .statistics_computed = 2,
                         .statistics_stored = 1,
                         .variants_used = 5,
                         .variants_kept = 4,
                         .seconds_prefill = 0.75,
                         .missing = {{.name = "gone"}}};
  v1::DocumentsTotals proto;
  TotalsToProto(stats, ReuseMethod::kEpic, &proto);
  EXPECT_EQ(proto.method(), "epic");
  const auto read = TotalsFromProto(proto);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->prompt_tokens, 100u);
  EXPECT_EQ(read->question_tokens, 7u);
  EXPECT_EQ(read->recompute_ratio, 0.25);
  EXPECT_EQ(read->sequence_ratio, 0.5);
  EXPECT_EQ(read->bytes_read, 4096u);
  EXPECT_EQ(read->bytes_whole, 8192u);
  EXPECT_EQ(read->requests, 3u);
  EXPECT_EQ(read->statistics_computed, 2u);
  EXPECT_EQ(read->variants_used, 5u);
  EXPECT_EQ(read->variants_kept, 4u);
  EXPECT_EQ(read->statistics_stored, 1u);
  EXPECT_EQ(read->seconds_prefill, 0.75);
  EXPECT_THAT(read->missing, ElementsAre(DocumentName{.name = "gone"}));
}

}  // namespace
}  // namespace quire::worker
