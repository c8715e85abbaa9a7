// SPDX-License-Identifier: Apache-2.0
//
// Preloaded into rivals that the benchmark starts (LD_PRELOAD): their TCP sockets get a congestion
// control that does not pace, as ours do within a host (transport/net/local_sockets.h). Sockets
// that a listening one accepts inherit it. What is not permitted stays as it was.
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static void DoNotPace(int descriptor) {
  if (setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5) == 0) return;
  (void)setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

int socket(int domain, int type, int protocol) {
  const int descriptor = (int)syscall(SYS_socket, domain, type, protocol);
  const int kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (descriptor >= 0 && kind == SOCK_STREAM && (domain == AF_INET || domain == AF_INET6)) {
    const int error = errno;
    DoNotPace(descriptor);
    errno = error;
  }
  return descriptor;
}
