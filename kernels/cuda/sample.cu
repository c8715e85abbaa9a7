// SPDX-License-Identifier: Apache-2.0
//
// One block draws the token of one row. top_k and top_p become a cut (rank.cuh). top_k uses the
// radix search, and top_p a bisection over ranks, a bit a pass. For the running sum of the draw,
// each thread handles one stretch of the row.
#include <climits>

#include "kernels/cpu/checks.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/rank.cuh"

namespace quire::kernels::cuda {
namespace {

constexpr int64_t kThreads = 1024;
/// Rank of -infinity; tokens that may be chosen are above.
constexpr uint32_t kRankOfNone = 0x007fffffu;

/// One row; the whole block calls every method.
class Row {
 public:
  __device__ Row(const float* logits, int64_t vocab, float temperature)
      : logits_(logits), n_(vocab), temperature_(temperature) {
    float largest = -Infinity();
    for (int64_t i = threadIdx.x; i < n_; i += kThreads) largest = fmaxf(largest, logits[i]);
    largest_ = BlockReduce(largest, -Infinity(), Max());
  }

  __device__ bool empty() const { return largest_ == -Infinity(); }

  /// The largest logit of lowest index.
  __device__ int First() const {
    int first = INT_MAX;
    for (int64_t i = threadIdx.x; i < n_; i += kThreads) {
      if (logits_[i] == largest_ && first == INT_MAX) first = static_cast<int>(i);
    }
    return BlockReduce(first, INT_MAX, Min());
  }

  /// Keeps the first k of the order.
  __device__ Cut KeepFirst(Cut cut, int64_t k) const {
    int choices = 0;
    for (int64_t i = threadIdx.x; i < n_; i += kThreads) {
      choices += Rank(logits_[i]) > kRankOfNone ? 1 : 0;
    }
    choices = BlockReduce(choices, 0, Sum());
    return k < choices ? FindCut(logits_, n_, static_cast<int>(k)) : cut;
  }

  /// Keeps the shortest prefix of what `cut` keeps that has at least `share` of its weight.
  __device__ Cut KeepShare(Cut cut, float share) const {
    const float wanted = share * KeptWeight(cut);
    uint32_t rank = 0;
    for (int bit = 31; bit >= 0; --bit) {
      const uint32_t higher = rank | (1u << bit);
      if (higher <= cut.rank || WeightFrom(higher) >= wanted) rank = higher;
    }
    if (rank <= kRankOfNone) return cut;
    const float above = rank == 0xffffffffu ? 0.0f : WeightFrom(rank + 1);
    const float each = Weight(ScoreOfRank(rank));
    const float ties = ceilf((wanted - above) / each);
    const int limit = rank == cut.rank ? cut.ties : INT_MAX;
    // At least 1, since the prefix up to here has the weight; the cast stays in range.
    const int kept = !(ties >= 1) ? 1 : ties < 1e9f ? static_cast<int>(ties) : INT_MAX;
    return {rank, kept < limit ? kept : limit};
  }

  __device__ int Draw(Cut cut, float uniform) const {
    const int64_t stretch = (n_ + kThreads - 1) / kThreads;
    const int64_t from = threadIdx.x * stretch;
    const int64_t to = from + stretch < n_ ? from + stretch : n_;
    int ties = 0;
    for (int64_t i = from; i < to; ++i) ties += Rank(logits_[i]) == cut.rank ? 1 : 0;
    const int ties_before = BlockPrefix<int>(ties).before;
    float mine = 0;
    int last = -1;
    Walk(cut, ties_before, from, to, [&](int64_t i) {
      mine += Weight(logits_[i]);
      last = static_cast<int>(i);
      return true;
    });
    const Prefix<float> sum = BlockPrefix<float>(mine);
    const float wanted = uniform * sum.total;
    int chosen = INT_MAX;
    float running = sum.before;
    if (last >= 0 && sum.before + mine > wanted) {
      chosen = last;
      Walk(cut, ties_before, from, to, [&](int64_t i) {
        running += Weight(logits_[i]);
        if (running <= wanted) return true;
        chosen = static_cast<int>(i);
        return false;
      });
    }
    chosen = BlockReduce(chosen, INT_MAX, Min());
    last = BlockReduce(last, -1, Max());
    return chosen == INT_MAX ? last : chosen;
  }

 private:
  __device__ float Weight(float logit) const {
    if (logit == largest_) return 1;  // Holds also if both are infinite.
    return expf((logit - largest_) / temperature_);
  }
  /// Sum over the ranks from `rank` on; rank > kRankOfNone.
  __device__ float WeightFrom(uint32_t rank) const {
    float sum = 0;
    for (int64_t i = threadIdx.x; i < n_; i += kThreads) {
      if (Rank(logits_[i]) >= rank) sum += Weight(logits_[i]);
    }
    return BlockReduce(sum, 0.0f, Sum());
  }
  __device__ float KeptWeight(Cut cut) const {
    const float above = WeightFrom(cut.rank + 1);
    return cut.ties == 0 ? above
                         : above + static_cast<float>(cut.ties) * Weight(ScoreOfRank(cut.rank));
  }
  /// Calls visit(i) for the kept entries of a stretch, until it returns false.
  template <typename Visit>
  __device__ void Walk(Cut cut, int ties, int64_t from, int64_t to, const Visit& visit) const {
    for (int64_t i = from; i < to; ++i) {
      const uint32_t rank = Rank(logits_[i]);
      const bool kept = rank > cut.rank || (rank == cut.rank && ties++ < cut.ties);
      if (kept && !visit(i)) return;
    }
  }

  const float* logits_;
  int64_t n_;
  float temperature_;
  float largest_;
};

__device__ bool CanDraw(const SampleDraw& draw) {
  return draw.top_k >= 0 && draw.top_p > 0 && draw.top_p <= 1 && draw.temperature >= 0 &&
         draw.temperature < Infinity();
}

__global__ void __launch_bounds__(kThreads) SampleKernel(SampleArgs args) {
  const SampleDraw draw = args.draws != nullptr ? args.draws[blockIdx.x] : SampleDraw{};
  const Row row(args.logits + blockIdx.x * args.vocab, args.vocab, draw.temperature);
  int token = -1;
  const bool chooses = !row.empty() && CanDraw(draw);
  if (chooses && draw.temperature == 0) {
    token = row.First();
  } else if (chooses) {
    Cut cut{kRankOfNone, 0};
    if (draw.top_k > 0) cut = row.KeepFirst(cut, draw.top_k);
    if (draw.top_p < 1) cut = row.KeepShare(cut, draw.top_p);
    token = row.Draw(cut, draw.uniform);
  }
  if (threadIdx.x == 0) args.tokens[blockIdx.x] = token;
}

}  // namespace

OpStatus Sample(const SampleArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.rows == 0) return OpStatus::kOk;
  if (args.rows > kMaxGridX) return OpStatus::kUnsupported;
  return Launch(SampleKernel, Grid(args.rows), Grid(kThreads), 0, args.stream, args);
}

}  // namespace quire::kernels::cuda
