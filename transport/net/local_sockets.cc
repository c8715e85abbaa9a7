// SPDX-License-Identifier: Apache-2.0
#include "transport/net/local_sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "common/base/unique_fd.h"

namespace quire {
namespace {

/// Congestion controls without pacing that every user may choose, best first.
constexpr std::string_view kUnpaced[] = {"cubic", "reno"};

struct Address {
  std::string host;
  uint16_t port = 0;
};

/// Null for a descriptor that is no connected Internet socket.
std::optional<Address> AddressOf(int descriptor, int (*name)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage address = {};
  socklen_t bytes = sizeof address;
  if (name(descriptor, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return std::nullopt;
  if (address.ss_family != AF_INET && address.ss_family != AF_INET6) return std::nullopt;
  const auto* const six = reinterpret_cast<const sockaddr_in6*>(&address);
  const auto* const four = reinterpret_cast<const sockaddr_in*>(&address);
  const bool is_six = address.ss_family == AF_INET6;
  const void* const host = is_six ? static_cast<const void*>(&six->sin6_addr) : &four->sin_addr;
  char text[INET6_ADDRSTRLEN] = {};
  if (inet_ntop(address.ss_family, host, text, sizeof text) == nullptr) return std::nullopt;
  return Address{.host = text, .port = ntohs(is_six ? six->sin6_port : four->sin_port)};
}

/// The other end of a connection within the host; null for any other.
std::optional<Address> LocalPeerOf(int descriptor) {
  std::optional<Address> peer = AddressOf(descriptor, getpeername);
  const std::optional<Address> own = AddressOf(descriptor, getsockname);
  const bool local = peer && own && peer->host == own->host;
  return local ? std::move(peer) : std::nullopt;
}

}  // namespace

std::vector<int> OpenDescriptors(pid_t process) {
  std::vector<int> descriptors;
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc/" + std::to_string(process) + "/fd", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename();
    int descriptor = -1;
    std::from_chars(name.data(), name.data() + name.size(), descriptor);
    if (descriptor >= 0) descriptors.push_back(descriptor);
  }
  return descriptors;
}

bool IsLocalConnection(int descriptor) { return LocalPeerOf(descriptor).has_value(); }

void DoNotPace(int descriptor) {
  for (const std::string_view name : kUnpaced) {
    const auto bytes = static_cast<socklen_t>(name.size());
    if (setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name.data(), bytes) == 0) return;
  }
}

uint16_t PortOf(std::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return 0;
  const std::string_view digits = address.substr(colon + 1);
  uint16_t port = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  return read.ec == std::errc() && read.ptr == digits.data() + digits.size() ? port : 0;
}

void DoNotPaceLocalConnectionsTo(uint16_t peer_port) {
  if (peer_port == 0) return;
  for (const int descriptor : OpenDescriptors(getpid())) {
    if (const auto peer = LocalPeerOf(descriptor); !peer || peer->port != peer_port) continue;
    // A copy, because the number may meanwhile name another socket.
    const UniqueFd copy(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
    const auto peer = LocalPeerOf(copy.get());
    if (peer && peer->port == peer_port) DoNotPace(copy.get());
  }
}

}  // namespace quire
