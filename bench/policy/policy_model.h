// SPDX-License-Identifier: Apache-2.0
//
// A decode trace of a real model, recorded: the bundled documents are read, each is asked its
// questions one after the other in one sequence, and the model decodes greedily after every one.
// Attention is dense. The queries of every token that follows the document are kept, and every
// layer's keys and values. A prompt is one pass: attention is causal, so the queries of its
// positions are those of a step that is given this token alone, but for the order of additions in a
// product of matrices. A decoded token is a pass of its own.
#ifndef QUIRE_BENCH_POLICY_POLICY_MODEL_H_
#define QUIRE_BENCH_POLICY_POLICY_MODEL_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::bench {

/// One layer of a model over a question and what was decoded after it.
struct RecordedLayer {
  KvSpec spec;                  ///< Of one layer, f32.
  uint32_t layer = 0;           ///< In the model.
  std::string document;         ///< Its name.
  uint64_t tokens = 0;          ///< Before the first step: document, earlier questions, decoded.
  uint64_t steps = 0;           ///< One token each.
  uint64_t question_steps = 0;  ///< The first of them; the others are of decoded tokens.
  uint64_t answer_steps = 0;    ///< Of those, the first that are the answer, right or wrong.
  std::vector<float> units;     ///< [pages][n_kv][2][p][d] of all tokens, missing rows are 0
  std::vector<float> queries;   ///< [steps][n_q][d]
};

using RecordedLayerVisitor = std::function<Status(const RecordedLayer&)>;

struct RecordOptions {
  uint32_t questions = 1;    ///< The first that belong to the model.
  uint32_t page_tokens = 0;  ///< p
  /// After each question the model decodes as many tokens as its answer has, which is where
  /// whoever asks stops, or this many where that is more; or to its end of sequence.
  uint32_t decoded_tokens = 0;
};

/// Records the model in `model_directory` and calls `visit` with every layer of each question, in
/// order. Progress goes to stderr.
Status RecordModel(const std::string& model_directory, const RecordOptions& options,
                   const RecordedLayerVisitor& visit);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_POLICY_POLICY_MODEL_H_
