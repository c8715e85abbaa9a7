// SPDX-License-Identifier: Apache-2.0
//
// PageQuery: the queries of one layer, the pages they may choose from and how many they choose. The
// candidates may be of several contexts, the members of a sequence: they compete with each other,
// all in one softmax. A page is named by PageName(member, page), and of equals the lower name wins.
#ifndef QUIRE_KVSERVER_SELECT_PAGE_QUERY_H_
#define QUIRE_KVSERVER_SELECT_PAGE_QUERY_H_

#include <cstdint>
#include <vector>

#include "kernels/api/digest.h"
#include "kernels/api/pool.h"

namespace quire::kvserver {

/// Candidate pages [first_page, end_page) of one member.
struct CandidatePages {
  uint32_t member = 0;
  uint32_t first_page = 0;
  uint32_t end_page = 0;
  /// Where the sequence sees the member's token 0. The keys that the member's digests cover are
  /// rotated at the member's own positions, so that the queries are turned back by as much instead.
  int64_t position_offset = 0;

  uint32_t num_pages() const { return end_page - first_page; }
  friend bool operator==(const CandidatePages&, const CandidatePages&) = default;
};

struct PageQuery {
  std::vector<float> query;            ///< [n_q][key_dim], post-RoPE at the sequence's positions
  std::vector<CandidatePages> ranges;  ///< By name ascending, without overlap.
  uint32_t num_pages = 0;  ///< Pages to select per KV head; all candidates when there are fewer.
  kernels::Pooling pooling = kernels::Pooling::kAvgSM;
  float scale = 1.0f;  ///< Multiplies scores before pooling; finite, > 0.
  kernels::DigestKind digest = kernels::DigestKind::kMinMax;  ///< What pages are scored by.
  friend bool operator==(const PageQuery&, const PageQuery&) = default;
};

/// Pages of all ranges.
inline uint64_t NumCandidates(const PageQuery& query) {
  uint64_t candidates = 0;
  for (const CandidatePages& range : query.ranges) candidates += range.num_pages();
  return candidates;
}

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SELECT_PAGE_QUERY_H_
