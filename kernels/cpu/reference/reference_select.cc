// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/cpu/checks.h"
#include "kernels/cpu/digest_block.h"
#include "kernels/cpu/reference/reference.h"
#include "kernels/cpu/score_terms.h"
#include "kernels/cpu/sequences.h"
#include "kernels/cpu/softmax.h"

namespace quire::kernels::reference {
namespace {

/// Maximum, or NaN if either is.
float MaxOrNaN(float a, float b) {
  if (std::isnan(a)) return a;
  return std::isnan(b) || b > a ? b : a;
}

/// Sets pooled[g][i] from the rows [n_kv][group][width] of KV head g. It is the largest element i,
/// NaN if there is one, or the mean.
void PoolRows(const float* rows, int64_t n_kv, int64_t group, int64_t width, bool maximum,
              float* pooled) {
  for (int64_t g = 0; g < n_kv; ++g) {
    for (int64_t i = 0; i < width; ++i) {
      const float* column = rows + g * group * width + i;
      double sum = column[0];
      float top = column[0];
      for (int64_t h = 1; h < group; ++h) {
        sum += column[h * width];
        top = MaxOrNaN(top, column[h * width]);
      }
      const double mean = sum / static_cast<double>(group);
      pooled[g * width + i] = maximum ? top : static_cast<float>(mean);
    }
  }
}

/// Pools the rows of one KV head.
void PoolSoftmax(const PoolArgs& args, const float* rows, float* pooled) {
  const int64_t n = args.n_pages;
  std::vector<float> weights(n);
  for (int64_t h = 0; h < args.n_q / args.n_kv; ++h) {
    const float sum = PlainSoftmax(rows + h * n, n, SoftmaxFactor(args), weights.data());
    const float scale = HeadShare(args) / sum;
    for (int64_t j = 0; j < n; ++j) {
      const float weight = scale * weights[j];
      if (h == 0) {
        pooled[j] = weight;
      } else if (args.pooling == Pooling::kMaxSM) {
        pooled[j] = MaxOrNaN(pooled[j], weight);
      } else {
        pooled[j] += weight;
      }
    }
  }
}

}  // namespace

OpStatus Score(const ScoreArgs& args) {
  if (args.jobs != nullptr) return RunJobs(args, Score);
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.n_pages == 0) return OpStatus::kOk;
  const ScoreQueries queries = MakeScoreQueries(args);
  const int64_t terms = ScoreTerms(args.kind, args.head_dim);
  const int64_t elements = DigestElements(args.kind, args.head_dim);
  const bool corners = args.kind == DigestKind::kMinMax;
  for (int64_t a = 0; a < args.n_q; ++a) {
    const int64_t g = a / (args.n_q / args.n_kv);
    for (int64_t j = 0; j < args.n_pages; ++j) {
      const DigestPage page = FindDigestPage(args, args.first_page + j);
      const int64_t digest = (page.index * args.n_kv + g) * elements;
      OrderedSum sum;
      for (int64_t i = 0; i < terms; ++i) {
        const QueryTerms& pair = queries.terms[queries.PairAt(a, i / kPartialSums)];
        const float q = pair.values[queries.InPair(a)][i % kPartialSums];
        const int64_t element = corners && q >= 0 ? i + args.head_dim : i;
        sum.Add(q, LoadElement(page.block, digest + element, args.dtype));
      }
      if (HasRadius(args.kind)) {
        sum.AddRadius(queries.radius[static_cast<size_t>(a)],
                      LoadElement(page.block, digest + terms, args.dtype));
      }
      args.scores[a * ScoreStride(args) + j] = args.scale * sum.Total();
    }
  }
  return OpStatus::kOk;
}

OpStatus PoolQuery(const PoolQueryArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  PoolRows(args.q, args.n_kv, args.n_q / args.n_kv, args.head_dim, args.pooling == Pooling::kMaxQ,
           args.pooled);
  return OpStatus::kOk;
}

OpStatus Pool(const PoolArgs& args) {
  if (args.jobs != nullptr) return RunJobs(args, Pool);
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t n = args.n_pages;
  const int64_t group = args.n_q / args.n_kv;
  if (!TakesSoftmax(args.pooling)) {  // With pooled queries, the mean of one row is its copy.
    PoolRows(args.scores, args.n_kv, group, n, args.pooling == Pooling::kMaxS, args.pooled);
    return OpStatus::kOk;
  }
  for (int64_t g = 0; g < args.n_kv; ++g) {
    PoolSoftmax(args, args.scores + g * group * n, args.pooled + g * n);
  }
  return OpStatus::kOk;
}

OpStatus TopK(const TopKArgs& args) {
  if (args.jobs != nullptr) return RunJobs(args, TopK);
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
    const HeadQueries head = QueriesOf(args, g);
    double sum = 0;
    for (int64_t a = 0; head.before != nullptr && a < group; ++a) {
      double dot = 0, now = 0, before = 0;
      for (int64_t c = a * d; c < (a + 1) * d; ++c) {
        dot += double{head.now[c]} * head.before[c];
        now += double{head.now[c]} * head.now[c];
        before += double{head.before[c]} * head.before[c];
      }
      sum += dot / (std::sqrt(now) * std::sqrt(before) + 1e-12);
    }
    args.cosines[g] = static_cast<float>(sum / static_cast<double>(group));
    const bool turned = head.before == nullptr || !(args.cosines[g] >= head.tau);
    if (turned) args.corrected[corrected++] = static_cast<int32_t>(g);
  }
  *args.n_corrected = corrected;
  return OpStatus::kOk;
}

}  // namespace quire::kernels::reference
