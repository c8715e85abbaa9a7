// SPDX-License-Identifier: Apache-2.0
//
// ExpertBlock: the feed-forward part of layers with a mixture of experts, with the scratch memory
// for it. Router, choice and sum stay on the device, so that steps can be recorded. Internal to
// LayerMath.
// Ownership: borrows the model. Thread-safety: none; one caller at a time.
// Errors: RESOURCE_EXHAUSTED when the device has no room, otherwise those of its kernels.
#ifndef QUIRE_GPUWORKER_MODEL_EXPERTS_H_
#define QUIRE_GPUWORKER_MODEL_EXPERTS_H_

#include <cstdint>

#include "gpuworker/device/device.h"
#include "gpuworker/model/checkpoint/config.h"
#include "gpuworker/model/weights.h"
#include "quire/status.h"

namespace quire::worker {

class ExpertBlock {
 public:
  ExpertBlock(Device* device, const ModelConfig& config)
      : device_(device), config_(config), ops_(device->kernels()) {}

  /// UNIMPLEMENTED naming a kernel that layers with experts need and `device` does not have.
  static Status CheckKernels(const Device& device);
  /// Allocates scratch for up to `max_rows` rows, where the model has experts.
  Status Allocate(uint32_t max_rows);
  /// y = what the chosen experts make of x; both [rows][h].
  Status Run(const ExpertWeights& weights, const float* x, float* y, uint32_t rows);

 private:
  Status Choose(const ExpertWeights& weights, const float* x, uint32_t rows);
  /// For each row and choice, a product with the chosen expert's matrix in `weight`. `share`
  /// choices read a row of x.
  Status Project(const DeviceBuffer& weight, const float* x, float* y, int64_t share, int64_t in,
                 int64_t out, uint32_t rows);

  Device* const device_;
  const ModelConfig& config_;
  const kernels::KernelTable& ops_;
  DeviceBuffer logits_;   ///< [rows][E]
  DeviceBuffer chosen_;   ///< [rows][k] int32
  DeviceBuffer shares_;   ///< [rows][k], weights of the chosen ones
  DeviceBuffer gate_up_;  ///< [rows][k][2*intermediate]
  DeviceBuffer gated_;    ///< [rows][k][intermediate]
  DeviceBuffer parts_;    ///< [rows][k][h]
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_EXPERTS_H_
