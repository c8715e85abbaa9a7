// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/sockets/ucx_sockets.h"

#include <sys/socket.h>

#include <fstream>
#include <string>

#include "transport/net/local_sockets.h"

namespace quire {
namespace {

constexpr int kReceiveBytes = 1 << 20;
constexpr int kMaxNesting = 4;

/// Parses "tfd:       31 events: ..." for every descriptor that an epoll descriptor waits for.
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
