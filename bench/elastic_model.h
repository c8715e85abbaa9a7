// SPDX-License-Identifier: Apache-2.0
//
// What a real model's decoding moves: the bundled documents are read, questions are asked over them
// with the demo's policy and budget, and the selected units of every step, layer and head that were
// not resident are counted.
#ifndef QUIRE_BENCH_ELASTIC_MODEL_H_
#define QUIRE_BENCH_ELASTIC_MODEL_H_

#include <cstdint>
#include <string>

#include "client/client.h"
#include "common/base/status.h"

namespace quire::bench {

struct ModelMoves {
  uint64_t steps = 0;           ///< Tokens run through the model.
  uint64_t units_selected = 0;  ///< The selections of all of them.
  uint64_t units_moved = 0;     ///< Those that were missing, the first ones of a sequence included.
  uint32_t questions = 0;
};

/// Asks the first `questions` questions that belong to the model in `model_directory`. Progress
/// goes to stderr.
StatusOr<ModelMoves> DriveModel(const std::string& model_directory, uint32_t questions,
                                Client& client);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_ELASTIC_MODEL_H_
