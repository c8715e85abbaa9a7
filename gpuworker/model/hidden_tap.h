// SPDX-License-Identifier: Apache-2.0
//
// HiddenTap: a view of a model's hidden states while it runs (AttentionBackend::hidden_tap). A pass
// with a tap copies the inputs of the tapped layers to the host, and is not recorded.
// Thread-safety: none; it belongs to the thread of its sequence.
#ifndef QUIRE_GPUWORKER_MODEL_HIDDEN_TAP_H_
#define QUIRE_GPUWORKER_MODEL_HIDDEN_TAP_H_

#include <cstdint>
#include <span>

namespace quire::worker {

class HiddenTap {
 public:
  virtual ~HiddenTap() = default;
  /// Layers whose inputs it takes.
  virtual bool Wants(uint32_t layer) const = 0;
  /// Inputs of `layer`, [tokens][hidden_size], of the next tokens of the sequence. Layers come in
  /// order, with the same tokens.
  virtual void Take(uint32_t layer, std::span<const float> rows) = 0;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_HIDDEN_TAP_H_
