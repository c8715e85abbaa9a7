// SPDX-License-Identifier: Apache-2.0
//
// PageQuery: the queries of one layer, the candidate pages and the number to select. Candidates may
// belong to several contexts, the members of a sequence. They compete in one softmax. A page is
// named by PageName(member, page). The lower name wins a tie.
#ifndef QUIRE_KVSERVER_SELECT_PAGE_QUERY_H_
#define QUIRE_KVSERVER_SELECT_PAGE_QUERY_H_

#include <cstdint>
#include <vector>

#include "kernels/api/digest.h"
#include "kernels/api/pool.h"

namespace quire::kvserver {

/// Candidate pages [first_page, end_page) of one member.
struct CandidateRange {
  uint32_t member = 0;
  uint32_t first_page = 0;
  uint32_t end_page = 0;
  /// Position of the member's token 0 in the sequence. Digests cover keys rotated at the member's
  /// own positions, so the queries are rotated back by it instead.
  int64_t position_offset = 0;

  uint32_t num_pages() const { return end_page - first_page; }
  friend bool operator==(const CandidateRange&, const CandidateRange&) = default;
};

struct PageQuery {
  std::vector<float> query;            ///< [n_q][key_dim], post-RoPE at the sequence's positions
  std::vector<CandidateRange> ranges;  ///< By name ascending, without overlap.
  uint32_t num_pages = 0;  ///< Pages to select per KV head; all candidates when there are fewer.
  kernels::Pooling pooling = kernels::Pooling::kAvgSM;
  float scale = 1.0f;  ///< Multiplies scores before pooling; finite, > 0.
  kernels::DigestKind digest = kernels::DigestKind::kMinMax;  ///< Digest kind that scores pages.
  friend bool operator==(const PageQuery&, const PageQuery&) = default;
};

/// Number of pages of all ranges.
inline uint64_t NumCandidates(const PageQuery& query) {
  uint64_t candidates = 0;
  for (const CandidateRange& range : query.ranges) candidates += range.num_pages();
  return candidates;
}

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SELECT_PAGE_QUERY_H_
