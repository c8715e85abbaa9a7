// SPDX-License-Identifier: Apache-2.0
//
// NetAddress: parses the addresses of servers, workers, admin ports and their clients:
//
//   127.0.0.1:7410   host.example.org:7410   [::1]:7410   unix:/run/quire.sock
//
// Every part is required. There is no default port. An empty host does not mean all addresses;
// 0.0.0.0 and [::] do. Digits with dots are an IPv4 address or an error. Thread-safety: a value
// type. Errors: INVALID_ARGUMENT quoting the text and saying what to write.
#ifndef QUIRE_COMMON_BASE_NET_ADDRESS_H_
#define QUIRE_COMMON_BASE_NET_ADDRESS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace quire {

class NetAddress {
 public:
  /// Parses an address to listen on. Port 0 takes a free port.
  static StatusOr<NetAddress> ParseListen(std::string_view text);
  /// Parses a server's address, which has a port.
  static StatusOr<NetAddress> ParseServer(std::string_view text);

  bool is_unix() const { return !path_.empty(); }
  const std::string& path() const { return path_; }  ///< Unix socket path. Empty for TCP.
  const std::string& host() const {
    return host_;
  }                                        ///< Host without brackets. Empty for a Unix socket.
  uint16_t port() const { return port_; }  ///< 0 for a Unix socket.

  /// Returns the address as it is parsed.
  std::string Text() const;
  /// Returns the same host with another port. A Unix socket stays as it is.
  NetAddress WithPort(uint16_t port) const;

  /// True for a Unix socket, localhost or a loopback address: only this host can connect. Other
  /// names are not looked up and return false.
  bool StaysOnThisHost() const;
  /// True for 0.0.0.0 and [::], which stand for all addresses of a host.
  bool IsEveryAddress() const;

 private:
  static StatusOr<NetAddress> Parse(std::string_view text);

  std::string host_;
  uint16_t port_ = 0;
  std::string path_;
};

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_NET_ADDRESS_H_
