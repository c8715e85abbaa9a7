// SPDX-License-Identifier: Apache-2.0
//
// SpanQueue: ended spans that wait to be sent. It is bounded: further spans are dropped and
// counted, so a collector that is away costs no memory and no time.
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_TRANSPORT_OTLP_SPAN_QUEUE_H_
#define QUIRE_TRANSPORT_OTLP_SPAN_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "common/base/observe/counters.h"
#include "common/base/threads/mutex.h"
#include "common/base/trace/tracer.h"
#include "quire/clock.h"

namespace quire {

class SpanQueue final : public SpanSink {
 public:
  struct Limits {
    size_t queue;    ///< Spans that wait at most.
    size_t batch;    ///< Most spans of one Next.
    Duration delay;  ///< How long a span waits for others.
  };
  explicit SpanQueue(const Limits& limits) : limits_(limits) {}

  void Take(SpanRecord span) override QUIRE_EXCLUDES(mutex_);
  void NoteDropped() override { dropped_.Add(); }
  /// Counts `spans` that were taken, and cannot be sent.
  void Drop(uint64_t spans) { dropped_.Add(spans); }

  /// Waits for a full batch, or for the delay of its first span, or for the end. Empty at the end,
  /// once nothing is left.
  std::vector<SpanRecord> Next() QUIRE_EXCLUDES(mutex_);
  /// Waits until the end, `most` at most; true once it is there.
  bool AwaitEnd(Duration most) QUIRE_EXCLUDES(mutex_);
  /// Ends all waits. Further spans are dropped.
  void End() QUIRE_EXCLUDES(mutex_);

  uint64_t dropped() const { return dropped_.Get(); }

 private:
  bool IsDue() const QUIRE_REQUIRES(mutex_) { return ended_ || spans_.size() >= limits_.batch; }

  const Limits limits_;
  Counter dropped_;
  Mutex mutex_;
  CondVar due_;
  bool ended_ QUIRE_GUARDED_BY(mutex_) = false;
  std::deque<SpanRecord> spans_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_OTLP_SPAN_QUEUE_H_
