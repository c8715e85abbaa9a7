// SPDX-License-Identifier: Apache-2.0
//
// Steps of a real model, recorded: questions and their answers are run over the bundled documents
// with dense attention, and every layer's queries, keys and values are kept. A question and its
// right answer are one pass. Attention is causal, so the queries of each position are those of a
// step that is given this token alone after the ones before it, but for the order of additions in a
// product of matrices; the answer is given, not the model's own.
#ifndef QUIRE_BENCH_POLICY_MODEL_H_
#define QUIRE_BENCH_POLICY_MODEL_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/page/kv_spec.h"

namespace quire::bench {

/// One layer of a model over one document and a question with its answer.
struct RecordedLayer {
  KvSpec spec;                  ///< Of one layer, f32.
  uint32_t layer = 0;           ///< In the model.
  std::string document;         ///< Its name.
  uint64_t tokens = 0;          ///< Before the first step.
  uint64_t steps = 0;           ///< One token each.
  uint64_t question_steps = 0;  ///< The first of them; the others are of the answer's tokens.
  std::vector<float> units;     ///< [pages][n_kv][2][p][d] of all tokens, rows that are not there 0
  std::vector<float> queries;   ///< [steps][n_q][d]
};

using RecordedLayerVisitor = std::function<Status(const RecordedLayer&)>;

/// Records the first `questions` questions that belong to the model in `model_directory`, each by
/// itself, and calls `visit` with every layer of each. Progress goes to stderr.
Status RecordModel(const std::string& model_directory, uint32_t questions, uint32_t page_tokens,
                   const RecordedLayerVisitor& visit);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_POLICY_MODEL_H_
