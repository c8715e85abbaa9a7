// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/experts.h"

#include <utility>

namespace quire::worker {

Status ExpertBlock::CheckKernels(const Device& device) {
  const kernels::KernelTable& ops = device.kernels();
  const std::pair<const char*, bool> needed[] = {
      {"choose_experts", ops.choose_experts != nullptr},
      {"expert_matmul", ops.expert_matmul != nullptr},
      {"combine_experts", ops.combine_experts != nullptr}};
  for (const auto& [name, present] : needed) {
    if (!present) return Unimplemented("device ", device.name(), " has no kernel ", name);
  }
  return OkStatus();
}

Status ExpertBlock::Allocate(uint32_t max_rows) {
  const ExpertsConfig& e = config_.experts;
  if (e.num_experts == 0) return OkStatus();
  const size_t rows = max_rows;
  const size_t choices = rows * e.experts_per_token;
  const std::pair<DeviceBuffer*, size_t> sizes[] = {
      {&logits_, rows * e.num_experts},
      {&chosen_, choices},
      {&shares_, choices},
      {&gate_up_, choices * 2 * e.intermediate_size},
      {&gated_, choices * e.intermediate_size},
      {&parts_, choices * config_.hidden_size},
  };
  for (const auto& [buffer, count] : sizes) {
    QUIRE_ASSIGN_OR_RETURN(*buffer, device_->Allocate(count * sizeof(float)));
  }
  return OkStatus();
}

Status ExpertBlock::Choose(const ExpertWeights& weights, const float* x, uint32_t rows) {
  const ExpertsConfig& e = config_.experts;
  QUIRE_RETURN_IF_ERROR(ToStatus(ops_.matmul({.x = x,
                                              .weight = weights.router.as<float>(),
                                              .y = logits_.as<float>(),
                                              .rows = rows,
                                              .in = config_.hidden_size,
                                              .out = e.num_experts,
                                              .stream = device_->stream()}),
                                 "matmul"));
  return ToStatus(ops_.choose_experts({.logits = logits_.as<float>(),
                                       .experts = chosen_.as<int32_t>(),
                                       .weights = shares_.as<float>(),
                                       .rows = rows,
                                       .n_experts = e.num_experts,
                                       .k = e.experts_per_token,
                                       .normalize = e.normalized,
                                       .stream = device_->stream()}),
                  "choose_experts");
}

Status ExpertBlock::Project(const DeviceBuffer& weight, const float* x, float* y, int64_t share,
                            int64_t in, int64_t out, uint32_t rows) {
  const ExpertsConfig& e = config_.experts;
  return ToStatus(ops_.expert_matmul({.x = x,
                                      .weight = weight.as<float>(),
                                      .experts = chosen_.as<int32_t>(),
                                      .y = y,
                                      .rows = int64_t{rows} * e.experts_per_token,
                                      .share = share,
                                      .n_experts = e.num_experts,
                                      .in = in,
                                      .out = out,
                                      .stream = device_->stream()}),
                  "expert_matmul");
}

Status ExpertBlock::Run(const ExpertWeights& weights, const float* x, float* y, uint32_t rows) {
  const ExpertsConfig& e = config_.experts;
  const int64_t h = config_.hidden_size;
  const int64_t inner = e.intermediate_size;
  const int64_t k = e.experts_per_token;
  float* const gate_up = gate_up_.as<float>();
  QUIRE_RETURN_IF_ERROR(Choose(weights, x, rows));
  QUIRE_RETURN_IF_ERROR(Project(weights.gate_up, x, gate_up, k, h, 2 * inner, rows));
  QUIRE_RETURN_IF_ERROR(ToStatus(ops_.silu_mul({.gate = gate_up,
                                                .up = gate_up + inner,
                                                .y = gated_.as<float>(),
                                                .rows = rows * k,
                                                .dim = inner,
                                                .gate_stride = 2 * inner,
                                                .up_stride = 2 * inner,
                                                .stream = device_->stream()}),
                                 "silu_mul"));
  QUIRE_RETURN_IF_ERROR(
      Project(weights.down, gated_.as<float>(), parts_.as<float>(), 1, inner, h, rows));
  return ToStatus(ops_.combine_experts({.parts = parts_.as<float>(),
                                        .weights = shares_.as<float>(),
                                        .y = y,
                                        .rows = rows,
                                        .k = k,
                                        .dim = h,
                                        .stream = device_->stream()}),
                  "combine_experts");
}

}  // namespace quire::worker
