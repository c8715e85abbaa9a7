// SPDX-License-Identifier: Apache-2.0
//
// UCX with shared-memory lanes, by which a server writes into landings as it does by RDMA. These
// lanes do not report dead peers, so no program uses them. Tests request them at both ends.
#ifndef QUIRE_TESTS_INTEGRATION_DIRECT_UCX_H_
#define QUIRE_TESTS_INTEGRATION_DIRECT_UCX_H_

#include <span>

#include "client/data/pipe_dialers.h"
#include "transport/ucx/ucx.h"

namespace quire::testing {

inline UcxOptions DirectUcxOptions() {
  return {.peer_failure_detection = false, .direct_landings = true, .transports = "posix,tcp"};
}

/// For DataSeams::dialers.
inline std::span<const internal::PipeDialer> DirectUcxDialers() {
  static constexpr internal::PipeDialer kDialers[] = {
      {"ucx", [](const internal::DialTarget& target) {
         UcxOptions options = DirectUcxOptions();
         options.max_frame_bytes = target.max_message_bytes + kMaxFrameHeadBytes;
         options.connect_timeout = target.timeout;
         return ConnectUcx(target.address, options);
       }}};
  return kDialers;
}

}  // namespace quire::testing

#endif  // QUIRE_TESTS_INTEGRATION_DIRECT_UCX_H_
