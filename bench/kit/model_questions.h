// SPDX-License-Identifier: Apache-2.0
//
// The questions that belong to the documents in a model's directory, for benchmarks.
#ifndef QUIRE_BENCH_KIT_MODEL_QUESTIONS_H_
#define QUIRE_BENCH_KIT_MODEL_QUESTIONS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "apps/kit/documents/demo_corpus.h"
#include "quire/status.h"

namespace quire::bench {

/// Calls `visit` for each document that the first `questions` questions of `model_directory` are
/// about. Passes the document with its questions, in order. Stops at the first error.
Status VisitQuestions(const std::string& model_directory, uint32_t questions,
                      const std::function<Status(const cli::DemoDocument&,
                                                 std::span<const cli::DemoQuestion>)>& visit);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_KIT_MODEL_QUESTIONS_H_
