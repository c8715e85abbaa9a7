// SPDX-License-Identifier: Apache-2.0
#include "transport/grpc/grpc_channel.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <string>

#include "common/base/unique_fd.h"
#include "common/wire/limits.h"
#include "transport/grpc/grpc_convert.h"

namespace quire {
namespace {

using std::chrono::seconds;

/// A port whose queue of connections is full: Linux does not answer further ones, as if each first
/// packet were lost.
class SilentPort {
 public:
  SilentPort() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener_.get(), any, size), 0);
    EXPECT_EQ(listen(listener_.get(), 0), 0);
    EXPECT_EQ(getsockname(listener_.get(), any, &size), 0);
    EXPECT_EQ(connect(queued_.get(), any, size), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  const std::string& address() const { return address_; }

 private:
  const UniqueFd listener_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const UniqueFd queued_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::string address_;
};

TEST(GrpcChannelTest, AConnectionWithoutAnAnswerIsGivenUpAndTriedAnew) {
  const SilentPort port;
  const auto channel = MakeGrpcChannel(port.address(), wire::kDefaultMaxMessageBytes).value();
  const TimePoint start = SystemClock().Now();
  grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
  while (state != GRPC_CHANNEL_TRANSIENT_FAILURE) {
    ASSERT_TRUE(channel->WaitForStateChange(state, DeadlineAfter(seconds(10)))) << state;
    state = channel->GetState(/*try_to_connect=*/true);
  }
  EXPECT_LT(SystemClock().Now() - start, seconds(6));
}

}  // namespace
}  // namespace quire
