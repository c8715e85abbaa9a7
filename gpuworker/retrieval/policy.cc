// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/policy.h"

#include "gpuworker/retrieval/arkvale.h"
#include "gpuworker/retrieval/clusterkv.h"
#include "gpuworker/retrieval/freekv.h"
#include "gpuworker/retrieval/full.h"
#include "gpuworker/retrieval/infllm.h"
#include "gpuworker/retrieval/quest.h"
#include "gpuworker/retrieval/raas.h"
#include "gpuworker/retrieval/razor.h"
#include "gpuworker/retrieval/shadowkv.h"
#include "gpuworker/retrieval/streaming.h"

namespace quire::worker {
namespace {

struct Entry {
  std::string_view name;
  StatusOr<std::unique_ptr<RetrievalPolicy>> (*make)(const PolicyContext&);
};

constexpr Entry kPolicies[] = {
    // Sorted by name.
    {ArkValePolicy::kName, &ArkValePolicy::Make},
    {ClusterKvPolicy::kName, &ClusterKvPolicy::Make},
    {FreeKvPolicy::kName, &FreeKvPolicy::Make},
    {FullPolicy::kName, &FullPolicy::Make},
    {InfLlmPolicy::kName, &InfLlmPolicy::Make},
    {QuestPolicy::kName, &QuestPolicy::Make},
    {RaasPolicy::kName, &RaasPolicy::Make},
    {RazorPolicy::kName, &RazorPolicy::Make},
    {ShadowKvPolicy::kName, &ShadowKvPolicy::Make},
    {StreamingPolicy::kName, &StreamingPolicy::Make},
};

}  // namespace

StatusOr<std::unique_ptr<RetrievalPolicy>> MakePolicy(const PolicyContext& context) {
  std::string known;
  for (const Entry& entry : kPolicies) {
    if (entry.name == context.options.policy) return entry.make(context);
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  return InvalidArgument("there is no retrieval policy '", context.options.policy,
                         "'; use one of: ", known);
}

std::vector<std::string_view> PolicyNames() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kPolicies) names.push_back(entry.name);
  return names;
}

}  // namespace quire::worker
