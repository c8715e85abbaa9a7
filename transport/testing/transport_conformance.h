// SPDX-License-Identifier: Apache-2.0
//
// The suite that every transport passes. A test file of a transport includes it and writes
//
//   INSTANTIATE_TEST_SUITE_P(Loopback, TransportConformance, ::testing::Values(&MakeLoopback));
//
// where MakeLoopback connects a fresh transport to a given handler. No test sleeps: handlers block
// on conditions, and deadlines are the only waits. A transport whose replies have parts also
// instantiates PartsConformance (parts_conformance.h). One whose handlers run concurrently with the
// caller adds StreamingConformance (streaming_conformance.h).
//
// Handlers answer from the ServerMemory under test. At the end of a test nothing of it is held,
// whatever the test did.
#ifndef QUIRE_TRANSPORT_TESTING_TRANSPORT_CONFORMANCE_H_
#define QUIRE_TRANSPORT_TESTING_TRANSPORT_CONFORMANCE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/base/retry_hint.h"
#include "common/base/threads/mutex.h"
#include "quire/v1/types.pb.h"
#include "transport/testing/server_memory.h"
#include "transport/transport.h"

namespace quire::testing {

inline constexpr uint64_t kTestMaxMessageBytes = 8 << 20;

/// A client end connected to a server end that calls a handler.
class TransportUnderTest {
 public:
  explicit TransportUnderTest(
      std::shared_ptr<ServerMemory> memory = std::make_shared<ServerMemory>())
      : memory_(std::move(memory)) {}
  virtual ~TransportUnderTest() = default;
  /// Memory that handlers answer from. It may outlive this.
  const std::shared_ptr<ServerMemory>& server_memory() const { return memory_; }
  /// Why the suites cannot run on this machine; empty when they can.
  virtual std::string SkipReason() const { return {}; }
  virtual Transport& transport() = 0;
  /// A transport for calls of `tenant`, where a transport serves one tenant only.
  virtual Transport& TransportOf(const std::string& tenant) {
    (void)tenant;
    return transport();
  }
  /// Ends the server end; calls running in it have returned.
  virtual void KillPeer() = 0;

 private:
  const std::shared_ptr<ServerMemory> memory_;
};
using TransportFactory = std::unique_ptr<TransportUnderTest> (*)(CallHandler* handler,
                                                                 uint64_t max_message_bytes);

/// Memory for landings of up to `bytes`: plain memory, and what `transport` allocates, which the
/// server may write to without this process.
inline std::vector<OwnedMemory> LandingMemories(Transport& transport, uint64_t bytes) {
  const auto plain = std::make_shared<std::vector<std::byte>>(bytes);
  auto allocated = transport.AllocateLandingMemory(bytes);
  EXPECT_TRUE(allocated.ok()) << allocated.status();
  return {OwnedMemory{*plain, plain}, allocated.value_or(OwnedMemory{*plain, plain})};
}
/// True if all of `memory` is `value`.
inline bool IsFilled(std::span<const std::byte> memory, std::byte value) {
  return std::ranges::all_of(memory, [&](std::byte b) { return b == value; });
}

/// Control bytes (a protobuf message) that carry `text` and `number`.
inline std::string Control(const std::string& text, uint64_t number = 0) {
  v1::DocumentName message;
  message.set_name(text);
  message.set_version(number);
  return message.SerializeAsString();
}
inline std::string TextOf(const std::string& control) {
  v1::DocumentName message;
  return message.ParseFromString(control) ? message.name() : "not a message";
}
inline uint64_t NumberOf(const std::string& control) {
  v1::DocumentName message;
  return message.ParseFromString(control) ? message.version() : 0;
}

/// Handles the calls of the tests.
class TestHandler final : public CallHandler {
 public:
  std::vector<std::string> Methods() const override {
    return {"quire.test.A/Echo",   "quire.test.A/Fail",  "quire.test.A/Refuse",
            "quire.test.A/Tenant", "quire.test.A/Trace", "quire.test.B/Block",
            "quire.test.B/Produce"};
  }

  Status Handle(const CallContext& context, std::string_view method, const CallMessage& request,
                ReplyWriter& reply) override {
    CallMessage answer;
    QUIRE_RETURN_IF_ERROR(Answer(context, method, request, &answer));
    return reply.Write(std::move(answer));
  }

  /// Sets the memory that answers lie in. Call it before any call.
  void AnswerFrom(std::shared_ptr<ServerMemory> memory) { memory_.Use(std::move(memory)); }

  /// Ends the wait of every Block call.
  void Release() {
    MutexLock lock(mutex_);
    released_ = true;
    changed_.NotifyAll();
  }

 private:
  Status Answer(const CallContext& context, std::string_view method, const CallMessage& request,
                CallMessage* reply) {
    if (method == "quire.test.A/Echo") return Echo(request, reply);
    if (method == "quire.test.A/Fail") {
      return Status(static_cast<StatusCode>(NumberOf(request.control)), TextOf(request.control));
    }
    if (method == "quire.test.A/Refuse") {
      return WithRetryAfter(ResourceExhausted("busy"),
                            std::chrono::milliseconds(NumberOf(request.control)));
    }
    if (method == "quire.test.A/Tenant") {
      reply->control = Control(context.tenant);
      return OkStatus();
    }
    if (method == "quire.test.A/Trace") {
      reply->control = Control(context.trace.valid() ? FormatTraceparent(context.trace) : "none");
      return OkStatus();
    }
    if (method == "quire.test.B/Block") return Block(context);
    if (method == "quire.test.B/Produce") {
      const uint64_t bytes = NumberOf(request.control);
      reply->payload.Append(memory_.Keep(std::vector<std::byte>(bytes, std::byte{7})));
      return OkStatus();
    }
    return Unimplemented("no method ", method);
  }
  Status Echo(const CallMessage& request, CallMessage* reply) {
    reply->control = request.control;
    std::vector<std::byte> copy(request.payload.size_bytes());
    request.payload.CopyTo(copy.data());
    reply->payload.Append(memory_.Keep(std::move(copy)));
    return OkStatus();
  }
  /// Returns OK when released, or a while after the call's deadline. The caller must end such a
  /// call itself.
  Status Block(const CallContext& context) {
    constexpr auto kAfter = std::chrono::milliseconds(100);
    MutexLock lock(mutex_);
    for (Duration left = context.deadline - SystemClock().Now() + kAfter;
         !released_ && left > Duration::zero();
         left = context.deadline - SystemClock().Now() + kAfter) {
      changed_.WaitFor(mutex_, std::min<Duration>(left, std::chrono::minutes(1)));
    }
    return OkStatus();
  }

  AnswerMemory memory_;
  Mutex mutex_;
  CondVar changed_;
  bool released_ QUIRE_GUARDED_BY(mutex_) = false;
};

class TransportConformance : public ::testing::TestWithParam<TransportFactory> {
 protected:
  void SetUp() override {
    handler_.AnswerFrom(memory_);
    if (const std::string why = connection_->SkipReason(); !why.empty()) GTEST_SKIP() << why;
  }
  void TearDown() override {
    handler_.Release();
    memory_->ExpectAllReturned();
    connection_.reset();
    memory_->ExpectAllReleased();
  }

  Transport& transport() { return connection_->transport(); }
  Status Call(std::string_view method, const CallMessage& request, CallMessage* reply,
              Duration timeout = std::chrono::seconds(60)) {
    return transport().Call(method, request, reply, {.tenant = "default", .timeout = timeout});
  }
  /// Sends slices of these sizes, with and without owners, and checks that they come back.
  void ExpectEcho(const std::vector<size_t>& slice_sizes, uint64_t seed) {
    SeededRandom random(seed);
    CallMessage request, reply;
    request.control = Control("echo", seed);
    std::vector<std::vector<std::byte>> unowned;
    for (const size_t size : slice_sizes) {
      std::vector<std::byte> bytes(size);
      for (std::byte& b : bytes) b = static_cast<std::byte>(random.Next());
      if (random.Below(2) == 0) {
        request.payload.Append(std::move(bytes));
      } else {
        unowned.push_back(std::move(bytes));
        request.payload.Append(Slice{std::span<const std::byte>(unowned.back()), nullptr});
      }
    }
    const Status status = Call("quire.test.A/Echo", request, &reply);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(reply.control, request.control);
    ASSERT_EQ(reply.payload.size_bytes(), request.payload.size_bytes());
    const Slice sent = request.payload.Flatten(), received = reply.payload.Flatten();
    EXPECT_TRUE(std::equal(sent.bytes.begin(), sent.bytes.end(), received.bytes.begin()));
  }

  TestHandler handler_;
  std::unique_ptr<TransportUnderTest> connection_ = GetParam()(&handler_, kTestMaxMessageBytes);
  const std::shared_ptr<ServerMemory> memory_ = connection_->server_memory();
};

TEST_P(TransportConformance, EchoesPayloadsOfEveryShape) {
  ExpectEcho({}, 1);
  ExpectEcho({0, 0}, 2);
  ExpectEcho({1}, 3);
  ExpectEcho({1, 0, 2, 127, 128, 129}, 4);
  ExpectEcho({16384}, 5);
  ExpectEcho(std::vector<size_t>(300, 16384), 6);
  ExpectEcho(std::vector<size_t>(5000, 7), 7);
  ExpectEcho({(5 << 20) + 3}, 8);
  ExpectEcho({kTestMaxMessageBytes - 64}, 9);
}

TEST_P(TransportConformance, EmptyMessagesPass) {
  CallMessage reply{Control("old"), {}};
  ASSERT_TRUE(Call("quire.test.A/Echo", {}, &reply).ok());
  EXPECT_EQ(reply.control, "");
  EXPECT_TRUE(reply.payload.empty());
}

TEST_P(TransportConformance, ReceivedBytesOutliveTheTransport) {
  CallMessage reply;
  ASSERT_TRUE(Call("quire.test.B/Produce", {Control("", 100000), {}}, &reply).ok());
  connection_.reset();
  std::vector<std::byte> bytes(reply.payload.size_bytes());
  reply.payload.CopyTo(bytes.data());
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), std::byte{7}), 100000);
}

TEST_P(TransportConformance, PayloadThatIsInPlaceLiesWhereTheServerKeepsIt) {
  if (!transport().capabilities().in_place) GTEST_SKIP() << "it is copied on its way";
  CallMessage reply;
  ASSERT_TRUE(Call("quire.test.B/Produce", {Control("", 100000), {}}, &reply).ok());
  memory_->OverwriteLast(std::byte{8});
  const Slice bytes = reply.payload.Flatten();
  EXPECT_EQ(std::ranges::count(bytes.bytes, std::byte{8}), 100000);
}

TEST_P(TransportConformance, StatusCodesAndMessagesArePreserved) {
  for (int code = 1; code <= 16; ++code) {
    // Transports extend its messages.
    if (code == static_cast<int>(StatusCode::kUnavailable)) continue;
    const std::string text = "page 7: \"caf\xc3\xa9\" 100% \n gone";
    CallMessage reply{"untouched", {}};
    const Status status =
        Call("quire.test.A/Fail", {Control(text, static_cast<uint64_t>(code)), {}}, &reply);
    EXPECT_EQ(static_cast<int>(status.code()), code);
    EXPECT_EQ(Message(status), text);
    EXPECT_EQ(reply.control, "untouched");
  }
}

TEST_P(TransportConformance, UnavailableKeepsItsCodeAndWords) {
  CallMessage reply;
  const Status status =
      Call("quire.test.A/Fail",
           {Control("restarting", static_cast<uint64_t>(StatusCode::kUnavailable)), {}}, &reply);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Message(status)), ::testing::HasSubstr("restarting"));
}

TEST_P(TransportConformance, ARetryHintArrives) {
  CallMessage reply;
  const Status refused = Call("quire.test.A/Refuse", {Control("", 1500), {}}, &reply);
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(RetryAfter(refused), std::chrono::milliseconds(1500));
  const auto code = static_cast<uint64_t>(StatusCode::kResourceExhausted);
  const Status final = Call("quire.test.A/Fail", {Control("full", code), {}}, &reply);
  EXPECT_EQ(RetryAfter(final), std::nullopt);
}

TEST_P(TransportConformance, AnUnknownMethodIsUnimplemented) {
  CallMessage reply;
  EXPECT_EQ(Call("quire.test.A/Nope", {}, &reply).code(), StatusCode::kUnimplemented);
  EXPECT_EQ(Call("quire.test.Nope/Echo", {}, &reply).code(), StatusCode::kUnimplemented);
}

TEST_P(TransportConformance, OversizedMessagesAreRefusedNamingTheLimit) {
  const std::string limit = std::to_string(kTestMaxMessageBytes);
  CallMessage request, reply;
  request.payload.Append(std::vector<std::byte>(kTestMaxMessageBytes + 1));
  const Status sent = Call("quire.test.A/Echo", request, &reply);
  EXPECT_EQ(sent.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(Message(sent)), ::testing::HasSubstr(limit));
  const Status received =
      Call("quire.test.B/Produce", {Control("", kTestMaxMessageBytes + 1), {}}, &reply);
  EXPECT_EQ(received.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(Message(received)), ::testing::HasSubstr(limit));
  EXPECT_TRUE(Call("quire.test.B/Produce", {Control("", kTestMaxMessageBytes), {}}, &reply).ok());
}

TEST_P(TransportConformance, ADeadlineThatPassesEndsTheCall) {
  CallMessage reply{"untouched", {}};
  const Status status = Call("quire.test.B/Block", {}, &reply, std::chrono::milliseconds(50));
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(reply.control, "untouched");
  const Status next = Call("quire.test.A/Echo", {}, &reply);
  EXPECT_TRUE(next.ok()) << next;
}

TEST_P(TransportConformance, ConcurrentCallsKeepTheirOwnReplies) {
  constexpr int kThreads = 4, kCalls = 50;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCalls; ++i) {
        const auto number = static_cast<uint64_t>(t * kCalls + i);
        CallMessage reply;
        CallMessage request{Control("concurrent", number), {}};
        request.payload.Append(std::vector<std::byte>(number * 10, static_cast<std::byte>(number)));
        const bool good = Call("quire.test.A/Echo", request, &reply).ok() &&
                          NumberOf(reply.control) == number &&
                          reply.payload.size_bytes() == number * 10;
        if (!good) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(TransportConformance, ThePlaceInATraceArrives) {
  CallMessage reply;
  CallOptions options;
  ASSERT_TRUE(transport().Call("quire.test.A/Trace", {}, &reply, options).ok());
  EXPECT_EQ(TextOf(reply.control), "none");
  for (const char* const trace : {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                  "00-00000000000000000000000000000001-0000000000000001-00"}) {
    options.trace = *ParseTraceparent(trace);
    ASSERT_TRUE(transport().Call("quire.test.A/Trace", {}, &reply, options).ok());
    EXPECT_EQ(TextOf(reply.control), trace);
  }
}

TEST_P(TransportConformance, TheTenantArrives) {
  CallMessage reply;
  const CallOptions options{.tenant = "team-a_1.x", .timeout = std::chrono::seconds(60)};
  Transport& own = connection_->TransportOf(options.tenant);
  ASSERT_TRUE(own.Call("quire.test.A/Tenant", {}, &reply, options).ok());
  EXPECT_EQ(TextOf(reply.control), "team-a_1.x");
}

TEST_P(TransportConformance, ADeadPeerIsUnavailable) {
  CallMessage reply;
  ASSERT_TRUE(Call("quire.test.A/Echo", {}, &reply).ok());
  connection_->KillPeer();
  EXPECT_EQ(Call("quire.test.A/Echo", {}, &reply).code(), StatusCode::kUnavailable);
}

TEST_P(TransportConformance, CapabilitiesAreStated) {
  EXPECT_FALSE(transport().capabilities().name.empty());
  EXPECT_EQ(transport().capabilities().max_message_bytes, kTestMaxMessageBytes);
}

}  // namespace quire::testing

#endif  // QUIRE_TRANSPORT_TESTING_TRANSPORT_CONFORMANCE_H_
