// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/service/generate_call.h"

#include <utility>

#include "common/wire/convert_context.h"

namespace quire::worker {
namespace {

StatusOr<std::vector<TokenId>> ParsePrompt(const v1::GenerateRequest& request,
                                           const Tokenizer* tokenizer) {
  std::vector<TokenId> prompt;
  if (request.prompt_case() == v1::GenerateRequest::kText) {
    if (tokenizer == nullptr) {
      return InvalidArgument("text: this worker's model has no tokenizer; send token_ids");
    }
    prompt = tokenizer->Encode(request.text());
  } else if (request.prompt_case() == v1::GenerateRequest::kTokenIds) {
    prompt.assign(request.token_ids().ids().begin(), request.token_ids().ids().end());
  }
  if (prompt.empty()) return InvalidArgument("the prompt is empty; send text or token_ids");
  return prompt;
}

StatusOr<GenerateParams> ParseParams(const v1::GenerateRequest& request) {
  if (request.max_new_tokens() > kMaxNewTokens) {
    return InvalidArgument("max_new_tokens is ", request.max_new_tokens(), "; at most ",
                           kMaxNewTokens, " are generated");
  }
  if (request.stop_token_ids_size() > kMaxStopTokens) {
    return InvalidArgument("there are ", request.stop_token_ids_size(), " stop_token_ids; at most ",
                           kMaxStopTokens, " are accepted");
  }
  GenerateParams params;
  params.max_new_tokens =
      request.max_new_tokens() == 0 ? kDefaultNewTokens : request.max_new_tokens();
  params.temperature = request.sampling().temperature();
  params.top_p = request.sampling().top_p() == 0 ? 1.0f : request.sampling().top_p();
  params.seed = request.sampling().seed();
  params.stop_tokens.assign(request.stop_token_ids().begin(), request.stop_token_ids().end());
  return params;
}

}  // namespace

StatusOr<GenerateCall> ParseGenerate(const v1::GenerateRequest& request,
                                     const RetrievalOptions& defaults, const Tokenizer* tokenizer) {
  GenerateCall call;
  if (request.has_document()) {
    QUIRE_ASSIGN_OR_RETURN(call.document,
                           wire::DocumentNameFromProto<DocumentName>(request.document()));
  }
  QUIRE_ASSIGN_OR_RETURN(call.prompt, ParsePrompt(request, tokenizer));
  QUIRE_ASSIGN_OR_RETURN(call.params, ParseParams(request));
  call.retrieval = defaults;
  if (!request.policy().empty()) call.retrieval.policy = request.policy();
  if (request.budget_tokens() != 0) call.retrieval.budget_tokens = request.budget_tokens();
  return call;
}

}  // namespace quire::worker
