// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/layer_math.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

namespace quire::worker {
namespace {

float EmbeddingScale(const ModelConfig& config) {
  return config.is_gemma() ? std::sqrt(static_cast<float>(config.hidden_size)) : 1.0f;
}

kernels::GateFunction GateOf(const ModelConfig& config) {
  return config.is_gemma() ? kernels::GateFunction::kGeluTanh : kernels::GateFunction::kSilu;
}

}  // namespace

Status LayerMath::Allocate(uint32_t max_rows) {
  const size_t t = max_rows;
  const size_t query_dim = size_t{c_.num_query_heads} * c_.head_dim;
  const size_t kv_dim = size_t{c_.num_kv_heads} * c_.head_dim;
  // Layers with experts have scratch of their own.
  const auto with_experts = std::ranges::count(c_.experts.layers, true);
  const size_t inner = with_experts == c_.num_layers ? 0 : c_.intermediate_size;
  const std::pair<DeviceBuffer*, size_t> floats[] = {
      {&normed_, t * c_.hidden_size},
      {&delta_, t * c_.hidden_size},
      {&q_, t * query_dim},
      {&k_, t * kv_dim},
      {&v_, c_.latent ? 0 : t * kv_dim},
      {&attended_, t * c_.num_query_heads * c_.value_dim()},
      {&gate_up_, t * 2 * inner},
      {&gated_, t * inner},
  };
  for (const auto& [buffer, count] : floats) {
    if (count == 0) continue;
    QUIRE_ASSIGN_OR_RETURN(*buffer, model_.device->Allocate(count * sizeof(float)));
  }
  rotations_.clear();
  rotations_.push_back({.table = &model_.rope, .spec = &c_.rope, .cosines = {}, .sines = {}});
  if (model_.local_rope) {
    rotations_.push_back(
        {.table = &*model_.local_rope, .spec = &*c_.gemma.local_rope, .cosines = {}, .sines = {}});
  }
  for (Rotation& rotation : rotations_) {
    const size_t bytes = t * (rotation.spec->rotary_dim / 2) * sizeof(float);
    QUIRE_ASSIGN_OR_RETURN(rotation.cosines, model_.device->Allocate(bytes));
    QUIRE_ASSIGN_OR_RETURN(rotation.sines, model_.device->Allocate(bytes));
  }
  QUIRE_ASSIGN_OR_RETURN(ids_, model_.device->Allocate(t * sizeof(int32_t)));
  QUIRE_ASSIGN_OR_RETURN(positions_, model_.device->Allocate(t * sizeof(int32_t)));
  QUIRE_RETURN_IF_ERROR(latents_.Allocate(max_rows));
  max_rows_ = max_rows;
  return experts_.Allocate(max_rows);
}

const LayerMath::Rotation& LayerMath::RotationOf(uint32_t layer) const {
  return rotations_.size() > 1 && c_.slides[layer] ? rotations_.back() : rotations_.front();
}

Status LayerMath::SendAngles(const Rotation& rotation, std::span<const uint64_t> positions) const {
  const size_t half = rotation.spec->rotary_dim / 2;
  const size_t rows = positions.size();
  std::vector<float> angles(2 * rows * half);
  float* const cosines = angles.data();
  float* const sines = cosines + rows * half;
  for (size_t begin = 0, end = 1; begin < rows; begin = end++) {
    while (end < rows && positions[end] == positions[end - 1] + 1) ++end;
    rotation.table->Fill(positions[begin], end - begin, cosines + begin * half,
                         sines + begin * half);
  }
  Device& device = *model_.device;
  const size_t bytes = rows * half * sizeof(float);
  QUIRE_RETURN_IF_ERROR(device.CopyToDevice(rotation.cosines.data(), cosines, bytes));
  return device.CopyToDevice(rotation.sines.data(), sines, bytes);
}

Status LayerMath::SetRows(std::span<const uint64_t> positions) {
  for (const Rotation& rotation : rotations_) {
    QUIRE_RETURN_IF_ERROR(SendAngles(rotation, positions));
  }
  const size_t rows = positions.size();
  std::vector<int32_t> table_rows(rows);
  std::iota(table_rows.begin(), table_rows.end(), 0);
  Device& device = *model_.device;
  QUIRE_RETURN_IF_ERROR(device.CopyToDevice(positions_.data(), table_rows.data(), rows * 4));
  rows_ = static_cast<uint32_t>(rows);
  return OkStatus();
}

Status LayerMath::SetTokens(std::span<const TokenId> ids) {
  return model_.device->CopyToDevice(ids_.data(), ids.data(), ids.size() * sizeof(TokenId));
}

Status LayerMath::EndLayer(uint32_t layer, float* hidden) {
  QUIRE_RETURN_IF_ERROR(Output(model_.weights.layers[layer], hidden));
  return FeedForward(layer, hidden);
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
                              .scale = EmbeddingScale(c_),
                              .stream = model_.device->stream()}),
                  "embed");
}

Status LayerMath::Queries(uint32_t layer, const float* hidden) {
  const LayerWeights& w = model_.weights.layers[layer];
  float* const x = normed_.as<float>();
  QUIRE_RETURN_IF_ERROR(Norm(hidden, w.attention_norm, x, rows_, c_.hidden_size));
  if (!c_.latent) return HeadQueries(layer, x);
  const LatentProjection::Rows rows{.count = rows_,
                                    .positions = positions_.as<int32_t>(),
                                    .cosines = RotationOf(layer).cosines.as<float>(),
                                    .sines = RotationOf(layer).sines.as<float>()};
  return latents_.Queries(w.latent, rows, x, q(), k());
}

Status LayerMath::HeadQueries(uint32_t layer, const float* x) {
  const LayerWeights& w = model_.weights.layers[layer];
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
  QUIRE_RETURN_IF_ERROR(Rotate(RotationOf(layer), q, n_q));
  return Rotate(RotationOf(layer), k, n_kv);
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
  return AddResidual(w.attention_end, hidden);
}

Status LayerMath::FeedForward(uint32_t layer, float* hidden) {
  const LayerWeights& w = model_.weights.layers[layer];
  float* const normed = normed_.as<float>();
  QUIRE_RETURN_IF_ERROR(Norm(hidden, w.mlp_norm, normed, rows_, c_.hidden_size));
  QUIRE_RETURN_IF_ERROR(c_.experts.Has(layer)
                            ? experts_.Run(w.experts, normed, delta_.as<float>(), rows_)
                            : GatedBlock(w));
  return AddResidual(w.mlp_end, hidden);
}

Status LayerMath::GatedBlock(const LayerWeights& w) {
  const int64_t h = c_.hidden_size;
  const int64_t inner = c_.intermediate_size;
  float* const gate_up = gate_up_.as<float>();
  QUIRE_RETURN_IF_ERROR(Project(normed_.as<float>(), w.gate_up, gate_up, h, 2 * inner));
  QUIRE_RETURN_IF_ERROR(ToStatus(ops_.silu_mul({.gate = gate_up,
                                                .up = gate_up + inner,
                                                .y = gated_.as<float>(),
                                                .rows = rows_,
                                                .dim = inner,
                                                .gate_stride = 2 * inner,
                                                .up_stride = 2 * inner,
                                                .function = GateOf(c_),
                                                .stream = model_.device->stream()}),
                                 "silu_mul"));
  return Project(gated_.as<float>(), w.down, delta_.as<float>(), inner, h);
}

Status LayerMath::Vocabulary(const float* normed, float* logits, uint32_t count) const {
  QUIRE_RETURN_IF_ERROR(ToStatus(ops_.matmul({.x = normed,
                                              .weight = model_.weights.output(),
                                              .y = logits,
                                              .rows = count,
                                              .in = c_.hidden_size,
                                              .out = c_.vocab_size,
                                              .stream = model_.device->stream()}),
                                 "matmul"));
  if (c_.gemma.logit_soft_cap == 0) return OkStatus();
  return ToStatus(ops_.soft_cap({.x = logits,
                                 .y = logits,
                                 .n = int64_t{count} * c_.vocab_size,
                                 .cap = static_cast<float>(c_.gemma.logit_soft_cap),
                                 .stream = model_.device->stream()}),
                  "soft_cap");
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

Status LayerMath::Rotate(const Rotation& rotation, float* heads, int64_t num_heads) const {
  return ToStatus(ops_.rope({.rows = heads,
                             .positions = positions_.as<int32_t>(),
                             .cos_table = rotation.cosines.as<float>(),
                             .sin_table = rotation.sines.as<float>(),
                             .t = rows_,
                             .heads = num_heads,
                             .head_dim = c_.head_dim,
                             .rotary_dim = rotation.spec->rotary_dim,
                             .n_positions = rows_,
                             .interleaved = rotation.spec->interleaved,
                             .dtype = DType::kF32,
                             .stream = model_.device->stream()}),
                  "rope");
}

Status LayerMath::AddResidual(const DeviceBuffer& end, float* hidden) const {
  float* const delta = delta_.as<float>();
  if (end.data() != nullptr) {
    QUIRE_RETURN_IF_ERROR(Norm(delta, end, delta, rows_, c_.hidden_size));
  }
  return ToStatus(ops_.add({.a = hidden,
                            .b = delta,
                            .y = hidden,
                            .n = int64_t{rows_} * c_.hidden_size,
                            .stream = model_.device->stream()}),
                  "add");
}

}  // namespace quire::worker
