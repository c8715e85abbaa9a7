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
/// Factor on what a page weighed one token before.
constexpr float kFadeOfToken = 0.9f;

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
  return std::unique_ptr<RetrievalPolicy>(new SpeContextPolicy(context));
}

RetrievalOptions SpeContextPolicy::Published(uint32_t page_tokens) {
  RetrievalOptions options =
      Divide(std::string(kName), page_tokens, {.sinks = 4, .window = 64, .total = 2048});
  options.selection_memory = 1;
  return options;
}

SpeContextPolicy::SpeContextPolicy(const PolicyContext& context)
    : BudgetPolicy(context),
      page_tokens_(context.spec.page_tokens),
      weights_of_head_(context.head),
      head_(context.head, context.max_context_tokens, context.options.selection_memory - 1),
      features_(context.head->feature_layers, context.head->feature_width()),
      memory_(context.options.selection_memory) {}

void SpeContextPolicy::OnTokens(std::span<const TokenId> tokens) {
  pending_.insert(pending_.end(), tokens.begin(), tokens.end());
  last_pass_ = tokens.size();
  const uint64_t ran = head_.num_tokens() + pending_.size() - last_pass_;
  own_.erase(own_.begin(), own_.upper_bound(ran >= memory_ ? ran - memory_ + 1 : 0));
  weights_.clear();
}

void SpeContextPolicy::Take(uint32_t layer, std::span<const float> rows) {
  features_.Take(layer, rows);
  for (size_t ready = Ready(); ready > 0 && taken_.ok(); ready = Ready()) {
    taken_.Update(Append(std::min(kCatchUpTokens, ready)));
  }
}

size_t SpeContextPolicy::Ready() const {
  if (!sees_hidden()) return pending_.size();
  const size_t first = head_.num_tokens() == 0 ? 1 : 0;  // Nothing is before the first token.
  const size_t seen = features_.tokens();
  return seen == 0 ? 0 : std::min(pending_.size(), seen + first);
}

Status SpeContextPolicy::CatchUp() {
  QUIRE_RETURN_IF_ERROR(taken_);
  while (!pending_.empty()) {
    const size_t before = pending_.size() - last_pass_;
    QUIRE_RETURN_IF_ERROR(Append(before > 0 ? std::min(kCatchUpTokens, before) : last_pass_));
  }
  return OkStatus();
}

Status SpeContextPolicy::Append(size_t count) {
  std::vector<float> features;
  if (sees_hidden()) {
    const size_t first = head_.num_tokens() == 0 ? 1 : 0;
    if (features_.tokens() < count - first) {
      return FailedPrecondition("the retrieval head wants the hidden states of ", count - first,
                                " tokens, and has those of ", features_.tokens());
    }
    features.resize(first * weights_of_head_->num_features);
    const std::vector<float> taken = features_.Pop(count - first);
    features.insert(features.end(), taken.begin(), taken.end());
  }
  const auto end = pending_.begin() + static_cast<ptrdiff_t>(count);
  const std::vector<TokenId> tokens(pending_.begin(), end);
  pending_.erase(pending_.begin(), end);
  last_pass_ = std::min(last_pass_, pending_.size());
  return head_.Append(tokens, features);
}

StatusOr<const SpeContextPolicy::PageWeightsOfHeads*> SpeContextPolicy::WeightsAt(
    uint64_t position) {
  if (const auto found = weights_.find(position); found != weights_.end()) return &found->second;
  QUIRE_ASSIGN_OR_RETURN(const PageWeightsOfHeads* own, OwnWeightsAt(position));
  PageWeightsOfHeads weights = *own;
  float fade = 1;
  for (uint64_t back = 1; back < memory_ && position - back > head_.first_query(); ++back) {
    fade *= kFadeOfToken;
    QUIRE_ASSIGN_OR_RETURN(const PageWeightsOfHeads* before, OwnWeightsAt(position - back));
    for (size_t head = 0; head < weights.size(); ++head) {
      const std::vector<float>& pages = (*before)[head];
      for (size_t page = 0; page < pages.size(); ++page) {
        weights[head][page] = std::max(weights[head][page], fade * pages[page]);
      }
    }
  }
  return &(weights_[position] = std::move(weights));
}

StatusOr<const SpeContextPolicy::PageWeightsOfHeads*> SpeContextPolicy::OwnWeightsAt(
    uint64_t position) {
  if (const auto found = own_.find(position); found != own_.end()) return &found->second;
  QUIRE_RETURN_IF_ERROR(CatchUp());
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> weights, head_.Weights(position - 1));
  const std::vector<float> groups =
      GroupWeights(weights, head_.num_query_heads(), head_.num_kv_heads(), num_kv_heads());
  PageWeightsOfHeads pages;
  for (uint32_t head = 0; head < num_kv_heads(); ++head) {
    pages.push_back(
        PageWeights(std::span(groups).subspan(head * position, position), page_tokens_));
  }
  return &(own_[position] = std::move(pages));
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
