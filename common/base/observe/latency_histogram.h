// SPDX-License-Identifier: Apache-2.0
//
// LatencyHistogram: durations, in fixed memory. Buckets are log-linear, eight for each power of two
// nanoseconds. A quantile is never below the true one and at most 12.5 % above it. The last bucket
// takes everything beyond 2^40 ns (18 minutes). The maximum is exact.
//
// Thread-safety: all methods may be called concurrently without locks. A snapshot may miss records
// made meanwhile. Units: nanoseconds.
#ifndef QUIRE_COMMON_BASE_OBSERVE_LATENCY_HISTOGRAM_H_
#define QUIRE_COMMON_BASE_OBSERVE_LATENCY_HISTOGRAM_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "quire/clock.h"

namespace quire {

class LatencyHistogram {
 public:
  static constexpr uint32_t kMaxBits = 40;
  static constexpr size_t kBuckets = (kMaxBits - 2) * 8;

  /// Bucket of `nanos`. Bucket i counts the times in (UpperBound(i - 1), UpperBound(i)].
  static constexpr size_t BucketOf(uint64_t nanos) {
    constexpr uint64_t kLargest = (uint64_t{1} << kMaxBits) - 1;
    const uint64_t below = std::min(nanos - (nanos > 0 ? 1 : 0), kLargest);
    if (below < 8) return below;
    const auto shift = static_cast<uint32_t>(std::bit_width(below)) - 4;
    return (size_t{shift} << 3) + (below >> shift);
  }
  /// The longest time that bucket `i` counts. Powers of two from 1 on are bounds.
  static constexpr uint64_t UpperBound(size_t i) {
    if (i < 16) return i + 1;
    return uint64_t{8 + (i & 7) + 1} << ((i >> 3) - 1);
  }

  /// A copy of the counts. A plain value.
  struct Snapshot {
    std::array<uint64_t, kBuckets> counts{};
    uint64_t sum_nanos = 0;
    uint64_t max_nanos = 0;

    uint64_t count() const { return CountUpTo(UINT64_MAX); }
    /// Returns the number of times of at most `nanos`. REQUIRES: UpperBound of some bucket, or more
    /// than any.
    uint64_t CountUpTo(uint64_t nanos) const {
      uint64_t count = 0;
      for (size_t i = 0; i < kBuckets && UpperBound(i) <= nanos; ++i) count += counts[i];
      return count;
    }
    /// Returns an upper bound of the share `q`, in [0, 1], of all times; 0 when there are none.
    uint64_t Quantile(double q) const {
      const uint64_t all = count();
      const auto rank =
          std::clamp<uint64_t>(static_cast<uint64_t>(std::ceil(q * static_cast<double>(all))), 1,
                               std::max(all, uint64_t{1}));
      uint64_t seen = 0;
      for (size_t i = 0; i + 1 < kBuckets; ++i) {
        seen += counts[i];
        if (seen >= rank) return std::min(UpperBound(i), max_nanos);
      }
      return max_nanos;
    }
    /// Adds the counts of `other`.
    void Merge(const Snapshot& other) {
      for (size_t i = 0; i < kBuckets; ++i) counts[i] += other.counts[i];
      sum_nanos += other.sum_nanos;
      max_nanos = std::max(max_nanos, other.max_nanos);
    }
  };

  /// Counts one time. A negative time counts as zero.
  void Record(Duration time) {
    const auto nanos = static_cast<uint64_t>(std::max<int64_t>(time.count(), 0));
    counts_[BucketOf(nanos)].fetch_add(1, std::memory_order_relaxed);
    sum_nanos_.fetch_add(nanos, std::memory_order_relaxed);
    uint64_t max = max_nanos_.load(std::memory_order_relaxed);
    while (nanos > max &&
           !max_nanos_.compare_exchange_weak(max, nanos, std::memory_order_relaxed)) {
    }
  }

  Snapshot Read() const {
    Snapshot snapshot;
    for (size_t i = 0; i < kBuckets; ++i) {
      snapshot.counts[i] = counts_[i].load(std::memory_order_relaxed);
    }
    snapshot.sum_nanos = sum_nanos_.load(std::memory_order_relaxed);
    snapshot.max_nanos = max_nanos_.load(std::memory_order_relaxed);
    return snapshot;
  }

 private:
  std::array<std::atomic<uint64_t>, kBuckets> counts_{};
  std::atomic<uint64_t> sum_nanos_{0};
  std::atomic<uint64_t> max_nanos_{0};
};

/// Records the time between its construction and destruction. `histogram` and `clock` outlive it.
class LatencyTimer {
 public:
  LatencyTimer(LatencyHistogram& histogram, const Clock& clock)
      : histogram_(&histogram), clock_(clock), start_(clock.Now()) {}
  ~LatencyTimer() { histogram_->Record(clock_.Now() - start_); }
  LatencyTimer(const LatencyTimer&) = delete;
  LatencyTimer& operator=(const LatencyTimer&) = delete;

  /// Records in `histogram` instead, when the operation turns out to be of another kind.
  void CountAs(LatencyHistogram& histogram) { histogram_ = &histogram; }

 private:
  LatencyHistogram* histogram_;
  const Clock& clock_;
  const TimePoint start_;
};

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_OBSERVE_LATENCY_HISTOGRAM_H_
