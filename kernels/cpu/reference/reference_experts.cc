// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/cpu/checks.h"
#include "kernels/cpu/reference/reference.h"

namespace quire::kernels::reference {

OpStatus ChooseExperts(const ChooseExpertsArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  constexpr float kLast = -std::numeric_limits<float>::infinity();
  for (int64_t r = 0; r < args.rows; ++r) {
    const float* const logits = args.logits + r * args.n_experts;
    std::vector<int32_t> order(args.n_experts);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      if (std::isnan(logits[a]) || std::isnan(logits[b])) {
        return !std::isnan(logits[a]) && std::isnan(logits[b]);
      }
      return logits[a] > logits[b];
    });
    const double top = std::isnan(logits[order[0]]) ? kLast : logits[order[0]];
    double sum = 0;
    for (int64_t j = 0; j < (args.normalize ? args.k : args.n_experts); ++j) {
      sum += std::exp(logits[order[j]] - top);
    }
    // A NaN outside the sum still makes every weight NaN.
    for (int64_t e = 0; e < args.n_experts; ++e) sum += std::isnan(logits[e]) ? logits[e] : 0.0;
    for (int64_t j = 0; j < args.k; ++j) {
      args.experts[r * args.k + j] = order[j];
      args.weights[r * args.k + j] = static_cast<float>(std::exp(logits[order[j]] - top) / sum);
    }
  }
  return OpStatus::kOk;
}

OpStatus ExpertMatmul(const ExpertMatmulArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  for (int64_t r = 0; r < args.rows; ++r) {
    const float* const x = args.x + r / args.share * args.in;
    const float* const weight = args.weight + args.experts[r] * args.out * args.in;
    for (int64_t o = 0; o < args.out; ++o) {
      double sum = 0;
      for (int64_t i = 0; i < args.in; ++i) sum += double{x[i]} * weight[o * args.in + i];
      args.y[r * args.out + o] = static_cast<float>(sum);
    }
  }
  return OpStatus::kOk;
}

OpStatus CombineExperts(const CombineExpertsArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  for (int64_t r = 0; r < args.rows; ++r) {
    for (int64_t c = 0; c < args.dim; ++c) {
      double sum = 0;
      for (int64_t j = 0; j < args.k; ++j) {
        sum += double{args.weights[r * args.k + j]} * args.parts[(r * args.k + j) * args.dim + c];
      }
      args.y[r * args.dim + c] = static_cast<float>(sum);
    }
  }
  return OpStatus::kOk;
}

}  // namespace quire::kernels::reference
