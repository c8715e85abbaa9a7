// SPDX-License-Identifier: Apache-2.0
//
// MemoryModel: what requests take on the device when the caches of some layers are not on it. From
// SpeContext, arXiv 2512.00722, section 6: Eq. 6 to 8 and Algorithm 1. Layers leave from the last
// one down; of one that has left, a buffer of the budget stays. When they leave while requests
// grow is AdaptiveMemory's (adaptive_memory.h).
//
// Line 3 of the published Algorithm 1 lacks the 4 of Eq. 7 before i*B*R*H*D, and admits too much.
// Here the thresholds follow Eq. 7.
//
// Units: bytes; tokens. Thread-safety: const use is safe.
// Errors: INVALID_ARGUMENT naming the option and its value.
#ifndef QUIRE_GPUWORKER_MEMORY_MEMORY_MODEL_H_
#define QUIRE_GPUWORKER_MEMORY_MEMORY_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <optional>
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
  uint32_t requests = 1;        ///< R, of the thresholds.
  uint64_t budget_tokens = 0;   ///< B.
  /// Measured run-time memory besides weights and caches. Unset: what kWeightShare says.
  std::optional<uint64_t> runtime_bytes = {};
};

/// Tokens of requests, of any lengths, together.
struct MemoryLoad {
  uint64_t tokens = 0;    ///< Sum of the lengths: R * S where they are equal.
  uint64_t buffered = 0;  ///< Sum of min(length, B): no more is buffered than there is.
};

/// Whole bytes, rounded up; 2^63 at most.
uint64_t WholeBytes(double bytes);

class MemoryModel {
 public:
  /// Run-time memory is this share of the weights, weights included (section 6.2).
  static constexpr double kWeightShare = 1.3;

  /// Every count and size must be above 0 except draft_bytes, value_bytes, repeated_heads and
  /// runtime_bytes, and the device must hold the weights with their run-time memory.
  static StatusOr<MemoryModel> Create(const MemoryModelOptions& options);

  const MemoryModelOptions& options() const { return options_; }
  uint32_t num_layers() const { return options_.num_layers; }
  /// The load of `requests` requests of `tokens` tokens.
  MemoryLoad LoadOf(uint64_t requests, uint64_t tokens) const {
    return {requests * tokens, requests * std::min(tokens, options_.budget_tokens)};
  }

  /// Weights with run-time memory.
  double weight_bytes() const { return weight_bytes_; }
  /// Eq. 7, and with nothing offloaded Eq. 6: what `load` takes when the last `offloaded` layers
  /// are not on the device.
  double Bytes(uint32_t offloaded, MemoryLoad load) const;
  /// The same for options().requests requests of `tokens` tokens.
  double Bytes(uint32_t offloaded, uint64_t tokens) const {
    return Bytes(offloaded, LoadOf(options_.requests, tokens));
  }
  /// Bytes of the cache of one layer, of all requests of `load`.
  double LayerBytes(MemoryLoad load) const {
    return layer_bytes_ * static_cast<double>(load.tokens);
  }

  /// Algorithm 1: S_0 ... S_L, ascending. With i layers offloaded, S_i tokens fit and S_i + 1 do
  /// not. Where S_i is below the budget, a buffer is no smaller than what it stands for, so
  /// offloading gains nothing and S_{i+1} = S_i.
  const std::vector<uint64_t>& thresholds() const { return thresholds_; }

  /// Eq. 8: the fewest layers off the device with which `load` fits. nullopt: it does not fit with
  /// all of them off.
  std::optional<uint32_t> FewestOffloaded(MemoryLoad load) const;

 private:
  explicit MemoryModel(const MemoryModelOptions& options);
  bool Fits(uint32_t offloaded, MemoryLoad load) const {
    return Bytes(offloaded, load) <= static_cast<double>(options_.device_bytes);
  }
  /// Bytes of a token of one request that do not leave the device with `offloaded` layers.
  double TokenBytes(uint32_t offloaded) const;

  MemoryModelOptions options_;
  double weight_bytes_;
  double layer_bytes_;  ///< Bytes of a token of one request in one layer.
  double head_bytes_;   ///< As layer_bytes_, in the retrieval head.
  std::vector<uint64_t> thresholds_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MEMORY_MEMORY_MODEL_H_
