// SPDX-License-Identifier: Apache-2.0
//
// The suite that every pipe passes. A test file of a pipe includes it and writes
//
//   INSTANTIATE_TEST_SUITE_P(Inproc, FramePipeConformance, ::testing::Values(&MakeInproc));
//
// where MakeInproc connects a fresh pair of pipes. No test sleeps: receivers block on conditions.
// Servers send from the ServerMemory under test. At the end of a test nothing of it is held,
// whatever the test did.
#ifndef QUIRE_TRANSPORT_TESTING_FRAME_PIPE_CONFORMANCE_H_
#define QUIRE_TRANSPORT_TESTING_FRAME_PIPE_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/memory/checksum.h"
#include "common/base/random.h"
#include "common/base/threads/mutex.h"
#include "tests/kit/random_bytes.h"
#include "tests/kit/same_bytes.h"
#include "transport/frame_pipe.h"
#include "transport/testing/frame_recorder.h"
#include "transport/testing/server_memory.h"

namespace quire::testing {

/// Two connected pipes; neither has been started.
class PipesUnderTest {
 public:
  explicit PipesUnderTest(std::shared_ptr<ServerMemory> memory = std::make_shared<ServerMemory>())
      : memory_(std::move(memory)) {}
  virtual ~PipesUnderTest() = default;
  /// Memory that the server sends from. It may outlive this.
  const std::shared_ptr<ServerMemory>& server_memory() const { return memory_; }
  /// Why the suite cannot run on this machine; empty when it can.
  virtual std::string SkipReason() const { return {}; }
  virtual FramePipe& client() = 0;
  virtual FramePipe& server() = 0;
  /// Ends one end as the death of its process would, without a goodbye where possible. The pipe
  /// object stays until the end of the test.
  virtual void KillClient() = 0;
  virtual void KillServer() = 0;

 private:
  const std::shared_ptr<ServerMemory> memory_;
};
using PipesFactory = std::unique_ptr<PipesUnderTest> (*)();

class FramePipeConformance : public ::testing::TestWithParam<PipesFactory> {
 protected:
  void SetUp() override {
    if (const std::string why = pipes_->SkipReason(); !why.empty()) GTEST_SKIP() << why;
  }
  void TearDown() override {
    at_client_.Resume();
    at_server_.Resume();
    if (pipes_ != nullptr) {
      server().Close();
      client().Close();
    }
    at_client_.Forget();
    at_server_.Forget();
    memory_->ExpectAllReturned();
    pipes_.reset();
    memory_->ExpectAllReleased();
  }

  FramePipe& client() { return pipes_->client(); }
  FramePipe& server() { return pipes_->server(); }
  void StartBoth() {
    client().Start(&at_client_);
    server().Start(&at_server_);
  }
  /// As PayloadOfSizes; the server's payload lies in its memory.
  Payload PayloadFor(const FramePipe& sender, const std::vector<size_t>& sizes, uint64_t seed) {
    if (&sender != &server()) return PayloadOfSizes(sizes, seed);
    Payload payload;
    for (const size_t size : sizes) payload.Append(memory_->Keep(RandomBytes(size, seed++)));
    return payload;
  }
  /// A payload of the server with one slice, and a witness of its owner.
  Payload WatchedServerPayload(size_t bytes, std::weak_ptr<const void>* witness) {
    Payload payload = PayloadFor(server(), {bytes}, 9);
    *witness = payload.slices().front().owner;
    return payload;
  }
  /// Sends until an error, and returns it.
  Status SendUntilError(FramePipe& pipe) {
    Status status;
    while (status.ok()) status = pipe.Send({.head = "h", .payload = PayloadFor(pipe, {4096}, 1)});
    return status;
  }
  void SendNumbered(FramePipe& pipe, const std::string& name, int count) {
    for (int i = 0; i < count; ++i) {
      Frame frame{.head = name + std::to_string(i)};
      frame.payload = PayloadFor(pipe, {static_cast<size_t>(i % 7) * 1000}, i);
      EXPECT_TRUE(pipe.Send(std::move(frame)).ok());
    }
  }
  static void ExpectNumbered(const std::vector<Frame>& frames, const std::string& name, int count) {
    int next = 0;
    for (const Frame& frame : frames) {
      if (frame.head.rfind(name, 0) != 0) continue;
      EXPECT_EQ(frame.head, name + std::to_string(next));
      EXPECT_EQ(BytesOf(frame.payload), RandomBytes(static_cast<size_t>(next % 7) * 1000, next));
      ++next;
    }
    EXPECT_EQ(next, count);
  }

  /// Sends three slices into a landing in `memory`, and again after it is closed. Returns true if
  /// those of the open landing landed: all of them or none.
  bool LandsOrIsDelivered(std::span<std::byte> memory) {
    const Payload payload = PayloadFor(server(), {1000, 3, 5000}, 42);
    const std::vector<uint64_t> places = {99000, 0, 50001};
    const std::vector<std::byte> none(memory.size());
    std::vector<std::byte> expected = none;
    std::fill(memory.begin(), memory.end(), std::byte{0});
    const auto key = client().AddLanding(7, memory);
    EXPECT_TRUE(key.ok()) << key.status();
    EXPECT_EQ(server().OpenLanding(7, key.value_or(""), memory.size()), OkStatus());
    const auto send = [&](const char* head) {
      EXPECT_EQ(server().Send({.head = head, .payload = payload, .landing = 7, .places = places}),
                OkStatus());
      std::vector<Frame> frames = at_client_.Take(1);
      EXPECT_EQ(frames.size(), 1u);
      return frames.empty() ? Frame() : std::move(frames[0]);
    };
    const Frame frame = send("open");
    const bool landed = frame.landed_bytes > 0;
    if (!landed) {
      EXPECT_EQ(BytesOf(frame.payload), BytesOf(payload));
    } else {
      EXPECT_EQ(frame.landed_bytes, payload.size_bytes());
      EXPECT_TRUE(frame.payload.empty());
      for (size_t i = 0; i < places.size(); ++i) {
        const Slice& slice = payload.slices()[i];
        std::copy(slice.bytes.begin(), slice.bytes.end(),
                  expected.begin() + static_cast<ptrdiff_t>(places[i]));
      }
    }
    EXPECT_TRUE(SameBytes(memory, expected));
    server().CloseLanding(7);
    client().RemoveLanding(7);
    std::fill(memory.begin(), memory.end(), std::byte{0});
    EXPECT_EQ(BytesOf(send("closed").payload), BytesOf(payload))
        << "a closed landing takes nothing";
    EXPECT_TRUE(SameBytes(memory, none));
    return landed;
  }

  FrameRecorder at_client_;
  FrameRecorder at_server_;
  std::unique_ptr<PipesUnderTest> pipes_ = GetParam()();
  const std::shared_ptr<ServerMemory> memory_ = pipes_->server_memory();
};

TEST_P(FramePipeConformance, CapabilitiesAreStated) {
  EXPECT_FALSE(client().capabilities().name.empty());
  EXPECT_EQ(client().capabilities().name, server().capabilities().name);
  EXPECT_GE(client().capabilities().max_frame_bytes, uint64_t{1} << 20);
}

TEST_P(FramePipeConformance, FramesOfEveryShapeArrive) {
  StartBoth();
  const std::vector<std::vector<size_t>> shapes = {{},        {1},
                                                   {1, 2, 3}, {4096},
                                                   {65537},   std::vector<size_t>(5000, 7),
                                                   {5, 1, 0}, std::vector<size_t>(40, 16384),
                                                   {900000}};
  uint64_t seed = 100;
  for (FramePipe* sender : {&client(), &server()}) {
    FrameRecorder& receiver = sender == &client() ? at_server_ : at_client_;
    for (const auto& shape : shapes) {
      const Payload payload = PayloadFor(*sender, shape, ++seed);
      const std::string head(seed % 50, static_cast<char>(seed));
      ASSERT_TRUE(sender->Send({.head = head, .payload = payload}).ok());
      const auto frames = receiver.Take(1);
      ASSERT_EQ(frames.size(), 1u);
      EXPECT_EQ(frames[0].head, head);
      EXPECT_EQ(BytesOf(frames[0].payload), BytesOf(payload));
      EXPECT_EQ(frames[0].landed_bytes, 0u);
    }
  }
}

TEST_P(FramePipeConformance, PayloadThatIsInPlaceLiesWhereTheServerKeepsIt) {
  if (!client().capabilities().in_place) GTEST_SKIP() << "it is copied on its way";
  StartBoth();
  Frame frame{.head = "h", .payload = PayloadFor(server(), {100000}, 1)};
  ASSERT_TRUE(server().Send(std::move(frame)).ok());
  const auto frames = at_client_.Take(1);
  ASSERT_EQ(frames.size(), 1u);
  memory_->OverwriteLast(std::byte{8});
  EXPECT_EQ(BytesOf(frames[0].payload), std::vector<std::byte>(100000, std::byte{8}));
}

TEST_P(FramePipeConformance, FramesKeepTheirOrderInBothDirectionsAtOnce) {
  StartBoth();
  constexpr int kFrames = 500;
  std::thread up([&] { SendNumbered(client(), "up", kFrames); });
  std::thread down([&] { SendNumbered(server(), "down", kFrames); });
  up.join();
  down.join();
  std::vector<Frame> at_server, at_client;
  while (at_server.size() < kFrames) {
    for (Frame& frame : at_server_.Take(1)) at_server.push_back(std::move(frame));
  }
  while (at_client.size() < kFrames) {
    for (Frame& frame : at_client_.Take(1)) at_client.push_back(std::move(frame));
  }
  ExpectNumbered(at_server, "up", kFrames);
  ExpectNumbered(at_client, "down", kFrames);
}

TEST_P(FramePipeConformance, FramesOfEachPriorityKeepTheirOrder) {
  StartBoth();
  constexpr int kFrames = 100;
  const std::vector<std::string> names = {"prefetch", "normal", "correction"};
  for (int i = 0; i < kFrames; ++i) {
    for (size_t p = 0; p < names.size(); ++p) {
      Frame frame{.head = names[p] + std::to_string(i)};
      frame.payload = PayloadFor(server(), {static_cast<size_t>(i % 7) * 1000}, i);
      frame.priority = static_cast<Priority>(p);
      ASSERT_TRUE(server().Send(std::move(frame)).ok());
    }
  }
  const std::vector<Frame> frames = at_client_.Take(names.size() * kFrames);
  for (const std::string& name : names) ExpectNumbered(frames, name, kFrames);
}

TEST_P(FramePipeConformance, FramesWithAPlaceInCommonKeepTheirOrder) {
  StartBoth();
  constexpr size_t kFrames = 60, kUnit = 30000;
  const auto allocated = client().AllocateLandingMemory(2 * kUnit);
  ASSERT_TRUE(allocated.ok()) << allocated.status();
  std::vector<std::byte> plain(2 * kUnit);
  const std::span<std::byte> memory =
      allocated->owner == nullptr ? std::span(plain) : allocated->bytes;
  const auto key = client().AddLanding(7, memory);
  ASSERT_TRUE(key.ok()) << key.status();
  ASSERT_TRUE(server().OpenLanding(7, *key, memory.size()).ok());
  for (size_t i = 0; i < kFrames; ++i) {
    Frame frame{.head = std::to_string(i), .landing = 7, .places = {i % 2 * (kUnit / 2)}};
    frame.payload = PayloadFor(server(), {kUnit}, i);
    frame.priority = static_cast<Priority>(i % kNumPriorities);
    ASSERT_TRUE(server().Send(std::move(frame)).ok());
  }
  const std::vector<Frame> frames = at_client_.Take(kFrames);
  ASSERT_EQ(frames.size(), kFrames);
  for (size_t i = 0; i < kFrames; ++i) EXPECT_EQ(frames[i].head, std::to_string(i));
  if (frames.back().landed_bytes > 0) {
    const auto last = memory.subspan((kFrames - 1) % 2 * (kUnit / 2), kUnit);
    EXPECT_TRUE(SameBytes(last, RandomBytes(kUnit, kFrames - 1)));
  }
  server().CloseLanding(7);
  client().RemoveLanding(7);
}

TEST_P(FramePipeConformance, SendersOnSeveralThreadsLoseNothing) {
  StartBoth();
  constexpr int kThreads = 4, kFrames = 100;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, name = std::string(1, static_cast<char>('a' + t)) + ":"] {
      SendNumbered(client(), name, kFrames);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<Frame> frames = at_server_.Take(kThreads * kFrames);
  for (const char* name : {"a:", "b:", "c:", "d:"}) ExpectNumbered(frames, name, kFrames);
}

TEST_P(FramePipeConformance, FramesSentBeforeThePeerStartedWait) {
  client().Start(&at_client_);
  ASSERT_TRUE(client().Send({.head = "hello", .payload = PayloadOfSizes({100}, 1)}).ok());
  server().Start(&at_server_);
  const auto frames = at_server_.Take(1);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].head, "hello");
  EXPECT_EQ(BytesOf(frames[0].payload), RandomBytes(100, 1));
}

TEST_P(FramePipeConformance, AFrameOverTheLimitIsRefusedAndTheNextOnePasses) {
  StartBoth();
  const uint64_t limit = client().capabilities().max_frame_bytes;
  const auto block = std::make_shared<const std::vector<std::byte>>(1 << 20);
  for (FramePipe* sender : {&client(), &server()}) {
    FrameRecorder& receiver = sender == &client() ? at_server_ : at_client_;
    Frame frame{.head = "h"};  // The payload alone reaches the limit.
    for (uint64_t left = limit; left > 0;) {
      const uint64_t bytes = std::min<uint64_t>(left, block->size());
      frame.payload.Append(Slice{std::span(block->data(), bytes), block});
      left -= bytes;
    }
    const Status refused = sender->Send(std::move(frame));
    EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << refused;
    EXPECT_NE(Message(refused).find(std::to_string(limit)), std::string_view::npos) << refused;
    ASSERT_TRUE(sender->Send({.head = "next"}).ok());
    EXPECT_EQ(receiver.Take(1).at(0).head, "next");
  }
}

TEST_P(FramePipeConformance, CloseEndsTheConnectionForBoth) {
  StartBoth();
  client().Close();
  client().Close();
  EXPECT_EQ(client().Send({.head = "late"}).code(), StatusCode::kUnavailable);
  EXPECT_EQ(at_server_.AwaitClosed().code(), StatusCode::kUnavailable);
  EXPECT_EQ(SendUntilError(server()).code(), StatusCode::kUnavailable);
}

TEST_P(FramePipeConformance, TheServersCloseEndsTheConnectionForBoth) {
  StartBoth();
  server().Close();
  EXPECT_EQ(server().Send({.head = "late"}).code(), StatusCode::kUnavailable);
  EXPECT_EQ(at_client_.AwaitClosed().code(), StatusCode::kUnavailable);
  EXPECT_EQ(SendUntilError(client()).code(), StatusCode::kUnavailable);
}

TEST_P(FramePipeConformance, WhatAServerSentBeforeItClosedArrives) {
  constexpr int kFrames = 300;
  StartBoth();
  // Bytes in flight to the closing end make the end of the connection abrupt.
  std::thread sender([&] { (void)SendUntilError(client()); });
  SendNumbered(server(), "last", kFrames);
  server().Close();
  ExpectNumbered(at_client_.Take(kFrames), "last", kFrames);
  EXPECT_EQ(at_client_.AwaitClosed().code(), StatusCode::kUnavailable);
  sender.join();
}

TEST_P(FramePipeConformance, SoDoFramesThatAreSentOneAfterTheOther) {
  constexpr size_t kFrames = 12, kBytes = 1'300'000;
  std::vector<Payload> payloads;  // Make them all before the first send, so that they queue up.
  for (size_t i = 0; i < kFrames; ++i) payloads.push_back(PayloadFor(server(), {kBytes}, i));
  StartBoth();
  for (const Payload& payload : payloads) {
    ASSERT_TRUE(server().Send({.head = "h", .payload = payload}).ok());
  }
  server().Close();
  const auto frames = at_client_.Take(kFrames);
  ASSERT_EQ(frames.size(), kFrames);
  for (size_t i = 0; i < kFrames; ++i) {
    EXPECT_EQ(BytesOf(frames[i].payload), RandomBytes(kBytes, i));
  }
}

TEST_P(FramePipeConformance, CloseMayRunOnSeveralThreadsAndBeforeStart) {
  client().Start(&at_client_);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) threads.emplace_back([&] { client().Close(); });
  for (std::thread& thread : threads) thread.join();
  server().Close();  // Never started.
  EXPECT_EQ(server().Send({.head = "late"}).code(), StatusCode::kUnavailable);
}

TEST_P(FramePipeConformance, NoReceiverCallComesAfterClose) {
  auto receiver = std::make_unique<FrameRecorder>();
  client().Start(receiver.get());
  server().Start(&at_server_);
  std::thread sender([&] { (void)SendUntilError(server()); });
  (void)receiver->Take(1);
  client().Close();
  receiver.reset();  // A later call would be a use after free.
  sender.join();
}

// TearDown checks that the server has everything back while both ends still exist.
TEST_P(FramePipeConformance, WhatAClientNeverTookIsLetGoWhenItCloses) {
  StartBoth();
  const auto send = [&] {
    return server().Send({.head = "lent", .payload = PayloadFor(server(), {70000}, 1)});
  };
  ASSERT_TRUE(send().ok());
  (void)at_client_.Take(1);
  at_client_.Stall();
  ASSERT_TRUE(send().ok());
  at_client_.AwaitStalled();
  ASSERT_TRUE(send().ok());  // The receiver never reads it.
  std::thread closing([&] { client().Close(); });
  // A server that lends payload holds it at least until the client begins to close. Others may
  // notice the close only after the receiver has returned.
  if (server().capabilities().in_place) {
    EXPECT_EQ(SendUntilError(server()).code(), StatusCode::kUnavailable);
  }
  at_client_.Resume();
  closing.join();
}

TEST_P(FramePipeConformance, CloseWakesASendThatWaits) {
  at_server_.Stall();
  StartBoth();
  std::thread sender([&] { EXPECT_EQ(SendUntilError(client()).code(), StatusCode::kUnavailable); });
  at_server_.AwaitStalled();
  client().Close();
  sender.join();
}

TEST_P(FramePipeConformance, TheDeathOfTheClientIsTold) {
  StartBoth();
  ASSERT_TRUE(client().Send({.head = "one"}).ok());
  (void)at_server_.Take(1);
  pipes_->KillClient();
  EXPECT_EQ(at_server_.AwaitClosed().code(), StatusCode::kUnavailable);
  EXPECT_EQ(SendUntilError(server()).code(), StatusCode::kUnavailable);
}

TEST_P(FramePipeConformance, TheDeathOfTheServerIsTold) {
  StartBoth();
  ASSERT_TRUE(server().Send({.head = "one"}).ok());
  (void)at_client_.Take(1);
  pipes_->KillServer();
  EXPECT_EQ(at_client_.AwaitClosed().code(), StatusCode::kUnavailable);
  EXPECT_EQ(SendUntilError(client()).code(), StatusCode::kUnavailable);
}

TEST_P(FramePipeConformance, OwnersAreLetGoOnceTheFrameIsSentAndForgotten) {
  StartBoth();
  std::weak_ptr<const void> up, down;
  ASSERT_TRUE(client().Send({.head = "up", .payload = WatchedPayload(70000, &up)}).ok());
  ASSERT_TRUE(server().Send({.head = "down", .payload = WatchedServerPayload(70000, &down)}).ok());
  EXPECT_EQ(at_server_.Take(1).size(), 1u);  // The only owner drops it at once.
  EXPECT_EQ(at_client_.Take(1).size(), 1u);
  EXPECT_TRUE(Expires(up));
  EXPECT_TRUE(Expires(down));
}

TEST_P(FramePipeConformance, OwnersAreLetGoWhenTheConnectionEnds) {
  at_client_.Stall();
  StartBoth();
  std::vector<std::weak_ptr<const void>> witnesses;
  std::thread sender([&] {
    Status status;
    while (status.ok()) {
      status = server().Send(
          {.head = "h", .payload = WatchedServerPayload(100000, &witnesses.emplace_back())});
    }
  });
  at_client_.AwaitStalled();
  pipes_->KillServer();
  sender.join();
  at_client_.Resume();
  (void)at_client_.AwaitClosed();
  at_client_.Forget();
  pipes_.reset();
  for (const auto& witness : witnesses) EXPECT_TRUE(Expires(witness));
}

TEST_P(FramePipeConformance, ReceivedPayloadOutlivesThePipes) {
  StartBoth();
  ASSERT_TRUE(server().Send({.head = "h", .payload = PayloadFor(server(), {100000, 3}, 5)}).ok());
  const auto frames = at_client_.Take(1);
  ASSERT_EQ(frames.size(), 1u);
  pipes_.reset();
  EXPECT_EQ(BytesOf(frames[0].payload), BytesOf(PayloadOfSizes({100000, 3}, 5)));
}

TEST_P(FramePipeConformance, AStalledReceiverHoldsUpNobodyElse) {
  at_client_.Stall();
  StartBoth();
  std::atomic<int> sent{0};
  constexpr int kFrames = 640;
  std::thread sender([&] {
    for (int i = 0; i < kFrames; ++i) {
      Frame frame{.head = std::to_string(i), .payload = PayloadFor(server(), {100000}, 1)};
      EXPECT_TRUE(server().Send(std::move(frame)).ok());
      ++sent;
    }
  });
  at_client_.AwaitStalled();
  // The other direction and other connections are not blocked.
  SendNumbered(client(), "up", 200);
  std::vector<Frame> up;
  while (up.size() < 200) {
    for (Frame& frame : at_server_.Take(1)) up.push_back(std::move(frame));
  }
  ExpectNumbered(up, "up", 200);
  {
    const auto other = GetParam()();
    FrameRecorder receiver, unused;
    other->client().Start(&unused);
    other->server().Start(&receiver);
    SendNumbered(other->client(), "other", 200);
    ExpectNumbered(receiver.Take(200), "other", 200);
    other->client().Close();
    other->server().Close();
  }
  EXPECT_LT(sent, kFrames) << "64 MB that nobody takes are not taken";
  at_client_.Resume();
  sender.join();
  const auto frames = at_client_.Take(kFrames);
  ASSERT_EQ(frames.size(), static_cast<size_t>(kFrames));
  for (int i = 0; i < kFrames; ++i) EXPECT_EQ(frames[i].head, std::to_string(i));
}

TEST_P(FramePipeConformance, PayloadWithPlacesLandsOrIsDelivered) {
  StartBoth();
  std::vector<std::byte> memory(100000);
  (void)LandsOrIsDelivered(memory);
}

TEST_P(FramePipeConformance, PayloadForMemoryThatThePipeAllocatesLands) {
  StartBoth();
  const auto memory = client().AllocateLandingMemory(100000);
  ASSERT_TRUE(memory.ok()) << memory.status();
  if (memory->owner == nullptr) GTEST_SKIP() << "it allocates none";
  EXPECT_TRUE(LandsOrIsDelivered(memory->bytes));
}

TEST_P(FramePipeConformance, AKeyThatIsNoneIsRefusedWhereKeysAreNeeded) {
  StartBoth();
  std::vector<std::byte> memory(4096);
  const auto key = client().AddLanding(1, memory);
  ASSERT_TRUE(key.ok()) << key.status();
  if (!key->empty()) {
    EXPECT_EQ(server().OpenLanding(1, "no key", memory.size()).code(),
              StatusCode::kInvalidArgument);
    EXPECT_EQ(server().OpenLanding(1, "", memory.size()).code(), StatusCode::kInvalidArgument);
  }
  client().RemoveLanding(1);
  client().RemoveLanding(1);
  // Landings may outlive the connection.
  const auto last = client().AddLanding(2, memory);
  ASSERT_TRUE(last.ok()) << last.status();
  client().Close();
  client().RemoveLanding(2);
  server().Close();
  server().CloseLanding(2);
}

}  // namespace quire::testing

#endif  // QUIRE_TRANSPORT_TESTING_FRAME_PIPE_CONFORMANCE_H_
