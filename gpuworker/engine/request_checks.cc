// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/request_checks.h"

#include <utility>

#include "gpuworker/engine/ingest/retrieval_heads.h"
#include "gpuworker/retrieval/dense_policy.h"
#include "gpuworker/retrieval/windowed_policy.h"

namespace quire::worker {
Status CheckVocabulary(const ModelConfig& model, std::span<const TokenId> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && static_cast<uint32_t>(tokens[i]) < model.vocab_size) continue;
    return InvalidArgument("token ", i, " has id ", tokens[i], "; the model knows 0 to ",
                           model.vocab_size - 1);
  }
  return OkStatus();
}

Status CheckRoom(const ModelConfig& model, uint64_t num_tokens, size_t tokens) {
  if (num_tokens + tokens <= model.max_positions) return OkStatus();
  return InvalidArgument("a prompt of ", tokens, " tokens after ", num_tokens, " makes ",
                         num_tokens + tokens, ", more than the model's context of ",
                         model.max_positions, "; shorten it or open a new sequence");
}

StatusOr<Document> FindDocument(const EngineParts& parts, const DocumentName& name,
                                TimePoint limit) {
  QUIRE_ASSIGN_OR_RETURN(Document found, parts.client->GetDocument(name, limit));
  const uint64_t context = parts.decoder->config().max_positions;
  if (found.num_tokens <= context) return found;
  return InvalidArgument("document '", name.name, "' has ", found.num_tokens,
                         " tokens, more than the model's context of ", context,
                         "; store a shorter text under that name, or use the model that read it");
}

StatusOr<std::unique_ptr<RetrievalPolicy>> MakeSequencePolicy(const EngineParts& parts,
                                                              const RetrievalOptions& retrieval) {
  PolicyContext context{.spec = *parts.spec,
                        .device = parts.device,
                        .max_context_tokens = parts.decoder->config().max_positions,
                        .options = retrieval,
                        .executor = parts.recall_executor,
                        .head = parts.head};
  if (WantsRetrievalHeads(retrieval) && parts.heads != nullptr && parts.spec->has_values()) {
    QUIRE_ASSIGN_OR_RETURN(context.options.retrieval_heads, parts.heads->Heads());
  }
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<RetrievalPolicy> policy, MakePolicy(context));
  std::vector<uint32_t> windows = parts.decoder->config().Windows();
  if (windows.empty()) return policy;
  return std::unique_ptr<RetrievalPolicy>(new WindowedPolicy(
      std::move(policy), std::move(windows), parts.spec->page_tokens, context.max_context_tokens));
}

StatusOr<std::unique_ptr<RetrievalPolicy>> MakeDensePolicy(const EngineParts& parts) {
  return std::unique_ptr<RetrievalPolicy>(
      new DensePolicy(DenseLayouts(parts.decoder->config().Windows(), parts.spec->num_layers),
                      parts.spec->num_kv_heads));
}

std::vector<CacheLayout> LayoutsOf(const RetrievalPolicy& policy, uint32_t num_layers) {
  std::vector<CacheLayout> layouts;
  for (uint32_t layer = 0; layer < num_layers; ++layer) layouts.push_back(policy.Layout(layer));
  return layouts;
}

}  // namespace quire::worker
