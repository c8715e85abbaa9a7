// SPDX-License-Identifier: Apache-2.0
#include "bench/elastic_model.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "client/cli/demo_corpus.h"
#include "client/cli/local_worker.h"
#include "client/cli/progress.h"
#include "client/cli/retrieval_flags.h"

namespace quire::bench {
namespace {

constexpr size_t kQuestionsPerDocument = 5;  ///< Of documents without questions of their own.

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
  QUIRE_ASSIGN_OR_RETURN(
      const cli::DemoCorpus corpus,
      cli::LoadDemoCorpus(model_directory + "/documents", kQuestionsPerDocument));
  QUIRE_ASSIGN_OR_RETURN(const cli::LocalWorker local,
                         cli::LoadLocalWorker(model_directory, &client, worker::EngineOptions{}));
  QUIRE_RETURN_IF_ERROR(local.NeedsTokenizer("name a model with --model DIR that has one"));
  const size_t count = std::min<size_t>(questions, corpus.questions.size());
  const std::span<const cli::DemoQuestion> asked = std::span(corpus.questions).first(count);
  cli::ProgressBar progress("asking a model", count);
  ModelMoves moves;
  for (size_t first = 0; first < count;) {
    const size_t document = asked[first].document;
    size_t end = first;
    while (end < count && asked[end].document == document) ++end;
    const cli::DemoDocument& text = corpus.documents[document];
    const DocumentName name{.collection = "bench", .name = text.name};
    QUIRE_RETURN_IF_ERROR(
        local.engine->Ingest(cli::DocumentTokens(*local.tokenizer, text.text), name).status());
    QUIRE_RETURN_IF_ERROR(
        AskAbout(local, name, asked.subspan(first, end - first), &progress, &moves));
    first = end;
  }
  return moves;
}

}  // namespace quire::bench
