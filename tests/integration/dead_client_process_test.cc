// SPDX-License-Identifier: Apache-2.0
//
// Contexts of clients on a server in another process, while the clients live and after they are
// killed.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/connect.h"
#include "common/page/layout.h"
#include "tests/integration/fault_document.h"
#include "tests/kit/child_process.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"

namespace quire {
namespace {

using std::chrono::seconds;
using testing::ChildProcess;

constexpr uint32_t kMostContexts = 64;

class DeadClientProcessTest : public ::testing::Test {
 protected:
  void StartServer(int lease_seconds) {
    server_ = std::make_unique<ChildProcess>(
        QUIRE_BINARY_DIR "/bin/quired",
        std::vector<std::string>{"--data-dir", dir_ / "data", "--listen", "127.0.0.1:0",
                                 "--dram-bytes", "64MiB", "--idle-seconds",
                                 std::to_string(lease_seconds)},
        dir_ / "quired.err");
    std::string line;
    const std::string prefix = "quired listening on ";
    ASSERT_TRUE(server_->ReadLine(&line) && line.starts_with(prefix)) << server_->Stderr();
    address_ = line.substr(prefix.size());
    client_ = Client::Create({.transport = ConnectGrpc(address_).value()}).value();
  }
  /// A process that holds `contexts` contexts in the middle of a put.
  std::unique_ptr<ChildProcess> StartPeer(uint32_t contexts) {
    auto peer = std::make_unique<ChildProcess>(
        QUIRE_BINARY_DIR "/bin/context_peer",
        std::vector<std::string>{address_, std::to_string(contexts)}, dir_ / "peer.err");
    std::string line;
    EXPECT_TRUE(peer->ReadLine(&line) && line == "open") << peer->Stderr();
    return peer;
  }
  uint64_t OpenContexts() { return Count("contexts_open"); }
  uint64_t Count(std::string_view counter) {
    const ServerStats stats = client_->Stats().value();
    for (const auto& [name, value] : stats.counters) {
      if (name == counter) return value;
    }
    return ~uint64_t{0};
  }
  Status Put() {
    const KvSpec spec = testing::FaultSpec();
    const std::vector<TokenId> tokens(spec.page_tokens, 9);
    QUIRE_ASSIGN_OR_RETURN(const OpenedContext context, client_->OpenContext(spec, std::nullopt));
    Payload page;
    page.Append(std::vector<std::byte>(SegmentBytes(spec, 1)));
    QUIRE_RETURN_IF_ERROR(client_->AppendPages(context.id, 0, tokens, page).status());
    QUIRE_ASSIGN_OR_RETURN(const ContextInfo sealed, client_->Seal(context.id, {}, {}));
    return client_->RegisterDocument({.name = "after"}, sealed.chain_tip).status();
  }

  testing::TempDir dir_;
  std::string address_;
  std::unique_ptr<ChildProcess> server_;
  std::unique_ptr<Client> client_;
};

// Promise 6: the bound counts live clients. Contexts of dead ones make room long before their
// leases end.
TEST_F(DeadClientProcessTest, AFullTenantPutsAgainSoonAfterItsClientsWereKilled) {
  StartServer(/*lease_seconds=*/15);
  const auto peer = StartPeer(kMostContexts);
  EXPECT_EQ(OpenContexts(), kMostContexts);
  peer->Signal(SIGKILL);
  peer->Wait();
  const auto killed = std::chrono::steady_clock::now();
  EXPECT_EQ(Put(), OkStatus());
  EXPECT_LT(std::chrono::steady_clock::now() - killed, seconds(12)) << "before the leases are over";
  EXPECT_GT(Count("ssd_bytes_used"), 0u);
  ASSERT_TRUE(client_->DeleteDocument({.name = "after"}).ok());
  EXPECT_EQ(Count("ssd_bytes_used"), 0u) << "the dead have left nothing";
  EXPECT_EQ(Count("segments"), 0u);
}

TEST_F(DeadClientProcessTest, WhatALivingClientHoldsStaysAndEndsWithIt) {
  StartServer(/*lease_seconds=*/1);
  const auto peer = StartPeer(8);
  // It makes no call for several leases, as in a long prefill.
  const auto until = std::chrono::steady_clock::now() + seconds(4);
  while (std::chrono::steady_clock::now() < until) {
    ASSERT_EQ(OpenContexts(), 8u);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  peer->Signal(SIGKILL);
  peer->Wait();
  const auto deadline = std::chrono::steady_clock::now() + seconds(30);
  while (OpenContexts() > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(OpenContexts(), 0u);
}

}  // namespace
}  // namespace quire
