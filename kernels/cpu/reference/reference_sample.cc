// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/checks.h"
#include "kernels/cpu/reference/reference.h"

namespace quire::kernels::reference {
namespace {

/// Tokens that may be chosen, in their order.
std::vector<int32_t> Order(const float* logits, int64_t vocab) {
  std::vector<int32_t> order;
  for (int64_t i = 0; i < vocab; ++i) {
    if (logits[i] > -std::numeric_limits<float>::infinity()) {
      order.push_back(static_cast<int32_t>(i));
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  return order;
}

double Weight(float logit, float largest, float temperature) {
  if (logit == largest) return 1;  // Holds also if both are infinite.
  return std::exp((double{logit} - largest) / temperature);
}

int32_t SampleRow(const float* logits, int64_t vocab, const SampleDraw& draw) {
  std::vector<int32_t> kept = Order(logits, vocab);
  if (kept.empty() || !InRange(draw)) return -1;
  if (draw.temperature == 0) return kept[0];
  if (draw.top_k > 0) kept.resize(std::min<size_t>(kept.size(), draw.top_k));
  const auto weight = [&, largest = logits[kept[0]]](int32_t token) {
    return Weight(logits[token], largest, draw.temperature);
  };
  double total = 0;
  for (const int32_t token : kept) total += weight(token);
  if (draw.top_p < 1) {
    const double wanted = total * draw.top_p;
    size_t n = 0;
    for (total = 0; n < kept.size() && total < wanted; ++n) total += weight(kept[n]);
    kept.resize(n);
  }
  std::sort(kept.begin(), kept.end());
  double sum = 0;
  for (const int32_t token : kept) {
    sum += weight(token);
    if (sum > draw.uniform * total) return token;
  }
  return kept.back();
}

}  // namespace

OpStatus Sample(const SampleArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  for (int64_t row = 0; row < args.rows; ++row) {
    const SampleDraw draw = args.draws != nullptr ? args.draws[row] : SampleDraw{};
    args.tokens[row] = SampleRow(args.logits + row * args.vocab, args.vocab, draw);
  }
  return OpStatus::kOk;
}

}  // namespace quire::kernels::reference
