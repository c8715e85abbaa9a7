// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/policy.h"

#include "gpuworker/retrieval/policies/arkvale.h"
#include "gpuworker/retrieval/policies/clusterkv.h"
#include "gpuworker/retrieval/policies/freekv.h"
#include "gpuworker/retrieval/policies/full.h"
#include "gpuworker/retrieval/policies/infllm.h"
#include "gpuworker/retrieval/policies/quest.h"
#include "gpuworker/retrieval/policies/raas.h"
#include "gpuworker/retrieval/policies/razor.h"
#include "gpuworker/retrieval/policies/shadowkv.h"
#include "gpuworker/retrieval/policies/specontext.h"
#include "gpuworker/retrieval/policies/streaming.h"

namespace quire::worker {
namespace {

struct Entry {
  std::string_view name;
  StatusOr<std::unique_ptr<RetrievalPolicy>> (*make)(const PolicyContext&);
  RetrievalOptions (*published)(uint32_t page_tokens);
  bool needs_head = false;
  /// Says why pages of latents (MLA) do not do for it; null where they do.
  const char* not_latents = nullptr;
};

constexpr char kReadsHeads[] = "reads keys of heads, and latent attention caches latents";

constexpr Entry kPolicies[] = {
    // Sorted by name.
    {ArkValePolicy::kName, &ArkValePolicy::Make, &ArkValePolicy::Published},
    {ClusterKvPolicy::kName, &ClusterKvPolicy::Make, &ClusterKvPolicy::Published,
     /*needs_head=*/false, kReadsHeads},
    {FreeKvPolicy::kName, &FreeKvPolicy::Make, &FreeKvPolicy::Published},
    {FullPolicy::kName, &FullPolicy::Make, &FullPolicy::Published},
    {InfLlmPolicy::kName, &InfLlmPolicy::Make, &InfLlmPolicy::Published, /*needs_head=*/false,
     kReadsHeads},
    {QuestPolicy::kName, &QuestPolicy::Make, &QuestPolicy::Published},
    {RaasPolicy::kName, &RaasPolicy::Make, &RaasPolicy::Published},
    {RazorPolicy::kName, &RazorPolicy::Make, &RazorPolicy::Published, /*needs_head=*/false,
     "divides the budget among KV heads, and latent attention has one"},
    {ShadowKvPolicy::kName, &ShadowKvPolicy::Make, &ShadowKvPolicy::Published, /*needs_head=*/false,
     "recalls values alone, and a latent is key and value"},
    {SpeContextPolicy::kName, &SpeContextPolicy::Make, &SpeContextPolicy::Published,
     /*needs_head=*/true},
    {StreamingPolicy::kName, &StreamingPolicy::Make, &StreamingPolicy::Published},
};

StatusOr<Entry> Find(std::string_view policy) {
  std::string known;
  for (const Entry& entry : kPolicies) {
    if (entry.name == policy) return entry;
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  return InvalidArgument("there is no retrieval policy '", policy, "'; use one of: ", known);
}

std::string LatentPolicies() {
  std::string names;
  for (const Entry& entry : kPolicies) {
    if (entry.not_latents != nullptr) continue;
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  return names;
}

}  // namespace

StatusOr<std::unique_ptr<RetrievalPolicy>> MakePolicy(const PolicyContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const Entry entry, Find(context.options.policy));
  if (!context.spec.has_values() && entry.not_latents != nullptr) {
    return Unimplemented("policy '", entry.name, "' ", entry.not_latents,
                         "; use one of: ", LatentPolicies());
  }
  return entry.make(context);
}

StatusOr<RetrievalOptions> WithPolicy(RetrievalOptions options, std::string_view policy) {
  if (options.policy == policy) return options;
  QUIRE_ASSIGN_OR_RETURN(const Entry entry, Find(policy));
  options.policy = policy;
  options.uncompressed_layers = entry.published(/*page_tokens=*/1).uncompressed_layers;
  return options;
}

StatusOr<RetrievalOptions> AsPublished(RetrievalOptions options, uint32_t page_tokens) {
  QUIRE_ASSIGN_OR_RETURN(const Entry entry, Find(options.policy));
  const RetrievalOptions published = entry.published(page_tokens);
  options.budget_tokens = published.budget_tokens;
  options.select_tokens = published.select_tokens;
  options.sink_tokens = published.sink_tokens;
  options.window_tokens = published.window_tokens;
  options.uncompressed_layers = published.uncompressed_layers;
  options.pooling = published.pooling;
  options.recall_layout = published.recall_layout;
  options.key_rank = published.key_rank;
  options.selection_memory = published.selection_memory;
  return options;
}

Status CheckReads(std::string_view policy, OwnOption option, std::string_view name) {
  const std::string_view reader = option == OwnOption::kKeyRank           ? ShadowKvPolicy::kName
                                  : option == OwnOption::kSelectionMemory ? SpeContextPolicy::kName
                                                                          : FreeKvPolicy::kName;
  if (policy == reader) return OkStatus();
  return InvalidArgument(name, " is an option of the policy ", reader, ", and this one is ", policy,
                         ": leave it away, or name the policy ", reader);
}

bool WantsRetrievalHeads(const RetrievalOptions& options) {
  const bool corrects = options.policy == FreeKvPolicy::kName && options.correct_retrieval_heads;
  return (corrects || options.policy == RazorPolicy::kName) && options.retrieval_heads.empty();
}

std::vector<std::string_view> PolicyNames() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kPolicies) {
    if (!entry.needs_head) names.push_back(entry.name);
  }
  return names;
}

std::vector<std::string_view> AllPolicyNames() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kPolicies) names.push_back(entry.name);
  return names;
}

}  // namespace quire::worker
