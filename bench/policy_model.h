// SPDX-License-Identifier: Apache-2.0
//
// Steps of a real model, recorded: questions and their answers are run over the bundled documents
// with dense attention, and every layer's queries, keys and values are kept.
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
  KvSpec spec;                 ///< Of one layer, f32.
  uint32_t layer = 0;          ///< In the model.
  std::string document;        ///< Its name.
  uint64_t tokens = 0;         ///< Before the first step.
  uint64_t steps = 0;          ///< One token each.
  std::vector<float> units;    ///< [pages][n_kv][2][p][d] of all tokens, rows that are not there 0
  std::vector<float> queries;  ///< [steps][n_q][d]
};

using RecordedLayerVisitor = std::function<Status(const RecordedLayer&)>;

/// Records the first `questions` questions that belong to the model in `model_directory`, each by
/// itself, and calls `visit` with every layer of each. Progress goes to stderr.
Status RecordModel(const std::string& model_directory, uint32_t questions, uint32_t page_tokens,
                   const RecordedLayerVisitor& visit);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_POLICY_MODEL_H_
