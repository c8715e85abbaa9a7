// SPDX-License-Identifier: Apache-2.0
#include "bench/transport/congestion_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "bench/transport/process.h"
#include "tests/kit/temp_dir.h"
#include "transport/testing/tcp_pair.h"

namespace quire::bench {
namespace {

using ::testing::AnyOf;
using testing::CongestionControl;
using testing::PacedOrReno;
using testing::TcpPair;

constexpr size_t kSentBytes = 2 << 20;

/// Sends that many bytes, and waits until they have been received.
void Send(const TcpPair& tcp, size_t bytes) {
  std::vector<char> sent(bytes), received(bytes);
  std::thread sender(
      [&] { EXPECT_EQ(write(tcp.client.get(), sent.data(), bytes), static_cast<ssize_t>(bytes)); });
  size_t total = 0;
  while (total < bytes) {
    const ssize_t part = read(tcp.server.get(), received.data(), received.size());
    if (part <= 0) break;
    total += static_cast<size_t>(part);
  }
  sender.join();
  EXPECT_EQ(total, bytes);
}

TEST(CongestionControlTest, WhoeverHasSentSinceIsNamed) {
  const TcpPair before, during;
  const std::string name = PacedOrReno(during);
  Send(before, kSentBytes);
  const TcpSenders senders(getpid());
  if (senders.CongestionControls() == "unknown") GTEST_SKIP() << "descriptors may not be seen here";
  EXPECT_EQ(senders.CongestionControls(), "none") << "nobody has sent anything";
  Send(during, kSentBytes);
  // The acknowledgement of the last bytes may still be in flight.
  std::string found = senders.CongestionControls();
  for (int i = 0; i < 1000 && found == "none"; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    found = senders.CongestionControls();
  }
  EXPECT_EQ(found, name);
}

TEST(CongestionControlTest, OfAProcessThatIsNotThereNothingIsKnown) {
  EXPECT_EQ(TcpSenders(-1).CongestionControls(), "unknown");
}

TEST(CongestionControlTest, TheHostTellsItsOwn) {
  if (!std::filesystem::exists("/proc/sys/net/ipv4/tcp_congestion_control")) GTEST_SKIP();
  const TcpPair tcp;
  EXPECT_EQ(HostCongestionControl(), CongestionControl(tcp.client.get()));
}

TEST(CongestionControlTest, TheLibraryUnpacesAProgramsSockets) {
  quire::testing::TempDir directory;
  const std::vector<std::string> environment = UnpacedEnvironment(directory.path());
  ASSERT_EQ(environment.size(), 1u);
  // Prints the congestion control of a program's own socket; an unavailable one gives nothing.
  // TCP_CONGESTION
  const std::string program =
      "import socket; s = socket.socket(); "
      "print(s.getsockopt(socket.IPPROTO_TCP, 13, 16).split(b'\\0')[0].decode())";
  auto process = Process::Start({"python3", "-c", program}, directory.path() + "/log", environment);
  if (!process.ok()) GTEST_SKIP() << process.status();
  ASSERT_EQ((*process)->WaitForEnd(std::chrono::seconds(60)), OkStatus());
  EXPECT_THAT((*process)->Output(), AnyOf("cubic\n", "reno\n"));
}

TEST(CongestionControlTest, ADirectoryThatIsNotThereLeavesProgramsAsTheyAre) {
  EXPECT_TRUE(UnpacedEnvironment("/no/such/directory").empty());
}

}  // namespace
}  // namespace quire::bench
