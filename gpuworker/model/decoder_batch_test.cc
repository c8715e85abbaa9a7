// SPDX-License-Identifier: Apache-2.0
//
// Decoder::ForwardBatch against Forward of each sequence alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "common/base/random.h"
#include "gpuworker/model/decoder.h"
#include "gpuworker/model/dense_cache.h"
#include "gpuworker/testing/limited_device.h"
#include "tests/kit/temp_dir.h"
#include "tests/kit/tiny_model.h"

namespace quire::worker {
namespace {

using ::testing::HasSubstr;
using testing::LimitedDevice;

/// A dense cache for every sequence; the one at `failing` fails alone.
class DenseBatch final : public BatchAttention {
 public:
  explicit DenseBatch(std::vector<DenseCache>* caches) : caches_(caches) {}
  void set_failing(size_t sequence) { failing_ = sequence; }
  Status Attend(std::span<const LayerStep> steps) override {
    for (size_t i = 0; i < steps.size(); ++i) {
      if (i == failing_) continue;
      QUIRE_RETURN_IF_ERROR((*caches_)[i].Attend(steps[i]));
    }
    return OkStatus();
  }

 private:
  std::vector<DenseCache>* const caches_;
  size_t failing_ = SIZE_MAX;
};

class DecoderBatchTest : public ::testing::Test {
 protected:
  DecoderBatchTest() {
    quire::testing::WriteTinyModel(directory_.path(), {});
    auto decoder = Decoder::Load(directory_.path(), &CpuDevice());
    EXPECT_TRUE(decoder.ok()) << decoder.status();
    decoder_ = std::move(decoder).value();
  }

  std::vector<TokenId> Tokens(size_t count) {
    std::vector<TokenId> tokens(count);
    for (TokenId& token : tokens) token = static_cast<TokenId>(random_.Below(64));
    return tokens;
  }
  std::vector<DenseCache> Caches(size_t count) const {
    std::vector<DenseCache> caches;
    for (size_t i = 0; i < count; ++i) caches.emplace_back(decoder_->config(), &CpuDevice(), 512);
    return caches;
  }
  /// Logits after the last of `tokens`, alone.
  std::vector<float> Alone(std::span<const TokenId> tokens) const {
    DenseCache cache(decoder_->config(), &CpuDevice(), 512);
    std::vector<float> logits(vocab());
    EXPECT_EQ(decoder_->Forward(tokens, 0, cache, Decoder::Logits::kLast, logits.data()),
              OkStatus());
    return logits;
  }
  void ExpectNear(std::span<const float> actual, std::span<const float> expected) const {
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(actual[i], expected[i], 1e-3f * (1 + std::fabs(expected[i]))) << i;
    }
  }
  size_t vocab() const { return decoder_->config().vocab_size; }

  quire::testing::TempDir directory_;
  std::unique_ptr<Decoder> decoder_;
  SeededRandom random_{7};
};

TEST_F(DecoderBatchTest, EverySequenceHasTheLogitsThatItHasAlone) {
  const std::vector<std::vector<TokenId>> texts = {Tokens(1), Tokens(17), Tokens(40), Tokens(3)};
  std::vector<DenseCache> caches = Caches(texts.size());
  DenseBatch attention(&caches);
  // Everything in one pass, whose logits only some want, then one token each.
  std::vector<SequenceTokens> batch;
  for (const auto& text : texts) {
    batch.push_back({.tokens = text, .wants_logits = text.size() != 17});
  }
  std::vector<float> logits(3 * vocab());
  ASSERT_EQ(decoder_->ForwardBatch(batch, attention, {.logits = logits.data()}), OkStatus());
  size_t row = 0;
  for (const auto& text : texts) {
    if (text.size() == 17) continue;
    ExpectNear(std::span(logits).subspan(row++ * vocab(), vocab()), Alone(text));
  }
  const std::vector<TokenId> next = Tokens(texts.size());
  std::vector<SequenceTokens> steps;
  for (size_t i = 0; i < texts.size(); ++i) {
    steps.push_back({.tokens = std::span(next).subspan(i, 1),
                     .first_position = texts[i].size(),
                     .wants_logits = true});
  }
  logits.resize(texts.size() * vocab());
  ASSERT_EQ(decoder_->ForwardBatch(steps, attention, {.logits = logits.data()}), OkStatus());
  for (size_t i = 0; i < texts.size(); ++i) {
    std::vector<TokenId> text = texts[i];
    text.push_back(next[i]);
    ExpectNear(std::span(logits).subspan(i * vocab(), vocab()), Alone(text));
  }
}

TEST_F(DecoderBatchTest, ManyRowsOfLogitsComeInOrder) {
  std::vector<DenseCache> caches = Caches(40);
  DenseBatch attention(&caches);
  const std::vector<TokenId> tokens = Tokens(40);
  std::vector<SequenceTokens> batch;
  for (size_t i = 0; i < tokens.size(); ++i) {
    batch.push_back({.tokens = std::span(tokens).subspan(i, 1), .wants_logits = true});
  }
  std::vector<float> logits(tokens.size() * vocab());
  ASSERT_EQ(decoder_->ForwardBatch(batch, attention, {.logits = logits.data()}), OkStatus());
  for (size_t i = 0; i < tokens.size(); ++i) {
    ExpectNear(std::span(logits).subspan(i * vocab(), vocab()), Alone({&tokens[i], 1}));
  }
}

TEST_F(DecoderBatchTest, PassesInScratchThatWasReservedAllocateNothing) {
  LimitedDevice device;
  const auto decoder = *Decoder::Load(directory_.path(), &device);
  const std::vector<TokenId> tokens = Tokens(90);
  std::vector<SequenceTokens> batch;
  for (const size_t first : {0u, 30u, 60u}) {
    batch.push_back({.tokens = std::span(tokens).subspan(first, 30), .wants_logits = true});
  }
  std::vector<float> logits(batch.size() * vocab());
  std::vector<DenseCache> caches = Caches(batch.size());
  DenseBatch attention(&caches);
  const auto scratch = decoder->ReserveScratch(100, 3);
  ASSERT_TRUE(scratch.ok()) << scratch.status();
  device.set_limit(device.used());
  const auto run = [&] {
    return decoder->ForwardBatch(batch, attention, {.logits = logits.data()}, scratch->get());
  };
  ASSERT_EQ(run(), OkStatus());
  for (size_t i = 0; i < batch.size(); ++i) {
    ExpectNear(std::span(logits).subspan(i * vocab(), vocab()), Alone(batch[i].tokens));
  }
  EXPECT_EQ(decoder->ForwardBatch(batch, attention, {.logits = logits.data()}).code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(decoder->ReserveScratch(100, 3).status().code(), StatusCode::kResourceExhausted);
  const std::vector<TokenId> more = Tokens(11);
  batch.push_back({.tokens = more});
  EXPECT_THAT(std::string(run().message()), HasSubstr("101 tokens, and scratch for 100"));
  for (const uint32_t tokens_of_none : {0u, Decoder::kBlockTokens + 1}) {
    EXPECT_EQ(decoder->ReserveScratch(tokens_of_none, 1).status().code(),
              StatusCode::kInvalidArgument);
  }
}

TEST_F(DecoderBatchTest, ASequenceThatFailsAloneLeavesTheOthersAsTheyAre) {
  const std::vector<std::vector<TokenId>> texts = {Tokens(9), Tokens(5), Tokens(12)};
  std::vector<SequenceTokens> batch;
  for (const auto& text : texts) batch.push_back({.tokens = text, .wants_logits = true});
  std::vector<DenseCache> caches = Caches(texts.size());
  DenseBatch attention(&caches);
  attention.set_failing(1);
  std::vector<float> logits(texts.size() * vocab());
  ASSERT_EQ(decoder_->ForwardBatch(batch, attention, {.logits = logits.data()}), OkStatus());
  ExpectNear(std::span(logits).first(vocab()), Alone(texts[0]));
  ExpectNear(std::span(logits).last(vocab()), Alone(texts[2]));
}

TEST_F(DecoderBatchTest, BadBatchesAreRefusedByName) {
  std::vector<DenseCache> caches = Caches(2);
  DenseBatch attention(&caches);
  EXPECT_EQ(decoder_->ForwardBatch({}, attention, {}).code(), StatusCode::kInvalidArgument);
  const std::vector<TokenId> good = Tokens(3);
  const std::vector<TokenId> bad = {64};
  std::vector<SequenceTokens> batch = {{.tokens = good}, {.tokens = bad}};
  EXPECT_THAT(std::string(decoder_->ForwardBatch(batch, attention, {}).message()),
              HasSubstr("sequence 1 of the batch: token 0 has id 64"));
  const std::vector<TokenId> many = Tokens(300);
  batch = {{.tokens = many}, {.tokens = many}};
  EXPECT_THAT(std::string(decoder_->ForwardBatch(batch, attention, {}).message()),
              HasSubstr("more than 512 tokens"));
}

}  // namespace
}  // namespace quire::worker
