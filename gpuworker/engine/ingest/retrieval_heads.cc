// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/ingest/retrieval_heads.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/base/random.h"
#include "gpuworker/model/dense_cache.h"
#include "gpuworker/retrieval/keys/host_keys.h"

namespace quire::worker {
namespace {

constexpr uint32_t kMostTokens = 128;  ///< Tokens of the text.
constexpr uint32_t kReadings = 4;      ///< Times that the text is read.
constexpr uint64_t kSeed = 1;
constexpr double kShare = 0.15;
constexpr double kEchoShare = 0.01;  ///< Share of all heads.

/// Dense attention that records how much goes where.
class HeadProbe final : public AttentionBackend {
 public:
  /// The text has `period` tokens.
  HeadProbe(const ModelConfig& model, Device* device, uint32_t period)
      : model_(model), device_(device), period_(period), dense_(model, device, period * kReadings) {
    const size_t heads = size_t{model.num_layers} * model.num_query_heads;
    echo_.resize(heads);
    induction_.resize(heads);
  }

  Status Attend(const LayerStep& step) override {
    QUIRE_RETURN_IF_ERROR(dense_.Attend(step));
    const size_t d = model_.head_dim, n_q = model_.num_query_heads, n_kv = model_.num_kv_heads;
    std::vector<float> queries(step.num_tokens * n_q * d);
    std::vector<float> keys((step.first_position + step.num_tokens) * n_kv * d);
    QUIRE_RETURN_IF_ERROR(
        device_->CopyToHost(queries.data(), step.q, queries.size() * sizeof(float)));
    QUIRE_RETURN_IF_ERROR(
        device_->CopyToHost(keys.data(), dense_.keys(step.layer), keys.size() * sizeof(float)));
    for (uint32_t token = 0; token < step.num_tokens; ++token) {
      const uint64_t position = step.first_position + token;
      if (position < period_) continue;
      for (size_t head = 0; head < n_q; ++head) {
        const auto query = std::span(queries).subspan((token * n_q + head) * d, d);
        Follow(step.layer * n_q + head, position, query,
               std::span(keys).subspan(head / (n_q / n_kv) * d), n_kv * d);
      }
    }
    return OkStatus();
  }

  HeadScores Scores() const { return {.echo = OfGroups(echo_), .induction = OfGroups(induction_)}; }

 private:
  /// `keys` of one KV head, `stride` apart.
  void Follow(size_t head, uint64_t position, std::span<const float> query,
              std::span<const float> keys, size_t stride) {
    const float scale = 1 / std::sqrt(static_cast<float>(query.size()));
    weights_.resize(position + 1);
    for (uint64_t i = 0; i <= position; ++i) {
      weights_[i] = scale * Dot(query, keys.subspan(i * stride, query.size()));
    }
    const float most = *std::ranges::max_element(weights_);
    double total = 0;
    for (float& weight : weights_) total += weight = std::exp(weight - most);
    for (uint64_t before = position % period_; before < position; before += period_) {
      echo_[head] += weights_[before] / total;
      induction_[head] += weights_[before + 1] / total;
    }
  }

  std::vector<float> OfGroups(std::span<const double> query_heads) const {
    const size_t group = model_.num_query_heads / model_.num_kv_heads;
    const double readings = double{kReadings - 1} * period_;
    std::vector<float> most;
    for (size_t at = 0; at < query_heads.size(); at += group) {
      const double sum = *std::ranges::max_element(query_heads.subspan(at, group));
      most.push_back(static_cast<float>(sum / readings));
    }
    return most;
  }

  const ModelConfig& model_;
  Device* const device_;
  const uint32_t period_;
  DenseCache dense_;
  std::vector<double> echo_, induction_;  ///< [num_layers * n_q], sums
  std::vector<float> weights_;
};

/// `count` different ones that neither begin nor end a text.
std::vector<TokenId> DifferentTokens(const ModelConfig& model, uint32_t count) {
  std::vector<TokenId> ids(model.vocab_size);
  std::iota(ids.begin(), ids.end(), 0);
  std::erase_if(ids, [&](TokenId id) {
    return (model.bos_id && id == static_cast<TokenId>(*model.bos_id)) ||
           std::ranges::find(model.eos_ids, id) != model.eos_ids.end();
  });
  SeededRandom random(kSeed);
  count = std::min(count, static_cast<uint32_t>(ids.size()));
  for (size_t i = 0; i < count; ++i) std::swap(ids[i], ids[i + random.Below(ids.size() - i)]);
  ids.resize(count);
  return ids;
}

}  // namespace

StatusOr<HeadScores> ScoreHeads(const Decoder& decoder, Device* device) {
  const ModelConfig& model = decoder.config();
  const std::vector<TokenId> text =
      DifferentTokens(model, std::min(kMostTokens, model.max_positions / kReadings));
  if (text.size() < 2) {
    return InvalidArgument("a context of ", model.max_positions, " tokens and a vocabulary of ",
                           model.vocab_size, " are too small to find retrieval heads with");
  }
  const auto period = static_cast<uint32_t>(text.size());
  HeadProbe probe(model, device, period);
  for (uint32_t reading = 0; reading < kReadings; ++reading) {
    QUIRE_RETURN_IF_ERROR(
        decoder.Forward(text, uint64_t{reading} * period, probe, Decoder::Logits::kNone, nullptr));
  }
  return probe.Scores();
}

std::vector<uint32_t> RetrievalHeads(const HeadScores& scores) {
  const auto heads = static_cast<double>(scores.induction.size());
  const auto count = static_cast<uint32_t>(std::ceil(kShare * heads));
  const auto echoes = static_cast<uint32_t>(kEchoShare * heads);
  std::vector<uint32_t> chosen = BestPages(scores.echo, 0, echoes);
  // Heads that are chosen already make way for the next best.
  std::vector<float> induction = scores.induction;
  for (const uint32_t head : chosen) induction[head] = -1;
  const std::vector<uint32_t> inducing = BestPages(induction, 0, count - echoes);
  chosen.insert(chosen.end(), inducing.begin(), inducing.end());
  std::ranges::sort(chosen);
  return chosen;
}

StatusOr<std::vector<uint32_t>> HeadCalibration::Heads() {
  MutexLock lock(mutex_);
  if (!heads_) {
    QUIRE_ASSIGN_OR_RETURN(const HeadScores scores, ScoreHeads(*decoder_, device_));
    heads_ = RetrievalHeads(scores);
  }
  return *heads_;
}

}  // namespace quire::worker
