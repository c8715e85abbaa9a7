// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/checks.h"
#include "kernels/cpu/codec_scalar.h"
#include "kernels/cpu/reference/reference.h"
#include "kernels/cpu/sequences.h"

namespace quire::kernels::reference {
namespace {

/// One attended row: first elements in k and v, and the scales of fp8 codes.
struct Row {
  int64_t k = 0;
  int64_t v = 0;
  float k_scale = 1;
  float v_scale = 1;
};

/// Attention of one query head.
struct HeadInput {
  const float* q;  ///< [key_dim]
  const void* k;
  const void* v;
  const std::vector<Row>& rows;  ///< Not empty.
  int64_t key_dim;
  int64_t value_dim;
  double scale;
  bool fp8;
  DType dtype;
  double soft_cap = 0;

  double Load(const void* base, int64_t element, float code_scale) const {
    if (!fp8) return LoadElement(base, element, dtype);
    return codec::FromFp8(static_cast<const uint8_t*>(base)[element]) * code_scale;
  }
};

/// Out[value_dim] = sum_r softmax_r(s_r) * v_r; returns log(sum_r exp(s_r)). Scores s_r are scale *
/// q.k_r, capped.
double Attend(const HeadInput& in, float* out) {
  std::vector<double> weights(in.rows.size());
  double top = -std::numeric_limits<double>::infinity();
  for (size_t r = 0; r < in.rows.size(); ++r) {
    const Row& row = in.rows[r];
    double dot = 0;
    for (int64_t c = 0; c < in.key_dim; ++c) dot += in.q[c] * in.Load(in.k, row.k + c, row.k_scale);
    weights[r] = in.scale * dot;
    if (in.soft_cap > 0) weights[r] = in.soft_cap * std::tanh(weights[r] / in.soft_cap);
    top = std::max(top, weights[r]);
  }
  double sum = 0;
  for (double& weight : weights) {
    weight = std::exp(weight - top);
    sum += weight;
  }
  for (int64_t c = 0; c < in.value_dim; ++c) {
    double value = 0;
    for (size_t r = 0; r < in.rows.size(); ++r) {
      const Row& row = in.rows[r];
      value += weights[r] * in.Load(in.v, row.v + c, row.v_scale);
    }
    out[c] = static_cast<float>(value / sum);
  }
  return top + std::log(sum);
}

}  // namespace

OpStatus PagedAttention(const PagedAttentionArgs& args) {
  if (HasOwnPools(args)) return RunSequences(args, PagedAttention);
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t d = args.head_dim;
  const int64_t p = args.page_tokens;
  for (int64_t i = 0; i < args.batch * args.n_q; ++i) {
    const int64_t sequence = i / args.n_q;
    const int64_t g = i % args.n_q / (args.n_q / args.n_kv);
    const int32_t* slots = args.slots + sequence * args.n_slots;
    const int32_t* valid = args.valid_tokens + (sequence * args.n_kv + g) * args.n_slots;
    const int32_t* first =
        args.first_tokens == nullptr ? nullptr : args.first_tokens + sequence * args.n_slots;
    std::vector<Row> rows;
    for (int64_t s = 0; s < args.n_slots; ++s) {
      for (int64_t r = first == nullptr ? 0 : first[s]; r < valid[s]; ++r) {
        const int64_t at = ((slots[s] * p + r) * args.n_kv + g) * d;
        Row row{at, at};
        if (args.fp8_pools) {
          row.k_scale = args.k_scales[slots[s] * args.n_kv + g];
          row.v_scale = args.v_scales[slots[s] * args.n_kv + g];
        }
        rows.push_back(row);
      }
    }
    const double lse = Attend({args.q + i * d, args.k_pool, args.v_pool, rows, d, d, args.scale,
                               args.fp8_pools, args.dtype, args.soft_cap},
                              args.out + i * d);
    if (args.lse != nullptr) args.lse[i] = static_cast<float>(lse);
  }
  return OpStatus::kOk;
}

OpStatus MlaAttention(const MlaAttentionArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t width = args.latent_dim + args.rope_dim;
  for (int64_t i = 0; i < args.batch * args.n_q; ++i) {
    const int64_t list = i / args.n_q * args.n_slots;
    std::vector<Row> rows;
    for (int64_t s = list; s < list + args.n_slots; ++s) {
      for (int64_t r = 0; r < args.valid_tokens[s]; ++r) {
        const int64_t at = (args.slots[s] * args.page_tokens + r) * width;
        const float code_scale = args.fp8_pool ? args.scales[args.slots[s]] : 1.0f;
        rows.push_back({at, at, code_scale, code_scale});
      }
    }
    const double lse = Attend({args.q + i * width, args.pool, args.pool, rows, width,
                               args.latent_dim, args.scale, args.fp8_pool, args.dtype},
                              args.out + i * args.latent_dim);
    if (args.lse != nullptr) args.lse[i] = static_cast<float>(lse);
  }
  return OpStatus::kOk;
}

OpStatus MergeAttention(const MergeAttentionArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  for (int64_t row = 0; row < args.rows; ++row) {
    double top = kNone;
    for (int64_t i = 0; i < args.n_parts; ++i) {
      top = std::max(top, double{args.part_lse[i * args.rows + row]});
    }
    double sum = 0;
    std::vector<double> values(args.dim);
    for (int64_t i = 0; i < args.n_parts; ++i) {
      const double lse = args.part_lse[i * args.rows + row];
      if (lse == kNone) continue;
      const double weight = std::exp(lse - top);
      sum += weight;
      for (int64_t c = 0; c < args.dim; ++c) {
        values[c] += weight * args.parts[(i * args.rows + row) * args.dim + c];
      }
    }
    for (int64_t c = 0; c < args.dim; ++c) {
      args.out[row * args.dim + c] = sum == 0 ? 0.0f : static_cast<float>(values[c] / sum);
    }
    if (args.lse != nullptr) {
      args.lse[row] = static_cast<float>(sum == 0 ? kNone : top + std::log(sum));
    }
  }
  return OpStatus::kOk;
}

OpStatus DenseAttention(const DenseAttentionArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t d = args.head_dim, value_dim = ValueDim(args);
  const void* const values = args.v != nullptr ? args.v : args.k;
  for (int64_t i = 0; i < args.t; ++i) {
    const int64_t last = args.last_key != nullptr ? args.last_key[i] : args.n - args.t + i;
    for (int64_t a = 0; a < args.n_q; ++a) {
      const int64_t g = a / (args.n_q / args.n_kv);
      std::vector<Row> rows;
      const int64_t first = args.window > 0 ? std::max<int64_t>(0, last + 1 - args.window) : 0;
      for (int64_t j = first; j <= last; ++j) {
        const int64_t at = (j * args.n_kv + g) * d;
        rows.push_back({at, at});
      }
      const int64_t row = i * args.n_q + a;
      Attend({args.q + row * d, args.k, values, rows, d, value_dim, args.scale, false, args.dtype,
              args.soft_cap},
             args.out + row * value_dim);
    }
  }
  return OpStatus::kOk;
}

}  // namespace quire::kernels::reference
