// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/latent_projection.h"

#include <cstddef>

namespace quire::worker {

Status LatentProjection::Allocate(uint32_t max_rows) {
  if (!c_.latent) return OkStatus();
  const LatentShape& s = *c_.latent;
  const size_t heads = size_t{max_rows} * c_.num_query_heads * sizeof(float);
  if (s.query_rank > 0) {
    QUIRE_ASSIGN_OR_RETURN(query_latents_,
                           device_->Allocate(size_t{max_rows} * s.query_rank * sizeof(float)));
  }
  QUIRE_ASSIGN_OR_RETURN(queries_, device_->Allocate(heads * s.query_dim()));
  QUIRE_ASSIGN_OR_RETURN(values_, device_->Allocate(heads * s.value_dim));
  return OkStatus();
}

Status LatentProjection::Queries(const LatentWeights& w, const Rows& rows, const float* x, float* q,
                                 float* k) {
  const LatentShape& s = *c_.latent;
  const int64_t n_q = c_.num_query_heads;
  QUIRE_RETURN_IF_ERROR(HeadQueries(w, rows.count, x));
  QUIRE_RETURN_IF_ERROR(Rotate(rows, queries_.as<float>(), n_q, s.query_dim()));
  QUIRE_RETURN_IF_ERROR(
      Project(queries_.as<float>(), w.absorb, nullptr, q,
              {.rows = rows.count, .in = s.query_dim(), .out = s.row_dim(), .heads = n_q}));
  QUIRE_RETURN_IF_ERROR(Project(x, w.row.weight, &w.row.bias, k,
                                {.rows = rows.count, .in = c_.hidden_size, .out = s.row_dim()}));
  QUIRE_RETURN_IF_ERROR(Norm(k, w.latent_norm, rows.count, s.latent_dim, s.row_dim()));
  return Rotate(rows, k, 1, s.row_dim());
}

Status LatentProjection::HeadQueries(const LatentWeights& w, uint32_t rows, const float* x) {
  const LatentShape& s = *c_.latent;
  int64_t in = c_.hidden_size;
  if (s.query_rank > 0) {
    float* const latents = query_latents_.as<float>();
    QUIRE_RETURN_IF_ERROR(Project(x, w.query_down.weight, &w.query_down.bias, latents,
                                  {.rows = rows, .in = in, .out = s.query_rank}));
    QUIRE_RETURN_IF_ERROR(Norm(latents, w.query_norm, rows, s.query_rank, s.query_rank));
    x = latents;
    in = s.query_rank;
  }
  return Project(x, w.query_up.weight, nullptr, queries_.as<float>(),
                 {.rows = rows, .in = in, .out = int64_t{c_.num_query_heads} * s.query_dim()});
}

StatusOr<const float*> LatentProjection::Values(const LatentWeights& w, uint32_t rows,
                                                const float* attended) {
  const LatentShape& s = *c_.latent;
  QUIRE_RETURN_IF_ERROR(
      Project(attended, w.value_up, nullptr, values_.as<float>(),
              {.rows = rows, .in = s.latent_dim, .out = s.value_dim, .heads = c_.num_query_heads}));
  return values_.as<const float>();
}

Status LatentProjection::Rotate(const Rows& rows, float* x, int64_t heads, int64_t dim) const {
  return ToStatus(ops_.rope({.rows = x,
                             .positions = rows.positions,
                             .cos_table = rows.cosines,
                             .sin_table = rows.sines,
                             .t = rows.count,
                             .heads = heads,
                             .head_dim = dim,
                             .rotary_first = dim - c_.latent->rope_dim,
                             .rotary_dim = c_.rope.rotary_dim,
                             .n_positions = rows.count,
                             .interleaved = c_.rope.interleaved,
                             .dtype = DType::kF32,
                             .stream = device_->stream()}),
                  "rope");
}

Status LatentProjection::Norm(float* x, const DeviceBuffer& weight, int64_t rows, int64_t dim,
                              int64_t stride) const {
  return ToStatus(ops_.rmsnorm({.x = x,
                                .weight = weight.as<float>(),
                                .y = x,
                                .rows = rows,
                                .dim = dim,
                                .stride = stride,
                                .eps = static_cast<float>(kLatentNormEps),
                                .stream = device_->stream()}),
                  "rmsnorm");
}

Status LatentProjection::Project(const float* x, const DeviceBuffer& weight,
                                 const DeviceBuffer* bias, float* y,
                                 const kernels::MatmulArgs& shape) const {
  kernels::MatmulArgs args = shape;
  args.x = x;
  args.weight = weight.as<float>();
  args.bias = bias != nullptr ? bias->as<float>() : nullptr;
  args.y = y;
  args.stream = device_->stream();
  return ToStatus(ops_.matmul(args), "matmul");
}

}  // namespace quire::worker
