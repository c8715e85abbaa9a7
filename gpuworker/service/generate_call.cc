// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/service/generate_call.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "common/wire/convert.h"
#include "common/wire/convert_context.h"
#include "common/wire/limits.h"
#include "gpuworker/retrieval/policy.h"
#include "gpuworker/text/chat/chat_prompt.h"

namespace quire::worker {
namespace {

constexpr Duration kMaxRecallDeadline = std::chrono::hours(1);

/// True when the messages of `request` go through a template, and not their substitute.
bool IsChat(const v1::GenerateRequest& request, const TextOfModel& text) {
  const bool has_substitute = !request.chat().without_template().empty();
  return request.has_chat() && (text.chat != nullptr || !has_substitute);
}

/// The text that is read as it is.
const std::string& PlainText(const v1::GenerateRequest& request) {
  return request.has_chat() ? request.chat().without_template() : request.text();
}

StatusOr<std::vector<TokenId>> ParseChat(const v1::GenerateRequest& request,
                                         const TextOfModel& text, int64_t now_seconds) {
  if (text.chat == nullptr) {
    return InvalidArgument("chat: this worker's model has no chat template; send text, or start ",
                           "the worker with --chat-template FILE");
  }
  std::vector<ChatMessage> messages;
  for (const v1::ChatMessage& message : request.chat().messages())
    messages.push_back({message.role(), message.content()});
  const bool after_documents = request.has_document() || request.has_documents();
  auto ids = after_documents
                 ? QuestionInChat(*text.chat, *text.tokenizer, std::move(messages))
                 : ConversationInChat(*text.chat, *text.tokenizer, messages, now_seconds);
  QUIRE_RETURN_IF_ERROR(Annotate(ids.status(), "chat"));
  return ids;
}

StatusOr<std::vector<TokenId>> ParseText(const v1::GenerateRequest& request,
                                         const TextOfModel& text, int64_t now_seconds) {
  if (text.tokenizer == nullptr) {
    return InvalidArgument(
        "text: this worker's model has no tokenizer; send token_ids (quire ask --token-ids)");
  }
  if (IsChat(request, text)) return ParseChat(request, text, now_seconds);
  return text.tokenizer->Encode(PlainText(request));
}

StatusOr<std::vector<TokenId>> ParsePrompt(const v1::GenerateRequest& request,
                                           const TextOfModel& text, int64_t now_seconds) {
  std::vector<TokenId> prompt;
  if (request.has_text() || request.has_chat()) {
    QUIRE_ASSIGN_OR_RETURN(prompt, ParseText(request, text, now_seconds));
  } else if (request.has_token_ids()) {
    QUIRE_ASSIGN_OR_RETURN(
        const auto ids,
        wire::TokensFromProto(request.token_ids().ids(), 0, wire::kMaxContextTokens, "token_ids"));
    prompt.assign(ids.begin(), ids.end());
  }
  if (prompt.empty()) return InvalidArgument("the prompt is empty; send text, chat or token_ids");
  return prompt;
}

/// The token that a stop text is.
StatusOr<TokenId> StopToken(const std::string& text, const Tokenizer& tokenizer) {
  std::vector<TokenId> ids;
  if (text.size() <= kMaxStopTextBytes) {
    QUIRE_ASSIGN_OR_RETURN(ids, tokenizer.Encode(text));
  }
  if (ids.size() == 1) return ids.front();
  return InvalidArgument("a stop text of ", text.size(),
                         " bytes is not one token of this "
                         "worker's tokenizer; send texts that are, of at most ",
                         kMaxStopTextBytes, " bytes");
}

/// Adds the ends of an answer in words: those of the sequence, and the stop texts outside of a
/// template.
Status AddStopTexts(const v1::GenerateRequest& request, const TextOfModel& text,
                    std::vector<TokenId>* stop) {
  if (request.has_token_ids()) {
    if (request.stop_texts().empty()) return OkStatus();
    return InvalidArgument("stop_texts go with a text prompt; send stop_token_ids with token_ids");
  }
  if (request.stop_texts_size() > kMaxStopTexts) {
    return InvalidArgument("there are ", request.stop_texts_size(), " stop_texts; at most ",
                           kMaxStopTexts, " are accepted");
  }
  std::ranges::copy(text.tokenizer->ends(), std::back_inserter(*stop));
  if (IsChat(request, text)) return OkStatus();
  for (const std::string& stop_text : request.stop_texts()) {
    QUIRE_ASSIGN_OR_RETURN(const TokenId id, StopToken(stop_text, *text.tokenizer));
    stop->push_back(id);
  }
  return OkStatus();
}

/// Options of a request that names none.
StatusOr<RetrievalOptions> DefaultsFor(const v1::GenerateRequest& request,
                                       const GenerateDefaults& defaults) {
  RetrievalOptions retrieval = defaults.retrieval;
  if (!request.policy().empty()) {
    QUIRE_ASSIGN_OR_RETURN(retrieval, WithPolicy(std::move(retrieval), request.policy()));
  }
  if (!request.published_options()) return retrieval;
  return AsPublished(std::move(retrieval), defaults.page_tokens);
}

/// Refuses what the policy would not read.
Status CheckRead(const v1::GenerateRequest& request, std::string_view policy) {
  if (request.has_correction_threshold()) {
    QUIRE_RETURN_IF_ERROR(
        CheckReads(policy, OwnOption::kCorrectionThreshold, "correction_threshold"));
  }
  if (request.has_recall_deadline_us()) {
    QUIRE_RETURN_IF_ERROR(CheckReads(policy, OwnOption::kRecallDeadline, "recall_deadline_us"));
  }
  return request.has_key_rank() ? CheckReads(policy, OwnOption::kKeyRank, "key_rank") : OkStatus();
}

StatusOr<RetrievalOptions> ParseRetrieval(const v1::GenerateRequest& request,
                                          const GenerateDefaults& defaults) {
  QUIRE_ASSIGN_OR_RETURN(RetrievalOptions retrieval, DefaultsFor(request, defaults));
  QUIRE_RETURN_IF_ERROR(CheckRead(request, retrieval.policy));
  if (request.budget_tokens() != 0) retrieval.budget_tokens = request.budget_tokens();
  if (request.has_sink_tokens()) retrieval.sink_tokens = request.sink_tokens();
  if (request.has_window_tokens()) retrieval.window_tokens = request.window_tokens();
  if (request.has_uncompressed_layers()) {
    const auto& layers = request.uncompressed_layers().layers();
    retrieval.uncompressed_layers.assign(layers.begin(), layers.end());
  }
  if (request.has_correction_threshold()) {
    retrieval.correction_threshold = request.correction_threshold();
  }
  if (request.has_recall_deadline_us()) {
    retrieval.recall_deadline = std::chrono::microseconds(request.recall_deadline_us());
    if (retrieval.recall_deadline > kMaxRecallDeadline) {
      return InvalidArgument("recall_deadline_us is ", request.recall_deadline_us(),
                             "; give at most an hour, or 0 to wait as long as it takes");
    }
  }
  if (request.has_units_per_buffer()) retrieval.units_per_buffer = request.units_per_buffer();
  if (request.has_key_rank()) retrieval.key_rank = request.key_rank();
  switch (request.select()) {
    case v1::SELECTION_SIDE_UNSPECIFIED:
      return retrieval;
    case v1::SELECTION_SIDE_WORKER:
      retrieval.side = SelectionSide::kWorker;
      return retrieval;
    case v1::SELECTION_SIDE_SERVER:
      retrieval.side = SelectionSide::kServer;
      return retrieval;
    default:
      return InvalidArgument("select is ", static_cast<int>(request.select()),
                             ", which this worker does not know");
  }
}

/// The documents that the prompt follows.
Status ParseDocuments(const v1::GenerateRequest& request, const TextOfModel& text,
                      GenerateCall* call) {
  if (request.has_document() && request.has_documents()) {
    return InvalidArgument("document and documents are both set; send one of them");
  }
  if (request.has_document()) {
    QUIRE_ASSIGN_OR_RETURN(call->document, wire::DocumentNameFromProto(request.document()));
  }
  if (!request.has_documents()) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(call->documents, DocumentsFromProto(request.documents()));
  call->documents->options.bos = BeginningToken(text);
  return OkStatus();
}

StatusOr<GenerateParams> ParseParams(const v1::GenerateRequest& request) {
  if (request.max_new_tokens() > kMaxNewTokens) {
    return InvalidArgument("max_new_tokens is ", request.max_new_tokens(), "; at most ",
                           kMaxNewTokens, " are generated");
  }
  QUIRE_ASSIGN_OR_RETURN(
      const auto stop_tokens,
      wire::TokensFromProto(request.stop_token_ids(), 0, kMaxStopTokens, "stop_token_ids"));
  GenerateParams params;
  params.max_new_tokens =
      request.max_new_tokens() == 0 ? kDefaultNewTokens : request.max_new_tokens();
  params.temperature = request.sampling().temperature();
  params.top_p = request.sampling().top_p() == 0 ? 1.0f : request.sampling().top_p();
  params.seed = request.sampling().seed();
  params.stop_tokens.assign(stop_tokens.begin(), stop_tokens.end());
  return params;
}

}  // namespace

StatusOr<GenerateCall> ParseGenerate(const v1::GenerateRequest& request,
                                     const GenerateDefaults& defaults, const TextOfModel& text,
                                     int64_t now_seconds) {
  GenerateCall call;
  QUIRE_RETURN_IF_ERROR(ParseDocuments(request, text, &call));
  QUIRE_ASSIGN_OR_RETURN(call.prompt, ParsePrompt(request, text, now_seconds));
  QUIRE_ASSIGN_OR_RETURN(call.params, ParseParams(request));
  QUIRE_RETURN_IF_ERROR(AddStopTexts(request, text, &call.params.stop_tokens));
  QUIRE_ASSIGN_OR_RETURN(call.retrieval, ParseRetrieval(request, defaults));
  return call;
}

}  // namespace quire::worker
