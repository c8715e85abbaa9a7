// SPDX-License-Identifier: Apache-2.0
//
// PromptSets: documents and questions as token ids, from a question suite, from the bundled
// dossiers, or at random. Pure functions.
#ifndef QUIRE_BENCH_RAG_PROMPT_SETS_H_
#define QUIRE_BENCH_RAG_PROMPT_SETS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "apps/kit/documents/demo_corpus.h"
#include "bench/rag/question_suite.h"
#include "bench/rag/rag_run.h"
#include "gpuworker/text/tokenizer.h"
#include "quire/status.h"

namespace quire::bench {

/// Errors are those of Tokenizer::Encode.
StatusOr<std::vector<PromptSet>> SuitePrompts(const worker::Tokenizer& tokenizer,
                                              std::span<const DocumentSet> sets);

/// The first `dossiers` of them, each divided where one of its documents begins, with its
/// questions.
StatusOr<std::vector<PromptSet>> DossierPrompts(const worker::Tokenizer& tokenizer,
                                                const cli::DemoCorpus& corpus, uint32_t dossiers);

struct RandomPrompts {
  uint32_t documents = 10;
  uint32_t tokens = 8192;  ///< Tokens of all documents together.
  uint32_t questions = 5;
  uint32_t question_tokens = 16;
  uint32_t vocab_size = 256;
  uint64_t seed = 1;
};
/// One set, without answers.
PromptSet RandomPromptSet(const RandomPrompts& prompts);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_RAG_PROMPT_SETS_H_
