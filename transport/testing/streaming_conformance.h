// SPDX-License-Identifier: Apache-2.0
//
// The suite of transports whose handlers run concurrently with the caller. It covers parts that
// arrive before the reply is complete, deadlines, cancellation, death, slow readers and priorities.
// Instantiate it like TransportConformance. No test sleeps: handlers block on conditions.
#ifndef QUIRE_TRANSPORT_TESTING_STREAMING_CONFORMANCE_H_
#define QUIRE_TRANSPORT_TESTING_STREAMING_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "quire/clock.h"
#include "tests/kit/look_again.h"
#include "transport/testing/transport_conformance.h"

namespace quire::testing {

/// Answers slowly, in parts.
class StreamingHandler final : public CallHandler {
 public:
  static constexpr size_t kPartBytes = 64 << 10;
  /// Size of parts in Flood and Overtake. Their replies fit the window of the suite's connections,
  /// so no part waits for credit.
  static constexpr size_t kSmallPartBytes = 16 << 10;
  static constexpr uint64_t kFloodParts = 32;
  static constexpr uint64_t kOvertakeParts = 16;

  std::vector<std::string> Methods() const override {
    return {"quire.test.S/Gated",   "quire.test.S/Endless",       "quire.test.S/Meet",
            "quire.test.S/Echo",    "quire.test.S/EndlessPlaced", "quire.test.S/Flood",
            "quire.test.S/Overtake"};
  }
  Status Handle(const CallContext& context, std::string_view method, const CallMessage& request,
                ReplyWriter& reply) override {
    if (method == "quire.test.S/Echo") return reply.Write({request.control, {}});
    if (method == "quire.test.S/Gated") return Gated(reply);
    if (method == "quire.test.S/Meet") return Meet(NumberOf(request.control), reply);
    if (method == "quire.test.S/Flood") return Flood(reply);
    if (method == "quire.test.S/Overtake") return Overtake(NumberOf(request.control), reply);
    if (method == "quire.test.S/Endless") return Endless(context, {}, reply);
    if (method == "quire.test.S/EndlessPlaced") return Endless(context, {0}, reply);
    return Unimplemented("no method ", method);
  }

  /// Sets the memory that answers lie in. Call it before any call.
  void AnswerFrom(std::shared_ptr<ServerMemory> memory) { memory_.Use(std::move(memory)); }

  /// Releases the Gated calls.
  void OpenGate() {
    MutexLock lock(mutex_);
    open_ = true;
    changed_.NotifyAll();
  }
  /// Waits until an Endless call sends.
  void AwaitRunning() {
    MutexLock lock(mutex_);
    while (sent_.empty()) changed_.Wait(mutex_);
  }
  /// Waits until an Endless call has stopped, and returns its status.
  Status AwaitStopped() {
    MutexLock lock(mutex_);
    while (stopped_.ok()) changed_.Wait(mutex_);
    return std::exchange(stopped_, OkStatus());
  }
  /// How many Flood parts were sent during each part of an Overtake call, where most Flood calls
  /// were sending before it. Call it after all of them have ended.
  std::vector<uint64_t> TakeOvertaking() {
    MutexLock lock(mutex_);
    return std::exchange(floods_, {}).meanwhile;
  }
  bool saw_cancel() {
    MutexLock lock(mutex_);
    return saw_cancel_;
  }
  /// True once all bytes of parts are released.
  bool AllReleased() {
    MutexLock lock(mutex_);
    return std::all_of(sent_.begin(), sent_.end(), [](const auto& w) { return w.expired(); });
  }

 private:
  static CallMessage Numbered(uint64_t number) { return {Control("part", number), {}}; }

  Status Gated(ReplyWriter& reply) {
    QUIRE_RETURN_IF_ERROR(reply.Write(Numbered(0)));
    {
      MutexLock lock(mutex_);
      while (!open_) changed_.Wait(mutex_);
    }
    return reply.Write(Numbered(1));
  }
  /// Answers when `count` of these calls run at a time.
  Status Meet(uint64_t count, ReplyWriter& reply) {
    {
      MutexLock lock(mutex_);
      if (++met_ >= count) open_ = true;
      changed_.NotifyAll();
      while (!open_) changed_.Wait(mutex_);
    }
    return reply.Write(Numbered(count));
  }
  Status WriteSmallPart(uint64_t number, ReplyWriter& reply) {
    CallMessage part = Numbered(number);
    part.payload.Append(memory_.Keep(std::vector<std::byte>(kSmallPartBytes)));
    return reply.Write(std::move(part));
  }
  /// Begins when the Overtake call allows it.
  Status Flood(ReplyWriter& reply) {
    {
      MutexLock lock(mutex_);
      ++floods_.came;
      changed_.NotifyAll();
      while (!floods_.open && !open_) changed_.Wait(mutex_);
    }
    Status status;
    for (uint64_t i = 0; i < kFloodParts && status.ok(); ++i) {
      {
        MutexLock lock(mutex_);
        ++floods_.sending;
      }
      status = WriteSmallPart(i, reply);
      MutexLock lock(mutex_);
      --floods_.sending;
      ++floods_.parts;
      changed_.NotifyAll();
    }
    return status;
  }
  /// Writes once `count` Flood calls have each sent a part.
  Status Overtake(uint64_t count, ReplyWriter& reply) {
    {
      MutexLock lock(mutex_);
      while (floods_.came < count && !open_) changed_.Wait(mutex_);
      floods_.open = true;
      changed_.NotifyAll();
      while (floods_.parts < count && !open_) changed_.Wait(mutex_);
    }
    for (uint64_t i = 0; i < kOvertakeParts; ++i) {
      const Floods before = Progress();
      QUIRE_RETURN_IF_ERROR(WriteSmallPart(i, reply));
      MutexLock lock(mutex_);
      if (before.sending < count * 3 / 4) continue;
      floods_.meanwhile.push_back(floods_.parts - before.parts);
    }
    return OkStatus();
  }
  /// Writes until the caller stops taking parts.
  Status Endless(const CallContext& context, const std::vector<uint64_t>& places,
                 ReplyWriter& reply) {
    Status status;
    for (uint64_t i = 0; status.ok(); ++i) {
      CallMessage part = Numbered(i);
      part.payload.Append(memory_.Keep(std::vector<std::byte>(kPartBytes, std::byte{1})));
      {
        MutexLock lock(mutex_);
        sent_.push_back(part.payload.slices().front().owner);
        changed_.NotifyAll();
      }
      part.places = places;
      status = reply.Write(std::move(part));
    }
    MutexLock lock(mutex_);
    stopped_ = status;
    saw_cancel_ = context.IsCancelled();
    changed_.NotifyAll();
    return status;
  }

  /// Progress of the Flood calls.
  struct Floods {
    bool open = false;
    uint64_t came = 0;
    uint64_t sending = 0;  ///< Calls whose part now waits for its turn; nearly always so.
    uint64_t parts = 0;
    std::vector<uint64_t> meanwhile = {};  ///< Result of TakeOvertaking.
  };
  Floods Progress() {
    MutexLock lock(mutex_);
    return floods_;
  }

  AnswerMemory memory_;
  Mutex mutex_;
  CondVar changed_;
  Floods floods_ QUIRE_GUARDED_BY(mutex_);
  bool open_ QUIRE_GUARDED_BY(mutex_) = false;
  uint64_t met_ QUIRE_GUARDED_BY(mutex_) = 0;
  Status stopped_ QUIRE_GUARDED_BY(mutex_);
  bool saw_cancel_ QUIRE_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<const void>> sent_ QUIRE_GUARDED_BY(mutex_);
};

class StreamingConformance : public ::testing::TestWithParam<TransportFactory> {
 protected:
  static constexpr TimePoint kEver = TimePoint::max();

  void SetUp() override {
    handler_.AnswerFrom(memory_);
    if (const std::string why = connection_->SkipReason(); !why.empty()) GTEST_SKIP() << why;
  }
  void TearDown() override {
    handler_.OpenGate();
    memory_->ExpectAllReturned();
    connection_.reset();
    memory_->ExpectAllReleased();
  }

  Transport& transport() { return connection_->transport(); }
  std::unique_ptr<PendingCall> Start(const std::string& method, uint64_t number = 0,
                                     Duration timeout = std::chrono::minutes(1),
                                     Landing* landing = nullptr) {
    auto call = transport().Start("quire.test.S/" + method, {Control("", number), {}},
                                  {.timeout = timeout, .landing = landing});
    EXPECT_TRUE(call.ok()) << call.status();
    return call.ok() ? std::move(call).value() : nullptr;
  }
  std::unique_ptr<PendingCall> StartAs(Priority priority, const std::string& method,
                                       uint64_t number = 0) {
    auto call = transport().Start("quire.test.S/" + method, {Control("", number), {}},
                                  {.timeout = std::chrono::minutes(1), .priority = priority});
    EXPECT_TRUE(call.ok()) << call.status();
    return call.ok() ? std::move(call).value() : nullptr;
  }
  /// Takes `count` parts and the end.
  static void ExpectNumbersTo(uint64_t count, PendingCall& call) {
    for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(TakeNumber(call), i);
    const auto end = call.Next(kEver);
    ASSERT_TRUE(end.ok()) << end.status();
    EXPECT_FALSE(end->has_value());
  }
  static uint64_t TakeNumber(PendingCall& call) {
    const auto part = call.Next(kEver);
    EXPECT_TRUE(part.ok()) << part.status();
    return part.ok() && *part ? NumberOf((*part)->control) : UINT64_MAX;
  }
  Status Echo() {
    CallMessage reply;
    return transport().Call("quire.test.S/Echo", {}, &reply, {.timeout = std::chrono::minutes(1)});
  }
  bool AllReleased() {
    return BecomesTrue([this] { return handler_.AllReleased(); });
  }

  StreamingHandler handler_;
  std::unique_ptr<TransportUnderTest> connection_ = GetParam()(&handler_, kTestMaxMessageBytes);
  const std::shared_ptr<ServerMemory> memory_ = connection_->server_memory();
};

TEST_P(StreamingConformance, APartIsThereBeforeTheNextIsWritten) {
  const auto call = Start("Gated");
  EXPECT_EQ(TakeNumber(*call), 0u);
  handler_.OpenGate();
  EXPECT_EQ(TakeNumber(*call), 1u);
  const auto end = call->Next(kEver);
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_FALSE(end->has_value());
}

TEST_P(StreamingConformance, ADeadlineOfNextLeavesTheCallAlive) {
  const auto call = Start("Gated");
  EXPECT_EQ(TakeNumber(*call), 0u);
  for (const Duration wait : {Duration::zero(), Duration(std::chrono::milliseconds(5))}) {
    EXPECT_EQ(call->Next(SystemClock().Now() + wait).status().code(),
              StatusCode::kDeadlineExceeded);
  }
  handler_.OpenGate();
  EXPECT_EQ(TakeNumber(*call), 1u);
}

TEST_P(StreamingConformance, TheTimeoutEndsTheCallAndStopsTheHandler) {
  const auto call = Start("Endless", 0, std::chrono::milliseconds(500));
  EXPECT_EQ(TakeNumber(*call), 0u);
  Status end;
  while (end.ok()) end = call->Next(kEver).status();
  EXPECT_EQ(end.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(call->Next(kEver).status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(handler_.AwaitStopped().ok());
  EXPECT_TRUE(AllReleased());
  EXPECT_TRUE(Echo().ok());
}

TEST_P(StreamingConformance, CancelFromAnotherThreadEndsNextAndStopsTheHandler) {
  const auto call = Start("Endless");
  EXPECT_EQ(TakeNumber(*call), 0u);
  std::thread canceller([&] { call->Cancel(); });
  Status end;
  while (end.ok()) end = call->Next(kEver).status();
  canceller.join();
  EXPECT_EQ(end.code(), StatusCode::kCancelled);
  EXPECT_EQ(handler_.AwaitStopped().code(), StatusCode::kCancelled);
  EXPECT_TRUE(handler_.saw_cancel());
  EXPECT_TRUE(AllReleased());
  EXPECT_TRUE(Echo().ok());
}

TEST_P(StreamingConformance, ACallThatIsDestroyedIsCancelled) {
  auto call = Start("Endless");
  EXPECT_EQ(TakeNumber(*call), 0u);
  call.reset();
  EXPECT_EQ(handler_.AwaitStopped().code(), StatusCode::kCancelled);
  EXPECT_TRUE(AllReleased());
}

TEST_P(StreamingConformance, NothingLandsAfterTheCallHasEnded) {
  const auto destroy = [](std::unique_ptr<PendingCall>& call) { call.reset(); };
  const auto await = [](std::unique_ptr<PendingCall>& call) {
    call->Cancel();
    EXPECT_EQ(call->Next(kEver).status().code(), StatusCode::kCancelled);
  };
  const auto look = [](std::unique_ptr<PendingCall>& call) {
    call->Cancel();
    while (!call->IsQuiet()) WaitToLookAgain();
  };
  using Ending = std::function<void(std::unique_ptr<PendingCall>&)>;
  for (const OwnedMemory& memory : LandingMemories(transport(), StreamingHandler::kPartBytes)) {
    const auto landing = transport().AddLanding(memory.bytes);
    if (IsUnimplemented(landing.status())) GTEST_SKIP() << landing.status();
    ASSERT_TRUE(landing.ok()) << landing.status();
    std::fill(memory.bytes.begin(), memory.bytes.end(), std::byte{0});
    const std::byte before{static_cast<uint8_t>(transport().capabilities().direct_landing)};
    for (const Ending& end : {Ending(destroy), Ending(await), Ending(look)}) {
      auto call = Start("EndlessPlaced", 0, std::chrono::minutes(1), landing->get());
      EXPECT_EQ(TakeNumber(*call), 0u);
      end(call);
      EXPECT_TRUE(IsFilled(memory.bytes, before));
      std::fill(memory.bytes.begin(), memory.bytes.end(),
                std::byte{0});  // A race if anything still landed.
      EXPECT_TRUE(Echo().ok());
      EXPECT_EQ(handler_.AwaitStopped().code(), StatusCode::kCancelled);
      EXPECT_TRUE(IsFilled(memory.bytes, std::byte{0}));
    }
  }
}

TEST_P(StreamingConformance, ACancelReachesACallThatNobodyReads) {
  auto call = Start("Endless");
  handler_.AwaitRunning();  // An earlier cancel would leave no handler to reach.
  EXPECT_TRUE(Echo().ok());
  call->Cancel();
  EXPECT_EQ(handler_.AwaitStopped().code(), StatusCode::kCancelled);
  EXPECT_TRUE(AllReleased());
}

TEST_P(StreamingConformance, AStalledReaderHoldsUpNoOtherCall) {
  const auto stalled = Start("Endless");
  EXPECT_EQ(TakeNumber(*stalled), 0u);
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(Echo().ok());
  const auto reading = Start("Endless");
  for (uint64_t i = 0; i < 1000; ++i) ASSERT_EQ(TakeNumber(*reading), i);
  EXPECT_EQ(TakeNumber(*stalled), 1u);
}

TEST_P(StreamingConformance, SixtyFourCallsRunAtATime) {
  constexpr uint64_t kCalls = 64;
  std::vector<std::unique_ptr<PendingCall>> calls;
  for (uint64_t i = 0; i < kCalls; ++i) calls.push_back(Start("Meet", kCalls));
  for (const auto& call : calls) EXPECT_EQ(TakeNumber(*call), kCalls);
}

// With turns in rotation, a part of the urgent reply would wait for one part of every waiting
// prefetch. By priority, at most one goes first, unless the urgent thread is kept from running
// between its call and its turn. Most parts are decisive, however busy the machine is.
TEST_P(StreamingConformance, AnUrgentReplyOvertakesAFloodOfPrefetches) {
  constexpr uint64_t kFloods = 31, kFew = kFloods / 4;
  constexpr ptrdiff_t kEnough = 3 * StreamingHandler::kOvertakeParts;
  const TimePoint limit = SystemClock().Now() + std::chrono::seconds(20);
  std::vector<uint64_t> meanwhile;  // One entry for each part of the urgent replies.
  while (std::ssize(meanwhile) < kEnough && SystemClock().Now() < limit) {
    std::vector<std::unique_ptr<PendingCall>> floods;
    for (uint64_t i = 0; i < kFloods; ++i) floods.push_back(StartAs(Priority::kPrefetch, "Flood"));
    const auto urgent = StartAs(Priority::kCorrection, "Overtake", kFloods);
    ExpectNumbersTo(StreamingHandler::kOvertakeParts, *urgent);
    for (const auto& flood : floods) ExpectNumbersTo(StreamingHandler::kFloodParts, *flood);
    std::ranges::copy(handler_.TakeOvertaking(), std::back_inserter(meanwhile));
  }
  if (std::ssize(meanwhile) < kEnough) {
    GTEST_SKIP() << "only " << meanwhile.size() << " parts came while most prefetches were sending";
  }
  const auto overtook = std::ranges::count_if(meanwhile, [](uint64_t n) { return n <= kFew; });
  EXPECT_GT(2 * overtook, std::ssize(meanwhile)) << ::testing::PrintToString(meanwhile);
}

TEST_P(StreamingConformance, TheDeathOfTheServerEndsEveryCall) {
  const auto endless = Start("Endless");
  const auto gated = Start("Gated");
  EXPECT_EQ(TakeNumber(*gated), 0u);
  std::thread waiting([&] {
    const auto end = gated->Next(kEver);
    EXPECT_TRUE(end.ok() || IsUnavailable(end.status())) << end.status();
  });
  handler_.OpenGate();  // A handler cannot be interrupted; its part may still arrive.
  connection_->KillPeer();
  waiting.join();
  Status end;
  while (end.ok()) end = endless->Next(kEver).status();
  EXPECT_EQ(end.code(), StatusCode::kUnavailable) << end;
  EXPECT_FALSE(handler_.AwaitStopped().ok());
  Status refused;  // Calls may end before the connection does.
  while (refused.ok()) refused = transport().Start("quire.test.S/Echo", {}, {}).status();
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable) << refused;
  EXPECT_TRUE(AllReleased());
}

TEST_P(StreamingConformance, TheEndOfTheTransportEndsItsCallsAndStopsTheHandlers) {
  const auto call = Start("Endless");
  EXPECT_EQ(TakeNumber(*call), 0u);
  connection_.reset();
  Status end;
  while (end.ok()) end = call->Next(kEver).status();
  EXPECT_EQ(end.code(), StatusCode::kUnavailable) << end;
  EXPECT_FALSE(handler_.AwaitStopped().ok());
}

}  // namespace quire::testing

#endif  // QUIRE_TRANSPORT_TESTING_STREAMING_CONFORMANCE_H_
