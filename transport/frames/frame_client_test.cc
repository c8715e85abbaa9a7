// SPDX-License-Identifier: Apache-2.0
//
// FrameClient against a server that sends frames by hand. It covers dishonest servers, and
// behaviour that shows only in the order of frames.
#include "transport/frames/frame_client.h"

#include <gtest/gtest.h>

#include <deque>
#include <thread>

#include "tests/kit/look_again.h"
#include "transport/frames/frame.h"
#include "transport/local/inproc_pipe.h"
#include "transport/testing/frame_recorder.h"

namespace quire::testing {
namespace {

constexpr uint64_t kWindow = 8000;
constexpr TimePoint kEver = TimePoint::max();

/// A server's end of a connection, frame by frame.
class RawServer {
 public:
  explicit RawServer(const InprocOptions& options) : pair_(MakeInprocPair(options)) {
    pair_.server->Start(&received_);
  }
  ~RawServer() { pair_.server->Close(); }

  std::unique_ptr<FramePipe> TakeClientEnd() { return std::move(pair_.client); }
  void Send(const FrameHead& head, Payload payload = {}) {
    (void)pair_.server->Send({.head = EncodeFrameHead(head), .payload = std::move(payload)});
  }
  FramePipe& pipe() { return *pair_.server; }
  FrameHead Take() {
    while (frames_.empty()) {
      for (Frame& frame : received_.Take(1)) frames_.push_back(std::move(frame));
    }
    const auto head = DecodeFrameHead(frames_.front().head);
    frames_.pop_front();
    EXPECT_TRUE(head.ok()) << head.status();
    return head.ok() ? *head : FrameHead{};
  }
  /// Answers the hello.
  void Welcome() {
    const FrameHead hello = Take();
    EXPECT_EQ(hello.kind, FrameKind::kHello);
    EXPECT_EQ(hello.text, "ticket");
    Send({.kind = FrameKind::kHelloReply, .id = 7, .amount = hello.amount, .name = hello.name});
  }
  Status AwaitClosed() { return received_.AwaitClosed(); }

 private:
  FrameRecorder received_;
  InprocPair pair_;
  std::deque<Frame> frames_;
};

class FrameClientTest : public ::testing::Test {
 protected:
  static FrameClient::Options Options() {
    return {.ticket = "ticket",
            .max_message_bytes = 100000,
            .window_bytes = kWindow,
            .cancel_timeout = std::chrono::minutes(1)};
  }
  void Connect(const InprocOptions& pipe = {}, const FrameClient::Options& options = Options()) {
    server_ = std::make_unique<RawServer>(pipe);
    std::thread welcome([&] { server_->Welcome(); });
    auto client = FrameClient::Connect(server_->TakeClientEnd(), options);
    welcome.join();
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = std::move(client).value();
  }
  std::unique_ptr<PendingCall> Start(Landing* landing = nullptr) {
    auto call =
        client_->Start("a.B/C", {}, {.timeout = std::chrono::minutes(1), .landing = landing});
    EXPECT_TRUE(call.ok()) << call.status();
    return call.ok() ? std::move(call).value() : nullptr;
  }
  void SendPart(uint64_t id, size_t bytes, std::vector<FramePlace> places = {}) {
    server_->Send({.kind = FrameKind::kPart, .id = id, .places = std::move(places)},
                  PayloadOfSizes({bytes}, 1));
  }

  std::unique_ptr<RawServer> server_;
  std::shared_ptr<FrameClient> client_;
};

TEST_F(FrameClientTest, AServerThatDoesNotAnswerTheHelloIsGivenUp) {
  RawServer server({});
  FrameClient::Options options = Options();
  options.hello_timeout = std::chrono::milliseconds(20);
  EXPECT_EQ(FrameClient::Connect(server.TakeClientEnd(), options).status().code(),
            StatusCode::kDeadlineExceeded);
  EXPECT_EQ(server.AwaitClosed().code(), StatusCode::kUnavailable);
}

TEST_F(FrameClientTest, ARequestSaysWhatTheServerNeeds) {
  Connect();
  EXPECT_EQ(client_->connection_id(), 7u);
  CallMessage request{"control", {}};
  const auto call = client_->Start(
      "a.B/C", request, {.timeout = std::chrono::seconds(3), .priority = Priority::kCorrection});
  ASSERT_TRUE(call.ok()) << call.status();
  const FrameHead head = server_->Take();
  EXPECT_EQ(head.kind, FrameKind::kRequest);
  EXPECT_EQ(head.priority, Priority::kCorrection);
  EXPECT_EQ(head.amount, 3'000'000'000u);
  EXPECT_EQ(head.name, "a.B/C");
  EXPECT_EQ(head.text, "control");
  EXPECT_EQ(client_->Start("a.B/C", {}, {.tenant = "other"}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(client_->Start("", {}, {}).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(FrameClientTest, CreditIsGivenInStepsForWhatWasTaken) {
  Connect();
  const auto call = Start();
  const uint64_t id = server_->Take().id;
  for (int i = 0; i < 4; ++i) SendPart(id, 1000);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(call->Next(kEver).ok());
  for (int i = 0; i < 2; ++i) {
    const FrameHead credit = server_->Take();
    EXPECT_EQ(credit.kind, FrameKind::kCredit);
    EXPECT_EQ(credit.id, id);
    EXPECT_EQ(credit.amount, kWindow / 4);
  }
}

TEST_F(FrameClientTest, AServerThatFloodsLosesTheConnection) {
  Connect();
  const auto call = Start();
  const uint64_t id = server_->Take().id;
  for (int i = 0; i < 12; ++i) SendPart(id, 10000);
  // Takes nothing, which would make room, until the client has noticed.
  Status refused;
  while (refused.ok()) refused = client_->Start("a.B/C", {}, {}).status();
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable) << refused;
  Status end;
  while (end.ok()) end = call->Next(kEver).status();
  EXPECT_EQ(end.code(), StatusCode::kInternal) << end;
}

TEST_F(FrameClientTest, WhatIsNoFrameEndsEveryCall) {
  Connect();
  const auto call = Start();
  (void)server_->Take();
  server_->Send({.kind = FrameKind::kCancel, .id = 1});
  // A retry would get the same answer; other calls use the next connection.
  EXPECT_EQ(call->Next(kEver).status().code(), StatusCode::kInternal);
  EXPECT_EQ(client_->Start("a.B/C", {}, {}).status().code(), StatusCode::kUnavailable);
}

TEST_F(FrameClientTest, FramesOfCallsThatAreOverAreLetGo) {
  Connect();
  auto call = Start();
  const uint64_t id = server_->Take().id;
  call.reset();
  EXPECT_EQ(server_->Take().kind, FrameKind::kCancel);
  std::weak_ptr<const void> witness;
  server_->Send({.kind = FrameKind::kPart, .id = id}, WatchedPayload(1000, &witness));
  server_->Send({.kind = FrameKind::kEnd, .id = id});
  EXPECT_TRUE(Expires(witness));
  call = Start();
  SendPart(server_->Take().id, 10);
  EXPECT_TRUE(call->Next(kEver).ok()) << "the connection goes on";
}

TEST_F(FrameClientTest, TheRequestSaysHowLargeTheLandingIs) {
  Connect();
  std::vector<std::byte> memory(1000);
  const auto landing = client_->AddLanding(memory);
  ASSERT_TRUE(landing.ok()) << landing.status();
  const auto call = Start(landing->get());
  EXPECT_EQ(server_->Take().landing_bytes, 1000u);
  EXPECT_EQ(client_->AddLanding({}).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(FrameClientTest, PiecesComeOneByOneToACallerThatTakesThemAndWholeToAnyOther) {
  Connect();
  for (const bool in_pieces : {true, false}) {
    auto call = client_->Start("a.B/C", {}, {.piece_bytes = in_pieces ? 100u : 0u});
    ASSERT_TRUE(call.ok()) << call.status();
    const FrameHead request = server_->Take();
    EXPECT_EQ(request.piece_bytes, in_pieces ? 100u : 0u);
    server_->Send({.kind = FrameKind::kPart, .id = request.id, .amount = 30, .text = "control"},
                  PayloadOfSizes({10}, 1));
    server_->Send({.kind = FrameKind::kPiece, .id = request.id, .amount = 20},
                  PayloadOfSizes({10}, 2));
    if (in_pieces) {
      auto first = (*call)->Next(kEver);
      ASSERT_TRUE(first.ok() && first->has_value()) << first.status();
      EXPECT_EQ((*first)->control, "control");
      EXPECT_EQ((*first)->bytes_to_come, 30u);
      auto second = (*call)->Next(kEver);
      ASSERT_TRUE(second.ok() && second->has_value()) << second.status();
      EXPECT_EQ((*second)->control, "");
      EXPECT_EQ((*second)->bytes_to_come, 20u);
    }
    EXPECT_EQ((*call)->Next(SystemClock().Now()).status().code(), StatusCode::kDeadlineExceeded);
    server_->Send({.kind = FrameKind::kPiece, .id = request.id}, PayloadOfSizes({20}, 3));
    const auto last = (*call)->Next(kEver);
    ASSERT_TRUE(last.ok() && last->has_value()) << last.status();
    EXPECT_EQ((*last)->payload.size_bytes(), in_pieces ? 20u : 40u);
    EXPECT_EQ((*last)->bytes_to_come, 0u);
    call->reset();
    EXPECT_EQ(server_->Take().kind, FrameKind::kCancel);
  }
}

TEST_F(FrameClientTest, PiecesThatDoNotSumUpToTheirPartBreakTheProtocol) {
  const auto part = [](uint64_t to_come) {
    return FrameHead{.kind = FrameKind::kPart, .id = 0, .amount = to_come};
  };
  const auto piece = [](uint64_t to_come) {
    return FrameHead{.kind = FrameKind::kPiece, .id = 0, .amount = to_come};
  };
  const std::vector<std::vector<FrameHead>> scripts = {
      {piece(0)}, {part(20), part(0)}, {part(20), piece(11)}, {part(5), piece(0)}};
  for (const std::vector<FrameHead>& script : scripts) {
    Connect();
    const auto call = Start();
    const uint64_t id = server_->Take().id;
    for (FrameHead head : script) {
      head.id = id;
      server_->Send(head, PayloadOfSizes({10}, 1));
    }
    Status status;
    while (status.ok()) status = call->Next(kEver).status();
    EXPECT_EQ(status.code(), StatusCode::kInternal) << status;
  }
}

TEST_F(FrameClientTest, ACancelledCallIsQuietWhenTheServerSaysThatItHasEnded) {
  Connect({.direct_landing = true});
  std::vector<std::byte> memory(1000);
  const auto landing = client_->AddLanding(memory);
  ASSERT_TRUE(landing.ok()) << landing.status();
  const auto call = Start(landing->get());
  const uint64_t id = server_->Take().id;
  call->Cancel();
  EXPECT_EQ(server_->Take().kind, FrameKind::kCancel);
  EXPECT_FALSE(call->IsQuiet());
  const auto plain = Start();
  const uint64_t plain_id = server_->Take().id;
  plain->Cancel();
  EXPECT_TRUE(plain->IsQuiet());  // It has no landing.
  EXPECT_EQ(server_->Take().kind, FrameKind::kCancel);
  server_->Send({.kind = FrameKind::kEnd, .id = plain_id});
  server_->Send({.kind = FrameKind::kEnd, .id = id});
  while (!call->IsQuiet()) WaitToLookAgain();
}

TEST_F(FrameClientTest, AServerThatDoesNotConfirmTheEndOfALandingLosesTheConnection) {
  FrameClient::Options options = Options();
  options.cancel_timeout = std::chrono::milliseconds(20);
  Connect({.direct_landing = true}, options);
  std::vector<std::byte> memory(1000);
  const auto landing = client_->AddLanding(memory);
  ASSERT_TRUE(landing.ok()) << landing.status();
  const auto call = Start(landing->get());
  call->Cancel();
  EXPECT_EQ(call->Next(kEver).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(server_->AwaitClosed().code(), StatusCode::kUnavailable);
}

TEST_F(FrameClientTest, TheEndOfALandingIsAwaited) {
  Connect({.direct_landing = true});
  std::vector<std::byte> memory(1000);
  const auto landing = client_->AddLanding(memory);
  ASSERT_TRUE(landing.ok()) << landing.status();
  auto call = Start(landing->get());
  const uint64_t id = server_->Take().id;
  std::thread server([&] {
    EXPECT_EQ(server_->Take().kind, FrameKind::kCancel);
    server_->Send({.kind = FrameKind::kEnd, .id = id});
  });
  call.reset();
  server.join();
  call = Start();
  SendPart(server_->Take().id, 10);
  EXPECT_TRUE(call->Next(kEver).ok()) << "the connection goes on";
}

}  // namespace
}  // namespace quire::testing
