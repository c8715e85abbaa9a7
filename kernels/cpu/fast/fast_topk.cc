// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "kernels/cpu/checks.h"
#include "kernels/cpu/fast/fast.h"
#include "kernels/cpu/sequences.h"

namespace quire::kernels::fast {
namespace {

/// Maps a score to an integer of the same order: both zeros are equal, NaN is 0.
uint32_t Rank(float score) {
  const uint32_t bits = FloatBits(score + 0.0f);  // -0 + 0 = +0
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0;
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

/// The k-th largest rank, and the number of ranks above it. 1 <= k <= n.
struct Cut {
  uint32_t rank;
  int64_t above;
};

/// Uses one histogram over the upper bits, then a selection among the ranks of the deciding bucket.
Cut FindCut(const std::vector<uint32_t>& ranks, int64_t k, std::vector<uint32_t>* bucket) {
  constexpr int kShift = 22;
  std::array<int32_t, (1u << (32 - kShift))> counts{};
  for (const uint32_t rank : ranks) ++counts[rank >> kShift];
  int64_t above = 0;
  uint32_t top = static_cast<uint32_t>(counts.size()) - 1;
  while (above + counts[top] < k) above += counts[top--];
  bucket->clear();
  for (const uint32_t rank : ranks) {
    if (rank >> kShift == top) bucket->push_back(rank);
  }
  const auto kth = bucket->begin() + (k - above - 1);
  std::nth_element(bucket->begin(), kth, bucket->end(), std::greater<uint32_t>());
  const uint32_t cut = *kth;
  above += std::count_if(bucket->begin(), kth, [cut](uint32_t rank) { return rank > cut; });
  return {cut, above};
}

}  // namespace

OpStatus TopK(const TopKArgs& args) {
  if (args.jobs != nullptr) return RunJobs(args, TopK);
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t n = args.n_pages;
  const int64_t width = TopKWidth(args.k, n);
  std::vector<uint32_t> ranks(n);
  std::vector<uint32_t> bucket;
  for (int64_t row = 0; row < args.n_rows; ++row) {
    const bool all = width == n;
    if (!all || args.nan_counts != nullptr) {
      std::transform(args.scores + row * n, args.scores + (row + 1) * n, ranks.begin(), Rank);
    }
    if (args.nan_counts != nullptr) {
      args.nan_counts[row] = static_cast<int32_t>(std::count(ranks.begin(), ranks.end(), 0u));
    }
    int32_t* out = args.indices + row * width;
    if (all) {
      std::iota(out, out + width, args.index_offset);
    } else if (width > 0) {
      const Cut cut = FindCut(ranks, width, &bucket);
      int64_t ties = width - cut.above;  // Takes the lowest indices among equal ranks.
      for (int64_t j = 0; j < n; ++j) {
        if (ranks[j] < cut.rank || (ranks[j] == cut.rank && ties-- <= 0)) continue;
        *out++ = static_cast<int32_t>(j) + args.index_offset;
      }
    }
  }
  return OpStatus::kOk;
}

}  // namespace quire::kernels::fast
