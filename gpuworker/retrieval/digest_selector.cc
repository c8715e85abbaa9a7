// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/digest_selector.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/api/page_digest.h"

namespace quire::worker {
namespace {

/// Grows `buffer` to at least `bytes`; contents are lost.
Status Grow(Device* device, size_t bytes, DeviceBuffer* buffer) {
  if (bytes <= buffer->size_bytes()) return OkStatus();
  QUIRE_RETURN_IF_ERROR(device->Synchronize());  // The old memory goes away.
  QUIRE_ASSIGN_OR_RETURN(*buffer, device->Allocate(std::max(bytes, 2 * buffer->size_bytes())));
  return OkStatus();
}

}  // namespace

std::optional<Selection> SelectWithoutChoice(const SelectRequest& request, uint32_t num_kv_heads) {
  std::vector<uint32_t> pages;
  if (request.candidates.size() <= request.max_pages) {
    pages.resize(request.candidates.size());
    std::iota(pages.begin(), pages.end(), request.candidates.first);
  } else if (request.max_pages > 0) {
    return std::nullopt;
  }
  return Selection{.pages = std::vector<std::vector<uint32_t>>(num_kv_heads, pages)};
}

DigestSelector::DigestSelector(const PolicyContext& context, const Options& options)
    : spec_(context.spec), device_(context.device), options_(options) {
  digests_.reserve(spec_.num_layers);
  for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
    digests_.emplace_back(spec_, options_.kind, device_);
  }
}

Status DigestSelector::OnPrefillLayer(uint32_t layer, uint32_t num_pages,
                                      std::shared_ptr<const StoredDigests> digests) {
  const uint32_t pages = digests == nullptr ? 0 : digests->num_pages();
  if (pages != num_pages) {
    return DataLoss("layer ", layer, ": digests of ", pages, " pages came for ", num_pages);
  }
  return Annotate(digests_[layer].Start(std::move(digests)), "layer ", layer);
}

Status DigestSelector::OnPageComplete(uint32_t layer, uint32_t page, const void* units) {
  if (page != digests_[layer].num_pages()) {
    return FailedPrecondition("layer ", layer, ": page ", page, " is complete, but page ",
                              digests_[layer].num_pages(), " is the next to have a digest");
  }
  return digests_[layer].AppendPage(units);
}

Status DigestSelector::Reserve(uint32_t pages) {
  const size_t n_kv = spec_.num_kv_heads;
  QUIRE_RETURN_IF_ERROR(
      Grow(device_, size_t{spec_.num_query_heads} * pages * sizeof(float), &scores_));
  QUIRE_RETURN_IF_ERROR(Grow(device_, n_kv * pages * sizeof(float), &pooled_));
  return Grow(device_, n_kv * spec_.head_dim * sizeof(float), &pooled_query_);
}

Status DigestSelector::ScorePart(const SelectRequest& request, const DigestStore::Part& part,
                                 const float* q, int64_t n_q) {
  const uint32_t first = std::max(request.candidates.first, part.first);
  const uint32_t end = std::min(request.candidates.end, part.end);
  if (first >= end) return OkStatus();
  kernels::ScoreArgs args = kernels::PageScoreArgs(spec_, options_.kind);
  args.q = q;
  args.digests = part.data;
  args.first_page = first - part.first;
  args.scores = scores_.as<float>() + (first - request.candidates.first);
  args.score_stride = request.candidates.size();
  args.n_pages = end - first;
  args.n_q = n_q;
  args.scale = options_.scale;
  args.stream = device_->stream();
  return ToStatus(device_->kernels().score(args), "score");
}

Status DigestSelector::Score(const SelectRequest& request) {
  const kernels::KernelTable& ops = device_->kernels();
  const float* q = request.q;
  int64_t n_q = spec_.num_query_heads;
  if (kernels::PoolsQuery(options_.pooling)) {
    QUIRE_RETURN_IF_ERROR(ToStatus(ops.pool_query({.q = q,
                                                   .pooled = pooled_query_.as<float>(),
                                                   .n_q = n_q,
                                                   .n_kv = spec_.num_kv_heads,
                                                   .head_dim = spec_.head_dim,
                                                   .pooling = options_.pooling,
                                                   .stream = device_->stream()}),
                                   "pool_query"));
    q = pooled_query_.as<float>();
    n_q = spec_.num_kv_heads;
  }
  for (const DigestStore::Part& part : digests_[request.layer].parts()) {
    QUIRE_RETURN_IF_ERROR(ScorePart(request, part, q, n_q));
  }
  return ToStatus(ops.pool({.scores = scores_.as<float>(),
                            .pooled = pooled_.as<float>(),
                            .n_q = n_q,
                            .n_kv = spec_.num_kv_heads,
                            .n_pages = request.candidates.size(),
                            .head_dim = spec_.head_dim,
                            .pooling = options_.pooling,
                            .stream = device_->stream()}),
                  "pool");
}

Status DigestSelector::Weigh(const SelectRequest& request) {
  if (request.candidates.end > digests_[request.layer].num_pages()) {
    return FailedPrecondition("layer ", request.layer, ": candidates end at page ",
                              request.candidates.end, ", digests at page ",
                              digests_[request.layer].num_pages());
  }
  QUIRE_RETURN_IF_ERROR(Reserve(request.candidates.size()));
  return Score(request);
}

StatusOr<std::vector<float>> DigestSelector::Weights(const SelectRequest& request) {
  std::vector<float> weights(size_t{spec_.num_kv_heads} * request.candidates.size());
  if (weights.empty()) return weights;
  QUIRE_RETURN_IF_ERROR(Weigh(request));
  QUIRE_RETURN_IF_ERROR(
      device_->CopyToHost(weights.data(), pooled_.data(), weights.size() * sizeof(float)));
  return weights;
}

StatusOr<Selection> DigestSelector::TopK(const SelectRequest& request) {
  const uint32_t n_kv = spec_.num_kv_heads;
  const uint32_t k = request.max_pages;
  QUIRE_RETURN_IF_ERROR(Grow(device_, size_t{n_kv} * k * sizeof(int32_t), &indices_));
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

StatusOr<Selection> DigestSelector::Select(const SelectRequest& request) {
  if (auto selection = SelectWithoutChoice(request, spec_.num_kv_heads)) return *selection;
  if (!at_worker()) return Selection{.at_server = true};
  QUIRE_RETURN_IF_ERROR(Weigh(request));
  return TopK(request);
}

}  // namespace quire::worker
