// SPDX-License-Identifier: Apache-2.0
//
// ModelTrace: the recorded selections of a real model while it decodes
// (bench/policy/policy_model.h). The trace covers a bundled document, its questions in one
// sequence, and the tokens decoded after each. The queries of every token after the document select
// among the complete pages, for every layer and KV head. Tokens of questions count as steps, too:
// those of a decoder that takes a prompt token by token.
#ifndef QUIRE_BENCH_ELASTIC_ELASTIC_MODEL_H_
#define QUIRE_BENCH_ELASTIC_ELASTIC_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/policy/policy_model.h"
#include "bench/stream/paged_context.h"
#include "common/base/status.h"

namespace quire::bench {

/// Kind of a step's token.
enum class StepKind {
  kQuestion,  ///< Given in a question.
  kAnswer,    ///< Decoded as a part of the answer.
  kRunOn,     ///< Decoded after the answer.
};
inline constexpr size_t kStepKinds = 3;

struct ModelTrace {
  std::string document;              ///< Its name.
  PagedContext context;              ///< Document and all tokens after it, in whole segments.
  std::vector<StepSelection> steps;  ///< One for each token after the document.
  std::vector<StepKind> kinds;       ///< Kinds of the steps.
  uint32_t questions = 0;
};

/// Records one trace for each document that the questions are about. Reports progress on stderr.
StatusOr<std::vector<ModelTrace>> RecordTraces(const std::string& model_directory,
                                               const RecordOptions& options,
                                               const PageBudget& budget);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_ELASTIC_ELASTIC_MODEL_H_
