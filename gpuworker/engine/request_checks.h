// SPDX-License-Identifier: Apache-2.0
//
// Checks of a sequence's request, before anything is opened. Every message names what is
// wrong and what would be accepted.
#ifndef QUIRE_GPUWORKER_ENGINE_REQUEST_CHECKS_H_
#define QUIRE_GPUWORKER_ENGINE_REQUEST_CHECKS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gpuworker/cache/cache_layout.h"
#include "gpuworker/engine/parts.h"
#include "gpuworker/model/checkpoint/config.h"
#include "gpuworker/retrieval/options.h"
#include "gpuworker/retrieval/policy.h"
#include "quire/client.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

/// INVALID_ARGUMENT naming the first of `tokens` that the model does not know.
Status CheckVocabulary(const ModelConfig& model, std::span<const TokenId> tokens);

/// INVALID_ARGUMENT, naming the numbers, when `tokens` more after `num_tokens` do not fit in the
/// model's context.
Status CheckRoom(const ModelConfig& model, uint64_t num_tokens, size_t tokens);

/// The document, no longer than the model's context. NOT_FOUND when there is none; it is looked for
/// until `limit` at the latest.
StatusOr<Document> FindDocument(const EngineParts& parts, const DocumentName& name,
                                TimePoint limit = TimePoint::max());

/// The policy of a sequence. Layers with a sliding window have its pages, whatever the options say.
/// INVALID_ARGUMENT for options that do not fit, or a budget that leaves a policy that selects
/// pages no room for one.
StatusOr<std::unique_ptr<RetrievalPolicy>> MakeSequencePolicy(const EngineParts& parts,
                                                              const RetrievalOptions& retrieval);

/// The policy of a prompt that attends to everything: every page of every layer stays.
StatusOr<std::unique_ptr<RetrievalPolicy>> MakeDensePolicy(const EngineParts& parts);

/// How a policy divides the slots of every layer, [num_layers].
std::vector<CacheLayout> LayoutsOf(const RetrievalPolicy& policy, uint32_t num_layers);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_REQUEST_CHECKS_H_
