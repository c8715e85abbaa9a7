// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/layer_math.h"

#include <numeric>
#include <utility>
#include <vector>

namespace quire::worker {

Status LayerMath::Allocate(uint32_t max_rows) {
  const size_t t = max_rows;
  const size_t query_dim = size_t{c_.num_query_heads} * c_.head_dim;
  const size_t kv_dim = size_t{c_.num_kv_heads} * c_.head_dim;
  const size_t half = c_.rope.rotary_dim / 2;
  const std::pair<DeviceBuffer*, size_t> floats[] = {
      {&cosines_, t * half},
      {&sines_, t * half},
      {&normed_, t * c_.hidden_size},
      {&delta_, t * c_.hidden_size},
      {&q_, t * query_dim},
      {&k_, t * kv_dim},
      {&v_, c_.latent ? 0 : t * kv_dim},
      {&attended_, t * c_.num_query_heads * c_.value_dim()},
      {&gate_up_, t * 2 * c_.intermediate_size},
      {&gated_, t * c_.intermediate_size},
  };
  for (const auto& [buffer, count] : floats) {
    QUIRE_ASSIGN_OR_RETURN(*buffer, model_.device->Allocate(count * sizeof(float)));
  }
  QUIRE_ASSIGN_OR_RETURN(ids_, model_.device->Allocate(t * sizeof(int32_t)));
  QUIRE_ASSIGN_OR_RETURN(positions_, model_.device->Allocate(t * sizeof(int32_t)));
  QUIRE_RETURN_IF_ERROR(latents_.Allocate(max_rows));
  max_rows_ = max_rows;
  return OkStatus();
}

Status LayerMath::SetRows(std::span<const uint64_t> positions) {
  const size_t half = c_.rope.rotary_dim / 2;
  const size_t rows = positions.size();
  std::vector<float> cosines(rows * half);
  std::vector<float> sines(rows * half);
  for (size_t begin = 0, end = 1; begin < rows; begin = end++) {
    while (end < rows && positions[end] == positions[end - 1] + 1) ++end;
    model_.rope.Fill(positions[begin], end - begin, cosines.data() + begin * half,
                     sines.data() + begin * half);
  }
  std::vector<int32_t> table_rows(rows);
  std::iota(table_rows.begin(), table_rows.end(), 0);
  Device& device = *model_.device;
  QUIRE_RETURN_IF_ERROR(device.CopyToDevice(cosines_.data(), cosines.data(), cosines.size() * 4));
  QUIRE_RETURN_IF_ERROR(device.CopyToDevice(sines_.data(), sines.data(), sines.size() * 4));
  QUIRE_RETURN_IF_ERROR(device.CopyToDevice(positions_.data(), table_rows.data(), rows * 4));
  rows_ = static_cast<uint32_t>(rows);
  return OkStatus();
}

Status LayerMath::SetTokens(std::span<const TokenId> ids) {
  return model_.device->CopyToDevice(ids_.data(), ids.data(), ids.size() * sizeof(TokenId));
}

Status LayerMath::EndLayer(uint32_t layer, float* hidden) {
  const LayerWeights& weights = model_.weights.layers[layer];
  QUIRE_RETURN_IF_ERROR(Output(weights, hidden));
  return FeedForward(weights, hidden);
}

Status LayerMath::FinalNorm(const float* from, float* to, uint32_t count) const {
  return Norm(from, model_.weights.final_norm, to, count, c_.hidden_size);
}

Status LayerMath::Embed(float* hidden) {
  return ToStatus(ops_.embed({.table = model_.weights.embedding.as<float>(),
                              .ids = ids_.as<int32_t>(),
                              .y = hidden,
                              .rows = rows_,
                              .vocab = c_.vocab_size,
                              .dim = c_.hidden_size,
                              .stream = model_.device->stream()}),
                  "embed");
}

Status LayerMath::Queries(uint32_t layer, const float* hidden) {
  const LayerWeights& w = model_.weights.layers[layer];
  float* const x = normed_.as<float>();
  QUIRE_RETURN_IF_ERROR(Norm(hidden, w.attention_norm, x, rows_, c_.hidden_size));
  if (!c_.latent) return HeadQueries(w, x);
  const LatentProjection::Rows rows{.count = rows_,
                                    .positions = positions_.as<int32_t>(),
                                    .cosines = cosines_.as<float>(),
                                    .sines = sines_.as<float>()};
  return latents_.Queries(w.latent, rows, x, q(), k());
}

Status LayerMath::HeadQueries(const LayerWeights& w, const float* x) {
  const int64_t h = c_.hidden_size;
  const int64_t d = c_.head_dim;
  const int64_t n_q = c_.num_query_heads;
  const int64_t n_kv = c_.num_kv_heads;
  float* const q = q_.as<float>();
  float* const k = k_.as<float>();

  QUIRE_RETURN_IF_ERROR(Project(x, w.q, q, h, n_q * d));
  QUIRE_RETURN_IF_ERROR(Project(x, w.k, k, h, n_kv * d));
  QUIRE_RETURN_IF_ERROR(Project(x, w.v, v_.as<float>(), h, n_kv * d));
  if (c_.qk_norm) {
    QUIRE_RETURN_IF_ERROR(Norm(q, w.q_norm, q, rows_ * n_q, d));
    QUIRE_RETURN_IF_ERROR(Norm(k, w.k_norm, k, rows_ * n_kv, d));
  }
  QUIRE_RETURN_IF_ERROR(Rotate(q, n_q));
  return Rotate(k, n_kv);
}

Status LayerMath::Output(const LayerWeights& w, float* hidden) {
  const float* values = attended_.as<float>();
  int64_t value_dim = c_.head_dim;
  if (c_.latent) {
    QUIRE_ASSIGN_OR_RETURN(values, latents_.Values(w.latent, rows_, values));
    value_dim = c_.latent->value_dim;
  }
  QUIRE_RETURN_IF_ERROR(
      Project(values, w.o, delta_.as<float>(), c_.num_query_heads * value_dim, c_.hidden_size));
  return AddResidual(delta_.as<float>(), hidden);
}

Status LayerMath::FeedForward(const LayerWeights& w, float* hidden) {
  const int64_t h = c_.hidden_size;
  const int64_t inner = c_.intermediate_size;
  float* const gate_up = gate_up_.as<float>();
  QUIRE_RETURN_IF_ERROR(Norm(hidden, w.mlp_norm, normed_.as<float>(), rows_, h));
  QUIRE_RETURN_IF_ERROR(Project(normed_.as<float>(), w.gate_up, gate_up, h, 2 * inner));
  QUIRE_RETURN_IF_ERROR(ToStatus(ops_.silu_mul({.gate = gate_up,
                                                .up = gate_up + inner,
                                                .y = gated_.as<float>(),
                                                .rows = rows_,
                                                .dim = inner,
                                                .gate_stride = 2 * inner,
                                                .up_stride = 2 * inner,
                                                .stream = model_.device->stream()}),
                                 "silu_mul"));
  QUIRE_RETURN_IF_ERROR(Project(gated_.as<float>(), w.down, delta_.as<float>(), inner, h));
  return AddResidual(delta_.as<float>(), hidden);
}

Status LayerMath::Vocabulary(const float* normed, float* logits, uint32_t count) const {
  return ToStatus(ops_.matmul({.x = normed,
                               .weight = model_.weights.output(),
                               .y = logits,
                               .rows = count,
                               .in = c_.hidden_size,
                               .out = c_.vocab_size,
                               .stream = model_.device->stream()}),
                  "matmul");
}

Status LayerMath::Norm(const float* x, const DeviceBuffer& weight, float* y, int64_t rows,
                       int64_t dim) const {
  return ToStatus(ops_.rmsnorm({.x = x,
                                .weight = weight.as<float>(),
                                .y = y,
                                .rows = rows,
                                .dim = dim,
                                .eps = static_cast<float>(c_.rms_norm_eps),
                                .stream = model_.device->stream()}),
                  "rmsnorm");
}

Status LayerMath::Project(const float* x, const Linear& linear, float* y, int64_t in,
                          int64_t out) const {
  return ToStatus(ops_.matmul({.x = x,
                               .weight = linear.weight.as<float>(),
                               .bias = linear.bias.as<float>(),
                               .y = y,
                               .rows = rows_,
                               .in = in,
                               .out = out,
                               .stream = model_.device->stream()}),
                  "matmul");
}

Status LayerMath::Rotate(float* heads, int64_t num_heads) const {
  return ToStatus(ops_.rope({.rows = heads,
                             .positions = positions_.as<int32_t>(),
                             .cos_table = cosines_.as<float>(),
                             .sin_table = sines_.as<float>(),
                             .t = rows_,
                             .heads = num_heads,
                             .head_dim = c_.head_dim,
                             .rotary_dim = c_.rope.rotary_dim,
                             .n_positions = rows_,
                             .interleaved = c_.rope.interleaved,
                             .dtype = DType::kF32,
                             .stream = model_.device->stream()}),
                  "rope");
}

Status LayerMath::AddResidual(const float* delta, float* hidden) const {
  return ToStatus(ops_.add({.a = hidden,
                            .b = delta,
                            .y = hidden,
                            .n = int64_t{rows_} * c_.hidden_size,
                            .stream = model_.device->stream()}),
                  "add");
}

}  // namespace quire::worker
