// SPDX-License-Identifier: Apache-2.0
//
// NetAddress: the one reading of the addresses that people write for servers, workers, admin ports
// and their clients:
//
//   127.0.0.1:7410   host.example.org:7410   [::1]:7410   unix:/run/quire.sock
//
// Every part has to be there, and means what it says: there is no default port, an empty host is
// not "all of them" (0.0.0.0 and [::] are), and digits with dots are an IPv4 address or nothing.
// Thread-safety: a value type. Errors: INVALID_ARGUMENT quoting the text and saying what to write.
#ifndef QUIRE_COMMON_BASE_NET_ADDRESS_H_
#define QUIRE_COMMON_BASE_NET_ADDRESS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "quire/status.h"

namespace quire {

class NetAddress {
 public:
  /// Reads an address to listen on: port 0 takes a free one.
  static StatusOr<NetAddress> ParseListen(std::string_view text);
  /// Reads the address of a server, which has a port.
  static StatusOr<NetAddress> ParseServer(std::string_view text);

  bool is_unix() const { return !path_.empty(); }
  const std::string& path() const { return path_; }  ///< Of a Unix socket; else empty.
  const std::string& host() const { return host_; }  ///< Without brackets; empty for a socket.
  uint16_t port() const { return port_; }            ///< 0 for a Unix socket.

  /// Writes it as it is parsed.
  std::string Text() const;
  /// The same host with another port; a Unix socket stays as it is.
  NetAddress WithPort(uint16_t port) const;

  /// Whether only this host can connect to what listens there: a Unix socket, localhost or a
  /// loopback address. A name is not looked up: any other one may be reached from elsewhere.
  bool StaysOnThisHost() const;
  /// Whether it stands for all addresses of a host: 0.0.0.0 or [::].
  bool IsEveryAddress() const;

 private:
  static StatusOr<NetAddress> Parse(std::string_view text);

  std::string host_;
  uint16_t port_ = 0;
  std::string path_;
};

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_NET_ADDRESS_H_
