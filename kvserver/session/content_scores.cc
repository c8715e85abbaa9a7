// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/content_scores.h"

#include <algorithm>
#include <memory>
#include <span>

#include "kernels/api/page_digest.h"
#include "kvserver/session/context/context_view.h"

namespace quire::kvserver {
namespace {

Status CheckLayers(std::span<const uint32_t> layers, const KvSpec& spec) {
  if (layers.size() > spec.num_layers) {
    return InvalidArgument(layers.size(), " layers: the model has ", spec.num_layers);
  }
  for (const uint32_t layer : layers) {
    if (layer < spec.num_layers) continue;
    return InvalidArgument("layer ", layer, ": the model has ", spec.num_layers);
  }
  return OkStatus();
}

Status CheckRanges(std::span<const CandidatePages> ranges, std::span<const MemberView> members) {
  int64_t last = -1;
  for (const CandidatePages& range : ranges) {
    if (range.member >= members.size() || int64_t{range.member} <= last) {
      return InvalidArgument("pages of member ", range.member, ": members ascend, and there are ",
                             members.size());
    }
    last = range.member;
    const uint32_t num_pages = members[range.member].num_pages;
    if (range.first_page > range.end_page || range.end_page > num_pages) {
      return InvalidArgument("pages [", range.first_page, ", ", range.end_page,
                             ") are not inside the ", num_pages, " pages of member ", range.member);
    }
  }
  return OkStatus();
}

Status Check(const ContentQuery& query, const KvSpec& spec, std::span<const MemberView> members,
             uint64_t max_reply_bytes) {
  if (!kernels::HasDigest(spec, DigestKind::kContent)) {
    return InvalidArgument(
        "the rotation of this model's keys depends on the length of the context: "
        "pages have no content to score by");
  }
  QUIRE_RETURN_IF_ERROR(CheckLayers(query.layers, spec));
  QUIRE_RETURN_IF_ERROR(CheckRanges(query.ranges, members));
  const uint64_t row = uint64_t{spec.num_kv_heads} * spec.key_dim();
  const uint64_t elements = query.ranges.size() * query.layers.size() * row;
  if (query.queries.size() != elements) {
    return InvalidArgument("queries have ", query.queries.size(),
                           " elements: ", query.ranges.size(), " members and ", query.layers.size(),
                           " layers take ", elements);
  }
  uint64_t pages = 0;
  for (const CandidatePages& range : query.ranges) pages += range.num_pages();
  const uint64_t bytes = pages * query.layers.size() * sizeof(float);
  if (bytes <= max_reply_bytes) return OkStatus();
  return ResourceExhausted("the scores take ", bytes, " bytes, more than the ", max_reply_bytes,
                           " of one reply: ask for fewer layers or pages at a time");
}

bool HoldsContent(const SessionShape& shape, uint32_t layer) {
  return shape.hold_digests && shape.hold_digests->kind == DigestKind::kContent &&
         std::ranges::find(shape.hold_digests->layers, layer) != shape.hold_digests->layers.end();
}

/// Digests of pages of a member. Shares those that the session holds.
StatusOr<DigestBlocks> ContentOf(RecallParts& parts, const Caller& caller,
                                 const SessionShape& shape, const MemberView& member,
                                 const CandidatePages& pages, uint32_t layer) {
  std::shared_ptr<const ResidentDigests> held;
  if (HoldsContent(shape, layer)) {
    const HoldArgs hold{*member.view->keys, std::span(&layer, 1), DigestKind::kContent};
    QUIRE_ASSIGN_OR_RETURN(held, parts.residency->Hold(caller, shape.spec, hold));
  }
  return ReadDigests(*parts.store, caller, *member.view,
                     {layer, pages.first_page, pages.end_page, DigestKind::kContent}, held.get());
}

}  // namespace

StatusOr<std::vector<float>> ScoreContent(RecallParts& parts, const SessionShape& shape,
                                          SessionSequence& sequence, const ContentQuery& query) {
  const KvSpec& spec = shape.spec;
  std::vector<MemberView> members;
  for (const MemberContext& member : sequence.members()) members.emplace_back(member);
  QUIRE_RETURN_IF_ERROR(Check(query, spec, members, parts.max_reply_bytes));
  const Caller caller(shape.tenant, query.priority, query.waits);
  const WaitTimer waiting(query.waits, WaitedFor::kSelection);
  const size_t row = size_t{spec.num_kv_heads} * spec.key_dim();
  std::span<const float> queries(query.queries);
  std::vector<float> scores;
  for (const CandidatePages& range : query.ranges) {
    for (const uint32_t layer : query.layers) {
      if (query.check_wanted) QUIRE_RETURN_IF_ERROR(query.check_wanted());
      const std::span<const float> q = queries.first(row);
      queries = queries.subspan(row);
      if (range.num_pages() == 0) continue;
      QUIRE_ASSIGN_OR_RETURN(const DigestBlocks blocks,
                             ContentOf(parts, caller, shape, members[range.member], range, layer));
      const size_t at = scores.size();
      scores.resize(at + range.num_pages());
      QUIRE_RETURN_IF_ERROR(parts.selector->ScoreContent(spec, q, blocks, range.first_page,
                                                         std::span(scores).subspan(at)));
    }
  }
  QUIRE_RETURN_IF_ERROR(sequence.CheckBytes(*parts.store, members));
  return scores;
}

}  // namespace quire::kvserver
