// SPDX-License-Identifier: Apache-2.0
#include "bench/rag/prompt_sets.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/random.h"
#include "gpuworker/ingest/document_tokens.h"

namespace quire::bench {
namespace {

constexpr std::string_view kDossierPart = "\nDocument ";

/// Parts of a dossier, each from the beginning of one of its documents.
std::vector<std::string> PartsOf(std::string_view dossier) {
  std::vector<std::string> parts;
  while (!dossier.empty()) {
    const size_t end = std::min(dossier.find(kDossierPart, 1), dossier.size());
    parts.emplace_back(dossier.substr(0, end));
    dossier.remove_prefix(end);
  }
  return parts;
}

std::vector<TokenId> RandomTokens(uint32_t count, uint32_t vocab_size, Random* random) {
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random->Below(vocab_size));
  return tokens;
}

}  // namespace

StatusOr<std::vector<PromptSet>> SuitePrompts(const worker::Tokenizer& tokenizer,
                                              std::span<const DocumentSet> sets) {
  std::vector<PromptSet> prompts;
  for (const DocumentSet& set : sets) {
    PromptSet& prompt = prompts.emplace_back();
    for (const std::string& document : set.documents) {
      QUIRE_ASSIGN_OR_RETURN(std::vector<TokenId> tokens,
                             worker::DocumentTokens(tokenizer, document));
      prompt.documents.push_back(std::move(tokens));
    }
    for (const SuiteQuestion& question : set.questions) {
      RagQuestion& asked = prompt.questions.emplace_back();
      asked.task = question.task;
      QUIRE_ASSIGN_OR_RETURN(asked.prompt, tokenizer.Encode(question.prompt));
      QUIRE_ASSIGN_OR_RETURN(asked.answer, tokenizer.Encode(question.answer));
    }
  }
  return prompts;
}

StatusOr<std::vector<PromptSet>> DossierPrompts(const worker::Tokenizer& tokenizer,
                                                const cli::DemoCorpus& corpus, uint32_t dossiers) {
  std::vector<DocumentSet> sets;
  const size_t count = std::min<size_t>(dossiers, corpus.documents.size());
  for (size_t i = 0; i < count; ++i) {
    DocumentSet& set = sets.emplace_back();
    set.documents = PartsOf(corpus.documents[i].text);
    for (const cli::DemoQuestion& question : corpus.questions) {
      if (question.document != i) continue;
      set.questions.push_back(
          {.task = "recall", .prompt = question.prompt, .answer = question.answer});
    }
  }
  return SuitePrompts(tokenizer, sets);
}

PromptSet RandomPromptSet(const RandomPrompts& prompts) {
  SeededRandom random(prompts.seed);
  PromptSet set;
  for (uint32_t i = 0; i < prompts.documents; ++i) {
    set.documents.push_back(
        RandomTokens(prompts.tokens / prompts.documents, prompts.vocab_size, &random));
  }
  for (uint32_t i = 0; i < prompts.questions; ++i) {
    set.questions.push_back(
        {.task = "random",
         .prompt = RandomTokens(prompts.question_tokens, prompts.vocab_size, &random),
         .answer = {}});
  }
  return set;
}

}  // namespace quire::bench
