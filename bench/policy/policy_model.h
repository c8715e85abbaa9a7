// SPDX-License-Identifier: Apache-2.0
//
// Recorded decode traces of a real model. The bundled documents are read, and each is asked its
// questions one after the other in one sequence. The model decodes greedily after every question,
// with dense attention. The trace keeps the queries of every token after the document, and every
// layer's keys and values. A prompt is one pass. Since attention is causal, the queries of a
// position equal those of a step with that token alone. Only the order of additions in matrix
// products differs. A decoded token is a pass of its own.
#ifndef QUIRE_BENCH_POLICY_POLICY_MODEL_H_
#define QUIRE_BENCH_POLICY_POLICY_MODEL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "quire/key.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::bench {

/// One layer of a model over a question and the tokens decoded after it.
struct RecordedLayer {
  KvSpec spec;           ///< Spec of one layer, f32.
  uint32_t layer = 0;    ///< Index of the layer in the model.
  std::string document;  ///< Its name.
  /// Tokens before the first step: document, earlier questions, decoded.
  uint64_t tokens = 0;
  uint64_t steps = 0;  ///< Number of steps, one token each.
  /// Leading steps that are the question; the others are decoded tokens.
  uint64_t question_steps = 0;
  uint64_t answer_steps = 0;  ///< Leading decoded steps that are the answer, right or wrong.
  std::vector<TokenId> ids;   ///< [tokens + steps]
  /// Inputs of the layers that a draft sees (FeatureLayers), [tokens + steps][hidden_size]; valid
  /// during the visit.
  const std::map<uint32_t, std::vector<float>>* hidden = nullptr;
  std::vector<float> units;    ///< [pages][n_kv][2][p][d] of all tokens, missing rows are 0
  std::vector<float> queries;  ///< [steps][n_q][d]
};

using RecordedLayerVisitor = std::function<Status(const RecordedLayer&)>;

struct RecordOptions {
  uint32_t questions = 1;    ///< Number of leading questions of the model to use.
  uint32_t page_tokens = 0;  ///< `p`
  /// Tokens decoded after each question: as many as its answer has, or this many if that is more,
  /// or up to the end of sequence.
  uint32_t decoded_tokens = 0;
};

/// Records the model in `model_directory` and calls `visit` with every layer of each question, in
/// order. Reports progress on stderr.
Status RecordModel(const std::string& model_directory, const RecordOptions& options,
                   const RecordedLayerVisitor& visit);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_POLICY_POLICY_MODEL_H_
