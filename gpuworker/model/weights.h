// SPDX-License-Identifier: Apache-2.0
//
// Weights: a checkpoint's tensors as floats on a device, under the names that the forward pass
// uses, in the form that it computes with. Norms of a Gemma have the one added that they are stored
// without. Factors on queries are in what makes the queries.
// Ownership: owns its device memory; the device outlives it. Thread-safety: const use is safe.
#ifndef QUIRE_GPUWORKER_MODEL_WEIGHTS_H_
#define QUIRE_GPUWORKER_MODEL_WEIGHTS_H_

#include <vector>

#include "gpuworker/device/device.h"
#include "gpuworker/model/checkpoint/checkpoint.h"
#include "gpuworker/model/checkpoint/config.h"
#include "quire/status.h"

namespace quire::worker {

/// y = x weight^T + bias
struct Linear {
  DeviceBuffer weight;  ///< [out][in]
  DeviceBuffer bias;    ///< [out]; no memory when the model has none
};

/// The matrices of a layer's experts, one after the other.
struct ExpertWeights {
  DeviceBuffer router;   ///< [E][h]
  DeviceBuffer gate_up;  ///< [E][2*intermediate][h], as LayerWeights has them
  DeviceBuffer down;     ///< [E][h][intermediate]
};

/// Weights of latent attention (latent_projection.h).
struct LatentWeights {
  Linear query_down;        ///< [rank][h]; no memory where queries have no latents
  DeviceBuffer query_norm;  ///< [rank]; likewise
  Linear query_up;          ///< [n_q*query_dim][rank], or [..][h] without latents of queries
  /// [n_q][row_dim][query_dim]: each head's query to the space of cached rows, times the factor
  /// that makes 1/sqrt(row_dim) the scale of scores.
  DeviceBuffer absorb;
  Linear row;                ///< [row_dim][h]
  DeviceBuffer latent_norm;  ///< [latent_dim]
  DeviceBuffer value_up;     ///< [n_q][value_dim][latent_dim]
};

struct LayerWeights {
  DeviceBuffer attention_norm;  ///< [h]
  Linear q, k, v;               ///< [heads*d][h]; no memory for latent attention
  LatentWeights latent;         ///< No memory for other attention.
  Linear o;                     ///< [h][n_q*d], or [h][n_q*value_dim] of latent attention
  DeviceBuffer q_norm, k_norm;  ///< [d]; no memory without QK-norm
  DeviceBuffer mlp_norm;        ///< [h]
  DeviceBuffer attention_end;   ///< [h], norm of what attention adds; no memory but in a Gemma
  DeviceBuffer mlp_end;         ///< [h], the same of the feed-forward block
  Linear gate_up;               ///< [2*intermediate][h]: the gate's rows, then the up projection's
  Linear down;                  ///< [h][intermediate]
  ExpertWeights experts;        ///< In place of those two, in layers that have experts.
};

struct Weights {
  DeviceBuffer embedding;  ///< [vocab][h]
  std::vector<LayerWeights> layers;
  DeviceBuffer final_norm;  ///< [h]
  DeviceBuffer lm_head;     ///< [vocab][h]; no memory when it is tied to the embedding

  /// The output projection, [vocab][h].
  const float* output() const {
    return lm_head.data() != nullptr ? lm_head.as<float>() : embedding.as<float>();
  }
};

/// Converts and copies every tensor that `config` calls for. INVALID_ARGUMENT naming the file and
/// the tensor for one that is missing, has another shape, or that such a model does not have.
StatusOr<Weights> LoadWeights(const Checkpoint& checkpoint, const ModelConfig& config,
                              Device* device);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_WEIGHTS_H_
