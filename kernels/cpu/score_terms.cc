// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/score_terms.h"

#include <algorithm>
#include <cstring>

namespace quire::kernels {
namespace {

double Length(const float* values, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += double{values[i]} * values[i];
  return std::sqrt(sum);
}

/// Fills the factors of the further terms.
void FillExtra(const ScoreArgs& args, const float* q, float* extra) {
  const int64_t d = args.head_dim;
  switch (args.kind) {
    case DigestKind::kMinMax:
    case DigestKind::kMean:
    case DigestKind::kRepresentatives:
    case DigestKind::kContent:
    case DigestKind::kCentreRadius:
      return;
    case DigestKind::kCentreDeviation:
      std::transform(q, q + d, extra, [](float value) { return std::abs(value); });
      return;
    case DigestKind::kDisc:
      for (int64_t i = 0; i < d / 2; ++i) {
        const ChannelPair pair = PairOf(i, args.rotary_dim, args.interleaved);
        const float channels[] = {q[pair.a], q[pair.b]};
        extra[i] = static_cast<float>(Length(channels, 2));
      }
      return;
  }
}

}  // namespace

ScoreQueries MakeScoreQueries(const ScoreArgs& args) {
  const int64_t terms = ScoreTerms(args.kind, args.head_dim);
  ScoreQueries queries;
  queries.blocks = (terms + kPartialSums - 1) / kPartialSums;
  queries.group = args.n_q / args.n_kv;
  queries.terms.resize(static_cast<size_t>(args.n_kv * queries.blocks * queries.pairs()));
  std::vector<float> row(static_cast<size_t>(queries.blocks * kPartialSums));
  for (int64_t a = 0; a < args.n_q; ++a) {
    const float* q = args.q + a * args.head_dim;
    if (HasRadius(args.kind)) {
      queries.radius.push_back(static_cast<float>(Length(q, args.head_dim)));
    }
    std::copy(q, q + args.head_dim, row.begin());
    FillExtra(args, q, row.data() + args.head_dim);
    for (int64_t block = 0; block < queries.blocks; ++block) {
      std::memcpy(queries.terms[queries.PairAt(a, block)].values[queries.InPair(a)],
                  row.data() + block * kPartialSums, kPartialSums * sizeof(float));
    }
  }
  return queries;
}

}  // namespace quire::kernels
