// SPDX-License-Identifier: Apache-2.0
//
// NearestAnswer: finds the nearest node that answers. Nodes are asked in their order. The next one
// is asked too when those before have not answered for a moment, so that a node that hangs costs
// that moment only.
#ifndef QUIRE_CLIENT_ROUTING_NEAREST_ANSWER_H_
#define QUIRE_CLIENT_ROUTING_NEAREST_ANSWER_H_

#include <google/protobuf/message.h>

#include <chrono>
#include <span>
#include <string>
#include <string_view>

#include "client/routing/cluster_members.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::internal {

/// Time after which the next node is asked, too.
inline constexpr Duration kNextNodeAfter = std::chrono::milliseconds(100);

/// True for an error that says that a node did not answer.
[[nodiscard]] inline bool IsSilence(const Status& status) {
  return IsUnavailable(status) || IsDeadlineExceeded(status);
}

/// The first of `addresses` whose node answers the call, whatever it says. When two answer at the
/// same time, the nearer one counts. UNAVAILABLE when none answers in its time.
[[nodiscard]] StatusOr<std::string> NearestToAnswer(ClusterMembers* members,
                                                    std::span<const std::string> addresses,
                                                    std::string_view method,
                                                    const google::protobuf::Message& request);

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_ROUTING_NEAREST_ANSWER_H_
