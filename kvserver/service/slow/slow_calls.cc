// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/slow/slow_calls.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace quire::kvserver {

void SlowCalls::Note(SlowCall call) {
  const int64_t now = MinuteNow();
  MutexLock lock(mutex_);
  Minute& minute = minutes_[static_cast<size_t>(now) % kMinutes];
  if (minute.number > now) return;  // The thread was away for an hour.
  if (minute.number < now) minute = {.number = now, .calls = {}};
  std::vector<SlowCall>& calls = minute.calls;
  calls.push_back(std::move(call));
  std::ranges::push_heap(calls, std::greater<>(), &SlowCall::time);
  if (calls.size() > kPerMinute) {
    std::ranges::pop_heap(calls, std::greater<>(), &SlowCall::time);
    calls.pop_back();
  }
  minute_.store(now, std::memory_order_relaxed);
  floor_.store(calls.size() < kPerMinute ? 0 : calls.front().time.count(),
               std::memory_order_relaxed);
}

std::vector<SlowCall> SlowCalls::Slowest(size_t most, std::string_view tenant) const {
  const int64_t oldest = MinuteNow() - static_cast<int64_t>(kMinutes);
  std::vector<SlowCall> slowest;
  {
    MutexLock lock(mutex_);
    for (const Minute& minute : minutes_) {
      if (minute.number <= oldest) continue;
      for (const SlowCall& call : minute.calls) {
        if (tenant.empty() || call.tenant == tenant) slowest.push_back(call);
      }
    }
  }
  std::ranges::sort(slowest, std::greater<>(), &SlowCall::time);
  if (slowest.size() > most) slowest.resize(most);
  return slowest;
}

}  // namespace quire::kvserver
