// SPDX-License-Identifier: Apache-2.0
//
// TcpPair: the two ends of a TCP connection over loopback, and their congestion control.
// Thread-safety: none.
#ifndef QUIRE_TRANSPORT_TESTING_TCP_PAIR_H_
#define QUIRE_TRANSPORT_TESTING_TCP_PAIR_H_

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "common/base/unique_fd.h"

namespace quire::testing {

/// Empty for a descriptor that is no TCP socket.
inline std::string CongestionControl(int descriptor) {
  char name[16] = {};
  socklen_t bytes = sizeof name;
  if (getsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name, &bytes) != 0) return "";
  return name;
}

inline bool SetCongestionControl(int descriptor, const std::string& name) {
  return setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                    static_cast<socklen_t>(name.size())) == 0;
}

struct TcpPair {
  TcpPair() {
    const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    socklen_t bytes = sizeof address;
    EXPECT_EQ(bind(listener.get(), any, bytes), 0);
    EXPECT_EQ(listen(listener.get(), 1), 0);
    EXPECT_EQ(getsockname(listener.get(), any, &bytes), 0);
    listening_port = ntohs(address.sin_port);
    client = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(client.get(), any, bytes), 0);
    server = UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  UniqueFd client, server;
  uint16_t listening_port = 0;  ///< Port of the other end of `client`.
};

/// Gives both ends bbr where this host has it, otherwise reno. Returns which.
inline std::string PacedOrReno(const TcpPair& tcp) {
  const std::string name = SetCongestionControl(tcp.client.get(), "bbr") ? "bbr" : "reno";
  EXPECT_TRUE(SetCongestionControl(tcp.client.get(), name)) << name;
  EXPECT_TRUE(SetCongestionControl(tcp.server.get(), name)) << name;
  return name;
}

}  // namespace quire::testing

#endif  // QUIRE_TRANSPORT_TESTING_TCP_PAIR_H_
