// SPDX-License-Identifier: Apache-2.0
//
// LatentProjection: what latent attention (MLA) computes from and to the residual stream, so that
// attention reads cached rows alone. A row is a token's latent, with its norm, and the rotated
// channels behind it. A head's query is turned to the same channels: its key's up-projection is
// absorbed in the query. Attention gives a weighted latent for each head, which is turned to the
// head's value here.
//
// The absorbed weights also carry the factor of the scores, so that 1/sqrt(d) of a row is the scale
// of attention, as for other models.
//
// Ownership: borrows the config and the device. Thread-safety: none; one caller at a time.
// Errors: RESOURCE_EXHAUSTED when the device has no room, otherwise those of its kernels.
#ifndef QUIRE_GPUWORKER_MODEL_LATENT_PROJECTION_H_
#define QUIRE_GPUWORKER_MODEL_LATENT_PROJECTION_H_

#include <cstdint>

#include "gpuworker/device/device.h"
#include "gpuworker/model/checkpoint/config.h"
#include "gpuworker/model/weights.h"
#include "quire/status.h"

namespace quire::worker {

class LatentProjection {
 public:
  /// Does nothing for a config without latents.
  LatentProjection(const ModelConfig& config, Device* device)
      : c_(config), device_(device), ops_(device->kernels()) {}

  /// Allocates scratch for up to `max_rows` rows.
  Status Allocate(uint32_t max_rows);

  /// Rows of a block and their rotations, as the rope op takes them.
  struct Rows {
    uint32_t count = 0;
    const int32_t* positions = nullptr;
    const float* cosines = nullptr;
    const float* sines = nullptr;
  };
  /// q, [rows][n_q][row_dim], and k, [rows][row_dim], from normed rows `x`, [rows][h].
  Status Queries(const LatentWeights& weights, const Rows& rows, const float* x, float* q,
                 float* k);
  /// Values of the heads, [rows][n_q][value_dim], from `attended`, [rows][n_q][latent_dim]. They
  /// stay until the next call.
  StatusOr<const float*> Values(const LatentWeights& weights, uint32_t rows, const float* attended);

 private:
  /// The queries before they are absorbed, into queries_, not rotated yet.
  Status HeadQueries(const LatentWeights& weights, uint32_t rows, const float* x);
  /// `heads` rows of `dim` channels each, whose last rope_dim channels are rotated.
  Status Rotate(const Rows& rows, float* x, int64_t heads, int64_t dim) const;
  Status Norm(float* x, const DeviceBuffer& weight, int64_t rows, int64_t dim,
              int64_t stride) const;
  /// y[rows][heads][out] of x[rows][heads][in].
  Status Project(const float* x, const DeviceBuffer& weight, const DeviceBuffer* bias, float* y,
                 const kernels::MatmulArgs& shape) const;

  const ModelConfig& c_;
  Device* const device_;
  const kernels::KernelTable& ops_;

  DeviceBuffer query_latents_;  ///< [rows][query_rank]
  DeviceBuffer queries_;        ///< [rows][n_q][query_dim]
  DeviceBuffer values_;         ///< [rows][n_q][value_dim]
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_LATENT_PROJECTION_H_
