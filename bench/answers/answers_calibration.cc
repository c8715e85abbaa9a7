// SPDX-License-Identifier: Apache-2.0
#include "bench/answers/answers_calibration.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/answers/answers_run.h"
#include "bench/answers/calibrate_threshold.h"
#include "bench/kit/asking.h"

namespace quire::bench {
namespace {

constexpr size_t kQuestions = 8;  ///< Questions of each set.
constexpr double kPercent = 12.5;
constexpr double kNoCorrection = -1;  ///< Corrects no head.

/// Conversations over a document in the store.
struct Probe {
  DocumentName document;
  std::vector<Conversation> conversations;
};

/// Head-steps, and the part of them whose recall preceded attention.
struct HeadSteps {
  uint64_t all = 0;
  uint64_t blocking = 0;
};

/// Picks the first questions of each set, and as much of a conversation as they need.
class QuestionPicker {
 public:
  explicit QuestionPicker(const worker::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  std::vector<Conversation> PickOf(const AskedDocument& document) {
    std::vector<Conversation> picked;
    for (Conversation conversation : document.conversations) {
      size_t& asked = asked_[conversation.set];
      const size_t count = std::min(conversation.questions.size(), kQuestions - asked);
      if (count == 0) continue;
      asked += count;
      conversation.questions.resize(count);
      conversation.context_tokens = ContextTokens(document, conversation);
      picked.push_back(std::move(conversation));
    }
    return picked;
  }

 private:
  /// Tokens of the shortened conversation, of which its budget is a share.
  uint64_t ContextTokens(const AskedDocument& document, const Conversation& conversation) const {
    uint64_t tokens = (*cli::DocumentTokens(tokenizer_, document.text)).size();
    for (const Question& question : conversation.questions) {
      tokens += (*tokenizer_.Encode(question.reads + question.prompt + question.answer)).size();
    }
    return tokens;
  }

  const worker::Tokenizer& tokenizer_;
  std::map<std::string, size_t> asked_;  ///< Questions by set.
};

StatusOr<std::vector<Probe>> StoreProbes(const cli::LocalWorker& local,
                                         std::span<const AskedDocument> documents) {
  QuestionPicker picker(*local.tokenizer);
  std::vector<Probe> probes;
  for (const AskedDocument& document : documents) {
    Probe probe{.document = {.collection = "bench", .name = document.name},
                .conversations = picker.PickOf(document)};
    if (probe.conversations.empty()) continue;
    QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens,
                           cli::DocumentTokens(*local.tokenizer, document.text));
    QUIRE_RETURN_IF_ERROR(local.engine->Ingest(tokens, probe.document).status());
    probes.push_back(std::move(probe));
  }
  return probes;
}

Status Ask(const cli::LocalWorker& local, const DocumentName& document,
           const Conversation& conversation, double tau, HeadSteps* total) {
  const AnswerCell cell{.key = kCalibrated, .policy = kCalibrated, .percent = kPercent, .tau = tau};
  QUIRE_ASSIGN_OR_RETURN(
      const worker::RetrievalOptions retrieval,
      CellRetrieval(cell, conversation.context_tokens, local.engine->options().page_tokens));
  QUIRE_ASSIGN_OR_RETURN(const auto sequence,
                         local.engine->OpenSequence(document, {.retrieval = retrieval}));
  QUIRE_RETURN_IF_ERROR(Asking(conversation, *local.tokenizer, *sequence).AskAll().status());
  const worker::SequenceStats stats = sequence->stats();
  total->all += stats.selections * local.engine->spec().num_kv_heads;
  total->blocking += stats.blocking_heads;
  return OkStatus();
}

/// Runs all probes with that threshold.
StatusOr<HeadSteps> AskAll(const cli::LocalWorker& local, std::span<const Probe> probes,
                           double tau) {
  HeadSteps total;
  for (const Probe& probe : probes) {
    for (const Conversation& conversation : probe.conversations) {
      QUIRE_RETURN_IF_ERROR(Annotate(Ask(local, probe.document, conversation, tau, &total),
                                     probe.document.name, ", ", conversation.set));
    }
  }
  return total;
}

/// Share of corrected head-steps among those that can be. `never`, measured without correction,
/// gives those that block at any threshold.
double CorrectedShareOf(const HeadSteps& steps, const HeadSteps& never) {
  if (steps.all <= never.blocking) return 0;
  const uint64_t corrected = steps.blocking - std::min(steps.blocking, never.blocking);
  return static_cast<double>(corrected) / static_cast<double>(steps.all - never.blocking);
}

}  // namespace

StatusOr<float> CalibrateOnQuestions(const cli::LocalWorker& local, Client& client,
                                     std::span<const AskedDocument> documents) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Probe> probes, StoreProbes(local, documents));
  QUIRE_ASSIGN_OR_RETURN(const HeadSteps never, AskAll(local, probes, kNoCorrection));
  const auto corrected_share = [&](float tau) -> StatusOr<double> {
    QUIRE_ASSIGN_OR_RETURN(const HeadSteps steps, AskAll(local, probes, tau));
    return CorrectedShareOf(steps, never);
  };
  QUIRE_ASSIGN_OR_RETURN(const float tau, CalibrateThreshold(kCorrectedShare, corrected_share));
  for (const Probe& probe : probes) {
    QUIRE_RETURN_IF_ERROR(client.DeleteDocument(probe.document).status());
  }
  return tau;
}

}  // namespace quire::bench
