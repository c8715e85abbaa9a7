// SPDX-License-Identifier: Apache-2.0
#include "kvserver/select/selector.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "common/page/rope_rotation.h"
#include "kernels/api/page_digest.h"
#include "quire/page_name.h"

namespace quire::kvserver {
namespace {

/// Bounds of idle scratches: their number, and the size of each.
constexpr size_t kMaxIdle = 8;
constexpr uint64_t kMaxIdleBytes = uint64_t{16} << 20;
/// Pages whose content is scored at a time, which bounds the scores of single heads in memory.
constexpr size_t kContentPages = 4096;
/// Above every position, and far from overflow.
constexpr int64_t kMaxOffset = int64_t{1} << 40;

Status FromOp(kernels::OpStatus status, std::string_view op) {
  if (status == kernels::OpStatus::kOk) return OkStatus();
  return Internal("kernel ", op, ": ", kernels::Describe(status));
}

/// Rows that are scored: one query per group for heads whose queries are pooled.
uint32_t ScoredRows(const KvSpec& spec, const PageQuery& query) {
  return kernels::PoolsQuery(query.pooling) ? spec.num_kv_heads : spec.num_query_heads;
}

Status CheckRange(const KvSpec& spec, const CandidatePages& range,
                  std::span<const uint32_t> member_pages) {
  if (range.member >= member_pages.size()) {
    return InvalidArgument("candidates of member ", range.member, ": there are ",
                           member_pages.size(), " members");
  }
  if (range.first_page > range.end_page || range.end_page > member_pages[range.member]) {
    return InvalidArgument("candidate pages [", range.first_page, ", ", range.end_page,
                           ") are not inside the ", member_pages[range.member], " pages of member ",
                           range.member);
  }
  if (range.position_offset > kMaxOffset || range.position_offset < -kMaxOffset) {
    return InvalidArgument("member ", range.member, " is at position ", range.position_offset,
                           ": must be within ", kMaxOffset, " of 0");
  }
  if (range.position_offset != 0 && !spec.rope.CanRebase()) {
    return InvalidArgument("member ", range.member, " is at position ", range.position_offset,
                           ": the keys of this model cannot be moved; read it at position 0");
  }
  return OkStatus();
}

void TakeAll(const KvSpec& spec, const PageQuery& query, PageLists* out) {
  out->AppendHead();
  for (const CandidatePages& range : query.ranges) {
    for (uint32_t page = range.first_page; page < range.end_page; ++page) {
      out->Append(PageName(range.member, page));
    }
  }
  for (uint32_t head = 1; head < spec.num_kv_heads; ++head) out->RepeatHead();
}

/// Names the candidates with these ascending indices, which count through all ranges.
void NamePages(const std::vector<CandidatePages>& ranges, std::span<const int32_t> candidates,
               std::span<uint32_t> names) {
  auto range = ranges.begin();
  uint32_t before = 0;  // candidates of earlier ranges
  for (size_t i = 0; i < candidates.size(); ++i) {
    const auto candidate = static_cast<uint32_t>(candidates[i]);
    while (candidate - before >= range->num_pages()) before += (range++)->num_pages();
    names[i] = PageName(range->member, range->first_page + (candidate - before));
  }
}

}  // namespace

struct Selector::Scratch {
  std::vector<float> turned;   ///< [n_q][key_dim], rotated back
  std::vector<float> pooled;   ///< [n_kv][key_dim], pooled queries
  std::vector<float> cosines;  ///< [rotary_dim/2], of a turn
  std::vector<float> sines;
  std::vector<float> scores;   ///< [rotary_dim/2], cosines of a rotation
  std::vector<float> weights;  ///< [n_kv][candidates]
  std::vector<int32_t> best;   ///< [n_kv][num_pages]
  std::vector<int32_t> nan_counts;

  uint64_t bytes() const {
    return (scores.capacity() + weights.capacity() + best.capacity()) * sizeof(float);
  }
};

/// Takes an idle scratch, or a new one, and returns it at destruction.
class Selector::ScratchLease {
 public:
  explicit ScratchLease(Selector& selector) : selector_(selector) {
    MutexLock lock(selector_.mutex_);
    if (selector_.idle_.empty()) {
      scratch_ = std::make_unique<Scratch>();
    } else {
      scratch_ = std::move(selector_.idle_.back());
      selector_.idle_.pop_back();
    }
  }
  ~ScratchLease() {
    if (scratch_->bytes() > kMaxIdleBytes) return;
    MutexLock lock(selector_.mutex_);
    if (selector_.idle_.size() < kMaxIdle) selector_.idle_.push_back(std::move(scratch_));
  }
  ScratchLease(const ScratchLease&) = delete;
  ScratchLease& operator=(const ScratchLease&) = delete;

  Scratch& operator*() { return *scratch_; }

 private:
  Selector& selector_;
  std::unique_ptr<Scratch> scratch_;
};

Selector::Selector(const kernels::KernelTable& ops) : ops_(ops) {}
Selector::~Selector() = default;

Status Selector::Check(const KvSpec& spec, const PageQuery& query,
                       std::span<const uint32_t> member_pages) {
  const uint64_t expected = uint64_t{spec.num_query_heads} * spec.key_dim();
  if (query.query.size() != expected) {
    return InvalidArgument("the query has ", query.query.size(), " numbers: must be ",
                           spec.num_query_heads, " heads of ", spec.key_dim());
  }
  const CandidatePages* last = nullptr;
  for (const CandidatePages& range : query.ranges) {
    QUIRE_RETURN_IF_ERROR(CheckRange(spec, range, member_pages));
    if (last != nullptr && (range.member < last->member ||
                            (range.member == last->member && range.first_page < last->end_page))) {
      return InvalidArgument("candidates of member ", range.member, " from page ", range.first_page,
                             " on follow those of member ", last->member, " up to page ",
                             last->end_page, ": must ascend without overlap");
    }
    last = &range;
  }
  if (const uint64_t candidates = NumCandidates(query);
      candidates > kMaxScores / spec.num_query_heads) {
    return InvalidArgument(candidates, " candidate pages: at most ",
                           kMaxScores / spec.num_query_heads, " can be scored together for ",
                           spec.num_query_heads, " query heads");
  }
  if (!std::isfinite(query.scale) || query.scale <= 0) {
    return InvalidArgument("scale is ", query.scale, ": must be finite and above 0");
  }
  if (!kernels::IsKnown(query.pooling)) {
    return InvalidArgument("pooling ", static_cast<int>(query.pooling), " is unknown");
  }
  if (!Selects(query.digest)) {
    return InvalidArgument("digest kind ", static_cast<int>(query.digest), " selects no pages");
  }
  if (!kernels::HasDigest(spec, query.digest)) {
    return InvalidArgument("disc digests pair channels, and keys have ", spec.key_dim(),
                           " of them: score by another kind");
  }
  return OkStatus();
}

Status Selector::Select(const KvSpec& spec, const PageQuery& query,
                        std::span<const DigestBlocks> digests, PageLists* out) {
  out->Clear();
  if (TakesAll(query)) {
    TakeAll(spec, query, out);
    return OkStatus();
  }
  if (query.num_pages == 0) {
    out->Reset(spec.num_kv_heads);
    return OkStatus();
  }
  ScratchLease scratch(*this);
  return SelectScored(spec, query, digests, *scratch, out);
}

Status Selector::SelectScored(const KvSpec& spec, const PageQuery& query,
                              std::span<const DigestBlocks> digests, Scratch& scratch,
                              PageLists* out) {
  const uint64_t candidates = NumCandidates(query);
  QUIRE_RETURN_IF_ERROR(ScoreRanges(spec, query, digests, scratch));
  scratch.weights.resize(spec.num_kv_heads * candidates);
  QUIRE_RETURN_IF_ERROR(FromOp(ops_.pool({.scores = scratch.scores.data(),
                                          .pooled = scratch.weights.data(),
                                          .n_q = ScoredRows(spec, query),
                                          .n_kv = spec.num_kv_heads,
                                          .n_pages = static_cast<int64_t>(candidates),
                                          .head_dim = spec.key_dim(),
                                          .pooling = query.pooling}),
                               "pool"));
  scratch.best.resize(uint64_t{spec.num_kv_heads} * query.num_pages);
  scratch.nan_counts.resize(spec.num_kv_heads);
  QUIRE_RETURN_IF_ERROR(FromOp(ops_.topk({.scores = scratch.weights.data(),
                                          .indices = scratch.best.data(),
                                          .nan_counts = scratch.nan_counts.data(),
                                          .n_rows = spec.num_kv_heads,
                                          .n_pages = static_cast<int64_t>(candidates),
                                          .k = query.num_pages}),
                               "topk"));
  const std::span<const int32_t> best(scratch.best);
  for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
    NamePages(query.ranges, best.subspan(uint64_t{head} * query.num_pages, query.num_pages),
              out->AddHead(query.num_pages));
    nan_scores_.Add(static_cast<uint64_t>(scratch.nan_counts[head]));
  }
  units_scored_.Add(candidates * spec.num_kv_heads);
  return OkStatus();
}

Status Selector::ScoreRanges(const KvSpec& spec, const PageQuery& query,
                             std::span<const DigestBlocks> digests, Scratch& scratch) const {
  const uint32_t rows = ScoredRows(spec, query);
  const uint64_t candidates = NumCandidates(query);
  scratch.scores.resize(rows * candidates);
  float* scores = scratch.scores.data();
  for (size_t i = 0; i < query.ranges.size(); ++i) {
    const CandidatePages& range = query.ranges[i];
    if (range.num_pages() == 0) continue;
    QUIRE_ASSIGN_OR_RETURN(const auto queries, QueriesOf(spec, query, range, scratch));
    const auto blocks = digests[i].pointers();
    kernels::ScoreArgs args = kernels::PageScoreArgs(spec, query.digest);
    args.q = queries.data();
    args.blocks = blocks.data();
    args.n_blocks = static_cast<int64_t>(blocks.size());
    args.pages_per_block = digests[i].pages_per_block();
    args.first_page = int64_t{range.first_page} - digests[i].first_page();
    args.scores = scores;
    args.score_stride = static_cast<int64_t>(candidates);
    args.n_pages = range.num_pages();
    args.n_q = rows;
    args.scale = query.scale;
    QUIRE_RETURN_IF_ERROR(FromOp(ops_.score(args), "score"));
    scores += range.num_pages();
  }
  return OkStatus();
}

Status Selector::ScoreContent(const KvSpec& spec, std::span<const float> queries,
                              const DigestBlocks& digests, uint32_t first_page,
                              std::span<float> scores) {
  std::vector<float> of_heads(spec.num_kv_heads * std::min(scores.size(), kContentPages));
  for (size_t at = 0; at < scores.size(); at += kContentPages) {
    const std::span<float> out = scores.subspan(at, std::min(scores.size() - at, kContentPages));
    const auto blocks = digests.pointers();
    kernels::ScoreArgs args = kernels::PageScoreArgs(spec, kernels::DigestKind::kContent);
    args.q = queries.data();
    args.blocks = blocks.data();
    args.n_blocks = static_cast<int64_t>(blocks.size());
    args.pages_per_block = digests.pages_per_block();
    args.first_page = static_cast<int64_t>(first_page + at) - digests.first_page();
    args.scores = of_heads.data();
    args.n_pages = static_cast<int64_t>(out.size());
    args.n_q = spec.num_kv_heads;
    QUIRE_RETURN_IF_ERROR(FromOp(ops_.score(args), "score"));
    for (size_t page = 0; page < out.size(); ++page) {
      double sum = 0;
      for (size_t head = 0; head < spec.num_kv_heads; ++head) {
        sum += of_heads[head * out.size() + page];
      }
      out[page] = static_cast<float>(sum);
    }
  }
  units_scored_.Add(scores.size() * spec.num_kv_heads);
  return OkStatus();
}

StatusOr<std::span<const float>> Selector::QueriesOf(const KvSpec& spec, const PageQuery& query,
                                                     const CandidatePages& range,
                                                     Scratch& scratch) const {
  std::span<const float> queries(query.query);
  if (range.position_offset != 0) {
    scratch.turned.assign(queries.begin(), queries.end());
    QUIRE_RETURN_IF_ERROR(TurnBack(spec, range.position_offset, scratch));
    queries = scratch.turned;
  }
  if (!kernels::PoolsQuery(query.pooling)) return queries;
  scratch.pooled.resize(size_t{spec.num_kv_heads} * spec.key_dim());
  QUIRE_RETURN_IF_ERROR(FromOp(ops_.pool_query({.q = queries.data(),
                                                .pooled = scratch.pooled.data(),
                                                .n_q = spec.num_query_heads,
                                                .n_kv = spec.num_kv_heads,
                                                .head_dim = spec.key_dim(),
                                                .pooling = query.pooling}),
                               "pool_query"));
  return std::span<const float>(scratch.pooled);
}

Status Selector::TurnBack(const KvSpec& spec, int64_t offset, Scratch& scratch) const {
  const uint32_t rotary_dim = spec.rope.rotary_dim;
  if (rotary_dim == 0) return OkStatus();
  scratch.cosines.resize(rotary_dim / 2);
  scratch.sines.resize(rotary_dim / 2);
  RopeRotation(spec.rope).FillMove(-offset, scratch.cosines.data(), scratch.sines.data());
  constexpr int32_t kOnlyPosition = 0;
  // Rotated channels are the first; in MLA they follow the latent ones.
  const uint32_t first = spec.attention == AttentionKind::kMla ? spec.latent_dim : 0;
  for (uint32_t head = 0; head < spec.num_query_heads; ++head) {
    QUIRE_RETURN_IF_ERROR(
        FromOp(ops_.rope({.rows = scratch.turned.data() + size_t{head} * spec.key_dim() + first,
                          .positions = &kOnlyPosition,
                          .cos_table = scratch.cosines.data(),
                          .sin_table = scratch.sines.data(),
                          .t = 1,
                          .heads = 1,
                          .head_dim = rotary_dim,
                          .rotary_dim = rotary_dim,
                          .n_positions = 1,
                          .interleaved = spec.rope.interleaved}),
               "rope"));
  }
  return OkStatus();
}

void Selector::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("select_units_scored", "Units scored by their digests.", units_scored_.Get());
  visit.Counter("select_nan_scores", "Scores that were no number; their units are not selected.",
                nan_scores_.Get());
}

}  // namespace quire::kvserver
