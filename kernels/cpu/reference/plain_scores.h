// SPDX-License-Identifier: Apache-2.0
//
// simd::Scores without vectors, for instruction sets that have no fused multiply-add.
#ifndef QUIRE_KERNELS_CPU_REFERENCE_PLAIN_SCORES_H_
#define QUIRE_KERNELS_CPU_REFERENCE_PLAIN_SCORES_H_

#include <cstdint>
#include <vector>

#include "kernels/cpu/score_terms.h"
#include "kernels/cpu/simd/simd.h"

namespace quire::kernels::simd {

inline void PlainScores(const ScoreRun& run, const ScorePages& pages, float* out) {
  const int64_t elements = run.elements();
  const int64_t blocks = (run.terms + kPartialSums - 1) / kPartialSums;
  const int64_t heads = PairedHeads(run.group);
  std::vector<float> digest(static_cast<size_t>(elements));
  for (int64_t j = 0; j < pages.pages; ++j) {
    for (int64_t g = 0; g < run.n_kv; ++g) {
      for (int64_t e = 0; e < elements; ++e) {
        digest[static_cast<size_t>(e)] =
            LoadElement(pages.digests, (j * run.n_kv + g) * elements + e, run.dtype);
      }
      for (int64_t head = 0; head < run.group; ++head) {
        const float* terms = run.q + (g * blocks * heads + head) * kPartialSums;
        OrderedSum sum;
        for (int64_t i = 0; i < run.terms; ++i) {
          const float q = terms[i / kPartialSums * heads * kPartialSums + i % kPartialSums];
          sum.Add(q, digest[static_cast<size_t>(run.corners && q >= 0 ? i + run.terms : i)]);
        }
        if (run.radius != nullptr) {
          sum.AddRadius(run.radius[g * run.group + head], digest[static_cast<size_t>(run.terms)]);
        }
        out[(g * run.group + head) * run.score_stride + j] = run.scale * sum.Total();
      }
    }
  }
}

inline void PlainScores(const ScoreRun& run, const ScorePages* parts, int64_t n_parts, float* out) {
  for (int64_t i = 0; i < n_parts; ++i) {
    PlainScores(run, parts[i], out);
    out += parts[i].pages;
  }
}

}  // namespace quire::kernels::simd

#endif  // QUIRE_KERNELS_CPU_REFERENCE_PLAIN_SCORES_H_
