// SPDX-License-Identifier: Apache-2.0
#include "bench/decode/scoring_time.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "bench/kit/median.h"
#include "common/base/random.h"
#include "gpuworker/head/retrieval_head.h"
#include "gpuworker/retrieval/digests/stored_digests.h"
#include "gpuworker/retrieval/page_observer.h"
#include "gpuworker/retrieval/policy.h"
#include "gpuworker/retrieval/token_observer.h"
#include "kernels/api/page_digest.h"
#include "quire/dtype.h"
#include "quire/layout.h"

namespace quire::bench {
namespace {

constexpr uint64_t kScoringSeed = 17;
constexpr uint32_t kUntimedSteps = 2;
/// Tokens whose keys a head takes at a time: bounds the memory of their copies.
constexpr uint32_t kTokensAtATime = 1 << 16;

std::vector<float> Normals(size_t count, SeededRandom& random) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.Normal());
  return values;
}

/// `pages` times the digests of one page.
std::vector<std::byte> DigestsOf(const KvSpec& spec, kernels::DigestKind kind, uint32_t pages,
                                 SeededRandom& random) {
  const uint64_t page_bytes = kernels::PageDigestBytes(spec, kind);
  const std::vector<float> values = Normals(page_bytes / ElementBytes(spec.dtype), random);
  std::vector<std::byte> digests(pages * page_bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    StoreElement(digests.data(), static_cast<int64_t>(i), spec.dtype, values[i]);
  }
  for (uint64_t at = page_bytes; at < digests.size(); at += page_bytes) {
    std::copy_n(digests.begin(), page_bytes, digests.begin() + static_cast<ptrdiff_t>(at));
  }
  return digests;
}

Status ShowDigests(const KvSpec& spec, worker::Device& device, uint32_t pages,
                   worker::PageObserver& observer) {
  SeededRandom random(kScoringSeed);
  for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
    std::shared_ptr<const worker::StoredDigests> digests;
    if (const auto kind = observer.WantedDigests(layer)) {
      QUIRE_ASSIGN_OR_RETURN(digests,
                             worker::StoredDigests::Make(spec, *kind, &device, pages,
                                                         DigestsOf(spec, *kind, pages, random)));
    }
    QUIRE_RETURN_IF_ERROR(observer.OnPrefillLayer(layer, pages, std::move(digests)));
  }
  return OkStatus();
}

Status ShowKeys(uint32_t tokens, worker::RetrievalHead& head) {
  SeededRandom random(kScoringSeed);
  const std::vector<float> row = Normals(head.key_values(), random);
  for (uint32_t shown = 0; shown < tokens;) {
    const uint32_t count = std::min(kTokensAtATime, tokens - shown);
    std::vector<float> keys;
    keys.reserve(count * row.size());
    for (uint32_t i = 0; i < count; ++i) keys.insert(keys.end(), row.begin(), row.end());
    QUIRE_RETURN_IF_ERROR(head.Restore(std::vector<TokenId>(count), keys));
    shown += count;
  }
  return OkStatus();
}

}  // namespace

StatusOr<Duration> TimeScoring(const worker::Engine& engine, worker::Device& device,
                               const worker::RetrievalOptions& retrieval, uint32_t context_tokens,
                               uint32_t steps) {
  const KvSpec& spec = engine.spec();
  worker::PolicyContext context{.spec = spec,
                                .device = &device,
                                .max_context_tokens = engine.model().max_positions,
                                .options = retrieval};
  context.head = engine.options().head.get();
  QUIRE_ASSIGN_OR_RETURN(const auto policy, worker::MakePolicy(context));
  if (policy->hidden_tap() != nullptr) {
    return Unimplemented("policy ", policy->name(), " sees hidden states, of which there are none");
  }
  const uint32_t p = spec.page_tokens;
  if (policy->page_observer() != nullptr) {
    QUIRE_RETURN_IF_ERROR(ShowDigests(spec, device, context_tokens / p, *policy->page_observer()));
  }
  if (policy->retrieval_head() != nullptr) {
    QUIRE_RETURN_IF_ERROR(ShowKeys(context_tokens, *policy->retrieval_head()));
  }
  SeededRandom random(kScoringSeed);
  const std::vector<float> q = Normals(size_t{spec.num_query_heads} * spec.key_dim(), random);
  QUIRE_ASSIGN_OR_RETURN(const worker::DeviceBuffer queries,
                         device.Allocate(q.size() * sizeof(float)));
  QUIRE_RETURN_IF_ERROR(device.CopyToDevice(queries.data(), q.data(), q.size() * sizeof(float)));
  const uint32_t divided = retrieval.sink_tokens + retrieval.window_tokens;
  worker::SelectRequest request{
      .q = queries.as<float>(),
      .candidates = {retrieval.sink_tokens / p, (context_tokens - retrieval.window_tokens) / p},
      .max_pages = (retrieval.budget_tokens - divided) / p};
  std::vector<Duration> times;
  for (uint32_t i = 0; i < kUntimedSteps + steps; ++i) {
    const auto token = static_cast<TokenId>(random.Below(engine.model().vocab_size));
    request.position = uint64_t{context_tokens} + i + 1;
    const TimePoint start = SystemClock().Now();
    if (policy->token_observer() != nullptr) policy->token_observer()->OnTokens({&token, 1});
    for (request.layer = 0; request.layer < spec.num_layers; ++request.layer) {
      QUIRE_RETURN_IF_ERROR(policy->Select(request).status());
    }
    if (i >= kUntimedSteps) times.push_back(SystemClock().Now() - start);
  }
  return Median(std::move(times));
}

}  // namespace quire::bench
