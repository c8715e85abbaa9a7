// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/sequences.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/cpu/checks.h"

namespace quire::kernels {
namespace {

/// Sequence `b` of `args`, with its own pools.
PagedAttentionArgs SequenceOf(const PagedAttentionArgs& args, int64_t b) {
  PagedAttentionArgs alone = args;
  alone.pools = nullptr;
  alone.batch = 1;
  alone.q += b * args.n_q * args.head_dim;
  alone.out += b * args.n_q * args.head_dim;
  if (alone.lse != nullptr) alone.lse += b * args.n_q;
  if (args.pools != nullptr) {
    alone.k_pool = args.pools[b].k;
    alone.v_pool = args.pools[b].v;
  }
  return alone;
}

/// Rows [n_kv][n_slots] of slots that hold `tokens` in order.
std::vector<int32_t> RowsInOrder(const PagedAttentionArgs& args, int64_t tokens) {
  std::vector<int32_t> rows(static_cast<size_t>(args.n_kv * args.n_slots));
  for (int64_t i = 0; i < args.n_kv * args.n_slots; ++i) {
    const int64_t left = tokens - i % args.n_slots * args.page_tokens;
    rows[i] = static_cast<int32_t>(std::clamp<int64_t>(left, 0, args.page_tokens));
  }
  return rows;
}

}  // namespace

DigestArgs Alone(const DigestArgs& args, const DigestJob& job) {
  DigestArgs alone = args;
  alone.jobs = nullptr;
  alone.units = job.units;
  alone.digests = job.digests;
  return alone;
}

ScoreArgs Alone(const ScoreArgs& args, const ScoreJob& job) {
  ScoreArgs alone = args;
  alone.jobs = nullptr;
  alone.q = job.q;
  alone.digests = job.digests;
  alone.scores = job.scores;
  alone.score_stride = job.score_stride;
  alone.first_page = job.first_page;
  alone.n_pages = job.n_pages;
  return alone;
}

PoolArgs Alone(const PoolArgs& args, const PoolJob& job) {
  PoolArgs alone = args;
  alone.jobs = nullptr;
  alone.scores = job.scores;
  alone.pooled = job.pooled;
  alone.n_pages = job.n_pages;
  return alone;
}

TopKArgs Alone(const TopKArgs& args, const TopKJob& job) {
  TopKArgs alone = args;
  alone.jobs = nullptr;
  alone.scores = job.scores;
  alone.indices = job.indices;
  alone.nan_counts = job.nan_counts;
  alone.n_pages = job.n_pages;
  alone.k = job.k;
  alone.index_offset = job.index_offset;
  return alone;
}

OpStatus RunPages(const NhdToHndArgs& args, NhdToHndFn op) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  constexpr int32_t kSlot = 0;
  NhdToHndArgs alone = args;
  alone.pages = nullptr;
  alone.slots = &kSlot;
  alone.num_slots = 1;
  alone.n_pages = 1;
  for (int64_t i = 0; i < args.n_pages; ++i) {
    alone.k_pool = args.pages[i].k;
    alone.v_pool = args.pages[i].v;
    alone.units = args.pages[i].units;
    if (const OpStatus status = op(alone); status != OpStatus::kOk) return status;
  }
  return OpStatus::kOk;
}

OpStatus RunUnits(const HndToNhdArgs& args, HndToNhdFn op) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  const int64_t bytes =
      (args.has_values ? 2 : 1) * args.page_tokens * args.head_dim * ElementBytes(args.dtype);
  constexpr UnitPlacement kPlace = {};
  HndToNhdArgs alone = args;
  alone.addresses = nullptr;
  alone.placements = &kPlace;
  alone.num_slots = 1;
  alone.n_units = 1;
  for (int64_t i = 0; i < args.n_units; ++i) {
    if (args.unit_ptrs != nullptr) alone.unit_ptrs = args.unit_ptrs + i;
    if (args.units != nullptr) alone.units = static_cast<const char*>(args.units) + i * bytes;
    alone.k_pool = args.addresses[i].k;
    alone.v_pool = args.addresses[i].v;
    if (const OpStatus status = op(alone); status != OpStatus::kOk) return status;
  }
  return OpStatus::kOk;
}

OpStatus RunSequences(const PagedAttentionArgs& args, PagedAttentionFn op) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  std::vector<int32_t> in_order(static_cast<size_t>(args.n_slots));
  std::iota(in_order.begin(), in_order.end(), 0);
  std::vector<int32_t> rows;
  for (int64_t b = 0; b < args.batch; ++b) {
    PagedAttentionArgs alone = SequenceOf(args, b);
    if (args.tokens == nullptr) {
      alone.slots += b * args.n_slots;
      alone.valid_tokens += b * args.n_kv * args.n_slots;
      if (args.first_tokens != nullptr) alone.first_tokens += b * args.n_slots;
    } else {
      if (args.tokens[b] > args.n_slots * args.page_tokens) return OpStatus::kBadShape;
      rows = RowsInOrder(args, args.tokens[b]);
      alone.tokens = nullptr;
      alone.slots = in_order.data();
      alone.valid_tokens = rows.data();
    }
    if (const OpStatus status = op(alone); status != OpStatus::kOk) return status;
  }
  return OpStatus::kOk;
}

}  // namespace quire::kernels
