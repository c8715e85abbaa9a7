// SPDX-License-Identifier: Apache-2.0
//
// ModelTrace: what a real model selects while it decodes, step by step, recorded
// (bench/policy/policy_model.h): a bundled document, its questions in one sequence, and what the
// model decodes after each. Queries of every token that follows the document select pages of every
// layer and KV head, of the pages that are complete by then. Decoded tokens are what a decoder
// steps over; those of questions are steps, too, of one that takes a prompt token by token.
#ifndef QUIRE_BENCH_ELASTIC_ELASTIC_MODEL_H_
#define QUIRE_BENCH_ELASTIC_ELASTIC_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/policy/policy_model.h"
#include "bench/stream/paged_context.h"
#include "quire/status.h"

namespace quire::bench {

/// What a step's token is of.
enum class StepKind {
  kQuestion,  ///< Given.
  kAnswer,    ///< Decoded, up to where whoever asks stops.
  kRunOn,     ///< Decoded from there on.
};
inline constexpr size_t kStepKinds = 3;

struct ModelTrace {
  std::string document;              ///< Its name.
  PagedContext context;              ///< Document and all tokens after it, in whole segments.
  std::vector<StepSelection> steps;  ///< One for each token after the document.
  std::vector<StepKind> kinds;       ///< Of them.
  uint32_t questions = 0;
};

/// One trace for each document that the questions are about. Progress goes to stderr.
StatusOr<std::vector<ModelTrace>> RecordTraces(const std::string& model_directory,
                                               const RecordOptions& options,
                                               const PageBudget& budget);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_ELASTIC_ELASTIC_MODEL_H_
