// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/cpu/checks.h"
#include "kernels/cpu/digest_block.h"
#include "kernels/cpu/reference.h"
#include "kernels/cpu/score_terms.h"

namespace quire::kernels::reference {
namespace {

/// weights[j] = softmax of factor * row over the entries that are numbers; NaN entries stay NaN.
void Softmax(const float* row, int64_t n, double factor, double* weights) {
  double top = -std::numeric_limits<double>::infinity();
  for (int64_t j = 0; j < n; ++j) {
    weights[j] = factor * row[j];
    if (weights[j] > top) top = weights[j];
  }
  double sum = 0;
  for (int64_t j = 0; j < n; ++j) {
    // The first case lets infinite maxima share the weight; infinity - infinity would be NaN.
    weights[j] = weights[j] == top ? 1.0 : std::exp(weights[j] - top);
    if (!std::isnan(weights[j])) sum += weights[j];
  }
  for (int64_t j = 0; j < n; ++j) weights[j] /= sum;
}

/// Maximum in which a NaN wins.
double MaxOrNaN(double a, double b) {
  if (std::isnan(a)) return a;
  return std::isnan(b) || b > a ? b : a;
}

}  // namespace

OpStatus Score(const ScoreArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.n_pages == 0) return OpStatus::kOk;
  const ScoreQueries queries = MakeScoreQueries(args);
  const int64_t terms = ScoreTerms(args.kind, args.head_dim);
  const int64_t elements = DigestElements(args.kind, args.head_dim);
  const bool corners = args.kind == DigestKind::kMinMax;
  for (int64_t a = 0; a < args.n_q; ++a) {
    const float* q = queries.rows.data() + a * queries.stride;
    const int64_t g = a / (args.n_q / args.n_kv);
    for (int64_t j = 0; j < args.n_pages; ++j) {
      const DigestPage page = FindDigestPage(args, args.first_page + j);
      const int64_t digest = (page.index * args.n_kv + g) * elements;
      OrderedSum sum;
      for (int64_t i = 0; i < terms; ++i) {
        const int64_t element = corners && q[i] >= 0 ? i + args.head_dim : i;
        sum.Add(q[i], LoadElement(page.block, digest + element, args.dtype));
      }
      args.scores[a * ScoreStride(args) + j] = args.scale * sum.Total();
    }
  }
  return OpStatus::kOk;
}

OpStatus PoolQuery(const PoolQueryArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t d = args.head_dim;
  const int64_t group = args.n_q / args.n_kv;
  for (int64_t g = 0; g < args.n_kv; ++g) {
    for (int64_t c = 0; c < d; ++c) {
      const float* column = args.q + g * group * d + c;
      double sum = column[0];
      double top = column[0];
      for (int64_t h = 1; h < group; ++h) {
        sum += column[h * d];
        top = MaxOrNaN(top, column[h * d]);
      }
      const double pooled = args.pooling == Pooling::kMaxQ ? top : sum / static_cast<double>(group);
      args.pooled[g * d + c] = static_cast<float>(pooled);
    }
  }
  return OpStatus::kOk;
}

OpStatus Pool(const PoolArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t n = args.n_pages;
  const int64_t group = args.n_q / args.n_kv;
  const Pooling mode = args.pooling;
  const bool maximum = mode == Pooling::kMaxS || mode == Pooling::kMaxSM;
  const bool softmax = TakesSoftmax(mode);
  const double factor =
      mode == Pooling::kAvgSdM ? 1.0 / std::sqrt(static_cast<double>(args.head_dim)) : 1.0;
  std::vector<double> weights(n);
  std::vector<double> pooled(n);
  for (int64_t g = 0; g < args.n_kv; ++g) {
    for (int64_t h = 0; h < group; ++h) {
      const float* row = args.scores + (g * group + h) * n;
      if (softmax) {
        Softmax(row, n, factor, weights.data());
      } else {
        std::copy(row, row + n, weights.begin());
      }
      for (int64_t j = 0; j < n; ++j) {
        const double with = maximum ? MaxOrNaN(pooled[j], weights[j]) : pooled[j] + weights[j];
        pooled[j] = h == 0 ? weights[j] : with;
      }
    }
    for (int64_t j = 0; j < n; ++j) {
      const double value = maximum ? pooled[j] : pooled[j] / static_cast<double>(group);
      args.pooled[g * n + j] = static_cast<float>(value);
    }
  }
  return OpStatus::kOk;
}

OpStatus TopK(const TopKArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t n = args.n_pages;
  const int64_t width = TopKWidth(args.k, n);
  std::vector<int32_t> order(n);
  for (int64_t row = 0; row < args.n_rows; ++row) {
    const float* scores = args.scores + row * n;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      if (std::isnan(scores[a])) return false;
      return std::isnan(scores[b]) || scores[a] > scores[b];
    });
    std::sort(order.begin(), order.begin() + width);
    for (int64_t i = 0; i < width; ++i) {
      args.indices[row * width + i] = order[i] + args.index_offset;
    }
    if (args.nan_counts != nullptr) {
      args.nan_counts[row] = static_cast<int32_t>(
          std::count_if(scores, scores + n, [](float s) { return std::isnan(s); }));
    }
  }
  return OpStatus::kOk;
}

OpStatus CorrectHeads(const CorrectHeadsArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t d = args.head_dim;
  const int64_t group = args.n_q / args.n_kv;
  int32_t corrected = 0;
  for (int64_t g = 0; g < args.batch * args.n_kv; ++g) {
    double sum = 0;
    for (int64_t a = g * group; a < (g + 1) * group; ++a) {
      double dot = 0, now = 0, before = 0;
      for (int64_t c = a * d; c < (a + 1) * d; ++c) {
        dot += double{args.q[c]} * args.before[c];
        now += double{args.q[c]} * args.q[c];
        before += double{args.before[c]} * args.before[c];
      }
      sum += dot / (std::sqrt(now) * std::sqrt(before) + 1e-12);
    }
    args.cosines[g] = static_cast<float>(sum / static_cast<double>(group));
    if (!(args.cosines[g] >= args.tau)) args.corrected[corrected++] = static_cast<int32_t>(g);
  }
  *args.n_corrected = corrected;
  return OpStatus::kOk;
}

}  // namespace quire::kernels::reference
