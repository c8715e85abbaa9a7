// SPDX-License-Identifier: Apache-2.0
//
// CachedDocuments: documents of random tokens that a small model prefilled alone, held in memory,
// and views of prompts over them. Tests of sparse prefill use them.
#ifndef QUIRE_GPUWORKER_TESTING_CACHED_DOCUMENTS_H_
#define QUIRE_GPUWORKER_TESTING_CACHED_DOCUMENTS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/page/rope_rotation.h"
#include "gpuworker/context/reuse_plan.h"
#include "gpuworker/model/checkpoint/random_checkpoint.h"
#include "gpuworker/model/decoder.h"
#include "gpuworker/model/dense_cache.h"
#include "tests/kit/temp_dir.h"

namespace quire::worker::testing {

/// Mean squared distance of two logit vectors.
inline double Distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return sum / static_cast<double>(a.size());
}

/// Keys and values of every token of a prompt, [layers][tokens][n_kv][d]. Zero where nothing is.
struct PromptKv {
  std::vector<std::vector<float>> keys;
  std::vector<std::vector<float>> values;
};

/// Views whose cells are copied from a PromptKv.
class MemoryViews final : public LayerViews {
 public:
  MemoryViews(const ReusePlan* plan, const PromptKv* kv, size_t row)
      : plan_(plan), kv_(kv), row_(row), keys_(kv->keys.size()), values_(kv->keys.size()) {}

  StatusOr<LayerView> View(uint32_t layer) override {
    const ViewCells& cells = plan_->cells(layer);
    keys_[layer].assign(cells.Capacity() * row_, 0);
    values_[layer].assign(cells.Capacity() * row_, 0);
    for (size_t i = 0; i < cells.visible.size(); ++i) {
      if (cells.cached[i]) Fill(layer, cells.visible[i], i);
    }
    for (size_t i = 0; i < cells.hidden.size(); ++i) {
      Fill(layer, cells.hidden[i], cells.HiddenCell(i));
    }
    return LayerView{&cells, keys_[layer].data(), values_[layer].data()};
  }

  const std::vector<float>& keys(uint32_t layer) const { return keys_[layer]; }
  const std::vector<float>& values(uint32_t layer) const { return values_[layer]; }

 private:
  void Fill(uint32_t layer, uint64_t position, uint64_t cell) {
    std::copy_n(kv_->keys[layer].begin() + position * row_, row_,
                keys_[layer].begin() + cell * row_);
    std::copy_n(kv_->values[layer].begin() + position * row_, row_,
                values_[layer].begin() + cell * row_);
  }

  const ReusePlan* const plan_;
  const PromptKv* const kv_;
  const size_t row_;
  std::vector<std::vector<float>> keys_;
  std::vector<std::vector<float>> values_;
};

class CachedDocuments {
 public:
  static constexpr uint32_t kVocabulary = 96;

  /// Documents of as many tokens as `lengths` says, and a question.
  CachedDocuments(std::vector<uint64_t> lengths, uint64_t question, uint64_t seed = 5)
      : random_(seed) {
    const RandomCheckpoint shape{.num_layers = 4,
                                 .num_query_heads = 4,
                                 .num_kv_heads = 2,
                                 .head_dim = 16,
                                 .intermediate_size = 96,
                                 .vocab_size = kVocabulary,
                                 .max_positions = 4096,
                                 .gain = 2};
    EXPECT_EQ(WriteRandomCheckpoint(directory_.path(), shape), OkStatus());
    decoder_ = Decoder::Load(directory_.path(), &CpuDevice()).value();
    std::vector<StoredSource> sources;
    for (const uint64_t length : lengths) {
      documents_.push_back(Tokens(length));
      sources.push_back({.tokens = length});
    }
    layout_ = LayOutPrompt(sources, question, decoder_->config().rope, 4096).value();
    for (const std::vector<TokenId>& document : documents_) {
      prompt_.insert(prompt_.end(), document.begin(), document.end());
    }
    const std::vector<TokenId> asked = Tokens(question);
    prompt_.insert(prompt_.end(), asked.begin(), asked.end());
  }

  const Decoder& decoder() const { return *decoder_; }
  const PromptLayout& layout() const { return layout_; }
  const std::vector<TokenId>& tokens(size_t document) const { return documents_[document]; }
  uint32_t num_layers() const { return decoder_->config().num_layers; }
  size_t row() const {
    return size_t{decoder_->config().num_kv_heads} * decoder_->config().head_dim;
  }

  const std::vector<TokenId>& prompt() const { return prompt_; }

  /// Logits after the whole prompt, every token computed.
  std::vector<float> FullLogits() { return FullLogits(prompt_); }
  std::vector<float> FullLogits(const std::vector<TokenId>& prompt) {
    DenseCache cache(decoder_->config(), &CpuDevice(), 4096);
    std::vector<float> logits(kVocabulary);
    EXPECT_EQ(decoder_->Forward(prompt, 0, cache, Decoder::Logits::kLast, logits.data()),
              OkStatus());
    return logits;
  }

  /// The documents' own keys and values, keys turned by each document's move plus `error`.
  PromptKv Alone(int64_t error = 0) {
    PromptKv kv = Empty();
    for (size_t i = 0; i < documents_.size(); ++i) {
      DenseCache cache(decoder_->config(), &CpuDevice(), 4096);
      EXPECT_EQ(decoder_->Forward(documents_[i], 0, cache, Decoder::Logits::kNone, nullptr),
                OkStatus());
      const PlacedSource& placed = layout_.sources[i];
      const int64_t move = placed.move == 0 ? 0 : placed.move + error;
      Place(cache, documents_[i].size(), placed.first, move, &kv);
    }
    return kv;
  }

  /// Keys and values of the whole prompt, computed in one go.
  PromptKv Together() {
    PromptKv kv = Empty();
    DenseCache cache(decoder_->config(), &CpuDevice(), 4096);
    EXPECT_EQ(decoder_->Forward(prompt_, 0, cache, Decoder::Logits::kNone, nullptr), OkStatus());
    Place(cache, prompt_.size(), 0, 0, &kv);
    return kv;
  }

  struct Answer {
    std::vector<float> logits;
    SparsePrefillStats stats;
  };
  /// The prompt by `plan` over `views`.
  Answer Run(ReusePlan* plan, MemoryViews* views) {
    std::vector<TokenId> tokens;
    for (const uint64_t position : plan->positions) tokens.push_back(prompt_[position]);
    return Run(plan, views, tokens);
  }
  /// The same, of rows that have `tokens`.
  Answer Run(ReusePlan* plan, MemoryViews* views, const std::vector<TokenId>& tokens) {
    Answer answer{.logits = std::vector<float>(tokens.size() * kVocabulary)};
    auto stats = decoder_->SparsePrefill({tokens, plan->positions}, plan->rows.get(), views,
                                         plan->update, answer.logits.data());
    EXPECT_TRUE(stats.ok()) << stats.status();
    if (stats.ok()) answer.stats = *stats;
    answer.logits.resize(kVocabulary);
    return answer;
  }
  Answer Run(ReusePlan plan, const PromptKv& kv) {
    MemoryViews views(&plan, &kv, row());
    return Run(&plan, &views);
  }

 private:
  std::vector<TokenId> Tokens(uint64_t count) {
    std::vector<TokenId> tokens(count);
    for (TokenId& token : tokens) token = static_cast<TokenId>(random_.Below(kVocabulary));
    return tokens;
  }
  PromptKv Empty() const {
    const std::vector<float> nothing(layout_.tokens() * row());
    return {.keys = std::vector(num_layers(), nothing),
            .values = std::vector(num_layers(), nothing)};
  }
  void Place(const DenseCache& cache, size_t tokens, uint64_t first, int64_t move, PromptKv* kv) {
    for (uint32_t layer = 0; layer < num_layers(); ++layer) {
      float* const keys = kv->keys[layer].data() + first * row();
      std::copy_n(cache.keys(layer), tokens * row(), keys);
      std::copy_n(cache.values(layer), tokens * row(), kv->values[layer].data() + first * row());
      Turn(keys, tokens, move);
    }
  }
  /// Turns keys by `move` positions, half-split pairs.
  void Turn(float* keys, size_t tokens, int64_t move) const {
    const size_t d = decoder_->config().head_dim;
    const size_t half = decoder_->config().rope.rotary_dim / 2;
    std::vector<float> cosines(half);
    std::vector<float> sines(half);
    RopeRotation(decoder_->config().rope).FillMove(move, cosines.data(), sines.data());
    for (float* key = keys; key != keys + tokens * row(); key += d) {
      for (size_t i = 0; i < half; ++i) {
        const float x = key[i];
        const float y = key[i + half];
        key[i] = x * cosines[i] - y * sines[i];
        key[i + half] = y * cosines[i] + x * sines[i];
      }
    }
  }

  quire::testing::TempDir directory_;
  SeededRandom random_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<std::vector<TokenId>> documents_;
  PromptLayout layout_;
  std::vector<TokenId> prompt_;
};

}  // namespace quire::worker::testing

#endif  // QUIRE_GPUWORKER_TESTING_CACHED_DOCUMENTS_H_
