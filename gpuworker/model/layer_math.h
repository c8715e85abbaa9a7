// SPDX-License-Identifier: Apache-2.0
//
// LayerMath: what a decoder computes around attention, over rows of tokens at any positions, with
// the scratch memory for it. Passes over consecutive tokens (forward_pass.h) and over scattered
// rows (sparse_pass.h) share it. Internal to Decoder.
// Ownership: borrows the model. Thread-safety: none; one caller at a time.
// Errors: RESOURCE_EXHAUSTED when the device has no room, otherwise those of its kernels.
#ifndef QUIRE_GPUWORKER_MODEL_LAYER_MATH_H_
#define QUIRE_GPUWORKER_MODEL_LAYER_MATH_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpuworker/device/device.h"
#include "gpuworker/model/checkpoint/config.h"
#include "gpuworker/model/experts.h"
#include "gpuworker/model/latent_projection.h"
#include "gpuworker/model/rope_table.h"
#include "gpuworker/model/weights.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

/// Inputs of a pass; all outlive it.
struct Model {
  Device* device;
  ModelConfig config;
  Weights weights;
  RopeTable rope;
  std::optional<RopeTable> local_rope =
      {};  ///< Rotation of sliding layers; none where it is `rope`.
};

class LayerMath {
 public:
  explicit LayerMath(const Model& model)
      : model_(model),
        c_(model.config),
        ops_(model.device->kernels()),
        experts_(model.device, model.config),
        latents_(c_, model.device) {}

  /// Allocates scratch for up to `max_rows` rows.
  Status Allocate(uint32_t max_rows);
  uint32_t max_rows() const { return max_rows_; }
  /// Copies the rotations of one row for each position, at most max_rows. The other calls are about
  /// these rows.
  Status SetRows(std::span<const uint64_t> positions);
  uint32_t rows() const { return rows_; }

  /// Copies the ids of the rows, for Embed.
  Status SetTokens(std::span<const TokenId> ids);
  /// hidden = the embeddings of the tokens. `hidden` is the residual stream, [rows][h], here and
  /// below.
  Status Embed(float* hidden);
  /// q(), k() and v() of a layer, rotated, from the stream.
  Status Queries(uint32_t layer, const float* hidden);
  /// Adds the attention in attended() to the stream, and then the feed-forward part.
  Status EndLayer(uint32_t layer, float* hidden);
  /// to = the final norm of `count` rows from `from` on.
  Status FinalNorm(const float* from, float* to, uint32_t count) const;
  /// logits[count][vocab] = the output projection of normed rows.
  Status Vocabulary(const float* normed, float* logits, uint32_t count) const;

  float* q() const { return q_.as<float>(); }  ///< [rows][n_q][d]
  float* k() const { return k_.as<float>(); }  ///< [rows][n_kv][d]
  /// [rows][n_kv][d]; null where the values are the first channels of the keys.
  float* v() const { return c_.latent ? nullptr : v_.as<float>(); }
  float* attended() const { return attended_.as<float>(); }  ///< [rows][n_q][value_dim]
  float* normed() const { return normed_.as<float>(); }      ///< Scratch between calls, [rows][h].

 private:
  /// The angles of the rows in one kind of layers.
  struct Rotation {
    const RopeTable* table;
    const RopeSpec* spec;
    DeviceBuffer cosines;  ///< [rows][rotary_dim/2], of each row's position
    DeviceBuffer sines;    ///< [rows][rotary_dim/2]
  };
  const Rotation& RotationOf(uint32_t layer) const;
  /// Copies the angles of rows to the device.
  Status SendAngles(const Rotation& rotation, std::span<const uint64_t> positions) const;
  /// q, k and v of attention that caches keys and values, from normed rows.
  Status HeadQueries(uint32_t layer, const float* x);
  Status Output(const LayerWeights& weights, float* hidden);
  Status FeedForward(uint32_t layer, float* hidden);
  /// delta_ = the feed-forward block of normed_.
  Status GatedBlock(const LayerWeights& weights);
  Status Norm(const float* x, const DeviceBuffer& weight, float* y, int64_t rows,
              int64_t dim) const;
  Status Project(const float* x, const Linear& linear, float* y, int64_t in, int64_t out) const;
  Status Rotate(const Rotation& rotation, float* heads, int64_t num_heads) const;
  /// Adds delta_ to the stream, normed where `end` has weights.
  Status AddResidual(const DeviceBuffer& end, float* hidden) const;

  const Model& model_;
  const ModelConfig& c_;
  const kernels::KernelTable& ops_;
  ExpertBlock experts_;
  uint32_t max_rows_ = 0;
  uint32_t rows_ = 0;
  std::vector<Rotation> rotations_;  ///< One of all layers, or of those that do not slide and do.

  DeviceBuffer ids_;        ///< [rows] int32
  DeviceBuffer positions_;  ///< [rows] int32: rows of the RoPE tables, 0..rows-1
  DeviceBuffer normed_;     ///< [rows][h]
  DeviceBuffer delta_;      ///< [rows][h], what a part adds to the stream
  DeviceBuffer q_, k_, v_, attended_;
  LatentProjection latents_;  ///< For latent attention.
  DeviceBuffer gate_up_;      ///< [rows][2*intermediate]
  DeviceBuffer gated_;        ///< [rows][intermediate]
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_LAYER_MATH_H_
