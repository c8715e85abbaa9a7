// SPDX-License-Identifier: Apache-2.0
//
// Congestion control of contenders over loopback. The rivals get one that does not pace, as our own
// connections do. The actual one of every program's connections is read from the kernel.
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

/// The environment of a program that uses it, for Process::Start. Writes the library to
/// `directory`, which must outlive the program. Empty if it cannot be written.
std::vector<std::string> UnpacedEnvironment(const std::string& directory);

/// The default of connections on this host; "unknown" if the kernel does not report it.
std::string HostCongestionControl();

/// TCP connections that a process sends on.
class TcpSenders {
 public:
  /// Counts from now. The process is this one or a child.
  explicit TcpSenders(pid_t pid) : pid_(pid), before_(Now()) {}
  /// The congestion controls of the connections that have since sent at least a MiB: "cubic", or
  /// "bbr,cubic". "none" without such a connection, and "unknown" if this process may not inspect
  /// the other.
  std::string CongestionControls() const;

 private:
  struct Connection {
    uint64_t sent_bytes = 0;
    std::string congestion_control;
  };
  using Connections = std::map<uint64_t, Connection>;  ///< By inode of the socket.
  /// Null if this process may not inspect the other.
  std::optional<Connections> Now() const;

  pid_t pid_;
  std::optional<Connections> before_;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRANSPORT_CONGESTION_CONTROL_H_
