// SPDX-License-Identifier: Apache-2.0
//
// TCP connections that do not leave this host, and how they are tuned. UCX and gRPC give no socket
// away: what is tuned is found by what the kernel tells of this process's descriptors.
// Thread-safety: any thread.
#ifndef QUIRE_TRANSPORT_NET_LOCAL_SOCKETS_H_
#define QUIRE_TRANSPORT_NET_LOCAL_SOCKETS_H_

#include <sys/types.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace quire {

/// Those of a process, at some moment; none when they may not be seen.
std::vector<int> OpenDescriptors(pid_t process);

/// Whether `descriptor` is a TCP connection with both ends at one address of this host.
bool IsLocalConnection(int descriptor);

/// Gives a TCP socket a congestion control that does not pace what is sent. Within a host there is
/// no congestion, and pacing, as by bbr, costs a third of the speed. What is not permitted stays as
/// it was.
void DoNotPace(int descriptor);

/// The port at the end of "127.0.0.1:80", "[::1]:80", or what gRPC calls a peer ("ipv4:" before
/// them); 0 when there is none.
uint16_t PortOf(std::string_view address);

/// DoNotPace for this process's connections within the host whose other end has `peer_port`; none
/// for port 0. Looks at all descriptors of the process: for connections that are made and stay.
void DoNotPaceLocalConnectionsTo(uint16_t peer_port);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_NET_LOCAL_SOCKETS_H_
