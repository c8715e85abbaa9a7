// SPDX-License-Identifier: Apache-2.0
#include "bench/transport/congestion_control.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <set>
#include <system_error>

#include "common/base/unique_fd.h"
#include "transport/net/local_sockets.h"

namespace quire::bench {
namespace {

constexpr uint64_t kSendersBytes = 1 << 20;
constexpr char kUnknown[] = "unknown";

}  // namespace

std::vector<std::string> UnpacedEnvironment(const std::string& directory) {
  const std::string library = directory + "/loopback_congestion.so";
  std::ofstream file(library, std::ios::binary);
  file.write(kLoopbackCongestion.data(), static_cast<std::streamsize>(kLoopbackCongestion.size()));
  file.close();
  if (!file) return {};
  const char* const others = std::getenv("LD_PRELOAD");
  const std::string rest = others == nullptr ? "" : std::string(":") + others;
  return {"LD_PRELOAD=" + library + rest};
}

std::string HostCongestionControl() {
  std::ifstream file("/proc/sys/net/ipv4/tcp_congestion_control");
  std::string name;
  return file >> name ? name : kUnknown;
}

std::optional<TcpSenders::Connections> TcpSenders::Now() const {
  Connections connections;
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  for (const int descriptor : OpenDescriptors(pid_)) {
    const UniqueFd socket(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), descriptor, 0)));
    if (!socket.valid() && errno == EBADF) continue;  // The descriptor was closed meanwhile.
    if (!socket.valid()) return std::nullopt;
    tcp_info info = {};
    socklen_t bytes = sizeof info;
    if (getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) continue;
    char name[16] = {};
    bytes = sizeof name - 1;
    if (getsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, name, &bytes) != 0) continue;
    struct stat status = {};
    if (fstat(socket.get(), &status) != 0) continue;
    connections[status.st_ino] = {.sent_bytes = info.tcpi_bytes_acked, .congestion_control = name};
  }
  if (!process.valid()) return std::nullopt;
  return connections;
}

std::string TcpSenders::CongestionControls() const {
  const std::optional<Connections> now = Now();
  if (!before_ || !now) return kUnknown;
  std::set<std::string> names;
  for (const auto& [inode, connection] : *now) {
    const auto before = before_->find(inode);
    const uint64_t sent_before = before == before_->end() ? 0 : before->second.sent_bytes;
    if (connection.sent_bytes < sent_before + kSendersBytes) continue;
    names.insert(connection.congestion_control);
  }
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ",") + name;
  return list.empty() ? "none" : list;
}

}  // namespace quire::bench
