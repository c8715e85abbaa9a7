// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/cache/joint_attention.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "quire/layout.h"

namespace quire::worker {
namespace {

/// Most parts that the slots of one head are split into. With several sequences fewer keep the
/// largest devices busy.
constexpr size_t kSplits = 64;

}  // namespace

Status JointAttention::Launch() {
  if (tokens_.empty()) return OkStatus();
  const std::vector<Token> tokens = std::exchange(tokens_, {});
  std::vector<Run> runs;
  PackedLists lists;
  for (size_t first = 0; first < tokens.size();) {
    size_t end = first + 1;
    while (end < tokens.size() && Follows(tokens[end - 1], tokens[end])) ++end;
    runs.push_back(RunOf(std::span(tokens).subspan(first, end - first)));
    Pack(runs.back(), &lists);
    first = end;
  }
  QUIRE_RETURN_IF_ERROR(lists.Send(*device_, &lists_));
  for (const Run& run : runs) QUIRE_RETURN_IF_ERROR(LaunchRun(run, &lists));
  return OkStatus();
}

bool JointAttention::Follows(const Token& first, const Token& second) const {
  const size_t row = size_t{spec_.num_query_heads} * spec_.head_dim;
  return second.q == first.q + row && second.out == first.out + row &&
         (first.tokens > 0) == (second.tokens > 0);
}

JointAttention::Run JointAttention::RunOf(std::span<const Token> tokens) const {
  Run run{.tokens = tokens};
  for (const Token& token : tokens) {
    const size_t slots = token.tokens > 0 ? DivideRoundUp(token.tokens, spec_.page_tokens)
                                          : token.attended.slots.size();
    run.n_slots = std::max(run.n_slots, static_cast<int64_t>(slots));
    run.num_slots = std::max(run.num_slots, int64_t{token.num_slots});
    run.hides |= !token.attended.first_tokens.empty();
  }
  return run;
}

void JointAttention::Pack(const Run& run, PackedLists* lists) const {
  std::vector<kernels::SequencePools> pools;
  for (const Token& token : run.tokens) pools.push_back({token.k, token.v});
  lists->Add(std::span(pools));
  if (!run.in_order()) return PackSlots(run, lists);
  std::vector<int32_t> lengths;
  for (const Token& token : run.tokens) lengths.push_back(static_cast<int32_t>(token.tokens));
  lists->Add(std::span(lengths));
}

void JointAttention::PackSlots(const Run& run, PackedLists* lists) const {
  const auto width = static_cast<size_t>(run.n_slots);
  std::vector<int32_t> slots(run.tokens.size() * width);  // Unused ones have no rows.
  std::vector<int32_t> rows(slots.size() * spec_.num_kv_heads);
  std::vector<int32_t> first(run.hides ? slots.size() : 0);
  for (size_t i = 0; i < run.tokens.size(); ++i) {
    const AttendedSlots& attended = run.tokens[i].attended;
    const size_t listed = attended.slots.size();
    std::ranges::copy(attended.slots, slots.begin() + static_cast<ptrdiff_t>(i * width));
    if (run.hides) {
      std::ranges::copy(attended.first_tokens, first.begin() + static_cast<ptrdiff_t>(i * width));
    }
    for (size_t head = 0; head < spec_.num_kv_heads; ++head) {
      std::copy_n(attended.valid_tokens.data() + head * listed, listed,
                  rows.data() + (i * spec_.num_kv_heads + head) * width);
    }
  }
  lists->Add(std::span(slots));
  lists->Add(std::span(rows));
  if (run.hides) lists->Add(std::span(first));
}

Status JointAttention::ReserveWorkspace(size_t sequences) {
  const size_t bytes =
      kSplits * static_cast<size_t>(kernels::AttentionSplitBytes(
                    static_cast<int64_t>(sequences) * spec_.num_query_heads, spec_.head_dim));
  if (bytes <= workspace_.size_bytes()) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(workspace_, device_->Allocate(bytes));
  return OkStatus();
}

Status JointAttention::LaunchRun(const Run& run, PackedLists* lists) {
  QUIRE_RETURN_IF_ERROR(ReserveWorkspace(run.tokens.size()));
  kernels::PagedAttentionArgs args{.q = run.tokens.front().q,
                                   .out = run.tokens.front().out,
                                   .pools = lists->Next<kernels::SequencePools>(),
                                   .batch = std::ssize(run.tokens),
                                   .num_slots = run.num_slots,
                                   .n_slots = run.n_slots,
                                   .page_tokens = spec_.page_tokens,
                                   .n_q = spec_.num_query_heads,
                                   .n_kv = spec_.num_kv_heads,
                                   .head_dim = spec_.head_dim,
                                   .scale = 1.0f / std::sqrt(static_cast<float>(spec_.head_dim)),
                                   .soft_cap = soft_cap_,
                                   .dtype = spec_.dtype,
                                   .workspace = workspace_.data(),
                                   .workspace_bytes = static_cast<int64_t>(workspace_.size_bytes()),
                                   .stream = device_->stream()};
  if (run.in_order()) {
    args.tokens = lists->Next<int32_t>();
  } else {
    args.slots = lists->Next<int32_t>();
    args.valid_tokens = lists->Next<int32_t>();
    if (run.hides) args.first_tokens = lists->Next<int32_t>();
  }
  return ToStatus(device_->kernels().paged_attention(args), "paged_attention");
}

}  // namespace quire::worker
