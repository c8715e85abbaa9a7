// SPDX-License-Identifier: Apache-2.0
//
// UrgentQueue: the order of waiters for one resource. The most urgent goes first; equal ones go in
// order of arrival. The oldest of all goes after kOvertakes others in a row have overtaken it, so
// no waiter starves. A pure policy: no threads, no clock. Thread-safety: none; its user holds a
// mutex.
#ifndef QUIRE_COMMON_BASE_THREADS_URGENT_QUEUE_H_
#define QUIRE_COMMON_BASE_THREADS_URGENT_QUEUE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>

#include "quire/priority.h"

namespace quire {

template <typename T>
class UrgentQueue {
 public:
  static constexpr uint32_t kOvertakes = 7;

  void Push(T value, Priority priority) {
    of_priority_[static_cast<size_t>(priority)].push_back({arrivals_++, std::move(value)});
    ++size_;
  }
  /// Returns the next entry. REQUIRES, as for Pop: !empty().
  const T& Next() const { return of_priority_[NextPriority()].front().value; }
  /// Priority of the next entry.
  Priority next_priority() const { return static_cast<Priority>(NextPriority()); }
  T Pop() {
    const size_t next = NextPriority();
    overtaken_ = next == OldestPriority() ? 0 : overtaken_ + 1;
    T value = std::move(of_priority_[next].front().value);
    of_priority_[next].pop_front();
    --size_;
    return value;
  }
  /// Removes the last entry in order, if it is less urgent than `priority`.
  std::optional<T> PopLessUrgent(Priority priority) {
    for (size_t i = 0; i < static_cast<size_t>(priority); ++i) {
      if (of_priority_[i].empty()) continue;
      T value = std::move(of_priority_[i].back().value);
      of_priority_[i].pop_back();
      --size_;
      return value;
    }
    return std::nullopt;
  }
  /// Promotes to `priority` all less urgent entries that it must not overtake. Those are the
  /// entries for which `holds_back` is true, and all entries before the last of them.
  template <typename HoldsBack>
  void Promote(Priority priority, HoldsBack holds_back) {
    const std::span<Entries> less_urgent(of_priority_.data(), static_cast<size_t>(priority));
    uint64_t end = 0;  // End of the arrivals to promote.
    for (const Entries& entries : less_urgent) {
      for (const Entry& entry : entries) {
        if (entry.arrival >= end && holds_back(entry.value)) end = entry.arrival + 1;
      }
    }
    Entries& lifted = of_priority_[static_cast<size_t>(priority)];
    const size_t before = lifted.size();
    for (Entries& entries : less_urgent) {
      for (; !entries.empty() && entries.front().arrival < end; entries.pop_front()) {
        lifted.push_back(std::move(entries.front()));
      }
    }
    if (lifted.size() > before) std::ranges::sort(lifted, {}, &Entry::arrival);
  }
  /// Removes a waiter that gave up. REQUIRES: it waits.
  void Erase(const T& value) {
    for (Entries& entries : of_priority_) {
      size_ -= std::erase_if(entries, [&](const Entry& entry) { return entry.value == value; });
    }
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  struct Entry {
    uint64_t arrival;
    T value;
  };
  using Entries = std::deque<Entry>;

  size_t OldestPriority() const {
    size_t oldest = kNumPriorities;
    for (size_t i = 0; i < kNumPriorities; ++i) {
      if (of_priority_[i].empty()) continue;
      if (oldest == kNumPriorities ||
          of_priority_[i].front().arrival < of_priority_[oldest].front().arrival) {
        oldest = i;
      }
    }
    return oldest;
  }
  size_t NextPriority() const {
    if (overtaken_ >= kOvertakes) return OldestPriority();
    size_t urgent = kNumPriorities - 1;
    while (of_priority_[urgent].empty()) --urgent;
    return urgent;
  }

  std::array<Entries, kNumPriorities> of_priority_;
  size_t size_ = 0;
  uint64_t arrivals_ = 0;
  uint32_t overtaken_ = 0;  ///< Entries in a row that overtook the oldest.
};

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_THREADS_URGENT_QUEUE_H_
