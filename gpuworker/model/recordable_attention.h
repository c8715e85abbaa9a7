// SPDX-License-Identifier: Apache-2.0
//
// RecordableAttention: attention that needs the host only before and after a decode step. A device
// that records (Device::Record) then runs the whole step as one launch. Kernels read the
// differences between steps from the device's memory.
//
// Each step calls Prepare, runs the kernels of Launch for every layer in order, new or recorded,
// and calls Finish. After an error the caches are good for nothing.
#ifndef QUIRE_GPUWORKER_MODEL_RECORDABLE_ATTENTION_H_
#define QUIRE_GPUWORKER_MODEL_RECORDABLE_ATTENTION_H_

#include <memory>
#include <span>
#include <vector>

#include "gpuworker/model/decoder.h"
#include "quire/status.h"

namespace quire::worker {

/// Arguments of a step's kernels besides its LayerSteps, one entry a sequence. Steps of
/// equal keys have the same kernels and arguments. The target of an entry's pointer is compared by
/// its address only, and holding it keeps the address from another.
using StepKey = std::vector<std::shared_ptr<const void>>;

class RecordableAttention {
 public:
  virtual ~RecordableAttention() = default;
  /// Takes one token of each sequence into its cache, in all layers; `steps` are those of the
  /// first.
  virtual StatusOr<StepKey> Prepare(std::span<const LayerStep> steps) = 0;
  /// Gives the device the kernels of one layer, and nothing else.
  [[nodiscard]] virtual Status Launch(std::span<const LayerStep> steps) = 0;
  /// Once the device was given the kernels of all layers; `steps` as for Prepare.
  [[nodiscard]] virtual Status Finish(std::span<const LayerStep> steps) = 0;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_RECORDABLE_ATTENTION_H_
