// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/quest.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/api/page_digest.h"

namespace quire::worker {
namespace {

Status Grow(Device* device, size_t bytes, DeviceBuffer* buffer) {
  if (bytes <= buffer->size_bytes()) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(*buffer, device->Allocate(std::max(bytes, 2 * buffer->size_bytes())));
  return OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<RetrievalPolicy>> QuestPolicy::Make(const PolicyContext& context) {
  QUIRE_RETURN_IF_ERROR(Validate(context.options, context.spec));
  return std::unique_ptr<RetrievalPolicy>(new QuestPolicy(context));
}

QuestPolicy::QuestPolicy(const PolicyContext& context)
    : BudgetPolicy(context, context.options.window_tokens,
                   context.options.budget_tokens - context.options.sink_tokens -
                       context.options.window_tokens),
      spec_(context.spec),
      device_(context.device),
      pooling_(context.options.pooling),
      score_scale_(context.options.score_scale),
      digest_(context.options.digest),
      side_(context.options.side) {
  digests_.reserve(spec_.num_layers);
  for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
    digests_.emplace_back(spec_, digest_, device_);
  }
}

bool QuestPolicy::WantsDigests(uint32_t layer) const {
  return side_ == SelectionSide::kWorker && Layout(layer).selectable_pages > 0;
}

Status QuestPolicy::OnPrefillLayer(uint32_t layer, uint32_t num_pages,
                                   std::span<const std::byte> digests) {
  if (!WantsDigests(layer)) return OkStatus();
  return Annotate(digests_[layer].Append(num_pages, digests), "layer ", layer);
}

Status QuestPolicy::OnPageComplete(uint32_t layer, uint32_t page, const void* units) {
  if (!WantsDigests(layer)) return OkStatus();
  if (page != digests_[layer].num_pages()) {
    return FailedPrecondition("layer ", layer, ": page ", page, " is complete, but page ",
                              digests_[layer].num_pages(), " is the next to have a digest");
  }
  return digests_[layer].AppendPage(units);
}

Status QuestPolicy::Reserve(uint32_t pages, uint32_t selected) {
  const size_t n_kv = spec_.num_kv_heads;
  QUIRE_RETURN_IF_ERROR(
      Grow(device_, size_t{spec_.num_query_heads} * pages * sizeof(float), &scores_));
  QUIRE_RETURN_IF_ERROR(Grow(device_, n_kv * pages * sizeof(float), &pooled_));
  QUIRE_RETURN_IF_ERROR(Grow(device_, n_kv * selected * sizeof(int32_t), &indices_));
  return Grow(device_, n_kv * spec_.head_dim * sizeof(float), &pooled_query_);
}

Status QuestPolicy::Score(const SelectRequest& request) {
  const kernels::KernelTable& ops = device_->kernels();
  const float* q = request.q;
  int64_t n_q = spec_.num_query_heads;
  if (kernels::PoolsQuery(pooling_)) {
    QUIRE_RETURN_IF_ERROR(ToStatus(ops.pool_query({.q = q,
                                                   .pooled = pooled_query_.as<float>(),
                                                   .n_q = n_q,
                                                   .n_kv = spec_.num_kv_heads,
                                                   .head_dim = spec_.head_dim,
                                                   .pooling = pooling_,
                                                   .stream = device_->stream()}),
                                   "pool_query"));
    q = pooled_query_.as<float>();
    n_q = spec_.num_kv_heads;
  }
  kernels::ScoreArgs args = kernels::PageScoreArgs(spec_, digest_);
  args.q = q;
  args.digests = digests_[request.layer].data();
  args.first_page = request.candidates.first;
  args.scores = scores_.as<float>();
  args.n_pages = request.candidates.size();
  args.n_q = n_q;
  args.scale = score_scale_;
  args.stream = device_->stream();
  QUIRE_RETURN_IF_ERROR(ToStatus(ops.score(args), "score"));
  return ToStatus(ops.pool({.scores = scores_.as<float>(),
                            .pooled = pooled_.as<float>(),
                            .n_q = n_q,
                            .n_kv = spec_.num_kv_heads,
                            .n_pages = request.candidates.size(),
                            .head_dim = spec_.head_dim,
                            .pooling = pooling_,
                            .stream = device_->stream()}),
                  "pool");
}

StatusOr<Selection> QuestPolicy::TopK(const SelectRequest& request) {
  const uint32_t n_kv = spec_.num_kv_heads;
  const uint32_t k = request.max_pages;
  QUIRE_RETURN_IF_ERROR(ToStatus(
      device_->kernels().topk({.scores = pooled_.as<float>(),
                               .indices = indices_.as<int32_t>(),
                               .n_rows = n_kv,
                               .n_pages = request.candidates.size(),
                               .k = k,
                               .index_offset = static_cast<int32_t>(request.candidates.first),
                               .stream = device_->stream()}),
      "topk"));
  std::vector<int32_t> indices(size_t{n_kv} * k);
  QUIRE_RETURN_IF_ERROR(
      device_->CopyToHost(indices.data(), indices_.data(), indices.size() * sizeof(int32_t)));
  Selection selection;
  selection.pages.resize(n_kv);
  for (uint32_t head = 0; head < n_kv; ++head) {
    const auto first = indices.begin() + static_cast<ptrdiff_t>(size_t{head} * k);
    selection.pages[head].assign(first, first + k);
  }
  return selection;
}

StatusOr<Selection> QuestPolicy::Select(const SelectRequest& request) {
  if (request.candidates.size() <= request.max_pages) {
    std::vector<uint32_t> all(request.candidates.size());
    std::iota(all.begin(), all.end(), request.candidates.first);
    return Selection{.pages = std::vector<std::vector<uint32_t>>(spec_.num_kv_heads, all)};
  }
  if (request.max_pages == 0) {
    return Selection{.pages = std::vector<std::vector<uint32_t>>(spec_.num_kv_heads)};
  }
  if (side_ == SelectionSide::kServer) return Selection{.at_server = true};
  if (request.candidates.end > digests_[request.layer].num_pages()) {
    return FailedPrecondition("layer ", request.layer, ": candidates end at page ",
                              request.candidates.end, ", digests at page ",
                              digests_[request.layer].num_pages());
  }
  QUIRE_RETURN_IF_ERROR(Reserve(request.candidates.size(), request.max_pages));
  QUIRE_RETURN_IF_ERROR(Score(request));
  return TopK(request);
}

std::vector<bool> QuestPolicy::NeedsBlocking(uint32_t, const float*) {
  return std::vector<bool>(spec_.num_kv_heads, true);
}

}  // namespace quire::worker
