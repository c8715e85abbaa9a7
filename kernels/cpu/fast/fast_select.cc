// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/checks.h"
#include "kernels/cpu/digest_block.h"
#include "kernels/cpu/fast/fast.h"
#include "kernels/cpu/score_terms.h"
#include "kernels/cpu/sequences.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/softmax.h"

namespace quire::kernels::fast {
namespace {

const char* At(const void* base, int64_t element, DType dtype) {
  return static_cast<const char*>(base) + element * ElementBytes(dtype);
}
char* At(void* base, int64_t element, DType dtype) {
  return static_cast<char*>(base) + element * ElementBytes(dtype);
}

struct SoftmaxPart {
  float factor;
  float share;
  bool maximum;
  bool first;
};
/// Adds share * softmax(factor * row) to pooled, or takes the larger of both. The first row of a
/// group overwrites. NaN entries stay NaN.
void AddSoftmax(const float* row, int64_t n, const SoftmaxPart& part, float* scratch,
                float* pooled) {
  const float scale = part.share / simd::SoftmaxWeights(row, n, part.factor, scratch);
  if (part.first) {
    for (int64_t j = 0; j < n; ++j) pooled[j] = scale * scratch[j];
  } else if (part.maximum) {
    for (int64_t j = 0; j < n; ++j) {
      const float value = scale * scratch[j];
      pooled[j] = value <= pooled[j] || std::isnan(pooled[j]) ? pooled[j] : value;
    }
  } else {
    for (int64_t j = 0; j < n; ++j) pooled[j] += scale * scratch[j];
  }
}

/// Sets pooled[g][i] from the rows [n_kv][group][width] of KV head g. It is the largest element i,
/// NaN if there is one, or the mean.
void PoolRows(const float* rows, int64_t n_kv, int64_t group, int64_t width, bool maximum,
              float* pooled) {
  std::vector<float> least(maximum ? width : 0);
  for (int64_t g = 0; g < n_kv; ++g, rows += group * width, pooled += width) {
    if (maximum) {
      simd::MinMaxRows(rows, DType::kF32, group, width, least.data(), pooled);
    } else {
      simd::MeanRows(rows, group, width, pooled);
    }
  }
}

}  // namespace

OpStatus Digest(const DigestArgs& args) {
  if (args.jobs != nullptr) return RunJobs(args, Digest);
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.kind != DigestKind::kMinMax) {
    DigestUnits(args);
    return OpStatus::kOk;
  }
  const int64_t d = args.head_dim;
  std::vector<float> bounds(2 * d);
  for (int64_t u = 0; u < args.n_units; ++u) {
    const int64_t rows = args.valid_rows != nullptr ? args.valid_rows[u] : args.page_tokens;
    simd::MinMaxRows(At(args.units, u * args.unit_stride, args.dtype), args.dtype, rows, d,
                     bounds.data(), bounds.data() + d);
    simd::Narrow(bounds.data(), 2 * d, args.out_dtype, At(args.digests, u * 2 * d, args.out_dtype));
  }
  return OpStatus::kOk;
}

OpStatus Score(const ScoreArgs& args) {
  if (args.jobs != nullptr) return RunJobs(args, Score);
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.n_pages == 0) return OpStatus::kOk;
  const ScoreQueries queries = MakeScoreQueries(args);
  const int64_t page_elements = args.n_kv * DigestElements(args.kind, args.head_dim);
  simd::ScoreRun run;
  run.q = queries.terms[0].values[0];
  run.terms = ScoreTerms(args.kind, args.head_dim);
  if (HasRadius(args.kind)) run.radius = queries.radius.data();
  run.corners = args.kind == DigestKind::kMinMax;
  run.dtype = args.dtype;
  run.n_kv = args.n_kv;
  run.group = args.n_q / args.n_kv;
  run.scale = args.scale;
  run.score_stride = ScoreStride(args);
  const int64_t part_pages = simd::ScorePartPages(run);
  std::vector<simd::ScorePages> parts;
  for (int64_t j = 0; j < args.n_pages; j += parts.back().pages) {
    const DigestPage page = FindDigestPage(args, args.first_page + j);
    parts.push_back(
        {At(page.block, page.index * page_elements, args.dtype), std::min(page.rest, part_pages)});
  }
  simd::Scores(run, parts.data(), std::ssize(parts), args.scores);
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
  if (args.n_pages == 0) return OpStatus::kOk;
  const Pooling mode = args.pooling;
  const int64_t n = args.n_pages;
  const int64_t group = args.n_q / args.n_kv;
  if (!TakesSoftmax(mode)) {  // In modes with a pooled query, the mean of one row is its copy.
    PoolRows(args.scores, args.n_kv, group, n, mode == Pooling::kMaxS, args.pooled);
    return OpStatus::kOk;
  }
  SoftmaxPart part{SoftmaxFactor(args), HeadShare(args), mode == Pooling::kMaxSM, true};
  std::vector<float> scratch(n);
  for (int64_t a = 0; a < args.n_q; ++a) {
    part.first = a % group == 0;
    AddSoftmax(args.scores + a * n, n, part, scratch.data(), args.pooled + a / group * n);
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
    float sum = 0;
    for (int64_t a = 0; head.before != nullptr && a < group; ++a) {
      const float* q = head.now + a * d;
      const float* before = head.before + a * d;
      const float lengths = std::sqrt(simd::Dot(q, q, d)) * std::sqrt(simd::Dot(before, before, d));
      sum += simd::Dot(q, before, d) / (lengths + 1e-12f);
    }
    args.cosines[g] = sum / static_cast<float>(group);
    const bool turned = head.before == nullptr || !(args.cosines[g] >= head.tau);
    if (turned) args.corrected[corrected++] = static_cast<int32_t>(g);
  }
  *args.n_corrected = corrected;
  return OpStatus::kOk;
}

}  // namespace quire::kernels::fast
