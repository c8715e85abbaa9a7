// SPDX-License-Identifier: Apache-2.0
//
// HeadWeights: the tensors of a retrieval head, in host memory. They are an EAGLE-3 draft's norms,
// fc, and projections of queries and keys. Embeddings are the model's, unless the draft has its
// own, and are read from the mapped file row by row.
// Ownership: keeps its files mapped. Thread-safety: const use is safe.
// Errors: NOT_FOUND and INVALID_ARGUMENT naming the file and the tensor or field.
#ifndef QUIRE_GPUWORKER_HEAD_HEAD_WEIGHTS_H_
#define QUIRE_GPUWORKER_HEAD_HEAD_WEIGHTS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpuworker/head/draft_config.h"
#include "gpuworker/model/checkpoint/checkpoint.h"
#include "gpuworker/model/checkpoint/config.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

/// Folder of the retrieval head beside a model.
inline constexpr char kHeadFolder[] = "retrieval-head";

/// The checkpoint that the head is for.
struct HeadTarget {
  std::string directory;
  ModelConfig config;
};

struct HeadWeights {
  DraftConfig config;
  HeadMode mode = HeadMode::kEagle;
  uint32_t num_features = 0;             ///< Width of fc's input; 0 without it.
  std::vector<uint32_t> feature_layers;  ///< Layers of kEagle's features; none for other modes.
  std::vector<float> input_norm;         ///< [h]
  std::vector<float> hidden_norm;        ///< [h]; empty without fc
  std::vector<float> fc;                 ///< [h][num_features]
  std::vector<float> q;                  ///< [n_q*d][in]
  std::vector<float> k;                  ///< [n_kv*d][in]
  /// SHA-256 of the draft's tensors and of all else that decides its keys, but for the model.
  std::array<uint8_t, 32> hash = {};
  std::shared_ptr<const Checkpoint> embedding_file;
  std::string embedding_name;

  /// Columns of the projections: 2h, and h without features.
  uint32_t input_width() const {
    return mode == HeadMode::kEmbedOnly ? config.hidden_size : 2 * config.hidden_size;
  }
  /// Width of a hidden state of the model (HeadMode::kEagle); 0 for other modes.
  uint32_t feature_width() const {
    return feature_layers.empty() ? 0 : num_features / static_cast<uint32_t>(feature_layers.size());
  }
  /// Tokens before a token whose embeddings fc merges (HeadMode::kTrained); 0 for other modes.
  uint32_t tokens_before() const {
    return mode == HeadMode::kTrained ? num_features / config.hidden_size : 0;
  }
  /// Writes the embedding of `token` < vocab_size to `row`, [h].
  [[nodiscard]] Status Embed(TokenId token, float* row) const;
};

/// Reads the draft in `directory` for `target`. `mode`: what the draft was trained for when unset.
/// INVALID_ARGUMENT for another vocabulary, a missing tensor, other shapes, and features that the
/// mode cannot give.
StatusOr<HeadWeights> LoadHeadWeights(const std::string& directory, const HeadTarget& target,
                                      std::optional<HeadMode> mode = {});

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_HEAD_HEAD_WEIGHTS_H_
