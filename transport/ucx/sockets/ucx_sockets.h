// SPDX-License-Identifier: Apache-2.0
//
// The TCP sockets of a UCX worker. UCX has no call that lists or configures them. They are found as
// the descriptors that the worker's event descriptor waits for (proc(5), fdinfo). No other sockets
// are touched. Thread-safety: for the worker's thread.
#ifndef QUIRE_TRANSPORT_UCX_SOCKETS_UCX_SOCKETS_H_
#define QUIRE_TRANSPORT_UCX_SOCKETS_UCX_SOCKETS_H_

#include <vector>

namespace quire {

/// The descriptors that the epoll descriptor `event_fd` waits for, directly or through other epoll
/// descriptors; without the epoll descriptors themselves. Empty where the kernel does not report
/// them.
std::vector<int> DescriptorsBehind(int event_fd);

/// Tunes the TCP connections behind `event_fd` within this host. They get a congestion control that
/// does not pace: there is no congestion, and pacing costs a third of the speed. Their receive
/// buffers stay within the size of the processor's caches, where the system would grow them to many
/// megabytes. Changes nothing when not permitted.
void TuneLocalConnections(int event_fd);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_UCX_SOCKETS_UCX_SOCKETS_H_
