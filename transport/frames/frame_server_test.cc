// SPDX-License-Identifier: Apache-2.0
//
// FrameServer against a client that sends frames by hand. It covers dishonest clients, and
// behaviour that shows only in the order of frames.
#include "transport/frames/frame_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <set>
#include <thread>
#include <tuple>

#include "common/base/retry_hint.h"
#include "tests/kit/health_lines.h"
#include "tests/kit/look_again.h"
#include "transport/frames/frame.h"
#include "transport/frames/frame_client.h"
#include "transport/local/inproc_pipe.h"
#include "transport/testing/frame_recorder.h"

namespace quire::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kPart = 1000;

/// Writes parts of kPart bytes, with the method's name, until a write fails; "Echo" answers.
class FloodHandler final : public CallHandler {
 public:
  std::vector<std::string> Methods() const override { return {"Echo", "Flood", "Wait"}; }
  Status Handle(const CallContext& context, std::string_view method, const CallMessage& request,
                ReplyWriter& reply) override {
    if (method == "Echo") {
      MutexLock lock(mutex_);
      landing_ = context.landing;
      return reply.Write({request.control, {}});
    }
    if (method == "Wait") return Wait();
    Status status;
    while (status.ok()) {
      CallMessage part{std::string(method), {}};
      std::weak_ptr<const void> witness;
      part.payload = WatchedPayload(kPart, &witness);
      {
        MutexLock lock(mutex_);
        owners_.push_back(witness);
      }
      status = reply.Write(std::move(part));
    }
    MutexLock lock(mutex_);
    stopped_[context.priority] = status;
    changed_.NotifyAll();
    return status;
  }

  Status AwaitStopped(Priority priority = Priority::kNormal) {
    MutexLock lock(mutex_);
    while (!stopped_.contains(priority)) changed_.Wait(mutex_);
    return stopped_[priority];
  }
  void Release() {
    MutexLock lock(mutex_);
    released_ = true;
    changed_.NotifyAll();
  }
  /// The landing of the last echo.
  std::shared_ptr<CallLanding> TakeLanding() {
    MutexLock lock(mutex_);
    return std::exchange(landing_, nullptr);
  }
  bool AllReleased() {
    std::vector<std::weak_ptr<const void>> owners;
    {
      MutexLock lock(mutex_);
      owners = owners_;
    }
    return std::all_of(owners.begin(), owners.end(), [](const auto& w) { return Expires(w); });
  }

 private:
  Status Wait() {
    MutexLock lock(mutex_);
    while (!released_) changed_.Wait(mutex_);
    return Internal("released");
  }

  Mutex mutex_;
  CondVar changed_;
  bool released_ QUIRE_GUARDED_BY(mutex_) = false;
  std::shared_ptr<CallLanding> landing_ QUIRE_GUARDED_BY(mutex_);
  std::map<Priority, Status> stopped_ QUIRE_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<const void>> owners_ QUIRE_GUARDED_BY(mutex_);
};

/// A server's end in which parts of prefetches wait until it is opened.
class NarrowPipe final : public FramePipe {
 public:
  /// The test's view of it; thread-safe.
  class Door {
   public:
    void Open() {
      MutexLock lock(mutex_);
      open_ = true;
      changed_.NotifyAll();
    }
    void AwaitWaiting() {
      MutexLock lock(mutex_);
      while (!waiting_) changed_.Wait(mutex_);
    }
    /// Priorities of the frames sent for a call.
    std::set<Priority> PrioritiesOf(uint64_t call) {
      MutexLock lock(mutex_);
      return priorities_[call];
    }
    void Pass(const Frame& frame) {
      MutexLock lock(mutex_);
      priorities_[DecodeFrameHead(frame.head)->id].insert(frame.priority);
      waiting_ |= !frame.payload.empty() && frame.priority == Priority::kPrefetch;
      changed_.NotifyAll();
      while (!frame.payload.empty() && frame.priority == Priority::kPrefetch && !open_) {
        changed_.Wait(mutex_);
      }
    }

   private:
    Mutex mutex_;
    CondVar changed_;
    bool open_ QUIRE_GUARDED_BY(mutex_) = false;
    bool waiting_ QUIRE_GUARDED_BY(mutex_) = false;
    std::map<uint64_t, std::set<Priority>> priorities_ QUIRE_GUARDED_BY(mutex_);
  };

  NarrowPipe(std::unique_ptr<FramePipe> pipe, std::shared_ptr<Door> door)
      : pipe_(std::move(pipe)), door_(std::move(door)) {}
  PipeCapabilities capabilities() const override { return pipe_->capabilities(); }
  void Start(FrameReceiver* receiver) override { pipe_->Start(receiver); }
  Status Send(Frame frame) override {
    door_->Pass(frame);
    return pipe_->Send(std::move(frame));
  }
  void Close() override {
    door_->Open();
    pipe_->Close();
  }

 private:
  const std::unique_ptr<FramePipe> pipe_;
  const std::shared_ptr<Door> door_;
};

/// A server's end that runs a callback before it opens a landing.
class InterruptedPipe final : public FramePipe {
 public:
  /// The test's view of it; for one thread.
  struct Landings {
    std::function<void()> before_next_open;
    std::set<uint64_t> open;
  };

  InterruptedPipe(std::unique_ptr<FramePipe> pipe, Landings* landings)
      : pipe_(std::move(pipe)), landings_(landings) {}
  PipeCapabilities capabilities() const override { return pipe_->capabilities(); }
  void Start(FrameReceiver* receiver) override { pipe_->Start(receiver); }
  Status Send(Frame frame) override { return pipe_->Send(std::move(frame)); }
  Status OpenLanding(uint64_t id, std::string_view key, uint64_t bytes) override {
    if (const auto before = std::exchange(landings_->before_next_open, nullptr)) before();
    QUIRE_RETURN_IF_ERROR(pipe_->OpenLanding(id, key, bytes));
    landings_->open.insert(id);
    return OkStatus();
  }
  void CloseLanding(uint64_t id) override {
    pipe_->CloseLanding(id);
    landings_->open.erase(id);
  }
  void Close() override { pipe_->Close(); }

 private:
  const std::unique_ptr<FramePipe> pipe_;
  Landings* const landings_;
};

/// A client's end of a connection, frame by frame.
class RawClient {
 public:
  using Wrap = std::function<std::unique_ptr<FramePipe>(std::unique_ptr<FramePipe>)>;

  /// `wrap` may replace the server's end.
  explicit RawClient(FrameServer* server, const InprocOptions& options = {},
                     const Wrap& wrap = nullptr) {
    InprocPair pair = MakeInprocPair(options);
    pipe_ = std::move(pair.client);
    pipe_->Start(&received);
    server->Accept(wrap == nullptr ? std::move(pair.server) : wrap(std::move(pair.server)));
  }
  ~RawClient() {
    received.Resume();
    pipe_->Close();
  }

  void Send(const FrameHead& head) { SendBytes(EncodeFrameHead(head)); }
  void SendBytes(std::string head) { (void)pipe_->Send({.head = std::move(head)}); }
  void Hello(const std::string& tenant = "default", uint64_t window = 10 * kPart) {
    Send({.kind = FrameKind::kHello, .amount = window, .name = tenant, .text = tenant});
  }
  void Request(uint64_t id, const std::string& method, Priority priority = Priority::kNormal) {
    Send({.kind = FrameKind::kRequest,
          .priority = priority,
          .id = id,
          .amount = 60'000'000'000,
          .max_parts = UINT32_MAX,
          .name = method});
  }
  /// The next head.
  FrameHead Take() {
    while (frames_.empty()) {
      for (Frame& frame : received.Take(1)) frames_.push_back(std::move(frame));
    }
    const auto head = DecodeFrameHead(frames_.front().head);
    frames_.pop_front();
    EXPECT_TRUE(head.ok()) << head.status();
    return head.ok() ? *head : FrameHead{};
  }
  FrameHead TakeKind(FrameKind kind) {
    FrameHead head = Take();
    while (head.kind != kind) head = Take();
    return head;
  }
  FramePipe& pipe() { return *pipe_; }

  FrameRecorder received;

 private:
  std::unique_ptr<FramePipe> pipe_;
  std::deque<Frame> frames_;
};

class FrameServerTest : public ::testing::Test {
 protected:
  ~FrameServerTest() override { handler_.Release(); }

  FrameServer& Start(const FrameServer::Options& options) {
    server_ = std::make_unique<FrameServer>(
        &handler_,
        [](std::string_view, std::string_view ticket) -> StatusOr<std::string> {
          if (ticket == "forged") return Status(StatusCode::kUnauthenticated, "no such ticket");
          return std::string(ticket);
        },
        options);
    return *server_;
  }
  uint64_t Metric(const std::string& name) { return MetricValuesOf(*server_).at(name); }
  /// The landing that the handler of a call gets when the call names `landing`.
  std::shared_ptr<CallLanding> LandingOfCall(RawClient& client, uint64_t landing) {
    client.Send({.kind = FrameKind::kRequest,
                 .id = 100 + landing,
                 .amount = uint64_t{60} * 1000 * 1000 * 1000,
                 .landing = landing,
                 .landing_bytes = 4096,
                 .max_parts = 1,
                 .name = "Echo"});
    while (client.Take().kind != FrameKind::kEnd) continue;
    return handler_.TakeLanding();
  }

  HealthLines health_;
  FloodHandler handler_;
  std::unique_ptr<FrameServer> server_;
};

TEST_F(FrameServerTest, AForgedTicketOrAnothersIsRefusedWithTheReason) {
  Start({.health = health_.board()});
  for (const auto& [tenant, ticket, code] :
       {std::tuple{"default", "forged", StatusCode::kUnauthenticated},
        std::tuple{"default", "somebody", StatusCode::kPermissionDenied}}) {
    InprocPair pair = MakeInprocPair({});
    server_->Accept(std::move(pair.server));
    const auto client =
        FrameClient::Connect(std::move(pair.client), {.tenant = tenant, .ticket = ticket});
    EXPECT_EQ(client.status().code(), code) << client.status();
  }
  EXPECT_EQ(Metric("transport_hello_refused"), 2u);
  EXPECT_THAT(health_.lines(), ElementsAre(HasSubstr("caller_unproven: a connection over inproc")));
}

TEST_F(FrameServerTest, NothingIsDoneBeforeAHello) {
  Start({});
  RawClient client(server_.get());
  client.Request(1, "Echo");
  EXPECT_EQ(client.received.AwaitClosed().code(), StatusCode::kUnavailable);
  EXPECT_EQ(Metric("transport_calls"), 0u);
}

TEST_F(FrameServerTest, AConnectionWithoutAHelloIsClosed) {
  Start({.hello_timeout = std::chrono::milliseconds(20)});
  RawClient client(server_.get());
  EXPECT_EQ(client.received.AwaitClosed().code(), StatusCode::kUnavailable);
}

TEST_F(FrameServerTest, WhatIsNoFrameEndsTheConnection) {
  Start({});
  for (const std::string& bytes :
       {std::string("garbage"), std::string(kFrameHeaderBytes, '\0'),
        EncodeFrameHead({.kind = FrameKind::kEnd, .id = 1}),
        EncodeFrameHead({.kind = FrameKind::kHello, .amount = 1, .name = "default"})}) {
    RawClient client(server_.get());
    client.Hello();
    EXPECT_EQ(client.Take().kind, FrameKind::kHelloReply);
    client.SendBytes(bytes);
    EXPECT_EQ(client.received.AwaitClosed().code(), StatusCode::kUnavailable);
  }
}

TEST_F(FrameServerTest, CallsOverTheLimitAreRefusedWithAHintAndTheOthersGoOn) {
  Start({.max_calls = 2});
  RawClient client(server_.get());
  client.Hello();
  EXPECT_EQ(client.Take().kind, FrameKind::kHelloReply);
  for (const uint64_t id : {1, 2, 3}) client.Request(id, "Wait");
  const FrameHead refused = client.Take();
  EXPECT_EQ(refused.kind, FrameKind::kEnd);
  EXPECT_EQ(refused.id, 3u);
  EXPECT_EQ(refused.code, StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryAfter(FrameStatus(refused)));
  handler_.Release();
  EXPECT_EQ(client.Take().code, StatusCode::kInternal);
  EXPECT_EQ(client.Take().code, StatusCode::kInternal);
  client.Request(4, "Echo");
  EXPECT_EQ(client.Take().kind, FrameKind::kPart);
  EXPECT_EQ(Metric("transport_calls_refused"), 1u);
}

TEST_F(FrameServerTest, ConnectionsAreBoundedForATenantAndInAll) {
  Start({.max_connections = 3, .max_connections_per_tenant = 1, .health = health_.board()});
  RawClient first(server_.get()), second(server_.get()), other(server_.get());
  first.Hello();
  EXPECT_EQ(first.Take().code, StatusCode::kOk);
  second.Hello();
  EXPECT_EQ(second.Take().code, StatusCode::kResourceExhausted);
  other.Hello("other");
  EXPECT_EQ(other.Take().code, StatusCode::kOk);
  EXPECT_THAT(health_.lines(), ElementsAre(HasSubstr("call_refused: a connection over inproc: "
                                                     "tenant default has 1 connections")));
  RawClient fourth(server_.get());
  EXPECT_EQ(fourth.received.AwaitClosed().code(), StatusCode::kUnavailable);
}

TEST_F(FrameServerTest, TheOperatorHearsThatNoMoreConnectionsAreTaken) {
  Start({.max_connections = 1, .health = health_.board()});
  RawClient first(server_.get()), second(server_.get());
  EXPECT_EQ(second.received.AwaitClosed().code(), StatusCode::kUnavailable);
  EXPECT_THAT(health_.lines(), ElementsAre("call_refused: a connection was closed at once: there "
                                           "are 1, which is the limit"));
}

TEST_F(FrameServerTest, NoMoreIsSentThanThereIsCreditFor) {
  Start({});
  RawClient client(server_.get());
  client.Hello("default", 10 * kPart);
  EXPECT_EQ(client.Take().amount, 10 * kPart);
  client.Request(1, "Flood");
  // Each part needs its size in credit, so the window is used up to the last byte.
  for (int i = 0; i < 10; ++i) EXPECT_EQ(client.Take().kind, FrameKind::kPart);
  client.Request(2, "Echo");  // Overtakes the waiting call.
  EXPECT_EQ(client.Take().id, 2u);
  EXPECT_EQ(client.Take().kind, FrameKind::kEnd);
  client.Send({.kind = FrameKind::kCredit, .id = 1, .amount = 2 * kPart});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(client.Take().id, 1u);
  client.Request(3, "Echo");
  EXPECT_EQ(client.Take().id, 3u);
}

TEST_F(FrameServerTest, AClientThatTakesNothingLosesTheCallAndKeepsTheConnection) {
  Start({.stall_timeout = std::chrono::milliseconds(200)});
  RawClient client(server_.get());
  client.Hello();
  client.Request(1, "Flood");
  EXPECT_EQ(client.TakeKind(FrameKind::kEnd).code, StatusCode::kDeadlineExceeded);
  EXPECT_EQ(handler_.AwaitStopped().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Metric("transport_stalled"), 1u);
  client.Request(2, "Echo");
  EXPECT_EQ(client.Take().id, 2u);
  EXPECT_TRUE(handler_.AllReleased());
}

// A slow log delays no other call of the connection.
TEST_F(FrameServerTest, WhileAStalledCallIsLoggedOthersOfItsConnectionAreAnswered) {
  std::promise<void> logging, answered;
  bool was_answered = false;
  Health board(&SystemClock(), [&](const Health::Line&) {
    logging.set_value();
    was_answered =
        answered.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  });
  Start({.stall_timeout = std::chrono::milliseconds(50), .health = &board});
  RawClient client(server_.get());
  client.Hello();
  client.Request(1, "Flood");
  logging.get_future().wait();
  client.Request(2, "Echo");
  while (client.Take().id != 2) continue;
  answered.set_value();
  while (client.TakeKind(FrameKind::kEnd).id != 2) continue;  // The other call may end before.
  EXPECT_EQ(handler_.AwaitStopped().code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(was_answered);
}

TEST_F(FrameServerTest, AClientThatGivesBackByteByByteLosesTheCall) {
  Start({.stall_timeout = std::chrono::milliseconds(200)});
  RawClient client(server_.get());
  client.Hello();
  client.Request(1, "Flood");
  std::atomic<bool> ended{false};
  std::thread trickle([&] {
    // Ten bytes in the time in which a quarter of the window, 2500 bytes, must come back.
    for (TimePoint next = SystemClock().Now(); !ended; std::this_thread::yield()) {
      if (SystemClock().Now() < next) continue;
      client.Send({.kind = FrameKind::kCredit, .id = 1, .amount = 1});
      next += std::chrono::milliseconds(20);
    }
  });
  EXPECT_EQ(client.TakeKind(FrameKind::kEnd).code, StatusCode::kDeadlineExceeded);
  ended = true;
  trickle.join();
  EXPECT_EQ(handler_.AwaitStopped().code(), StatusCode::kDeadlineExceeded);
}

TEST_F(FrameServerTest, AShutdownLetsRunningCallsEndAndTakesNoOthers) {
  Start({});
  RawClient client(server_.get());
  client.Hello();
  EXPECT_EQ(client.Take().kind, FrameKind::kHelloReply);
  client.Request(1, "Wait");
  client.Request(2, "Echo");
  EXPECT_EQ(client.TakeKind(FrameKind::kEnd).id, 2u);  // The first one therefore runs.
  std::thread shutdown([&] { server_->Shutdown(std::chrono::minutes(5)); });
  for (uint64_t id = 3;; ++id) {  // Calls are answered until the shutdown has begun.
    client.Request(id, "Echo");
    const FrameHead head = client.Take();
    if (head.kind == FrameKind::kEnd) {
      EXPECT_EQ(head.code, StatusCode::kUnavailable);
      break;
    }
    EXPECT_EQ(client.Take().kind, FrameKind::kEnd);
  }
  handler_.Release();
  const FrameHead end = client.TakeKind(FrameKind::kEnd);
  EXPECT_EQ(end.id, 1u);
  EXPECT_EQ(end.code, StatusCode::kInternal) << "what the handler says";
  shutdown.join();
  EXPECT_EQ(client.received.AwaitClosed().code(), StatusCode::kUnavailable);
}

TEST_F(FrameServerTest, AShutdownWaitsNoLongerThanItsGrace) {
  Start({.stall_timeout = std::chrono::minutes(5)});
  RawClient client(server_.get());
  client.Hello();
  client.Request(1, "Flood");
  while (client.Take().kind != FrameKind::kPart) continue;
  server_->Shutdown(std::chrono::milliseconds(50));
  EXPECT_FALSE(handler_.AwaitStopped().ok());
}

TEST_F(FrameServerTest, APipeThatTakesNoBytesLosesTheConnection) {
  Start({.stall_timeout = std::chrono::milliseconds(50)});
  RawClient client(server_.get(), {.queue_frames = 1});
  client.Hello("default", uint64_t{1} << 30);
  EXPECT_EQ(client.Take().kind, FrameKind::kHelloReply);
  client.received.Stall();
  client.Request(1, "Flood");
  EXPECT_EQ(handler_.AwaitStopped().code(), StatusCode::kUnavailable);
  client.received.Resume();
  EXPECT_EQ(client.received.AwaitClosed().code(), StatusCode::kUnavailable);
  (void)client.received.Take(0);
  EXPECT_TRUE(handler_.AllReleased());
}

TEST_F(FrameServerTest, UrgentPartsOvertakeThoseThatWait) {
  Start({});
  RawClient client(server_.get(), {.queue_frames = 1});
  client.Hello("default", uint64_t{1} << 30);
  EXPECT_EQ(client.Take().kind, FrameKind::kHelloReply);
  client.received.Stall();
  for (const uint64_t id : {1, 2, 3}) client.Request(id, "Flood", Priority::kPrefetch);
  client.received.AwaitStalled();
  client.Request(4, "Flood", Priority::kCorrection);
  while (Metric("transport_calls") < 4) WaitToLookAgain();
  client.received.Resume();
  // From its first part on, the correction has nearly every turn. Prefetches get the turns while
  // its handler makes the next part.
  while (client.Take().id != 4) continue;
  int corrections = 0;
  for (int i = 0; i < 2000; ++i) corrections += client.Take().id == 4 ? 1 : 0;
  EXPECT_GT(corrections, 2000 / 4) << "an even share";
}

TEST_F(FrameServerTest, WhatAPipeKeepsWaitingHoldsUpNothingMoreUrgent) {
  Start({});
  const auto door = std::make_shared<NarrowPipe::Door>();
  RawClient client(server_.get(), {},
                   [&](auto pipe) { return std::make_unique<NarrowPipe>(std::move(pipe), door); });
  client.Hello();
  EXPECT_EQ(client.Take().kind, FrameKind::kHelloReply);
  client.Request(1, "Flood", Priority::kPrefetch);
  door->AwaitWaiting();
  client.Request(2, "Echo", Priority::kCorrection);
  EXPECT_EQ(client.Take().id, 2u);
  EXPECT_EQ(client.Take().kind, FrameKind::kEnd);
  // Control frames of the connection do not wait either.
  client.Request(3, "Flood", Priority::kPrefetch);
  client.Send({.kind = FrameKind::kCancel, .id = 3});
  const FrameHead end = client.Take();
  EXPECT_EQ(end.id, 3u);
  EXPECT_EQ(end.code, StatusCode::kCancelled);
  EXPECT_EQ(door->PrioritiesOf(1), std::set{Priority::kPrefetch});
  EXPECT_EQ(door->PrioritiesOf(2), std::set{Priority::kCorrection});
  EXPECT_EQ(door->PrioritiesOf(3), std::set{Priority::kPrefetch}) << "behind what it had sent";
  door->Open();
  EXPECT_EQ(client.Take().id, 1u);
}

TEST_F(FrameServerTest, ACancelEndsTheCallForTheClientWhileTheHandlerGoesOn) {
  Start({});
  RawClient client(server_.get());
  client.Hello();
  EXPECT_EQ(client.Take().kind, FrameKind::kHelloReply);
  client.Request(1, "Wait");
  client.Send({.kind = FrameKind::kCancel, .id = 1});
  const FrameHead end = client.Take();
  EXPECT_EQ(end.kind, FrameKind::kEnd);
  EXPECT_EQ(end.code, StatusCode::kCancelled);
  handler_.Release();
  client.Request(2, "Echo");
  EXPECT_EQ(client.Take().id, 2u) << "the call that was cancelled has one end";
  EXPECT_EQ(Metric("transport_cancelled"), 1u);
}

TEST_F(FrameServerTest, TheDeathOfAClientStopsItsHandlersAndLetsEverythingGo) {
  Start({});
  for (const bool stalled : {false, true}) {
    RawClient client(server_.get(), {.queue_frames = 2});
    client.Hello("default", uint64_t{1} << 30);
    EXPECT_EQ(client.Take().kind, FrameKind::kHelloReply);
    if (stalled) client.received.Stall();
    client.Request(1, "Flood", stalled ? Priority::kPrefetch : Priority::kCorrection);
    if (stalled) {
      client.received.AwaitStalled();
    } else {
      (void)client.Take();
    }
    DropInprocConnection(client.pipe());
    EXPECT_FALSE(handler_.AwaitStopped(stalled ? Priority::kPrefetch : Priority::kCorrection).ok());
  }
  EXPECT_TRUE(handler_.AllReleased());
}

TEST_F(FrameServerTest, LandingsBelongToOneConnectionOfOneTenant) {
  Start({});
  RawClient client(server_.get(), {.direct_landing = true});
  client.Hello();
  const uint64_t id = client.Take().id;
  std::vector<std::byte> memory(4096);
  const auto key = client.pipe().AddLanding(1, memory);
  ASSERT_TRUE(key.ok());
  EXPECT_TRUE(server_->OpenLanding("default", id, 1, *key, 4096).ok());
  EXPECT_EQ(server_->OpenLanding("other", id, 1, *key, 4096).code(), StatusCode::kNotFound);
  EXPECT_EQ(server_->OpenLanding("default", id + 1, 1, *key, 4096).code(), StatusCode::kNotFound);
  EXPECT_EQ(server_->OpenLanding("default", id, 2, "no key", 4096).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(server_->OpenLanding("default", id, 1, "no key", 4096).code(),
            StatusCode::kInvalidArgument)
      << "and landing 1 counts as before";
  EXPECT_EQ(server_->OpenLanding("default", id, 0, *key, 4096).code(),
            StatusCode::kInvalidArgument);
  for (uint64_t landing = 2; landing <= wire::kMaxLandings; ++landing) {
    const auto more = client.pipe().AddLanding(landing, memory);
    EXPECT_TRUE(server_->OpenLanding("default", id, landing, *more, 4096).ok());
  }
  const auto more = client.pipe().AddLanding(1000, memory);
  EXPECT_EQ(server_->OpenLanding("default", id, 1000, *more, 4096).code(),
            StatusCode::kResourceExhausted);
  EXPECT_TRUE(server_->CloseLanding("default", id, 1).ok());
  EXPECT_TRUE(server_->CloseLanding("default", id, 1).ok());
  EXPECT_TRUE(server_->OpenLanding("default", id, 1000, *more, 4096).ok());
}

TEST_F(FrameServerTest, WhoAnswersACallCanClaimItsLandingAndRevokeIt) {
  Start({});
  RawClient client(server_.get(), {.direct_landing = true});
  client.Hello();
  const uint64_t id = client.Take().id;
  std::vector<std::byte> memory(4096);
  const auto announce = [&](uint64_t landing) {
    const auto key = client.pipe().AddLanding(landing, memory);
    return server_->OpenLanding("default", id, landing, *key, 4096);
  };
  const auto landing_of = [&](uint64_t landing) { return LandingOfCall(client, landing); };
  for (uint64_t landing = 1; landing <= wire::kMaxLandings; ++landing) {
    ASSERT_EQ(announce(landing), OkStatus());
  }
  EXPECT_EQ(announce(1000).code(), StatusCode::kResourceExhausted);
  const auto first = landing_of(1);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(landing_of(1000), nullptr);  // Not announced.
  EXPECT_TRUE(first->Claim(&memory));
  EXPECT_TRUE(landing_of(1)->Claim(&memory));
  EXPECT_FALSE(first->Claim(&id));
  first->Revoke();
  EXPECT_EQ(announce(1000), OkStatus());  // One landing fits again.
  EXPECT_EQ(landing_of(1), nullptr);
  EXPECT_EQ(server_->CloseLanding("default", id, 2), OkStatus());
  EXPECT_EQ(announce(1), OkStatus());
  first->Revoke();  // Belongs to the previous landing: the new landing 1 stays.
  EXPECT_NE(landing_of(1), nullptr);
}

TEST_F(FrameServerTest, CallsHaveTheLandingsThatThePipeHasOpenWhateverComesBetween) {
  Start({});
  InterruptedPipe::Landings landings;
  RawClient client(server_.get(), {.direct_landing = true}, [&](auto pipe) {
    return std::make_unique<InterruptedPipe>(std::move(pipe), &landings);
  });
  client.Hello();
  const uint64_t id = client.Take().id;
  std::vector<std::byte> memory(4096);
  const auto open = [&](uint64_t landing, const std::string& key) {
    return server_->OpenLanding("default", id, landing, key, 4096).code();
  };
  const auto key = [&](uint64_t landing) { return *client.pipe().AddLanding(landing, memory); };
  const auto expect_open = [&](uint64_t landing, bool expected) {
    EXPECT_EQ(landings.open.contains(landing), expected) << landing;
    EXPECT_EQ(LandingOfCall(client, landing) != nullptr, expected) << landing;
  };

  landings.before_next_open = [&] { EXPECT_TRUE(server_->CloseLanding("default", id, 1).ok()); };
  EXPECT_EQ(open(1, key(1)), StatusCode::kOk) << "the landing before was closed";
  expect_open(1, true);
  landings.before_next_open = [&] { EXPECT_EQ(open(2, key(2)), StatusCode::kOk); };
  EXPECT_EQ(open(2, "no key"), StatusCode::kInvalidArgument);
  expect_open(2, true);
  for (uint64_t landing = 3; landing < wire::kMaxLandings; ++landing) {
    EXPECT_EQ(open(landing, key(landing)), StatusCode::kOk);
  }
  landings.before_next_open = [&] { EXPECT_EQ(open(1000, key(1000)), StatusCode::kOk); };
  EXPECT_EQ(open(1001, key(1001)), StatusCode::kResourceExhausted);
  expect_open(1000, true);
  expect_open(1001, false);
}

TEST_F(FrameServerTest, ConnectionsAreCountedByKind) {
  Start({});
  RawClient client(server_.get());
  client.Hello();
  (void)client.Take();
  EXPECT_EQ(Metric("transport_connections{kind=\"inproc\"}"), 1u);
  client.pipe().Close();
  while (Metric("transport_connections{kind=\"inproc\"}") != 0) WaitToLookAgain();
}

}  // namespace
}  // namespace quire::testing
