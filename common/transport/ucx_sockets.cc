// SPDX-License-Identifier: Apache-2.0
#include "common/transport/ucx_sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <fstream>
#include <string>
#include <string_view>

namespace quire {
namespace {

/// Of those that do not pace, the best that every user may choose.
constexpr std::string_view kUnpaced[] = {"cubic", "reno"};
constexpr int kReceiveBytes = 1 << 20;
constexpr int kMaxNesting = 4;

/// "tfd:       31 events: ..." for every descriptor that an epoll descriptor waits for.
std::vector<int> WaitedFor(int epoll_fd) {
  std::vector<int> descriptors;
  std::ifstream info("/proc/self/fdinfo/" + std::to_string(epoll_fd));
  std::string word;
  while (info >> word) {
    int descriptor = -1;
    if (word == "tfd:" && info >> descriptor) descriptors.push_back(descriptor);
  }
  return descriptors;
}

void AddBehind(int event_fd, int nesting, std::vector<int>* found) {
  for (const int descriptor : WaitedFor(event_fd)) {
    if (nesting > 0 && !WaitedFor(descriptor).empty()) {
      AddBehind(descriptor, nesting - 1, found);
    } else {
      found->push_back(descriptor);
    }
  }
}

/// An address without its port; empty where there is none.
std::string HostOf(int descriptor, int (*name)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage address = {};
  socklen_t bytes = sizeof address;
  if (name(descriptor, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return {};
  char text[INET6_ADDRSTRLEN] = {};
  const void* const host =
      address.ss_family == AF_INET6
          ? static_cast<const void*>(&reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr)
          : &reinterpret_cast<sockaddr_in*>(&address)->sin_addr;
  if (address.ss_family != AF_INET && address.ss_family != AF_INET6) return {};
  return inet_ntop(address.ss_family, host, text, sizeof text);
}

bool IsLocalConnection(int descriptor) {
  const std::string peer = HostOf(descriptor, getpeername);
  return !peer.empty() && peer == HostOf(descriptor, getsockname);
}

void DoNotPace(int descriptor) {
  for (const std::string_view name : kUnpaced) {
    const auto bytes = static_cast<socklen_t>(name.size());
    if (setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name.data(), bytes) == 0) return;
  }
}

}  // namespace

std::vector<int> DescriptorsBehind(int event_fd) {
  std::vector<int> found;
  AddBehind(event_fd, kMaxNesting, &found);
  return found;
}

void TuneLocalConnections(int event_fd) {
  for (const int descriptor : DescriptorsBehind(event_fd)) {
    if (!IsLocalConnection(descriptor)) continue;
    DoNotPace(descriptor);
    (void)setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &kReceiveBytes, sizeof kReceiveBytes);
  }
}

}  // namespace quire
