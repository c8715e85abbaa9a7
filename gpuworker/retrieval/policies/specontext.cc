// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/policies/specontext.h"

#include <algorithm>
#include <string>
#include <utility>

#include "gpuworker/head/head_selection.h"

namespace quire::worker {
namespace {

/// Tokens that the head takes at a time: bounds the memory of their queries.
constexpr size_t kCatchUpTokens = 512;

}  // namespace

StatusOr<std::unique_ptr<RetrievalPolicy>> SpeContextPolicy::Make(const PolicyContext& context) {
  QUIRE_RETURN_IF_ERROR(Validate(context.options, context.spec));
  QUIRE_RETURN_IF_ERROR(RequireWorkerSide(context.options));
  if (context.head == nullptr) {
    return FailedPrecondition("policy '", kName,
                              "' needs a retrieval head; put one into the folder retrieval-head of "
                              "the model (tools/train/distil_head.py makes one), or use another "
                              "policy");
  }
  if (context.head->mode == HeadMode::kEagle) {
    return FailedPrecondition("policy '", kName,
                              "' cannot give a head of mode eagle the model's "
                              "hidden states; load it in mode embed_only");
  }
  return std::unique_ptr<RetrievalPolicy>(new SpeContextPolicy(context));
}

RetrievalOptions SpeContextPolicy::Published(uint32_t page_tokens) {
  return Divide(std::string(kName), page_tokens, {.sinks = 4, .window = 64, .total = 2048});
}

SpeContextPolicy::SpeContextPolicy(const PolicyContext& context)
    : BudgetPolicy(context),
      page_tokens_(context.spec.page_tokens),
      head_(context.head, context.max_context_tokens) {}

void SpeContextPolicy::OnTokens(std::span<const TokenId> tokens) {
  pending_.insert(pending_.end(), tokens.begin(), tokens.end());
  last_pass_ = tokens.size();
  weights_.clear();
}

Status SpeContextPolicy::CatchUp() {
  const std::span<const TokenId> pending(pending_);
  for (size_t at = 0; at < pending.size();) {
    const size_t before = pending.size() - last_pass_;
    const size_t count = at < before ? std::min(kCatchUpTokens, before - at) : last_pass_;
    QUIRE_RETURN_IF_ERROR(head_.Append(pending.subspan(at, count)));
    at += count;
  }
  pending_.clear();
  return OkStatus();
}

StatusOr<const SpeContextPolicy::PageWeightsOfHeads*> SpeContextPolicy::WeightsAt(
    uint64_t position) {
  if (const auto found = weights_.find(position); found != weights_.end()) return &found->second;
  QUIRE_RETURN_IF_ERROR(CatchUp());
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> weights, head_.Weights(position - 1));
  const std::vector<float> groups =
      GroupWeights(weights, head_.num_query_heads(), head_.num_kv_heads(), num_kv_heads());
  PageWeightsOfHeads pages;
  for (uint32_t head = 0; head < num_kv_heads(); ++head) {
    pages.push_back(
        PageWeights(std::span(groups).subspan(head * position, position), page_tokens_));
  }
  return &(weights_[position] = std::move(pages));
}

StatusOr<Selection> SpeContextPolicy::Select(const SelectRequest& request) {
  const PageRange& candidates = request.candidates;
  Selection selection;
  if (candidates.size() == 0) {
    selection.pages.resize(num_kv_heads());
    return selection;
  }
  QUIRE_ASSIGN_OR_RETURN(const PageWeightsOfHeads* weights, WeightsAt(request.position));
  for (const std::vector<float>& of_head : *weights) {
    std::vector<uint32_t> pages =
        SelectPlaces(std::span(of_head).subspan(candidates.first, candidates.size()),
                     {.budget = request.max_pages});
    for (uint32_t& page : pages) page += candidates.first;
    selection.pages.push_back(std::move(pages));
  }
  return selection;
}

}  // namespace quire::worker
