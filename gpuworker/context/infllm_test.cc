// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/infllm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace quire::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Two query heads over one KV head of two channels.
constexpr SamKvShape kShape{
    .num_layers = 1, .num_query_heads = 2, .num_kv_heads = 1, .head_dim = 2};

/// A document of `keys.size() / 2` middle blocks, with these keys of their representatives.
DocumentStatistics Document(std::vector<float> keys) {
  const auto middle = static_cast<uint32_t>(keys.size() / 2);
  LayerStatistics layer;
  layer.representative_keys = std::move(keys);
  return {.split = {.tokens = (middle + 3) * 64}, .layers = {std::move(layer)}};
}

TEST(InfLlmTest, EachDocumentSelectsByTheSumOverHeads) {
  const DocumentStatistics a = Document({1, 0, 0, 1, 0.5f, 0.5f});
  const DocumentStatistics b = Document({9, 9, 8, 8});
  const DocumentStatistics* const documents[] = {&a, &b};
  // The heads' queries are (3, 0) and (-1, 1): blocks of the first document score 2, 1 and 1.5.
  const std::vector<float> question[] = {{3, 0, -1, 1}};
  const SelectedBlocks two = SelectInfLlmBlocks(documents, question, kShape, {.blocks = 2});
  EXPECT_THAT(two[0][0], ElementsAre(1, 3));
  EXPECT_THAT(two[0][1], ElementsAre(1, 2)) << "another document's scores do not matter";
  const SelectedBlocks one = SelectInfLlmBlocks(documents, question, kShape, {.blocks = 1});
  EXPECT_THAT(one[0][0], ElementsAre(1));
}

TEST(InfLlmTest, ADocumentWithoutMiddleBlocksSelectsNone) {
  const DocumentStatistics a = Document({});
  const DocumentStatistics* const documents[] = {&a};
  const std::vector<float> question[] = {{1, 1, 1, 1}};
  EXPECT_THAT(SelectInfLlmBlocks(documents, question, kShape)[0][0], IsEmpty());
}

}  // namespace
}  // namespace quire::worker
