// SPDX-License-Identifier: Apache-2.0
#include "client/spanning/score_merge.h"

#include <algorithm>

namespace quire::internal {
namespace {

size_t ScoresOf(const ContentScoring& wanted, const CandidateRange& range) {
  return wanted.layers.size() * (range.end_page - range.first_page);
}

}  // namespace

StatusOr<std::vector<FragmentScoring>> SplitScoring(const SequencePlaces& places,
                                                    const KvSpec& spec,
                                                    const ContentScoring& wanted) {
  const size_t query = wanted.layers.size() * spec.num_kv_heads * spec.key_dim();
  if (wanted.queries.size() != wanted.candidates.size() * query) {
    return InvalidArgument("queries of ", wanted.queries.size(),
                           " floats; [candidates][layers][n_kv][key_dim] is ",
                           wanted.candidates.size() * query);
  }
  std::vector<FragmentScoring> asked;
  for (size_t i = 0; i < wanted.candidates.size(); ++i) {
    CandidateRange range = wanted.candidates[i];
    if (range.member >= places.num_members() || range.first_page > range.end_page) {
      return InvalidArgument("scores of pages [", range.first_page, ", ", range.end_page,
                             ") of member ", range.member, ", which sequence ", wanted.sequence,
                             " does not have");
    }
    const size_t fragment = places.FragmentOf(range.member);
    auto to = std::ranges::find(asked, fragment, &FragmentScoring::fragment);
    if (to == asked.end()) {
      to = asked.insert(to, {.fragment = fragment, .scoring = {}, .candidates = {}});
      to->scoring.layers = wanted.layers;
    }
    range.member = places.LocalMember(range.member);
    to->scoring.candidates.push_back(range);
    const auto first = wanted.queries.begin() + static_cast<ptrdiff_t>(i * query);
    to->scoring.queries.insert(to->scoring.queries.end(), first,
                               first + static_cast<ptrdiff_t>(query));
    to->candidates.push_back(i);
  }
  return asked;
}

std::vector<float> MergeScores(const ContentScoring& wanted, std::span<const FragmentScoring> asked,
                               std::span<const std::vector<float>> scores) {
  std::vector<size_t> firsts;
  size_t total = 0;
  for (const CandidateRange& range : wanted.candidates) {
    firsts.push_back(total);
    total += ScoresOf(wanted, range);
  }
  std::vector<float> merged(total);
  for (size_t i = 0; i < asked.size(); ++i) {
    const float* from = scores[i].data();
    for (const size_t candidate : asked[i].candidates) {
      const size_t count = ScoresOf(wanted, wanted.candidates[candidate]);
      std::copy_n(from, count, merged.data() + firsts[candidate]);
      from += count;
    }
  }
  return merged;
}

}  // namespace quire::internal
