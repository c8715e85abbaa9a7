// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/statistics/statistics_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/random.h"
#include "gpuworker/context/statistics/statistics_collector.h"
#include "gpuworker/model/dense_cache.h"
#include "gpuworker/testing/cached_documents.h"

namespace quire::worker {
namespace {

using ::testing::ElementsAreArray;
using ::testing::FloatNear;
using ::testing::IsEmpty;
using ::testing::Pointwise;

class StatisticsRecordTest : public ::testing::Test {
 protected:
  /// Statistics of the first document, as a prefill gives them.
  StatisticsRecordTest() {
    const ModelConfig& config = documents_.decoder().config();
    shape_ = {config.num_layers, config.num_query_heads, config.num_kv_heads, config.head_dim};
    const std::vector<TokenId>& tokens = documents_.tokens(0);
    DenseCache cache(config, &CpuDevice(), tokens.size());
    StatisticsCollector collector(config, &CpuDevice(), &cache,
                                  {.tokens = static_cast<uint32_t>(tokens.size())});
    EXPECT_EQ(documents_.decoder().Forward(tokens, 0, collector, Decoder::Logits::kNone, nullptr),
              OkStatus());
    statistics_ = collector.Statistics();
  }

  testing::CachedDocuments documents_{{330}, 5};
  SamKvShape shape_;
  DocumentStatistics statistics_;
};

TEST_F(StatisticsRecordTest, ReadBackAsTheyWere) {
  auto read = DecodeStatistics(EncodeStatistics(statistics_), shape_, 330);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->layers[0].representative_keys, IsEmpty());
  ASSERT_EQ(DecodeRepresentatives(EncodeRepresentatives(statistics_), shape_, &*read), OkStatus());
  ASSERT_EQ(read->layers.size(), statistics_.layers.size());
  for (size_t i = 0; i < read->layers.size(); ++i) {
    const LayerStatistics& layer = read->layers[i];
    const LayerStatistics& expected = statistics_.layers[i];
    EXPECT_EQ(layer.most, expected.most);
    EXPECT_EQ(layer.least, expected.least);
    EXPECT_GE(layer.most, 1u);
    EXPECT_THAT(layer.outlier_tokens, ElementsAreArray(expected.outlier_tokens));
    EXPECT_THAT(layer.local_query, Pointwise(FloatNear(1e-2f), expected.local_query));
    EXPECT_THAT(layer.representative_keys,
                Pointwise(FloatNear(1e-2f), expected.representative_keys));
  }
}

TEST_F(StatisticsRecordTest, AnotherDocumentsOrModelsAreRefused) {
  const std::string bytes = EncodeStatistics(statistics_);
  EXPECT_EQ(DecodeStatistics(bytes, shape_, 331).status().code(), StatusCode::kDataLoss);
  SamKvShape other = shape_;
  other.head_dim *= 2;
  EXPECT_EQ(DecodeStatistics(bytes, other, 330).status().code(), StatusCode::kDataLoss);
  other = shape_;
  ++other.num_layers;
  EXPECT_EQ(DecodeStatistics(bytes, other, 330).status().code(), StatusCode::kDataLoss);
}

TEST_F(StatisticsRecordTest, RepresentativesOfAnotherDocumentOrModelAreRefused) {
  const std::string bytes = EncodeRepresentatives(statistics_);
  const auto code = [&](auto change) {
    DocumentStatistics other = statistics_;
    SamKvShape shape = shape_;
    change(&other, &shape);
    return DecodeRepresentatives(bytes, shape, &other).code();
  };
  using Statistics = DocumentStatistics*;
  EXPECT_EQ(code([](Statistics, SamKvShape*) {}), StatusCode::kOk);
  EXPECT_EQ(code([](Statistics other, SamKvShape*) { ++other->split.tokens; }),
            StatusCode::kDataLoss);
  EXPECT_EQ(code([](Statistics other, SamKvShape*) { other->split.block_tokens = 32; }),
            StatusCode::kDataLoss);
  EXPECT_EQ(code([](Statistics other, SamKvShape*) { other->layers.pop_back(); }),
            StatusCode::kDataLoss);
  EXPECT_EQ(code([](Statistics, SamKvShape* shape) { shape->head_dim *= 2; }),
            StatusCode::kDataLoss);
}

TEST_F(StatisticsRecordTest, DamagedBytesAreRefusedOrHaveTheRightShape) {
  const std::string bytes = EncodeStatistics(statistics_);
  SeededRandom random(11);
  for (int i = 0; i < 500; ++i) {
    std::string damaged = bytes;
    damaged[random.Below(damaged.size())] ^= static_cast<char>(1 + random.Below(255));
    const auto read = DecodeStatistics(damaged, shape_, 330);
    if (!read.ok()) continue;
    for (const LayerStatistics& layer : read->layers) {
      EXPECT_EQ(layer.middle.size(), read->split.middle_blocks());
      EXPECT_EQ(layer.local_query.size(), size_t{shape_.num_query_heads} * shape_.head_dim);
    }
  }
  EXPECT_FALSE(DecodeStatistics(bytes.substr(0, bytes.size() / 2), shape_, 330).ok());
}

}  // namespace
}  // namespace quire::worker
