// SPDX-License-Identifier: Apache-2.0
//
// BundledQuestions: the question sets (question_sets.h) made from the documents in a model's
// directory.
#ifndef QUIRE_BENCH_ANSWERS_BUNDLED_QUESTIONS_H_
#define QUIRE_BENCH_ANSWERS_BUNDLED_QUESTIONS_H_

#include <string>
#include <vector>

#include "bench/answers/question_sets.h"
#include "gpuworker/text/tokenizer.h"
#include "quire/status.h"

namespace quire::bench {

/// Questions of `options` about the documents of `model_directory`. `tokenizer` is that of the
/// bundled model, which takes any text. Errors as LoadDemoCorpus and MakeQuestionSets.
StatusOr<std::vector<AskedDocument>> BundledQuestions(const std::string& model_directory,
                                                      const worker::Tokenizer& tokenizer,
                                                      const SetOptions& options);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_ANSWERS_BUNDLED_QUESTIONS_H_
