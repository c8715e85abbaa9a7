// SPDX-License-Identifier: Apache-2.0
#include "transport/otlp/span_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace quire {

void SpanQueue::Take(SpanRecord span) {
  MutexLock lock(mutex_);
  if (ended_ || spans_.size() >= limits_.queue) return dropped_.Add();
  spans_.push_back(std::move(span));
  // The first one starts the delay.
  if (spans_.size() == 1 || spans_.size() == limits_.batch) due_.NotifyAll();
}

std::vector<SpanRecord> SpanQueue::Next() {
  MutexLock lock(mutex_);
  while (!ended_ && spans_.empty()) due_.Wait(mutex_);
  const TimePoint end = SystemClock().Now() + limits_.delay;
  for (TimePoint now = SystemClock().Now(); !IsDue() && now < end; now = SystemClock().Now()) {
    (void)due_.WaitFor(mutex_, std::min<Duration>(end - now, kLongestWait));
  }
  const auto last = spans_.begin() + static_cast<ptrdiff_t>(std::min(spans_.size(), limits_.batch));
  std::vector<SpanRecord> batch(std::make_move_iterator(spans_.begin()),
                                std::make_move_iterator(last));
  spans_.erase(spans_.begin(), last);
  return batch;
}

bool SpanQueue::AwaitEnd(Duration most) {
  const TimePoint end = SystemClock().Now() + most;
  MutexLock lock(mutex_);
  for (TimePoint now = SystemClock().Now(); !ended_ && now < end; now = SystemClock().Now()) {
    (void)due_.WaitFor(mutex_, std::min<Duration>(end - now, kLongestWait));
  }
  return ended_;
}

void SpanQueue::End() {
  MutexLock lock(mutex_);
  ended_ = true;
  due_.NotifyAll();
}

}  // namespace quire
