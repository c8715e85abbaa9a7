// SPDX-License-Identifier: Apache-2.0
//
// Tuning of TCP connections within this host. UCX and gRPC do not expose their sockets, so this
// finds them among the process's descriptors.
// Thread-safety: any thread.
#ifndef QUIRE_TRANSPORT_NET_LOCAL_SOCKETS_H_
#define QUIRE_TRANSPORT_NET_LOCAL_SOCKETS_H_

#include <sys/types.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace quire {

/// The open descriptors of a process; empty when they cannot be read.
std::vector<int> OpenDescriptors(pid_t process);

/// True if `descriptor` is a TCP connection with both ends at one address of this host.
bool IsLocalConnection(int descriptor);

/// Gives a TCP socket a congestion control that does not pace. There is no congestion within a
/// host, and pacing, as by bbr, costs a third of the speed. Changes nothing when not permitted.
void DoNotPace(int descriptor);

/// The port at the end of "127.0.0.1:80", "[::1]:80", or a peer name of gRPC, which begins with
/// "ipv4:"; 0 if there is none.
uint16_t PortOf(std::string_view address);

/// Calls DoNotPace for this process's connections within the host whose other end has `peer_port`;
/// does nothing for port 0. Scans all descriptors of the process: use it for long-lived
/// connections.
void DoNotPaceLocalConnectionsTo(uint16_t peer_port);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_NET_LOCAL_SOCKETS_H_
