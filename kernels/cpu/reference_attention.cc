// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/checks.h"
#include "kernels/cpu/reference.h"

namespace quire::kernels::reference {
namespace {

/// Attention of one query head: over the rows that start at these elements of k and v.
struct HeadInput {
  const float* q;  ///< [d]
  const void* k;
  const void* v;
  const std::vector<int64_t>& rows;  ///< First element of every attended row; not empty.
  int64_t d;
  double scale;
  DType dtype;
};

/// out[d] = sum_r softmax_r(scale * q.k_r) * v_r; returns log(sum_r exp(scale * q.k_r)).
double Attend(const HeadInput& in, float* out) {
  std::vector<double> weights(in.rows.size());
  double top = -std::numeric_limits<double>::infinity();
  for (size_t r = 0; r < in.rows.size(); ++r) {
    double dot = 0;
    for (int64_t c = 0; c < in.d; ++c) {
      dot += double{in.q[c]} * LoadElement(in.k, in.rows[r] + c, in.dtype);
    }
    weights[r] = in.scale * dot;
    top = std::max(top, weights[r]);
  }
  double sum = 0;
  for (double& weight : weights) {
    weight = std::exp(weight - top);
    sum += weight;
  }
  for (int64_t c = 0; c < in.d; ++c) {
    double value = 0;
    for (size_t r = 0; r < in.rows.size(); ++r) {
      value += weights[r] * LoadElement(in.v, in.rows[r] + c, in.dtype);
    }
    out[c] = static_cast<float>(value / sum);
  }
  return top + std::log(sum);
}

}  // namespace

OpStatus PagedAttention(const PagedAttentionArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t d = args.head_dim;
  const int64_t p = args.page_tokens;
  for (int64_t a = 0; a < args.n_q; ++a) {
    const int64_t g = a / (args.n_q / args.n_kv);
    std::vector<int64_t> rows;
    for (int64_t s = 0; s < args.n_slots; ++s) {
      for (int64_t r = 0; r < args.valid_tokens[g * args.n_slots + s]; ++r) {
        rows.push_back(((args.slots[s] * p + r) * args.n_kv + g) * d);
      }
    }
    const double lse =
        Attend({args.q + a * d, args.k_pool, args.v_pool, rows, d, args.scale, args.dtype},
               args.out + a * d);
    if (args.lse != nullptr) args.lse[a] = static_cast<float>(lse);
  }
  return OpStatus::kOk;
}

OpStatus DenseAttention(const DenseAttentionArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t d = args.head_dim;
  for (int64_t i = 0; i < args.t; ++i) {
    const int64_t last = args.last_key != nullptr ? args.last_key[i] : args.n - args.t + i;
    for (int64_t a = 0; a < args.n_q; ++a) {
      const int64_t g = a / (args.n_q / args.n_kv);
      std::vector<int64_t> rows;
      for (int64_t j = 0; j <= last; ++j) rows.push_back((j * args.n_kv + g) * d);
      const int64_t row = (i * args.n_q + a) * d;
      Attend({args.q + row, args.k, args.v, rows, d, args.scale, args.dtype}, args.out + row);
    }
  }
  return OpStatus::kOk;
}

}  // namespace quire::kernels::reference
