// SPDX-License-Identifier: Apache-2.0
#include "bench/elastic_model.h"

#include <span>

#include "bench/model_questions.h"
#include "client/cli/demo_corpus.h"
#include "client/cli/local_worker.h"
#include "client/cli/progress.h"
#include "client/cli/retrieval_flags.h"

namespace quire::bench {
namespace {

/// Asks `questions`, all about one document, in one sequence.
Status AskAbout(const cli::LocalWorker& local, const DocumentName& name,
                std::span<const cli::DemoQuestion> questions, cli::ProgressBar* progress,
                ModelMoves* moves) {
  QUIRE_ASSIGN_OR_RETURN(const auto sequence,
                         local.engine->OpenSequence(name, {.retrieval = cli::DefaultRetrieval()}));
  for (const cli::DemoQuestion& question : questions) {
    QUIRE_RETURN_IF_ERROR(sequence->Append(local.tokenizer->Encode(question.prompt)));
    const size_t length = local.tokenizer->Encode(question.answer).size();
    QUIRE_RETURN_IF_ERROR(sequence
                              ->Generate({.max_new_tokens = static_cast<uint32_t>(length),
                                          .stop_tokens = {local.tokenizer->eos_id()}})
                              .status());
    progress->Advance(1, name.name);
    ++moves->questions;
  }
  const worker::SequenceStats stats = sequence->stats();
  moves->steps += stats.steps;
  moves->units_moved += stats.units_missed;
  moves->units_selected += stats.units_missed + stats.units_hit;
  return OkStatus();
}

}  // namespace

StatusOr<ModelMoves> DriveModel(const std::string& model_directory, uint32_t questions,
                                Client& client) {
  QUIRE_ASSIGN_OR_RETURN(const cli::LocalWorker local,
                         cli::LoadLocalWorker(model_directory, &client, worker::EngineOptions{}));
  QUIRE_RETURN_IF_ERROR(local.NeedsTokenizer("name a model with --model DIR that has one"));
  cli::ProgressBar progress("asking a model", questions);
  ModelMoves moves;
  QUIRE_RETURN_IF_ERROR(VisitQuestions(
      model_directory, questions,
      [&](const cli::DemoDocument& text, std::span<const cli::DemoQuestion> asked) -> Status {
        const DocumentName name{.collection = "bench", .name = text.name};
        QUIRE_RETURN_IF_ERROR(
            local.engine->Ingest(cli::DocumentTokens(*local.tokenizer, text.text), name).status());
        return AskAbout(local, name, asked, &progress, &moves);
      }));
  return moves;
}

}  // namespace quire::bench
