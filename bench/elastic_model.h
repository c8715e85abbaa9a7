// SPDX-License-Identifier: Apache-2.0
//
// ModelTrace: what a real model selects of a document, step by step, recorded: the bundled
// documents are read and questions asked over them, and the queries of every token of a question
// and its right answer, as if each were given alone (bench/policy_model.h), select pages of every
// layer and KV head. Steps of answers are what decoding does; those of questions are what a decoder
// does that takes a prompt token by token.
#ifndef QUIRE_BENCH_ELASTIC_MODEL_H_
#define QUIRE_BENCH_ELASTIC_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/stream/paged_context.h"
#include "common/base/status.h"

namespace quire::bench {

struct ModelTrace {
  std::string document;              ///< Its name.
  PagedContext context;              ///< The document, in whole segments.
  std::vector<StepSelection> steps;  ///< Of all questions, one after the other.
  std::vector<bool> of_answer;       ///< By step: whether its token is one of an answer.
  uint32_t questions = 0;
};

/// One trace for each document that the first `questions` questions of the model in
/// `model_directory` are about. Progress goes to stderr.
StatusOr<std::vector<ModelTrace>> RecordTraces(const std::string& model_directory,
                                               uint32_t questions, uint32_t page_tokens,
                                               const PageBudget& budget);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_ELASTIC_MODEL_H_
