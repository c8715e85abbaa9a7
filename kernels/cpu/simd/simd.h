// SPDX-License-Identifier: Apache-2.0
//
// The inner loops of the fast CPU ops. One of two implementations is linked: simd_highway.cc
// chooses the best instruction set of the CPU at run time; simd_plain.cc needs no library.
//
// Arrays are f32 unless a dtype is named; no alignment beyond one element. Lengths may be 0 or odd.
// Sums run in f32 over several partial sums. Results may not overlap inputs, except where "in
// place" is stated.
#ifndef QUIRE_KERNELS_CPU_SIMD_SIMD_H_
#define QUIRE_KERNELS_CPU_SIMD_SIMD_H_

#include <cstdint>

#include "quire/dtype.h"

namespace quire::kernels::simd {

/// Name of the instruction set in use: "AVX3", "plain", ... For benchmarks.
const char* TargetName();

/// dst[i] = src[i]; src is [n] dtype.
void Widen(const void* src, DType dtype, int64_t n, float* dst);
/// `rows` rows of d elements, spaced `stride` elements in src, to dst [rows][d].
void WidenRows(const void* src, int64_t stride, DType dtype, int64_t rows, int64_t d, float* dst);
/// dst[i] = src[i] rounded to nearest even; dst is [n] dtype.
void Narrow(const float* src, int64_t n, DType dtype, void* dst);

/// Per-channel minimum and maximum of rows [n_rows][d] dtype (n_rows >= 1); NaN where any is NaN.
void MinMaxRows(const void* rows, DType dtype, int64_t n_rows, int64_t d, float* lo, float* hi);

// Functions over f32 rows [n_rows][d], n_rows >= 1. They sum in f64 in the order of the rows, and
// round a mean once. Results are equal to the bit on every CPU, except for the bits of a NaN.

/// mean[c] = mean of the rows.
void MeanRows(const float* rows, int64_t n_rows, int64_t d, float* mean);
/// mean[c] = mean of |row - centre|.
void MeanDistances(const float* rows, int64_t n_rows, int64_t d, const float* centre, float* mean);
/// squares[r][c] = (rows[r][c] - centre[c])^2
void SquaredDistances(const float* rows, int64_t n_rows, int64_t d, const float* centre,
                      double* squares);

/// Parameters of a score op that are the same for all pages (ScoreArgs), arranged as score.h orders
/// the sum.
struct ScoreRun {
  /// [n_kv][terms / 8, rounded up][PairedHeads(group)][8], aligned to 64 bytes; zeros after the
  /// last term and for a padding head (ScoreQueries::terms)
  const float* q = nullptr;
  int64_t terms = 0;
  /// Each digest is [2][terms], lo then hi, and the sign of q chooses; otherwise [terms].
  bool corners = false;
  /// [n_kv * group] factors of the radius after the terms of a digest; null without one. Not with
  /// corners.
  const float* radius = nullptr;
  DType dtype = DType::kF32;
  int64_t n_kv = 0;
  int64_t group = 0;  ///< Query heads of a KV head.
  float scale = 1.0f;
  int64_t score_stride = 0;

  /// Elements of a digest.
  constexpr int64_t elements() const {
    return corners ? 2 * terms : terms + (radius != nullptr ? 1 : 0);
  }
};
/// Pages that are adjacent in memory, [pages][n_kv] digests.
struct ScorePages {
  const void* digests = nullptr;
  int64_t pages = 0;
};
/// Most pages of a part. One or more parts are scored, and fetched, in one turn.
inline constexpr int64_t kScorePartPages = 8;
/// Most pages of a part of a run. In f32 they are few where two turns and the queries fit the
/// first-level cache together. Rows are then scored before they leave it.
constexpr int64_t ScorePartPages(const ScoreRun& run) {
  if (run.dtype != DType::kF32) return kScorePartPages;
  constexpr int64_t kTurnBytes = 24 << 10, kQueryBytes = 20 << 10;
  constexpr int64_t kElement = sizeof(float);
  const int64_t page_bytes = run.n_kv * run.elements() * kElement;
  if (run.n_kv * run.group * run.terms * kElement > kQueryBytes) return kScorePartPages;
  int64_t pages = kScorePartPages / 2;
  while (pages > 1 && pages * page_bytes > kTurnBytes) pages /= 2;
  return pages;
}
/// Out[a * score_stride + j] = score of query row a over page j, counted over all parts.
void Scores(const ScoreRun& run, const ScorePages* parts, int64_t n_parts, float* out);

/// Stored rows, `stride` elements apart. A sum over them equals, to the bit, one over the same rows
/// widened first.
struct StoredRows {
  const void* data = nullptr;
  int64_t stride = 0;
  DType dtype = DType::kF32;
  /// Rows with the same spacing that will be read soon, or null. They are prefetched one by one,
  /// since the CPU cannot predict their addresses.
  const void* next = nullptr;
};

float Dot(const float* a, const float* b, int64_t n);
/// Out[i][j] = a[i] . b[j]; a is [m][d], b is [n] rows of d, out is [m][n]. Other rows of a do not
/// change the bits of a row of out.
void Dots(const float* a, int64_t m, const StoredRows& b, int64_t n, int64_t d, float* out);
/// acc[i] += sum_j w[i][j] * v[j]; w is [m][n], v is [n] rows of d, acc is [m][d].
void WeightedSum(const float* w, int64_t m, const StoredRows& v, int64_t n, int64_t d, float* acc);

/// Largest number of x, ignoring NaN; -infinity without numbers.
float MaxNumber(const float* x, int64_t n);
/// In place: x[i] = exp(x[i] - shift), NaN stays NaN. Returns the sum of the numbers. Relative
/// error 2e-7 per entry; exponents below -87 may give 0.
float ExpInPlace(float* x, int64_t n, float shift);
/// weights[j] = exp(factor * row[j] - the largest of them), NaN stays NaN. Returns the sum of the
/// numbers. Equal to PlainSoftmax (softmax.h) to the bit on every CPU.
float SoftmaxWeights(const float* row, int64_t n, float factor, float* weights);
/// y[i] = silu(gate[i]) * up[i]; y may be gate or up.
void SiluMul(const float* gate, const float* up, int64_t n, float* y);
/// y[i] = a[i] + b[i]; y may be a or b.
void Add(const float* a, const float* b, int64_t n, float* y);

}  // namespace quire::kernels::simd

#endif  // QUIRE_KERNELS_CPU_SIMD_SIMD_H_
