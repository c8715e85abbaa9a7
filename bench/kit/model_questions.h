// SPDX-License-Identifier: Apache-2.0
//
// The questions that benchmarks ask of a model: those that belong to the documents in its
// directory.
#ifndef QUIRE_BENCH_KIT_MODEL_QUESTIONS_H_
#define QUIRE_BENCH_KIT_MODEL_QUESTIONS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "apps/kit/demo_corpus.h"
#include "common/base/status.h"

namespace quire::bench {

/// Calls `visit` with every document that the first `questions` questions in `model_directory`'s
/// documents are about, and those of them that are about it, in order. Stops at the first error.
Status VisitQuestions(const std::string& model_directory, uint32_t questions,
                      const std::function<Status(const cli::DemoDocument&,
                                                 std::span<const cli::DemoQuestion>)>& visit);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_KIT_MODEL_QUESTIONS_H_
