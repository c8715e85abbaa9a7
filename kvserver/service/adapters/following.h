// SPDX-License-Identifier: Apache-2.0
//
// Calls that wait for events: what they may ask for, and how long they wait. Request is a message
// with max_events, wait_millis, from_now and after. Pure functions, but for the clock.
#ifndef QUIRE_KVSERVER_SERVICE_ADAPTERS_FOLLOWING_H_
#define QUIRE_KVSERVER_SERVICE_ADAPTERS_FOLLOWING_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "common/wire/limits.h"
#include "kvserver/service/dispatcher.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::kvserver {

/// INVALID_ARGUMENT for what is out of its range, or names two positions.
template <typename Request>
Status CheckFollowing(const Request& request) {
  if (request.max_events() > wire::kMaxWatchedEvents) {
    return InvalidArgument("max_events is ", request.max_events(), ": must be 1..",
                           wire::kMaxWatchedEvents);
  }
  if (request.wait_millis() > wire::kMaxWatchMillis) {
    return InvalidArgument("wait_millis is ", request.wait_millis(), ": must be at most ",
                           wire::kMaxWatchMillis);
  }
  if (request.from_now() && request.after() != 0) {
    return InvalidArgument("after is ", request.after(), ", and from_now asks for another ",
                           "position; give one of them");
  }
  return OkStatus();
}

/// Events of a reply.
template <typename Request>
uint32_t EventsOf(const Request& request) {
  constexpr uint32_t kDefault = 100;
  return request.max_events() == 0 ? kDefault : request.max_events();
}

/// When the wait for a first event is over. Part of the call's time is left for the reply.
template <typename Request>
TimePoint EndOfWait(const Call& call, const Request& request) {
  constexpr Duration kReplyTime = std::chrono::milliseconds(50);
  return std::min(SystemClock().Now() + std::chrono::milliseconds(request.wait_millis()),
                  call.context.deadline - kReplyTime);
}

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_ADAPTERS_FOLLOWING_H_
