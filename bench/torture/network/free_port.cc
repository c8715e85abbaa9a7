// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/network/free_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/random.h"
#include "common/base/unique_fd.h"

namespace quire::torture {
namespace {

constexpr uint64_t kFirstPort = 15000;
constexpr uint64_t kNumPorts = 17000;
constexpr int kMostTries = 100;

bool IsFree(uint16_t port) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_ANY);
  any.sin_port = htons(port);
  return fd.valid() && bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0;
}

}  // namespace

StatusOr<uint16_t> FreePort() {
  for (int tries = 0; tries < kMostTries; ++tries) {
    const auto port = static_cast<uint16_t>(kFirstPort + SystemRandom().Below(kNumPorts));
    if (IsFree(port)) return port;
  }
  return Unavailable("finds no free port");
}

}  // namespace quire::torture
