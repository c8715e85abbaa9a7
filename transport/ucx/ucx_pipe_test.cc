// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/ucx_pipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "common/base/random.h"
#include "tests/kit/random_bytes.h"
#include "tests/kit/same_bytes.h"
#include "transport/testing/ucx_test_peer.h"

namespace quire {
namespace {

using testing::Collector;
using testing::Connected;
using testing::Halted;
using testing::RandomBytes;
using testing::UcxLane;

class UcxPipeTest : public ::testing::TestWithParam<UcxLane> {
 protected:
  void SetUp() override {
    if (const std::string why = testing::WhyNoLane(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }
};

INSTANTIATE_TEST_SUITE_P(Lanes, UcxPipeTest, ::testing::ValuesIn(testing::UcxLanesHere()),
                         [](const auto& lane) { return lane.param.name; });

Frame FrameOf(std::string head, std::vector<std::byte> bytes) {
  Frame frame;
  frame.head = std::move(head);
  frame.payload.Append(std::move(bytes));
  return frame;
}

std::vector<std::byte> BytesOf(const Payload& payload) {
  std::vector<std::byte> bytes(payload.size_bytes());
  payload.CopyTo(bytes.data());
  return bytes;
}

/// A direct pipe has put a frame's payload into `memory`; for any other pipe this does.
void LandOrCheck(const FramePipe& pipe, const Frame& frame, std::span<std::byte> memory) {
  EXPECT_EQ(frame.landed_bytes != 0, pipe.capabilities().direct_landing);
  EXPECT_NE(frame.landed_bytes != 0, !frame.payload.empty());
  ASSERT_EQ(frame.places.size(), frame.payload.slices().size());
  for (size_t i = 0; i < frame.places.size(); ++i) {
    std::ranges::copy(frame.payload.slices()[i].bytes, memory.begin() + frame.places[i]);
  }
}

TEST_P(UcxPipeTest, FramesOfAllSizesArriveInOrderInBothDirections) {
  Connected peers(GetParam().options);
  const std::vector<size_t> sizes = {0, 1, 100, 9000, 65536, 300'000, 1'200'000, 3'000'000, 7, 0};
  for (size_t i = 0; i < sizes.size(); ++i) {
    ASSERT_TRUE(peers.client->Send(FrameOf(std::to_string(i), RandomBytes(sizes[i], i))).ok());
    ASSERT_TRUE(peers.server->Send(FrameOf(std::to_string(i), RandomBytes(sizes[i], 50 + i))).ok());
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Frame at_server = peers.at_server.Next();
    EXPECT_EQ(at_server.head, std::to_string(i));
    EXPECT_EQ(BytesOf(at_server.payload), RandomBytes(sizes[i], i));
    const Frame at_client = peers.at_client.Next();
    EXPECT_EQ(at_client.head, std::to_string(i));
    EXPECT_EQ(BytesOf(at_client.payload), RandomBytes(sizes[i], 50 + i));
  }
}

// Few large slices are sent from where they lie, if the lanes permit; many small ones are packed.
// The frames exceed what a socket takes at once.
TEST_P(UcxPipeTest, FramesOfFewLargeSlicesArriveAmongThoseOfManySmallOnes) {
  Connected peers(GetParam().options);
  constexpr size_t kFrames = 24;
  const auto bytes_of = [](size_t i) { return RandomBytes(1 << 20, i); };
  const auto slices_of = [](size_t i) -> size_t { return i % 3 == 0 ? 64 : 8; };
  for (size_t i = 0; i < kFrames; ++i) {
    const auto whole = std::make_shared<const std::vector<std::byte>>(bytes_of(i));
    Frame frame{.head = std::to_string(i)};
    const size_t each = whole->size() / slices_of(i);
    for (size_t slice = 0; slice < slices_of(i); ++slice) {
      frame.payload.Append(Slice{std::span(*whole).subspan(slice * each, each), whole});
    }
    ASSERT_TRUE(peers.server->Send(std::move(frame)).ok());
  }
  for (size_t i = 0; i < kFrames; ++i) {
    const Frame frame = peers.at_client.Next();
    EXPECT_EQ(frame.head, std::to_string(i));
    EXPECT_EQ(BytesOf(frame.payload), bytes_of(i)) << i;
  }
}

TEST_P(UcxPipeTest, UrgentFramesOvertakeThoseThatWaitToBeSent) {
  Halted peers(GetParam().options);
  peers.Halt();
  const auto send = [&](std::string head, Priority priority) {
    Frame frame = FrameOf(std::move(head), RandomBytes(300'000, 1));
    frame.priority = priority;
    EXPECT_TRUE(peers.server->Send(std::move(frame)).ok());
  };
  for (const char* head : {"p1", "p2", "p3"}) send(head, Priority::kPrefetch);
  for (const char* head : {"n1", "n2"}) send(head, Priority::kNormal);
  for (const char* head : {"c1", "c2"}) send(head, Priority::kCorrection);
  send("p4", Priority::kPrefetch);
  peers.Continue();
  for (const char* head : {"c1", "c2", "n1", "n2", "p1", "p2", "p3", "p4"}) {
    EXPECT_EQ(peers.at_client.Next().head, head);
  }
}

TEST_P(UcxPipeTest, AnUrgentFrameDoesNotWaitForRoomThatLessUrgentOnesTake) {
  UcxOptions options = GetParam().options;
  options.queue_bytes = 1 << 20;
  Halted peers(options);
  peers.Halt();
  const auto send = [&](Priority priority) {
    Frame frame = FrameOf("", RandomBytes(1 << 20, 1));
    frame.head = std::to_string(static_cast<int>(priority));
    frame.priority = priority;
    return peers.server->Send(std::move(frame));
  };
  EXPECT_TRUE(send(Priority::kPrefetch).ok());
  std::thread waiting([&] { EXPECT_TRUE(send(Priority::kPrefetch).ok()); });
  EXPECT_TRUE(send(Priority::kCorrection).ok());
  peers.Continue();
  for (const char* head : {"2", "0", "0"}) EXPECT_EQ(peers.at_client.Next().head, head);
  waiting.join();
}

/// Sends four prefetches, and an urgent frame that shares a byte with number `common`.
void ExpectUrgentStaysBehind(const UcxOptions& options, uint64_t common) {
  constexpr size_t kUnit = 100'000;
  Halted peers(options);
  const auto allocated = peers.client->AllocateLandingMemory(10 * kUnit);
  ASSERT_TRUE(allocated.ok()) << allocated.status();
  std::vector<std::byte> plain(10 * kUnit);
  const std::span<std::byte> memory =
      allocated->owner == nullptr ? std::span(plain) : allocated->bytes.first(10 * kUnit);
  const auto key = peers.client->AddLanding(5, memory);
  ASSERT_TRUE(key.ok()) << key.status();
  ASSERT_TRUE(peers.server->OpenLanding(5, *key, memory.size()).ok());
  peers.Halt();
  const auto send = [&](uint64_t number, Priority priority, uint64_t place) {
    Frame frame = FrameOf(std::to_string(number), RandomBytes(kUnit, number));
    frame.landing = 5;
    frame.places = {place};
    frame.priority = priority;
    EXPECT_TRUE(peers.server->Send(std::move(frame)).ok());
  };
  const auto place_of = [](uint64_t number) { return (2 * number - 1) * kUnit; };
  constexpr uint64_t kPrefetches = 4, kApart = 5, kOver = 6;
  for (uint64_t i = 1; i <= kPrefetches; ++i) send(i, Priority::kPrefetch, place_of(i));
  send(kApart, Priority::kCorrection, place_of(kApart));
  send(kOver, Priority::kCorrection, place_of(common) - kUnit + 1);
  peers.Continue();
  std::vector<uint64_t> order(common);
  std::iota(order.begin(), order.end(), 1);
  order.insert(order.end(), {kApart, kOver});
  for (uint64_t i = common + 1; i <= kPrefetches; ++i) order.push_back(i);
  for (const uint64_t number : order) {
    const Frame got = peers.at_client.Next();
    EXPECT_EQ(got.head, std::to_string(number));
    if (got.landed_bytes == 0) LandOrCheck(*peers.client, got, memory);
  }
  for (uint64_t i = 1; i <= kOver; ++i) {
    const uint64_t place = i == kOver ? place_of(common) - kUnit + 1 : place_of(i);
    if (i == common) continue;  // Its first byte belongs to the later frame.
    EXPECT_TRUE(testing::SameBytes(memory.subspan(place, kUnit), RandomBytes(kUnit, i))) << i;
  }
  peers.server->CloseLanding(5);
  peers.client->RemoveLanding(5);
}

TEST_P(UcxPipeTest, AnUrgentFrameStaysBehindThoseForTheSamePlaces) {
  for (const uint64_t common : {1, 2, 3, 4}) {
    SCOPED_TRACE(common);
    ExpectUrgentStaysBehind(GetParam().options, common);
  }
}

TEST_P(UcxPipeTest, AllArrivesHoweverLittleUcxIsGivenAtATime) {
  UcxOptions options = GetParam().options;
  options.given_bytes = 1;
  Connected peers(options);
  constexpr size_t kFrames = 40;
  for (size_t i = 0; i < kFrames; ++i) {
    ASSERT_TRUE(peers.server->Send(FrameOf(std::to_string(i), RandomBytes(i * 10'000, i))).ok());
  }
  for (size_t i = 0; i < kFrames; ++i) {
    const Frame got = peers.at_client.Next();
    EXPECT_EQ(got.head, std::to_string(i));
    EXPECT_EQ(BytesOf(got.payload), RandomBytes(i * 10'000, i));
  }
}

TEST_P(UcxPipeTest, TheServerWritesWhereALaneWritesRemoteMemoryAndBothEndsAgree) {
  Connected peers(GetParam().options);
  for (const FramePipe* end : {peers.client.get(), peers.server.get()}) {
    EXPECT_EQ(end->capabilities().direct_landing, GetParam().writes_slots);
  }
}

TEST(UcxGrantTest, BothEndsHaveToAgreeThatTheServerWrites) {
  const UcxOptions direct = testing::DirectOptions();
  if (const std::string why =
          testing::WhyNoLane({.name = "direct", .options = direct, .carriers = {"posix/", "tcp/"}});
      !why.empty()) {
    GTEST_SKIP() << why;
  }
  UcxOptions plain = direct;
  plain.direct_landings = false;
  for (const auto& [server, client] : {std::pair(direct, plain), std::pair(plain, direct)}) {
    testing::Listening listening(server);
    const auto pipe = ConnectUcx(listening.listener->address(), client);
    ASSERT_TRUE(pipe.ok()) << pipe.status();
    EXPECT_FALSE((*pipe)->capabilities().direct_landing);
    EXPECT_FALSE(listening.Take()->capabilities().direct_landing);
  }
}

TEST(UcxWithoutALaneTest, UnitsTravelInMessagesThatTheReceiverPutsToTheirPlaces) {
  Connected peers(testing::DirectOptionsWithoutALane());
  EXPECT_FALSE(peers.client->capabilities().direct_landing);
  EXPECT_FALSE(peers.server->capabilities().direct_landing);
  std::vector<std::byte> memory(100'000);
  const auto key = peers.client->AddLanding(9, memory);
  ASSERT_TRUE(key.ok()) << key.status();
  ASSERT_TRUE(peers.server->OpenLanding(9, *key, memory.size()).ok());
  Frame frame = FrameOf("units", RandomBytes(30'000, 1));
  frame.payload.Append(RandomBytes(500, 2));
  frame.landing = 9;
  frame.places = {64'000, 100};
  ASSERT_TRUE(peers.server->Send(std::move(frame)).ok());
  const Frame got = peers.at_client.Next();
  EXPECT_EQ(got.head, "units");
  EXPECT_EQ(got.landed_bytes, 30'500u);
  EXPECT_TRUE(
      testing::SameBytes(std::span(memory).subspan(64'000, 30'000), RandomBytes(30'000, 1)));
  EXPECT_TRUE(testing::SameBytes(std::span(memory).subspan(100, 500), RandomBytes(500, 2)));
}

TEST_P(UcxPipeTest, SlicesGoToTheirPlacesInALanding) {
  Connected peers(GetParam().options);
  constexpr size_t kUnit = 16384;
  std::vector<std::byte> memory(64 * kUnit);
  const auto key = peers.client->AddLanding(5, memory);
  ASSERT_TRUE(key.ok()) << key.status();
  ASSERT_TRUE(peers.server->OpenLanding(5, *key, memory.size()).ok());
  for (uint64_t round = 0; round < 20; ++round) {
    Frame frame{.head = "units", .payload = {}, .landing = 5};
    for (uint64_t i = 0; i < 64; ++i) {
      frame.payload.Append(RandomBytes(kUnit, round * 64 + i));
      frame.places.push_back((i * 37 + round) % 64 * kUnit);
    }
    ASSERT_TRUE(peers.server->Send(std::move(frame)).ok());
    const Frame got = peers.at_client.Next();
    EXPECT_EQ(got.head, "units");
    LandOrCheck(*peers.client, got, memory);
    for (uint64_t i = 0; i < 64; ++i) {
      const std::span<const std::byte> slot =
          std::span(memory).subspan((i * 37 + round) % 64 * kUnit, kUnit);
      ASSERT_TRUE(testing::SameBytes(slot, RandomBytes(kUnit, round * 64 + i)));
    }
  }
  peers.server->CloseLanding(5);
  peers.client->RemoveLanding(5);
}

TEST_P(UcxPipeTest, MemoryOfUcxIsALandingLikeAnyOther) {
  Connected peers(GetParam().options);
  auto allocated = peers.client->AllocateLandingMemory(1 << 20);
  ASSERT_TRUE(allocated.ok()) << allocated.status();
  if (allocated->owner == nullptr) GTEST_SKIP() << "plain memory is as good here";
  const auto memory = allocated->bytes;
  const auto key = peers.client->AddLanding(9, memory.subspan(4096, 65536));
  ASSERT_TRUE(key.ok()) << key.status();
  ASSERT_TRUE(peers.server->OpenLanding(9, *key, 65536).ok());
  Frame frame{.head = "unit", .payload = {}, .landing = 9};
  frame.payload.Append(RandomBytes(5000, 3));
  frame.places = {60000};
  ASSERT_TRUE(peers.server->Send(std::move(frame)).ok());
  LandOrCheck(*peers.client, peers.at_client.Next(), memory.subspan(4096, 65536));
  EXPECT_TRUE(testing::SameBytes(memory.subspan(4096 + 60000, 5000), RandomBytes(5000, 3)));
  peers.client->Close();
  EXPECT_TRUE(testing::SameBytes(memory.subspan(4096 + 60000, 5000), RandomBytes(5000, 3)));
}

/// Receives on the pipe's own thread, and blocks it until released.
class Frozen final : public FrameReceiver {
 public:
  void OnFrame(Frame) override {
    MutexLock lock(mutex_);
    frozen_ = true;
    changed_.NotifyAll();
    while (!thawed_) changed_.Wait(mutex_);
  }
  void OnClosed(const Status&) override {}
  bool NeverWaits() const override { return true; }
  void AwaitFrozen() {
    MutexLock lock(mutex_);
    while (!frozen_) changed_.Wait(mutex_);
  }
  void Thaw() {
    MutexLock lock(mutex_);
    thawed_ = true;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool frozen_ QUIRE_GUARDED_BY(mutex_) = false;
  bool thawed_ QUIRE_GUARDED_BY(mutex_) = false;
};

TEST_P(UcxPipeTest, AClientThatLetsNothingArriveDoesNotKeepItsLandingOpen) {
  if (!GetParam().writes_slots) GTEST_SKIP() << "nothing is written there";
  UcxOptions options = GetParam().options;
  options.peer_timeout = std::chrono::milliseconds(100);
  // UCX has every frame before the landing is closed.
  options.given_bytes = options.queue_bytes = options.piece_bytes = 64 << 20;
  testing::Listening listening(options);
  const auto client = *listening.Dial();
  const auto server = listening.Take();
  Frozen at_client;
  Collector at_server;
  client->Start(&at_client);
  server->Start(&at_server);
  constexpr size_t kUnit = 16384;
  const auto allocated = client->AllocateLandingMemory(kUnit);
  ASSERT_TRUE(allocated.ok()) << allocated.status();
  const auto key = client->AddLanding(5, allocated->bytes);
  ASSERT_TRUE(key.ok()) << key.status();
  ASSERT_TRUE(server->OpenLanding(5, *key, allocated->bytes.size()).ok());
  ASSERT_TRUE(server->Send({.head = "freeze", .payload = {}}).ok());
  at_client.AwaitFrozen();
  // Larger than the queue of shared memory: earlier writes of UCX have arrived when this has.
  ASSERT_TRUE(server->Send(FrameOf("much", RandomBytes(32 << 20, 1))).ok());
  Frame frame = FrameOf("unit", RandomBytes(kUnit, 2));
  frame.landing = 5;
  frame.places = {0};
  ASSERT_TRUE(server->Send(std::move(frame)).ok());
  server->CloseLanding(5);
  const Status why = at_server.WaitClosed();
  EXPECT_EQ(why.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(why.message()), ::testing::HasSubstr("did not arrive in time"));
  at_client.Thaw();
  client->Close();
}

TEST_P(UcxPipeTest, SendersOnSeveralThreadsWriteIntoMemoryOfUcxWhileALandingIsClosed) {
  constexpr size_t kUnit = 100'000, kUnitsPerThread = 8, kThreads = 2, kFrames = 40;
  Connected peers(GetParam().options);
  const auto allocated = peers.client->AllocateLandingMemory(kThreads * kUnitsPerThread * kUnit);
  ASSERT_TRUE(allocated.ok()) << allocated.status();
  if (allocated->owner == nullptr) GTEST_SKIP() << "plain memory is as good here";
  const auto memory = allocated->bytes.first(kThreads * kUnitsPerThread * kUnit);
  const auto key = peers.client->AddLanding(9, memory);
  ASSERT_TRUE(key.ok()) << key.status();
  ASSERT_TRUE(peers.server->OpenLanding(9, *key, memory.size()).ok());
  const auto send = [&](size_t thread) {
    for (size_t i = 0; i < kFrames; ++i) {
      Frame frame{.head = std::to_string(thread), .payload = {}, .landing = 9};
      for (size_t unit = 0; unit < kUnitsPerThread; ++unit) {
        frame.payload.Append(RandomBytes(kUnit, i * kThreads + thread));
        frame.places.push_back((thread * kUnitsPerThread + unit) * kUnit);
      }
      EXPECT_TRUE(peers.server->Send(std::move(frame)).ok());
    }
  };
  std::vector<std::thread> senders;
  for (size_t thread = 0; thread < kThreads; ++thread) senders.emplace_back(send, thread);
  for (std::thread& sender : senders) sender.join();
  size_t landed = 0;
  for (size_t i = 0; i < kThreads * kFrames; ++i) {
    const Frame got = peers.at_client.Next();
    landed += got.landed_bytes;
  }
  EXPECT_EQ(landed, kFrames * memory.size());
  for (size_t i = 0; i < kThreads * kUnitsPerThread; ++i) {
    const uint64_t last = (kFrames - 1) * kThreads + i / kUnitsPerThread;
    ASSERT_TRUE(testing::SameBytes(memory.subspan(i * kUnit, kUnit), RandomBytes(kUnit, last)))
        << i;
  }

  // Closes one landing meanwhile: later frames are not written there.
  std::thread sender(send, 0);
  (void)peers.at_client.Next();
  peers.client->RemoveLanding(9);
  const std::vector<std::byte> then(memory.begin(), memory.end());
  for (size_t i = 1; i < kFrames; ++i) (void)peers.at_client.Next();
  sender.join();
  EXPECT_TRUE(testing::SameBytes(memory, then));
}

TEST_P(UcxPipeTest, APayloadForAnUnknownLandingComesWithItsPlaces) {
  Connected peers(GetParam().options);
  Frame frame{.head = "late", .payload = {}, .landing = 77};
  frame.payload.Append(RandomBytes(1000, 1));
  frame.payload.Append(RandomBytes(2000, 2));
  frame.places = {64, 4096};
  ASSERT_TRUE(peers.server->Send(std::move(frame)).ok());
  const Frame got = peers.at_client.Next();
  EXPECT_EQ(got.landing, 77);
  EXPECT_EQ(got.places, (std::vector<uint64_t>{64, 4096}));
  ASSERT_EQ(got.payload.slices().size(), 2);
  EXPECT_TRUE(testing::SameBytes(got.payload.slices()[1].bytes, RandomBytes(2000, 2)));
}

TEST_P(UcxPipeTest, APlaceOutsideTheLandingEndsTheConnection) {
  Connected peers(GetParam().options);
  if (!peers.client->capabilities().direct_landing) {
    GTEST_SKIP() << "the client end puts the bytes there, and checks";
  }
  std::vector<std::byte> memory(4096);
  const auto key = peers.client->AddLanding(1, memory);
  ASSERT_TRUE(key.ok());
  ASSERT_TRUE(peers.server->OpenLanding(1, *key, memory.size()).ok());
  Frame frame{.head = "", .payload = {}, .landing = 1};
  frame.payload.Append(RandomBytes(100, 1));
  frame.places = {4000};
  ASSERT_TRUE(peers.server->Send(std::move(frame)).ok());
  EXPECT_EQ(peers.at_client.WaitClosed().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(std::ranges::all_of(memory, [](std::byte b) { return b == std::byte{0}; }));
}

TEST_P(UcxPipeTest, OwnersAreReleasedWhenFramesWereSentAndWhenReceivedOnesAreDropped) {
  Connected peers(GetParam().options);
  auto bytes = std::make_shared<const std::vector<std::byte>>(RandomBytes(200'000, 4));
  const std::weak_ptr<const void> watch = bytes;
  Frame frame;
  frame.payload.Append(Slice{*bytes, bytes});
  bytes.reset();
  ASSERT_TRUE(peers.server->Send(std::move(frame)).ok());
  Frame got = peers.at_client.Next();
  // The answer follows the sender's own completion on the same thread.
  ASSERT_TRUE(peers.client->Send({.head = "got it", .payload = {}}).ok());
  (void)peers.at_server.Next();
  peers.server->Close();
  EXPECT_TRUE(watch.expired());
  const std::weak_ptr<const void> received = got.payload.slices().at(0).owner;
  EXPECT_FALSE(received.expired());
  peers.client->Close();
  EXPECT_TRUE(testing::SameBytes(got.payload.slices()[0].bytes, RandomBytes(200'000, 4)));
  got = {};
  EXPECT_TRUE(received.expired());
}

TEST_P(UcxPipeTest, AFrameOverTheLimitIsRefused) {
  UcxOptions options = GetParam().options;
  options.max_frame_bytes = 1000;
  Connected peers(options);
  EXPECT_EQ(peers.client->Send(FrameOf("x", RandomBytes(1000, 0))).code(),
            StatusCode::kResourceExhausted);
  EXPECT_TRUE(peers.client->Send(FrameOf("x", RandomBytes(999, 0))).ok());
  EXPECT_EQ(peers.at_server.Next().payload.size_bytes(), 999);
}

TEST_P(UcxPipeTest, AStalledReceiverMakesSendWaitAndCloseEndsTheWait) {
  UcxOptions options = GetParam().options;
  options.queue_bytes = 1 << 20;
  Connected peers(options);
  peers.at_client.Stall();
  std::atomic<int> sent = 0;
  Status last;
  std::thread sender([&] {
    for (int i = 0; i < 1000; ++i, ++sent) {
      last = peers.server->Send(FrameOf("x", RandomBytes(1 << 20, 0)));
      if (!last.ok()) return;
    }
  });
  peers.at_client.WaitStalled();
  peers.server->Close();
  sender.join();
  EXPECT_EQ(last.code(), StatusCode::kUnavailable) << last;
  EXPECT_LT(sent, 1000);
  peers.at_client.Resume();
}

TEST_P(UcxPipeTest, ClosingOneEndEndsTheOther) {
  Connected peers(GetParam().options);
  peers.client->Close();
  EXPECT_EQ(peers.at_server.WaitClosed().code(), StatusCode::kUnavailable);
  EXPECT_EQ(peers.server->Send({.head = "x", .payload = {}}).code(), StatusCode::kUnavailable);
  EXPECT_EQ(peers.client->Send({.head = "x", .payload = {}}).code(), StatusCode::kUnavailable);
}

TEST_P(UcxPipeTest, EndpointsOfOneWorkerDoNotMixAndAClientConnectsAgain) {
  testing::Listening listening(GetParam().options);
  testing::Connected first(listening);
  {
    testing::Connected second(listening);
    ASSERT_TRUE(second.server->Send({.head = "second", .payload = {}}).ok());
    ASSERT_TRUE(first.server->Send({.head = "first", .payload = {}}).ok());
    EXPECT_EQ(second.at_client.Next().head, "second");
    EXPECT_EQ(first.at_client.Next().head, "first");
  }
  testing::Connected again(listening);
  ASSERT_TRUE(again.client->Send({.head = "again", .payload = {}}).ok());
  EXPECT_EQ(again.at_server.Next().head, "again");
  ASSERT_TRUE(first.client->Send({.head = "still", .payload = {}}).ok());
  EXPECT_EQ(first.at_server.Next().head, "still");
}

TEST_P(UcxPipeTest, KeysThatAreNoneAreRefused) {
  Connected peers(GetParam().options);
  // Without direct landings the server needs no key.
  EXPECT_EQ(peers.server->OpenLanding(1, "", 10).ok(), !GetParam().options.direct_landings);
  for (const std::string& key :
       {std::string("x"), std::string(100, '\0'), std::string(1 << 20, 'k')}) {
    EXPECT_EQ(peers.server->OpenLanding(1, key, 10).code(), StatusCode::kInvalidArgument);
  }
}

TEST(UcxKeyTest, KeysAreForOneConnectionOneLandingAndOneUse) {
  const UcxOptions options = testing::DirectOptions();
  testing::Listening listening(options);
  Connected peers(listening);
  Connected others(listening);
  std::vector<std::byte> memory(8192);
  const auto key = peers.client->AddLanding(3, memory);
  ASSERT_TRUE(key.ok()) << key.status();
  ASSERT_FALSE(key->empty());
  const auto refused = [](const Status& status) {
    return status.code() == StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused(others.server->OpenLanding(3, *key, 8192))) << "of another connection";
  EXPECT_TRUE(refused(peers.server->OpenLanding(4, *key, 8192))) << "for another landing";
  EXPECT_TRUE(refused(peers.server->OpenLanding(3, *key, 8193))) << "for more bytes";
  for (size_t i = 0; i < key->size(); ++i) {
    EXPECT_TRUE(refused(peers.server->OpenLanding(3, key->substr(0, i), 8192))) << i;
    std::string forged = *key;
    forged[i] ^= 1;
    EXPECT_TRUE(refused(peers.server->OpenLanding(3, forged, 8192)));
  }
  ASSERT_TRUE(peers.server->OpenLanding(3, *key, 8192).ok());
  EXPECT_TRUE(refused(peers.server->OpenLanding(3, *key, 8192))) << "opened already";
  peers.client->RemoveLanding(3);
  EXPECT_TRUE(refused(peers.server->OpenLanding(3, *key, 8192))) << "removed";
}

TEST(UcxKeyTest, AKeyWhoseLandingWasRemovedBeforeItCameOpensNothing) {
  Connected peers(testing::DirectOptions());
  std::vector<std::byte> memory(8192);
  const auto key = peers.client->AddLanding(3, memory);
  ASSERT_TRUE(key.ok());
  peers.client->RemoveLanding(3);
  EXPECT_EQ(peers.server->OpenLanding(3, *key, 8192).code(), StatusCode::kInvalidArgument);
}

TEST(UcxConnectTest, NobodyThereIsUnavailableAndNonsenseInvalid) {
  UcxOptions options;
  options.connect_timeout = std::chrono::milliseconds(500);
  EXPECT_EQ(ConnectUcx("127.0.0.1:1", options).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(ConnectUcx("nonsense", options).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ConnectUcx("127.0.0.1:99999", options).status().code(), StatusCode::kInvalidArgument);
  options.devices = "no such device";
  EXPECT_FALSE(ConnectUcx("127.0.0.1:1", options).ok());
}

}  // namespace
}  // namespace quire
