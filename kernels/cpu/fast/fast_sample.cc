// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/checks.h"
#include "kernels/cpu/fast/fast.h"
#include "kernels/cpu/simd/simd.h"

namespace quire::kernels::fast {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

/// Samples one row at a time; keeps its memory between rows.
class Sampler {
 public:
  explicit Sampler(int64_t vocab) : vocab_(vocab) {}

  int32_t Sample(const float* logits, const SampleDraw& draw) {
    const float largest = simd::MaxNumber(logits, vocab_);
    if (largest == kNone || !InRange(draw)) return -1;
    if (draw.temperature == 0) {
      return static_cast<int32_t>(std::find(logits, logits + vocab_, largest) - logits);
    }
    Weigh(logits, largest, draw.temperature);
    double total = 0;
    for (const float weight : weights_) total += double{weight};
    if (draw.top_k > 0 || draw.top_p < 1) total = Keep(logits, total, draw);
    return Draw(draw.uniform * total);
  }

 private:
  /// Sets weights_ to exp((logit - largest) / temperature), 0 for tokens that cannot be chosen.
  void Weigh(const float* logits, float largest, float temperature) {
    const int64_t n = vocab_;
    weights_.resize(n);
    if (std::isinf(largest)) {
      for (int64_t i = 0; i < n; ++i) weights_[i] = logits[i] == largest ? 1.0f : 0.0f;
      return;
    }
    for (int64_t i = 0; i < n; ++i) weights_[i] = (logits[i] - largest) / temperature;
    simd::ExpInPlace(weights_.data(), n, 0.0f);
    for (float& weight : weights_) weight = weight > 0 ? weight : 0.0f;
  }

  /// Clears the weights that top_k and top_p exclude. Returns the sum of the others. A heap yields
  /// the order only as far as tokens are kept.
  double Keep(const float* logits, double total, const SampleDraw& draw) {
    const auto later = [logits](int32_t a, int32_t b) {
      return logits[a] < logits[b] || (logits[a] == logits[b] && a > b);
    };
    order_.clear();
    for (int64_t i = 0; i < vocab_; ++i) {
      if (weights_[i] > 0) order_.push_back(static_cast<int32_t>(i));
    }
    if (draw.top_k > 0 && draw.top_k < static_cast<int64_t>(order_.size())) {
      const auto first_left_out = order_.begin() + draw.top_k;
      std::nth_element(order_.begin(), first_left_out, order_.end(),
                       [&](int32_t a, int32_t b) { return later(b, a); });
      for (auto token = first_left_out; token != order_.end(); ++token) weights_[*token] = 0;
      order_.erase(first_left_out, order_.end());
      total = 0;
      for (const int32_t token : order_) total += double{weights_[token]};
    }
    if (draw.top_p >= 1) return total;
    const double wanted = total * double{draw.top_p};
    std::make_heap(order_.begin(), order_.end(), later);
    double sum = 0;
    while (!order_.empty() && sum < wanted) {
      std::pop_heap(order_.begin(), order_.end(), later);
      sum += double{weights_[order_.back()]};
      order_.pop_back();
    }
    for (const int32_t token : order_) weights_[token] = 0;
    return sum;
  }

  int32_t Draw(double wanted) const {
    double sum = 0;
    int32_t last = -1;
    for (int64_t i = 0; i < vocab_; ++i) {
      if (weights_[i] == 0) continue;
      last = static_cast<int32_t>(i);
      sum += double{weights_[i]};
      if (sum > wanted) break;
    }
    return last;
  }

  const int64_t vocab_;
  std::vector<float> weights_;  ///< [vocab]
  std::vector<int32_t> order_;  ///< Scratch of Keep.
};

}  // namespace

OpStatus Sample(const SampleArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.rows == 0) return OpStatus::kOk;
  Sampler sampler(args.vocab);
  for (int64_t row = 0; row < args.rows; ++row) {
    const SampleDraw draw = args.draws != nullptr ? args.draws[row] : SampleDraw{};
    args.tokens[row] = sampler.Sample(args.logits + row * args.vocab, draw);
  }
  return OpStatus::kOk;
}

}  // namespace quire::kernels::fast
