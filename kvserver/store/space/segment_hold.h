// SPDX-License-Identifier: Apache-2.0
//
// SegmentHold: keeps segments stored while it lives. Contexts, sessions and puts in flight have
// one. While a segment is held, no delete removes it and no eviction takes it. A delete made
// meanwhile takes effect when the last hold is released, in the destructor.
//
// Ownership: its owner, the store, outlives it. Thread-safety: none; release it on any thread that
// holds no lock of the store.
#ifndef QUIRE_KVSERVER_STORE_SPACE_SEGMENT_HOLD_H_
#define QUIRE_KVSERVER_STORE_SPACE_SEGMENT_HOLD_H_

#include <span>
#include <utility>
#include <vector>

#include "quire/key.h"

namespace quire::kvserver {

class SegmentHold {
 public:
  /// Counter of holds.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// Releases one hold of each of `keys`, in order of their chain.
    virtual void ReleaseSegments(std::span<const SegmentKey> keys) = 0;
  };

  /// Holds nothing.
  SegmentHold() = default;
  /// `owner` has counted one hold of each of `keys`.
  SegmentHold(Owner* owner, std::vector<SegmentKey> keys) : owner_(owner), keys_(std::move(keys)) {}
  ~SegmentHold() { Release(); }
  SegmentHold(SegmentHold&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)), keys_(std::exchange(other.keys_, {})) {}
  SegmentHold& operator=(SegmentHold&& other) noexcept {
    if (this == &other) return *this;
    Release();
    owner_ = std::exchange(other.owner_, nullptr);
    keys_ = std::exchange(other.keys_, {});
    return *this;
  }

  /// Takes over the holds of `other`, which has the same owner.
  void Add(SegmentHold other) {
    if (other.owner_ == nullptr) return;
    owner_ = std::exchange(other.owner_, nullptr);
    keys_.insert(keys_.end(), other.keys_.begin(), other.keys_.end());
  }
  /// Releases all holds.
  void Release() {
    Owner* const owner = std::exchange(owner_, nullptr);
    const std::vector<SegmentKey> keys = std::exchange(keys_, {});
    if (owner != nullptr && !keys.empty()) owner->ReleaseSegments(keys);
  }

  /// Leaves the holds counted. The caller returns them to the owner.
  void Detach() {
    owner_ = nullptr;
    keys_.clear();
  }

  std::span<const SegmentKey> keys() const { return keys_; }

 private:
  Owner* owner_ = nullptr;
  std::vector<SegmentKey> keys_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_SPACE_SEGMENT_HOLD_H_
