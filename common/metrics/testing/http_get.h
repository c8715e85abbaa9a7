// SPDX-License-Identifier: Apache-2.0
//
// HTTP by hand over a TCP socket of this machine, including requests that no library would send.
// Only tests use it.
#ifndef QUIRE_COMMON_METRICS_TESTING_HTTP_GET_H_
#define QUIRE_COMMON_METRICS_TESTING_HTTP_GET_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace quire::testing {

/// A connection to 127.0.0.1.
class TcpClient {
 public:
  explicit TcpClient(int port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  ~TcpClient() { ::close(fd_); }
  TcpClient(const TcpClient&) = delete;
  TcpClient& operator=(const TcpClient&) = delete;

  /// Returns false without a listener.
  bool Send(const std::string& bytes) {
    if (!connected_) return false;
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t n = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return false;
      sent += static_cast<size_t>(n);
    }
    return true;
  }
  /// Reads everything until the peer closes.
  std::string ReadAll() {
    std::string all;
    char buffer[4096];
    for (ssize_t n = 0; connected_ && (n = ::recv(fd_, buffer, sizeof buffer, 0)) > 0;) {
      all.append(buffer, static_cast<size_t>(n));
    }
    return all;
  }

 private:
  const int fd_;
  bool connected_ = false;
};

/// The whole response; empty without a listener.
inline std::string HttpGet(int port, const std::string& path) {
  TcpClient client(port);
  client.Send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  return client.ReadAll();
}

inline std::string HttpBody(const std::string& response) {
  const size_t end = response.find("\r\n\r\n");
  return end == std::string::npos ? "" : response.substr(end + 4);
}

}  // namespace quire::testing

#endif  // QUIRE_COMMON_METRICS_TESTING_HTTP_GET_H_
