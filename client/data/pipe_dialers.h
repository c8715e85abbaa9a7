// SPDX-License-Identifier: Apache-2.0
//
// The kinds of data connections that this build can make, as a table: one row for each pipe.
#ifndef QUIRE_CLIENT_DATA_PIPE_DIALERS_H_
#define QUIRE_CLIENT_DATA_PIPE_DIALERS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "quire/bearer_token.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "transport/frame_pipe.h"

namespace quire::internal {

struct DialTarget {
  std::string address;  ///< As ReachableAddress gave it.
  uint64_t max_message_bytes = 0;
  Duration timeout = Duration::zero();
  bool direct_landings = false;  ///< DataOptions::direct_landings.
  std::string tenant = "default";
  BearerToken token = {};  ///< The tenant's; for kinds that use the control channel's port.
};
struct PipeDialer {
  std::string_view kind;  ///< "shm", "ucx", "grpc"
  StatusOr<std::unique_ptr<FramePipe>> (*dial)(const DialTarget& target);
};
/// All dialers of this build.
std::span<const PipeDialer> PipeDialers();

/// Address for an offer of `offered`, with the control channel at `control`. An empty offer means
/// `control`. If the server listens on all addresses, the host is that of `control`.
std::string ReachableAddress(const std::string& offered, const std::string& control);

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_DATA_PIPE_DIALERS_H_
