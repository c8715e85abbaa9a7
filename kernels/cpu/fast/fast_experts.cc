// SPDX-License-Identifier: Apache-2.0
//
// Products by expert: the rows of one expert are multiplied together, so that its matrix is read
// once.
#include <algorithm>
#include <vector>

#include "kernels/cpu/checks.h"
#include "kernels/cpu/fast/fast.h"
#include "kernels/cpu/simd/simd.h"

namespace quire::kernels::fast {

OpStatus ExpertMatmul(const ExpertMatmulArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  std::vector<std::vector<int64_t>> rows_of(args.n_experts);
  for (int64_t r = 0; r < args.rows; ++r) rows_of[args.experts[r]].push_back(r);
  std::vector<float> x, y;
  for (int64_t expert = 0; expert < args.n_experts; ++expert) {
    const std::vector<int64_t>& rows = rows_of[expert];
    if (rows.empty()) continue;
    x.clear();
    for (const int64_t r : rows) {
      const float* const row = args.x + r / args.share * args.in;
      x.insert(x.end(), row, row + args.in);
    }
    y.resize(rows.size() * args.out);
    const OpStatus status = Matmul({.x = x.data(),
                                    .weight = args.weight + expert * args.out * args.in,
                                    .y = y.data(),
                                    .rows = static_cast<int64_t>(rows.size()),
                                    .in = args.in,
                                    .out = args.out});
    if (status != OpStatus::kOk) return status;
    for (size_t i = 0; i < rows.size(); ++i) {
      std::copy_n(y.data() + i * args.out, args.out, args.y + rows[i] * args.out);
    }
  }
  return OpStatus::kOk;
}

OpStatus CombineExperts(const CombineExpertsArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  for (int64_t r = 0; r < args.rows; ++r) {
    float* const y = args.y + r * args.dim;
    std::fill_n(y, args.dim, 0.0f);
    const float* const parts = args.parts + r * args.k * args.dim;
    simd::WeightedSum(args.weights + r * args.k, 1, {.data = parts, .stride = args.dim}, args.k,
                      args.dim, y);
  }
  return OpStatus::kOk;
}

}  // namespace quire::kernels::fast
