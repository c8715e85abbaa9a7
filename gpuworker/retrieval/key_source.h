// SPDX-License-Identifier: Apache-2.0
//
// KeySource: keys that a policy keeps in a form of its own. Recalls for such a policy
// (RetrievalPolicy::key_source) bring values alone, half the bytes, and the source adds the keys.
//
// Thread-safety: none; it belongs to the thread of its policy.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_KEY_SOURCE_H_
#define QUIRE_GPUWORKER_RETRIEVAL_KEY_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace quire::worker {

class KeySource {
 public:
  virtual ~KeySource() = default;
  /// Fills `keys`, [p][d] in the KV dtype in host memory, before a recalled unit goes into its
  /// slot.
  virtual void FillKeys(uint32_t layer, uint32_t head, uint32_t page,
                        std::span<std::byte> keys) const = 0;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_KEY_SOURCE_H_
