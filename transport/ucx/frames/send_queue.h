// SPDX-License-Identifier: Apache-2.0
//
// SendQueue: frames that a pipe has accepted and not yet handed to its device, and the choice of
// the next one.
//
// - The most urgent frame goes first, by the rule of UrgentQueue; among equals, the oldest.
// - A frame that overlaps less urgent frames in the landing stays behind them. They go as early as
//   it does.
// - A device sends in the order in which it gets frames. A frame therefore waits while the device
//   holds a bound of unfinished bytes that are at least as urgent.
//
// A policy without I/O.
// Thread-safety: none; its user holds a mutex.
#ifndef QUIRE_TRANSPORT_UCX_FRAMES_SEND_QUEUE_H_
#define QUIRE_TRANSPORT_UCX_FRAMES_SEND_QUEUE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "common/base/threads/urgent_queue.h"
#include "quire/priority.h"
#include "transport/frame_pipe.h"
#include "transport/ucx/frames/frame_ranges.h"

namespace quire {

class SendQueue {
 public:
  struct Item {
    Frame frame;
    FrameRanges ranges = {};  ///< Bytes of a landing that the frame is for.
    uint64_t bytes = 0;       ///< Bytes that the frame counts as.
  };

  /// At least one frame of each priority may be handed over, whatever `max_given_bytes` is.
  explicit SendQueue(uint64_t max_given_bytes) : max_given_bytes_(max_given_bytes) {}

  void Push(Item item) {
    const Priority priority = item.frame.priority;
    if (!item.ranges.empty() && BytesBehind(priority) > 0) {
      waiting_.Promote(priority,
                       [&](const Item& other) { return item.ranges.Overlap(other.ranges); });
    }
    waiting_bytes_[Index(priority)] += item.bytes;
    waiting_.Push(std::move(item), priority);
  }
  /// True if a frame may be handed over now.
  bool HasNext() const {
    if (waiting_.empty()) return false;
    uint64_t given = 0;
    for (size_t i = Index(waiting_.next_priority()); i < kNumPriorities; ++i) given += given_[i];
    return given == 0 || given < max_given_bytes_;
  }
  /// Takes the next frame, which counts as handed over; works beyond the bound too. REQUIRES:
  /// !empty().
  Item Pop() {
    Item item = waiting_.Pop();
    waiting_bytes_[Index(item.frame.priority)] -= item.bytes;
    given_[Index(item.frame.priority)] += item.bytes;
    return item;
  }
  /// Notes that the device has finished a frame of that priority, which counted as `bytes`.
  void Done(Priority priority, uint64_t bytes) { given_[Index(priority)] -= bytes; }
  /// Drops all waiting frames.
  void Clear() {
    waiting_ = {};
    waiting_bytes_ = {};
  }

  bool empty() const { return waiting_.empty(); }
  /// Bytes of waiting frames that are less urgent.
  uint64_t BytesBehind(Priority priority) const {
    uint64_t bytes = 0;
    for (size_t i = 0; i < Index(priority); ++i) bytes += waiting_bytes_[i];
    return bytes;
  }

 private:
  using Bytes = std::array<uint64_t, kNumPriorities>;
  static size_t Index(Priority priority) { return static_cast<size_t>(priority); }

  const uint64_t max_given_bytes_;
  UrgentQueue<Item> waiting_;
  Bytes waiting_bytes_ = {};
  Bytes given_ = {};
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_UCX_FRAMES_SEND_QUEUE_H_
