// SPDX-License-Identifier: Apache-2.0
//
// Shared-memory connections between ends of one process: the ways of payload, and the content and
// end of leases.
#include "transport/shm/shm_pipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "common/base/random.h"
#include "tests/kit/random_bytes.h"
#include "tests/kit/same_bytes.h"
#include "transport/testing/shm_fixture.h"

namespace quire::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using ShmPipeTest = ShmTest;

Slice Owned(size_t bytes, uint64_t seed) {
  auto buffer = std::make_shared<std::vector<std::byte>>(RandomBytes(bytes, seed));
  return Slice{*buffer, buffer};
}

TEST_F(ShmPipeTest, UnitsInSharedMemoryArriveWhereTheyAreAndAreGivenBackTogether) {
  Listen();
  ShmEnd client = Connect(), server = Accepted();
  EXPECT_TRUE(client.pipe->capabilities().in_place);
  auto gone = std::make_shared<Event>();
  Frame units = UnitsInArena(100, 4096, gone);
  units.landing = 7;
  units.places.assign(100, 5);
  const Payload sent = UnitsInArena(100, 4096, std::make_shared<Event>()).payload;
  ASSERT_TRUE(server.pipe->Send(std::move(units)).ok());

  std::optional<Frame> got = client.frames->Next();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->head, "units");
  EXPECT_EQ(got->landing, 7u);
  EXPECT_EQ(got->places, std::vector<uint64_t>(100, 5));
  EXPECT_EQ(got->payload.slices().size(), 100u);
  EXPECT_TRUE(SamePayload(got->payload, sent));
  EXPECT_EQ(listener_->leased_bytes(), 100u * 4096);
  const std::byte* const first = got->payload.slices()[0].bytes.data();
  arena_->bytes()[0] = std::byte{0xee};
  EXPECT_EQ(*first, std::byte{0xee}) << "it is the same memory";

  const Slice last = got->payload.slices().back();
  got.reset();
  EXPECT_FALSE(gone->IsSet()) << "one slice is still held";
  EXPECT_EQ(last.bytes.size(), 4096u);
}

TEST_F(ShmPipeTest, TheServersOwnersEndWhenTheClientDropsTheFrame) {
  Listen();
  ShmEnd client = Connect(), server = Accepted();
  for (int i = 0; i < 50; ++i) {
    auto gone = std::make_shared<Event>();
    ASSERT_TRUE(server.pipe->Send(UnitsInArena(10, 4096, gone)).ok());
    ASSERT_TRUE(client.frames->Next());
    EXPECT_TRUE(gone->Wait());
  }
  EXPECT_EQ(listener_->leased_bytes(), 0u);
}

TEST_F(ShmPipeTest, WithoutSharingEveryPayloadIsCopiedAndNothingStaysHeld) {
  options_.share_memory = false;
  Listen();
  ShmEnd client = Connect(), server = Accepted();
  EXPECT_FALSE(client.pipe->capabilities().in_place);
  auto gone = std::make_shared<Event>();
  ASSERT_TRUE(server.pipe->Send(UnitsInArena(20, 4096, gone)).ok());
  EXPECT_TRUE(gone->IsSet());
  const std::optional<Frame> got = client.frames->Next();
  ASSERT_TRUE(got);
  const std::byte before = got->payload.slices()[0].bytes[0];
  EXPECT_TRUE(SamePayload(got->payload, UnitsInArena(20, 4096, gone).payload));
  arena_->bytes()[0] = ~arena_->bytes()[0];
  EXPECT_EQ(got->payload.slices()[0].bytes[0], before);
  EXPECT_EQ(listener_->leased_bytes(), 0u);
}

TEST_F(ShmPipeTest, AFrameMayMixAllWays) {
  Listen();
  ShmEnd client = Connect(), server = Accepted();
  Frame frame{.head = "mixed", .payload = {}};
  auto gone = std::make_shared<Event>();
  frame.payload.Append(Slice{Arena(0, 8192), TrackedOwner(gone)});
  frame.payload.Append(Owned(10000, 1));
  // Without an owner for the client's time.
  frame.payload.Append(Slice{Arena(8192, 8192), nullptr});
  frame.payload.Append(Slice{Arena(100, 1), TrackedOwner(gone)});
  const Payload sent = frame.payload;
  ASSERT_TRUE(server.pipe->Send(std::move(frame)).ok());
  std::optional<Frame> got = client.frames->Next();
  ASSERT_TRUE(got);
  EXPECT_TRUE(SamePayload(got->payload, sent));
  EXPECT_EQ(listener_->leased_bytes(), 8193u);
  EXPECT_EQ(listener_->sent_payload()->lent_bytes, 8193u);
  EXPECT_EQ(listener_->sent_payload()->copied_bytes, 10000u + 8192);

  Frame small{.head = "small", .payload = {}};
  small.payload.Append(Owned(100, 2));
  small.payload.Append(Slice{Arena(0, 8192), TrackedOwner(gone)});
  const Payload sent_small = small.payload;
  ASSERT_TRUE(server.pipe->Send(std::move(small)).ok());
  got = client.frames->Next();
  ASSERT_TRUE(got);
  EXPECT_TRUE(SamePayload(got->payload, sent_small));
  EXPECT_EQ(listener_->sent_payload()->lent_bytes, 8193u + 8192);
  EXPECT_EQ(listener_->sent_payload()->copied_bytes, 10000u + 8192 + 100);
}

// More than the client's memory in all, some of it held: the server returns what it has dropped
// with its next frame.
TEST_F(ShmPipeTest, LargePayloadOfAClientIsLentAndItsPlaceUsedAgain) {
  Listen();
  ShmEnd client = Connect(), server = Accepted();
  std::vector<Frame> held;
  constexpr uint64_t kBytes = 5 << 20;
  uint64_t lent = 0;
  for (uint64_t i = 0; i < 16; ++i) {
    Frame frame{.head = std::to_string(i), .payload = {}};
    Slice memory = Owned(kBytes, i);
    frame.payload.Append(Slice{memory.bytes.first(100), nullptr});
    frame.payload.Append(Slice{memory.bytes.subspan(100), nullptr});
    ASSERT_TRUE(client.pipe->Send(std::move(frame)).ok());
    // Without owners the payload need not outlive the call.
    std::ranges::fill(std::span(const_cast<std::byte*>(memory.bytes.data()), kBytes), std::byte{0});
    std::optional<Frame> got = server.frames->Next();
    ASSERT_TRUE(got);
    EXPECT_EQ(got->head, std::to_string(i));
    EXPECT_TRUE(SameBytes(got->payload.Flatten().bytes, Owned(kBytes, i).bytes)) << i;
    if (!got->payload.leases().empty()) ++lent;
    if (i % 10 == 0) held.push_back(*std::move(got));
    got.reset();
    ASSERT_TRUE(server.pipe->Send({.head = "answer"}).ok());
    ASSERT_TRUE(client.frames->Next());
  }
  EXPECT_EQ(lent, 16u);
  for (size_t i = 0; i < held.size(); ++i) {
    EXPECT_TRUE(SameBytes(held[i].payload.Flatten().bytes, Owned(kBytes, 10 * i).bytes));
  }
}

TEST_F(ShmPipeTest, WhenTheCopiesHaveNoRoomTheSocketCarriesThePayload) {
  options_.copy_out_bytes = 16 << 10;
  Listen();
  ShmEnd client = Connect(), server = Accepted();
  std::vector<Frame> held;
  for (uint64_t i = 0; i < 8; ++i) {
    Frame frame{.head = std::to_string(i), .payload = {}};
    frame.payload.Append(Owned(6000, i));
    ASSERT_TRUE(server.pipe->Send(std::move(frame)).ok());
    std::optional<Frame> got = client.frames->Next();
    ASSERT_TRUE(got);
    held.push_back(*std::move(got));
  }
  for (uint64_t i = 0; i < held.size(); ++i) {
    EXPECT_TRUE(SameBytes(held[i].payload.Flatten().bytes, Owned(6000, i).bytes)) << i;
  }
}

TEST_F(ShmPipeTest, WhoHoldsAsMuchAsItMayIsSentCopiesAndHoldsNoMoreOfTheArena) {
  options_.max_leased_bytes = 64 << 10;
  options_.copy_out_bytes = 100 << 10;
  Listen();
  ShmEnd client = Connect(), server = Accepted();
  std::vector<Frame> held;
  std::vector<std::shared_ptr<Event>> gone;
  for (size_t i = 0; i < 6; ++i) {  // One in place, two copied, the rest through the socket.
    gone.push_back(std::make_shared<Event>());
    ASSERT_TRUE(server.pipe->Send(UnitsInArena(10, 4096, gone.back())).ok());
    std::optional<Frame> got = client.frames->Next();
    ASSERT_TRUE(got);
    EXPECT_TRUE(
        SamePayload(got->payload, UnitsInArena(10, 4096, std::make_shared<Event>()).payload));
    held.push_back(*std::move(got));
    EXPECT_EQ(listener_->leased_bytes(), 10u * 4096);
    EXPECT_EQ(i > 0 ? gone[i]->Wait() : gone[0]->IsSet(), i > 0);
  }
}

TEST_F(ShmPipeTest, ClientsPayloadIsTheServersOwnCopy) {
  Listen();
  ShmEnd client = Connect(), server = Accepted();
  Frame frame{.head = std::string(100000, 'h'), .payload = {}};
  for (uint64_t i = 0; i < 700; ++i) frame.payload.Append(Owned(1 + i * 37, i));
  frame.payload.Append(Owned(5 << 20, 3));
  frame.places.assign(701, 9);
  const Payload sent = frame.payload;
  ASSERT_TRUE(client.pipe->Send(std::move(frame)).ok());
  const std::optional<Frame> got = server.frames->Next();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->head, std::string(100000, 'h'));
  EXPECT_EQ(got->payload.slices().size(), 701u);
  EXPECT_EQ(got->places.size(), 701u);
  EXPECT_TRUE(SamePayload(got->payload, sent));
}

TEST_F(ShmPipeTest, PayloadOutlivesTheClientsPipeAndItsLeaseToo) {
  Listen();
  std::optional<ShmEnd> client = Connect();
  ShmEnd server = Accepted();
  auto gone = std::make_shared<Event>();
  ASSERT_TRUE(server.pipe->Send(UnitsInArena(3, 4096, gone)).ok());
  std::optional<Frame> got = client->frames->Next();
  ASSERT_TRUE(got);
  client.reset();
  EXPECT_EQ(server.frames->Closed().code(), StatusCode::kUnavailable);
  server.pipe.reset();
  EXPECT_FALSE(gone->IsSet());
  EXPECT_TRUE(SamePayload(got->payload, UnitsInArena(3, 4096, std::make_shared<Event>()).payload));
  got.reset();
  EXPECT_TRUE(gone->Wait());
  EXPECT_EQ(listener_->connections(), 0u);
}

TEST_F(ShmPipeTest, AClientThatClosesWithoutHoldingAnythingLeavesNothing) {
  Listen();
  std::optional<ShmEnd> client = Connect();
  ShmEnd server = Accepted();
  auto gone = std::make_shared<Event>();
  ASSERT_TRUE(server.pipe->Send(UnitsInArena(3, 4096, gone)).ok());
  client.reset();  // In either case, arrived or not.
  EXPECT_TRUE(gone->Wait());
}

TEST_F(ShmPipeTest, WhenTheServerEndsItTheClientIsToldAndItsSlicesStay) {
  Listen();
  ShmEnd client = Connect(), server = Accepted();
  auto gone = std::make_shared<Event>();
  ASSERT_TRUE(server.pipe->Send(UnitsInArena(3, 4096, gone)).ok());
  std::optional<Frame> got = client.frames->Next();
  ASSERT_TRUE(got);
  server.pipe->Close();
  EXPECT_EQ(client.frames->Closed().code(), StatusCode::kUnavailable);
  EXPECT_EQ(client.pipe->Send({.head = "late", .payload = {}}).code(), StatusCode::kUnavailable);
  EXPECT_EQ(server.pipe->Send({.head = "late", .payload = {}}).code(), StatusCode::kUnavailable);
  EXPECT_FALSE(gone->IsSet());
  EXPECT_EQ(got->payload.size_bytes(), 3u * 4096);
  got.reset();
  EXPECT_TRUE(gone->Wait());
}

TEST_F(ShmPipeTest, PipesGoOnWithoutTheListener) {
  Listen();
  ShmEnd client = Connect(), server = Accepted();
  listener_.reset();
  EXPECT_EQ(ConnectShm(options_.path, {}).status().code(), StatusCode::kUnavailable);
  auto gone = std::make_shared<Event>();
  ASSERT_TRUE(server.pipe->Send(UnitsInArena(3, 4096, gone)).ok());
  EXPECT_TRUE(client.frames->Next());
  EXPECT_TRUE(gone->Wait());
}

TEST_F(ShmPipeTest, WhoHoldsPayloadForTooLongLosesTheConnectionAndTheLease) {
  options_.max_lease = std::chrono::milliseconds(30);
  Listen();
  ShmEnd client = Connect(), server = Accepted();
  auto gone = std::make_shared<Event>();
  ASSERT_TRUE(server.pipe->Send(UnitsInArena(3, 4096, gone)).ok());
  const std::optional<Frame> held = client.frames->Next();
  ASSERT_EQ(held->payload.leases().size(), 1u);
  EXPECT_EQ(held->payload.leases()[0]->duration(), options_.max_lease);
  EXPECT_TRUE(gone->Wait());
  EXPECT_FALSE(held->payload.IsValid()) << "it is known before the memory is let go";
  EXPECT_EQ(held->payload.leases()[0]->Renew(kPatience).code(), StatusCode::kFailedPrecondition);
  const Status why = server.frames->Closed();
  EXPECT_EQ(why.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(why.message()), HasSubstr("30 ms"));
  EXPECT_EQ(client.frames->Closed().code(), StatusCode::kUnavailable);
  EXPECT_EQ(listener_->leased_bytes(), 0u);
}

TEST_F(ShmPipeTest, ALeaseThatIsRenewedGoesOnWhenAnOlderOneHasEnded) {
  options_.max_lease = std::chrono::milliseconds(400);
  Listen();
  ShmEnd client = Connect(), server = Accepted();
  auto old_gone = std::make_shared<Event>(), young_gone = std::make_shared<Event>();
  ASSERT_TRUE(server.pipe->Send(UnitsInArena(3, 4096, old_gone)).ok());
  ASSERT_TRUE(server.pipe->Send(UnitsInArena(3, 4096, young_gone)).ok());
  const std::optional<Frame> old = client.frames->Next();
  std::optional<Frame> young = client.frames->Next();
  ASSERT_TRUE(old && young);
  Status renewed;
  while (renewed.ok() && !old_gone->IsSet()) renewed = young->payload.leases()[0]->Renew(kPatience);
  EXPECT_TRUE(old_gone->Wait());
  EXPECT_FALSE(old->payload.IsValid());
  EXPECT_TRUE(young->payload.IsValid());
  EXPECT_FALSE(young_gone->IsSet());
  // The connection has ended; payload stays lent for its remaining time.
  EXPECT_EQ(client.frames->Closed().code(), StatusCode::kUnavailable);
  EXPECT_EQ(young->payload.leases()[0]->Renew(kPatience).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(young_gone->Wait());
  EXPECT_FALSE(young->payload.IsValid());
}

TEST_F(ShmPipeTest, WhatIsStillLentIsGoodAfterTheClientHasClosed) {
  Listen();
  ShmEnd client = Connect(), server = Accepted();
  auto gone = std::make_shared<Event>();
  ASSERT_TRUE(server.pipe->Send(UnitsInArena(3, 4096, gone)).ok());
  std::optional<Frame> held = client.frames->Next();
  client.pipe->Close();
  EXPECT_EQ(server.frames->Closed().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(held->payload.IsValid());
  EXPECT_FALSE(gone->IsSet());
  held.reset();
  EXPECT_TRUE(gone->Wait());
}

TEST_F(ShmPipeTest, FramesOverTheLimitsAreRefusedAndTheConnectionGoesOn) {
  options_.max_frame_bytes = 10000;
  Listen();
  ShmEnd client = Connect(), server = Accepted();
  EXPECT_EQ(client.pipe->capabilities().max_frame_bytes, 10000u);
  for (FramePipe* pipe : {client.pipe.get(), server.pipe.get()}) {
    Frame large{.head = "x", .payload = {}};
    large.payload.Append(Owned(10000, 1));
    EXPECT_EQ(pipe->Send(std::move(large)).code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(pipe->Send({.head = std::string(10001, 'x'), .payload = {}}).code(),
              StatusCode::kResourceExhausted);
    Frame places{.head = "x", .payload = {}, .places = {1, 2}};
    places.payload.Append(Owned(10, 1));
    EXPECT_EQ(pipe->Send(std::move(places)).code(), StatusCode::kInvalidArgument);
    EXPECT_TRUE(pipe->Send({.head = std::string(10000, 'x'), .payload = {}}).ok());
  }
  EXPECT_TRUE(client.frames->Next());
  EXPECT_TRUE(server.frames->Next());
}

TEST_F(ShmPipeTest, SpinningEndsTalkToo) {
  options_.spin = std::chrono::microseconds(50);
  Listen();
  ShmConnectOptions options;
  options.spin = options_.spin;
  ShmEnd client(ConnectShm(options_.path, options).value());
  ShmEnd server = Accepted();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(client.pipe->Send({.head = "ping", .payload = {}}).ok());
    ASSERT_TRUE(server.frames->Next());
    ASSERT_TRUE(server.pipe->Send({.head = "pong", .payload = {}}).ok());
    ASSERT_TRUE(client.frames->Next());
  }
}

/// Sends frames of every kind from one end to the other and checks them there.
void Exchange(FramePipe* from, FrameCollector* to, std::span<const std::byte> arena,
              uint64_t seed) {
  constexpr int kFrames = 200;
  std::thread sender([&] {
    SeededRandom random(seed);
    for (int i = 0; i < kFrames; ++i) {
      Frame frame{.head = std::to_string(i), .payload = {}};
      for (uint64_t n = random.Below(5); n > 0; --n) {
        const uint64_t bytes = 1 + random.Below(30000);
        const uint64_t offset = random.Below(arena.size() - bytes);
        auto owner = random.Below(3) == 0 ? nullptr : std::make_shared<int>();
        frame.payload.Append(Slice{arena.subspan(offset, bytes), owner});
      }
      if (!from->Send(std::move(frame)).ok()) return;
    }
  });
  SeededRandom random(seed);
  std::deque<Frame> held;  // Some are kept for a while.
  for (int i = 0; i < kFrames; ++i) {
    std::optional<Frame> frame = to->Next();
    if (!frame) {
      ADD_FAILURE() << "frame " << i << " did not come";
      break;
    }
    EXPECT_EQ(frame->head, std::to_string(i));
    const uint64_t slices = random.Below(5);
    if (frame->payload.slices().size() != slices) {
      ADD_FAILURE() << "frame " << i << " has " << frame->payload.slices().size() << " slices";
      break;
    }
    for (const Slice& slice : frame->payload.slices()) {
      const uint64_t bytes = 1 + random.Below(30000);
      const uint64_t offset = random.Below(arena.size() - bytes);
      (void)random.Below(3);
      EXPECT_TRUE(SameBytes(slice.bytes, arena.subspan(offset, bytes))) << i;
    }
    held.push_back(*std::move(frame));
    if (held.size() > 20) held.pop_front();
  }
  sender.join();
}

TEST_F(ShmPipeTest, SeveralClientsAtOnceInBothDirections) {
  options_.max_leased_bytes = 256 << 10;
  options_.copy_out_bytes = 256 << 10;
  Listen();
  std::vector<ShmEnd> clients, servers;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(Connect());
    servers.push_back(Accepted());
  }
  std::vector<std::thread> threads;
  for (size_t i = 0; i < clients.size(); ++i) {
    threads.emplace_back([&, i] {
      Exchange(clients[i].pipe.get(), servers[i].frames.get(), Arena(0, kArenaBytes), 2 * i);
    });
    threads.emplace_back([&, i] {
      Exchange(servers[i].pipe.get(), clients[i].frames.get(), Arena(0, kArenaBytes), 2 * i + 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ShmPipeTest, CloseWakesASenderThatWaits) {
  Listen();
  const auto client = ConnectShm(options_.path, {}).value();  // Never started: it reads nothing.
  ShmEnd server = Accepted();
  Event waited;
  std::thread sender([&] {
    Status status;
    while (status.ok()) {
      Frame frame{.head = "x", .payload = {}};
      frame.payload.Append(Slice{Arena(0, 1 << 20), nullptr});
      status = server.pipe->Send(std::move(frame));
    }
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    waited.Set();
  });
  server.pipe->Close();
  EXPECT_TRUE(waited.Wait());
  sender.join();
}

}  // namespace
}  // namespace quire::testing
