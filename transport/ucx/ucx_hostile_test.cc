// SPDX-License-Identifier: Apache-2.0
//
// A client that knows the protocol and violates it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/kit/look_again.h"
#include "transport/testing/hostile_ucx_client.h"
#include "transport/testing/ucx_test_peer.h"

namespace quire {
namespace {

using testing::Collector;
using ::testing::HasSubstr;
using testing::Listening;

class HostileClient final : public testing::HostileUcxClient {
 public:
  explicit HostileClient(Listening& listening)
      : HostileUcxClient(listening.listener->address(), listening.options),
        server(listening.Take()) {
    server->Start(&at_server);
  }

  Collector at_server;
  std::unique_ptr<FramePipe> server;
};

/// Connects, and never sends a hello.
class SilentClient {
 public:
  explicit SilentClient(const std::string& address) {
    const SocketAddress resolved = SocketAddress::Resolve(address).value();
    worker_ = MakeUcxWorker(resolved, {}).value();
    worker_->Run([&] {
      endpoint_ = UcxEndpoint::Connect(worker_, resolved, {}, [this](const Status& why) {
                    MutexLock lock(mutex_);
                    dropped_ = why;
                    changed_.NotifyAll();
                  }).value();
    });
  }
  ~SilentClient() {
    worker_->Run([&] { endpoint_.reset(); });
  }
  Status WaitDropped() {
    MutexLock lock(mutex_);
    while (!dropped_) changed_.Wait(mutex_);
    return *dropped_;
  }

 private:
  std::shared_ptr<UcxWorker> worker_;
  std::unique_ptr<UcxEndpoint> endpoint_;
  Mutex mutex_;
  CondVar changed_;
  std::optional<Status> dropped_ QUIRE_GUARDED_BY(mutex_);
};

std::vector<std::byte> Zeros(size_t bytes) { return std::vector<std::byte>(bytes); }

TEST(UcxHostileTest, WhatNoClientSendsEndsItsConnectionAndNoOther) {
  UcxOptions options;
  options.max_frame_bytes = 100'000;
  Listening listening(options);
  testing::Connected honest(listening);
  const std::vector<std::pair<const char*, UcxHeader>> messages = {
      {"a frame far ahead", {.sequence = 5000}},
      {"a frame with places in a landing", {.landing = 1}},
      {"a welcome", {.kind = UcxKind::kWelcome}},
      {"more taken than sent", {.kind = UcxKind::kTaken, .argument = UINT64_MAX}},
      {"the end of its frames", {.kind = UcxKind::kEnd}},
      {"the end of a landing of its own", {.kind = UcxKind::kLandingClosed}},
      {"an index that leads outside", {.index_bytes = 32}},
      {"an index that is none", {.index_bytes = 31}},
      {"a tiny piece of a frame", {.kind = UcxKind::kPiece}},
  };
  for (const auto& [what, header] : messages) {
    SCOPED_TRACE(what);
    HostileClient hostile(listening);
    hostile.Send(header, Zeros(64));
    EXPECT_EQ(hostile.at_server.WaitClosed().code(), StatusCode::kInvalidArgument);
  }
  {
    SCOPED_TRACE("a frame over the limit");
    HostileClient hostile(listening);
    hostile.Send({}, Zeros(100'001));
    EXPECT_EQ(hostile.at_server.WaitClosed().code(), StatusCode::kInvalidArgument);
  }
  {
    SCOPED_TRACE("pieces over the limit");
    HostileClient hostile(listening);
    hostile.Send({.kind = UcxKind::kPiece}, Zeros(60'000));
    hostile.Send({.sequence = 1}, Zeros(40'001));
    EXPECT_EQ(hostile.at_server.WaitClosed().code(), StatusCode::kInvalidArgument);
  }
  {
    SCOPED_TRACE("a piece with a head");
    HostileClient hostile(listening);
    hostile.Send({.kind = UcxKind::kPiece, .head_bytes = 1}, Zeros(60'000));
    EXPECT_EQ(hostile.at_server.WaitClosed().code(), StatusCode::kInvalidArgument);
  }
  {
    SCOPED_TRACE("a piece with places");
    HostileClient hostile(listening);
    hostile.Send({.kind = UcxKind::kPiece, .index_bytes = 16}, Zeros(60'000));
    EXPECT_EQ(hostile.at_server.WaitClosed().code(), StatusCode::kInvalidArgument);
  }
  {
    SCOPED_TRACE("a piece that has landed");
    HostileClient hostile(listening);
    hostile.Send({.kind = UcxKind::kPiece, .argument = 1}, Zeros(60'000));
    EXPECT_EQ(hostile.at_server.WaitClosed().code(), StatusCode::kInvalidArgument);
  }
  {
    SCOPED_TRACE("a frame twice");
    HostileClient hostile(listening);
    hostile.Send({.sequence = 3}, Zeros(1));
    hostile.Send({.sequence = 3}, Zeros(1));
    EXPECT_EQ(hostile.at_server.WaitClosed().code(), StatusCode::kInvalidArgument);
  }
  ASSERT_TRUE(honest.client->Send({.head = "still here", .payload = {}}).ok());
  EXPECT_EQ(honest.at_server.Next().head, "still here");
}

TEST(UcxHostileTest, MessagesForNobodyAreDropped) {
  Listening listening(UcxOptions{});
  HostileClient hostile(listening);
  hostile.SendRaw(Zeros(UcxHeader::kEncodedBytes), Zeros(10));
  hostile.SendRaw(Zeros(3), {});
  hostile.SendRaw({}, Zeros(2'000'000));
  const auto to_nobody = EncodeUcxHeader({.payload_bytes = 8});
  hostile.SendRaw({to_nobody.begin(), to_nobody.end()}, Zeros(8));
  hostile.SendRaw({to_nobody.begin(), to_nobody.end()}, Zeros(8), /*is_hello=*/true);
  hostile.Send({}, Zeros(77));
  EXPECT_EQ(hostile.at_server.Next().payload.size_bytes(), 77);
}

TEST(UcxHostileTest, WhoNeverSaysHelloIsDroppedAndLeavesNothing) {
  UcxOptions options;
  options.connect_timeout = std::chrono::seconds(1);
  options.max_handshakes = 1;
  const SocketAddress address = SocketAddress::Resolve("127.0.0.1:0").value();
  std::shared_ptr<UcxWorker> worker = MakeUcxWorker(address, options).value();
  const std::weak_ptr<UcxWorker> held = worker;
  Mutex mutex;
  CondVar came;
  std::unique_ptr<FramePipe> accepted;
  auto listener = UcxListener::Listen(std::move(worker), address, options,
                                      [&](std::unique_ptr<FramePipe> pipe) {
                                        MutexLock lock(mutex);
                                        EXPECT_EQ(accepted, nullptr);
                                        accepted = std::move(pipe);
                                        came.NotifyAll();
                                      });
  ASSERT_TRUE(listener.ok()) << listener.status();
  {
    SilentClient silent((*listener)->address());
    EXPECT_EQ(silent.WaitDropped().code(), StatusCode::kUnavailable);
    // The one place for handshakes is free again.
    const auto client = ConnectUcx((*listener)->address(), {});
    ASSERT_TRUE(client.ok()) << client.status();
    MutexLock lock(mutex);
    while (accepted == nullptr) came.Wait(mutex);
  }
  // Every connection holds the worker until UCX has closed it.
  accepted.reset();
  listener->reset();
  const TimePoint deadline = SystemClock().Now() + std::chrono::seconds(60);
  while (!held.expired() && SystemClock().Now() < deadline) testing::WaitToLookAgain();
  EXPECT_TRUE(held.expired()) << "a connection is left";
}

TEST(UcxHostileTest, FramesThatComeEarlyWaitForTheirTurn) {
  Listening listening(UcxOptions{});
  HostileClient client(listening);
  for (const uint64_t sequence : {2, 1, 0})
    client.Send({.sequence = sequence}, Zeros(sequence + 1));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(client.at_server.Next().payload.size_bytes(), i + 1);
}

TEST(UcxHostileTest, PiecesAreOneFrameInWhateverOrderTheyCome) {
  Listening listening(UcxOptions{});
  HostileClient client(listening);
  client.Send({.sequence = 2, .head_bytes = 4}, Zeros(4));
  client.Send({.kind = UcxKind::kPiece, .sequence = 1}, Zeros(5000));
  client.Send({.kind = UcxKind::kPiece, .sequence = 0}, Zeros(4096));
  client.Send({.sequence = 3}, Zeros(7));
  const Frame frame = client.at_server.Next();
  EXPECT_EQ(frame.head.size(), 4u);
  EXPECT_EQ(frame.payload.size_bytes(), 9096u);
  EXPECT_EQ(client.at_server.Next().payload.size_bytes(), 7u);
}

}  // namespace
}  // namespace quire
