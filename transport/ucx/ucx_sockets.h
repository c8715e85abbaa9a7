// SPDX-License-Identifier: Apache-2.0
//
// The TCP sockets of a UCX worker. UCX has no call that lists or configures them; they are those
// that the worker's event descriptor waits for, which the kernel tells (proc(5), fdinfo). Nobody
// else's sockets are touched. Thread-safety: of the worker's thread.
#ifndef QUIRE_TRANSPORT_UCX_UCX_SOCKETS_H_
#define QUIRE_TRANSPORT_UCX_UCX_SOCKETS_H_

#include <vector>

namespace quire {

/// The descriptors that the epoll descriptor `event_fd` waits for, and those that the epoll
/// descriptors among them wait for; without these themselves. Empty where the kernel does not tell.
std::vector<int> DescriptorsBehind(int event_fd);

/// Tunes the TCP connections behind `event_fd` that do not leave this host. They get a congestion
/// control that does not pace what is sent: there is no congestion, and pacing costs a third of the
/// speed. And what waits to be received is kept within the processor's caches, where the system
/// would let it grow to many megabytes. What is not permitted stays as it was.
void TuneLocalConnections(int event_fd);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_UCX_UCX_SOCKETS_H_
