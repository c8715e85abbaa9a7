// SPDX-License-Identifier: Apache-2.0
//
// FrameOrder: sorts numbered items that arrive in any order. It is bounded, because the numbers
// come from outside. Thread-safety: none.
#ifndef QUIRE_TRANSPORT_UCX_FRAMES_FRAME_ORDER_H_
#define QUIRE_TRANSPORT_UCX_FRAMES_FRAME_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "quire/status.h"

namespace quire {

template <typename T>
class FrameOrder {
 public:
  explicit FrameOrder(size_t max_waiting) : max_waiting_(max_waiting) {}

  /// Number of items passed.
  uint64_t passed() const { return next_; }
  bool IsNext(uint64_t sequence) const { return sequence == next_; }
  void Pass() { ++next_; }
  /// Keeps an item that arrived early. INVALID_ARGUMENT when its number was there before, or is
  /// further ahead than a correct peer can be.
  Status Keep(uint64_t sequence, T item) {
    if (sequence < next_ || sequence - next_ > max_waiting_) {
      return InvalidArgument("frame ", sequence, " came when ", next_, " was the next");
    }
    if (!waiting_.emplace(sequence, std::move(item)).second) {
      return InvalidArgument("frame ", sequence, " came twice");
    }
    return OkStatus();
  }
  /// Takes and passes the next item, if it has arrived.
  std::optional<T> TakeNext() {
    const auto first = waiting_.begin();
    if (first == waiting_.end() || first->first != next_) return std::nullopt;
    std::optional<T> item(std::move(first->second));
    waiting_.erase(first);
    Pass();
    return item;
  }

 private:
  const size_t max_waiting_;
  uint64_t next_ = 0;
  std::map<uint64_t, T> waiting_;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_UCX_FRAMES_FRAME_ORDER_H_
