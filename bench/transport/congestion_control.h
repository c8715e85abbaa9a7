// SPDX-License-Identifier: Apache-2.0
//
// Congestion control of contenders over loopback: the rivals get one that does not pace, as our own
// connections do, and what every program's connections really had is read from the kernel.
// Thread-safety: none.
#ifndef QUIRE_BENCH_TRANSPORT_CONGESTION_CONTROL_H_
#define QUIRE_BENCH_TRANSPORT_CONGESTION_CONTROL_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire::bench {

/// The shared library of loopback_congestion.c.
extern const std::string_view kLoopbackCongestion;

/// What a program's environment needs for it, as Process::Start takes it: the library is written to
/// `directory`, which the program's life is within. Nothing where it cannot be written.
std::vector<std::string> UnpacedEnvironment(const std::string& directory);

/// What connections of this host have unless they are told otherwise; "unknown" where the kernel
/// does not tell.
std::string HostCongestionControl();

/// What a process sends over TCP.
class TcpSenders {
 public:
  /// Counts from now. The process is this one or one that it has started.
  explicit TcpSenders(pid_t pid) : pid_(pid), before_(Now()) {}
  /// The congestion controls of the connections that have sent a MiB or more since: "cubic", or
  /// "bbr,cubic"; "none" when there is no such connection, and "unknown" where this process may not
  /// look into that one.
  std::string CongestionControls() const;

 private:
  struct Connection {
    uint64_t sent_bytes = 0;
    std::string congestion_control;
  };
  using Connections = std::map<uint64_t, Connection>;  ///< By inode of the socket.
  std::optional<Connections> Now() const;              ///< nullopt where it may not be seen.

  pid_t pid_;
  std::optional<Connections> before_;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRANSPORT_CONGESTION_CONTROL_H_
