// SPDX-License-Identifier: Apache-2.0
//
// ConnectDataOnce: the client's choice of how pages come. It gets the server's offers over the
// control channel, and tries them in the server's order. It reports the one taken, and why others
// were not.
#ifndef QUIRE_CLIENT_DATA_DATA_CONNECTION_H_
#define QUIRE_CLIENT_DATA_DATA_CONNECTION_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "client/data/pipe_dialers.h"
#include "common/base/host_id.h"
#include "quire/clock.h"
#include "quire/connect.h"
#include "quire/status.h"
#include "transport/transport.h"

namespace quire::internal {

/// Surroundings of a connection: host and dialers. Tests replace them.
struct DataSeams {
  std::string host_id = ReadHostId();  ///< Host of this process.
  std::span<const PipeDialer> dialers = PipeDialers();
};

/// Connects once, and gives up at `deadline` (SystemClock()), whatever steps are left. Errors:
/// INVALID_ARGUMENT for an unknown transport; UNAVAILABLE, with the reason of each offer, when none
/// works; DEADLINE_EXCEEDED; those of the control channel. A server without data connections
/// answers UNIMPLEMENTED. Ownership: the connection keeps `control`, over which landings are
/// announced. Thread-safety: as often and from as many threads as wanted.
[[nodiscard]] StatusOr<DataConnection> ConnectDataOnce(const std::shared_ptr<Transport>& control,
                                                       const DataOptions& options,
                                                       TimePoint deadline = TimePoint::max(),
                                                       const DataSeams& seams = {});

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_DATA_DATA_CONNECTION_H_
