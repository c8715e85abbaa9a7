// SPDX-License-Identifier: Apache-2.0
//
// MemoryModel: number of layers whose caches fit on the device at a length, and the layers that
// leave it as a sequence grows. From SpeContext, arXiv 2512.00722, section 6: Eq. 6 to 8,
// Algorithms 1 and 2. Layers leave from the last one down; of one that has left, a buffer of the
// budget stays. Thresholds are computed once, so that a step costs a comparison.
//
// Line 3 of the published Algorithm 1 lacks the 4 of Eq. 7 before i*B*R*H*D, and admits too much.
// Here the thresholds follow Eq. 7. The text offloads two layers of a prompt between S_2 and S_3;
// here they are three, as in Algorithm 2.
//
// R requests of different lengths: S is their mean, rounded up. Their buffers together are then not
// larger than the model says.
//
// Units: bytes; tokens. Thread-safety: const use is safe.
// Errors: INVALID_ARGUMENT naming the option and its value.
#ifndef QUIRE_GPUWORKER_MEMORY_MEMORY_MODEL_H_
#define QUIRE_GPUWORKER_MEMORY_MEMORY_MODEL_H_

#include <cstdint>
#include <vector>

#include "quire/status.h"

namespace quire::worker {

struct MemoryModelOptions {
  uint64_t device_bytes = 0;    ///< Mem_GPU.
  uint64_t model_bytes = 0;     ///< M_O: weights of the model.
  uint64_t draft_bytes = 0;     ///< M_D: weights of the draft model that the retrieval head is of.
  uint32_t num_layers = 0;      ///< L.
  uint32_t num_kv_heads = 0;    ///< H.
  uint64_t key_bytes = 0;       ///< Key bytes of a token in one KV head; published: 2 D.
  uint64_t value_bytes = 0;     ///< As key_bytes; 0 where attention has no values of its own (MLA).
  bool head_has_values = true;  ///< The retrieval head keeps values besides its keys, as published.
  uint32_t repeated_heads = 0;  ///< Alpha: layers' caches that repeat_kv takes while a step runs.
  uint32_t requests = 1;        ///< R.
  uint64_t budget_tokens = 0;   ///< B.
};

class MemoryModel {
 public:
  /// Run-time memory is this share of the weights, weights included (section 6.2).
  static constexpr double kWeightShare = 1.3;
  /// A layer comes back below this share of the length at which it left.
  static constexpr double kReloadShare = 0.9;

  /// Every count and size must be above 0 except draft_bytes, value_bytes and repeated_heads, and
  /// the device must hold the weights with their run-time memory.
  static StatusOr<MemoryModel> Create(const MemoryModelOptions& options);

  /// Eq. 7, and with nothing offloaded Eq. 6: what requests of `tokens` tokens take when the last
  /// `offloaded` layers are not on the device. No more is buffered than there is: min(S, B) for B.
  double Bytes(uint32_t offloaded, uint64_t tokens) const;

  /// Algorithm 1: S_0 ... S_L, ascending. With i layers offloaded, S_i tokens fit and S_i + 1 do
  /// not. Where S_i is below the budget, a buffer is no smaller than what it stands for, so
  /// offloading gains nothing and S_{i+1} = S_i.
  const std::vector<uint64_t>& thresholds() const { return thresholds_; }

  /// Algorithm 2, asked before the step at length `tokens`: how many layers are off the device
  /// during it, of which `offloaded` are already. Layers [L - result, L) are: L-1 left first, and
  /// comes back last. For `offloaded` = 0 the least number that leaves room for the step's token
  /// (Eq. 8), or L when none does.
  uint32_t OffloadedLayers(uint64_t tokens, uint32_t offloaded) const;
  /// False: there is no room for another token with all layers offloaded. Admit no request; one of
  /// those that run has to wait.
  bool Fits(uint64_t tokens) const { return tokens < thresholds_.back(); }

 private:
  explicit MemoryModel(const MemoryModelOptions& options);
  uint32_t num_layers() const { return options_.num_layers; }
  /// Bytes of a token of all requests that do not leave the device with `offloaded` layers.
  double TokenBytes(uint32_t offloaded) const;

  MemoryModelOptions options_;
  double weight_bytes_;  ///< Weights with run-time memory.
  double layer_bytes_;   ///< Bytes of a token of all requests in one layer.
  double head_bytes_;    ///< As layer_bytes_, in the retrieval head.
  std::vector<uint64_t> thresholds_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MEMORY_MEMORY_MODEL_H_
