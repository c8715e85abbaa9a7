// SPDX-License-Identifier: Apache-2.0
//
// The parts of shared-memory connections: packets split in any way, the allocator of copies, and
// leases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "transport/shm/shm_copy_out.h"
#include "transport/shm/shm_leases.h"
#include "transport/shm/shm_packet_reader.h"
#include "transport/testing/frame_collector.h"

namespace quire::testing {
namespace {

/// Keeps packets as text.
class TextSink final : public ShmPacketReader::Sink {
 public:
  Status OnPacket(ShmPacket& packet) override {
    text += packet.head + "[";
    for (const ShmDescriptor& slice : packet.slices) text += std::to_string(slice.bytes) + ",";
    for (const uint64_t place : packet.places) text += "@" + std::to_string(place);
    if (packet.inline_bytes != nullptr) {
      text.append(reinterpret_cast<const char*>(packet.inline_bytes.get()), packet.header.bytes);
    }
    text += "]";
    return OkStatus();
  }
  std::string text;
};

std::vector<std::byte> FramePacket(const std::string& head, const std::vector<std::string>& slices,
                                   const std::vector<uint64_t>& places) {
  std::vector<ShmDescriptor> descriptors;
  std::string payload;
  for (const std::string& slice : slices) {
    descriptors.push_back({.bytes = static_cast<uint32_t>(slice.size())});
    payload += slice;
  }
  std::vector<std::byte> packet;
  AppendShmPacket({.bytes = payload.size()}, head, descriptors, places, &packet);
  const auto bytes = std::as_bytes(std::span(payload));
  packet.insert(packet.end(), bytes.begin(), bytes.end());
  return packet;
}

Status Feed(std::span<const std::byte> bytes, size_t step, ShmPacketReader* reader,
            ShmPacketReader::Sink& sink) {
  while (!bytes.empty()) {
    size_t taken = 0;
    for (const std::span<std::byte> room : reader->Room()) {
      const size_t count = std::min({room.size(), bytes.size(), step - taken});
      if (count > 0) std::memcpy(room.data(), bytes.data(), count);
      bytes = bytes.subspan(count);
      taken += count;
    }
    QUIRE_RETURN_IF_ERROR(reader->Take(taken, sink));
  }
  return OkStatus();
}

TEST(ShmPacketReaderTest, PacketsAreTheSameHoweverTheyAreCut) {
  std::vector<std::byte> stream;
  for (const auto& packet : {FramePacket("a", {"one", "two"}, {}), FramePacket("", {}, {}),
                             FramePacket("b", {std::string(300, 'x')}, {8}),
                             FramePacket(std::string(500, 'h'), {}, {})}) {
    stream.insert(stream.end(), packet.begin(), packet.end());
  }
  const std::string whole =
      "a[3,3,onetwo][]b[300,@8" + std::string(300, 'x') + "]" + std::string(500, 'h') + "[]";
  for (size_t step = 1; step <= stream.size(); ++step) {
    ShmPacketReader reader({.max_frame_bytes = 1000});
    TextSink sink;
    ASSERT_TRUE(Feed(stream, step, &reader, sink).ok());
    ASSERT_EQ(sink.text, whole) << "in steps of " << step;
  }
}

TEST(ShmPacketReaderTest, AHeadLargerThanTheBufferArrives) {
  const std::string head(1 << 20, 'h');
  std::vector<std::byte> stream = FramePacket(head, {"tail"}, {});
  const std::vector<std::byte> next = FramePacket("next", {}, {});
  stream.insert(stream.end(), next.begin(), next.end());
  ShmPacketReader reader({.max_frame_bytes = 2 << 20});
  TextSink sink;
  ASSERT_TRUE(Feed(stream, 100000, &reader, sink).ok());
  EXPECT_EQ(sink.text, head + "[4,tail]next[]");
}

TEST(ShmPacketReaderTest, AHeaderThatAnnouncesMuchTakesNoRoomYet) {
  std::vector<std::byte> packet;
  AppendShmPacket({}, "", {}, {}, &packet);
  const uint32_t much = 1 << 30;
  std::memcpy(packet.data() + offsetof(ShmHeader, head_bytes), &much, sizeof much);
  ShmPacketReader reader({.max_frame_bytes = kLargestShmFrame});
  TextSink sink;
  ASSERT_TRUE(Feed(packet, packet.size(), &reader, sink).ok());
  EXPECT_LE(reader.Room()[1].size(), 1u << 20);
}

TEST(ShmCopyOutTest, BlocksDoNotOverlapAndEverythingComesBack) {
  const uint64_t seed = 3;
  SCOPED_TRACE("seed " + std::to_string(seed));
  SeededRandom random(seed);
  const auto memory = std::make_shared<ShmCopyOut>(64 << 10);
  std::vector<ShmCopyOut::Block> held;
  for (int step = 0; step < 5000; ++step) {
    if (random.Below(2) == 0) {
      ShmCopyOut::Block block = memory->Allocate(1 + random.Below(9000));
      if (block.empty()) continue;
      ASSERT_EQ(block.offset() % ShmCopyOut::kAlignBytes, 0u);
      for (const ShmCopyOut::Block& other : held) {
        ASSERT_TRUE(block.bytes().data() + block.bytes().size() <= other.bytes().data() ||
                    other.bytes().data() + other.bytes().size() <= block.bytes().data());
      }
      held.push_back(std::move(block));
    } else if (!held.empty()) {
      std::swap(held[random.Below(held.size())], held.back());
      held.pop_back();
    }
  }
  held.clear();
  EXPECT_FALSE(memory->Allocate(64 << 10).empty());
  EXPECT_TRUE(memory->Allocate((64 << 10) + 1).empty());
  EXPECT_TRUE(std::make_shared<ShmCopyOut>(0)->Allocate(1).empty());
}

/// Leases with a channel whose other end is `client`. The tests call OnDeadline.
class ShmLeasesTest : public ::testing::Test {
 protected:
  uint64_t Lend(uint64_t bytes, const std::shared_ptr<Event>& gone) {
    const uint64_t number = leases_->Reserve(bytes);
    ShmLeases::Lease lease;
    lease.payload.Append(Slice{{bytes_.data(), bytes}, TrackedOwner(gone)});
    leases_->Fill(number, std::move(lease));
    return number;
  }

  const std::vector<std::byte> bytes_ = std::vector<std::byte>(1000);
  const std::shared_ptr<ShmUse> use_ = std::make_shared<ShmUse>();
  const std::shared_ptr<ShmLoop> loop_ = ShmLoop::Start(Duration::zero()).value();
  Event broken_;
  UniqueFd client_;
  const std::shared_ptr<ShmLeases> leases_ =
      ShmLeases::Open(
          loop_.get(), {.max_bytes = 1000, .max_age = std::chrono::hours(1)}, use_,
          [this](const Status&) { broken_.Set(); }, &client_)
          .value();
};

TEST_F(ShmLeasesTest, NoMoreBytesThanAllowedAndAgainWhenTheyCameBack) {
  auto gone = std::make_shared<Event>();
  const uint64_t first = Lend(600, gone);
  EXPECT_NE(first, 0u);
  EXPECT_EQ(leases_->Reserve(401), 0u);
  EXPECT_NE(leases_->Reserve(400), 0u);
  EXPECT_EQ(use_->leased_bytes, 1000u);
  leases_->Drop(first);
  EXPECT_TRUE(gone->IsSet());
  EXPECT_EQ(use_->leased_bytes, 400u);
  EXPECT_NE(leases_->Reserve(600), 0u);
}

TEST_F(ShmLeasesTest, TheOldestLeaseThatIsHeldDecides) {
  const TimePoint now = SystemClock().Now();
  auto early = std::make_shared<Event>(), late = std::make_shared<Event>();
  leases_->Drop(Lend(100, early));
  leases_->OnDeadline(now + std::chrono::hours(2));  // Holds nothing.
  Lend(100, late);
  leases_->OnDeadline(now + std::chrono::minutes(59));
  EXPECT_FALSE(broken_.IsSet());
  EXPECT_FALSE(late->IsSet());
  leases_->OnDeadline(SystemClock().Now() + std::chrono::minutes(61));
  EXPECT_TRUE(broken_.IsSet());
  EXPECT_TRUE(late->IsSet());
  EXPECT_EQ(leases_->Reserve(1), 0u) << "the channel is closed";
}

TEST_F(ShmLeasesTest, WhatIsGivenBackWhileItIsBeingLentIsNotKept) {
  const uint64_t number = leases_->Reserve(10);
  leases_->Drop(number);
  auto gone = std::make_shared<Event>();
  ShmLeases::Lease lease;
  lease.payload.Append(Slice{{bytes_.data(), 10}, TrackedOwner(gone)});
  leases_->Fill(number, std::move(lease));
  EXPECT_TRUE(gone->IsSet());
  EXPECT_EQ(use_->leased_bytes, 0u);
}

TEST_F(ShmLeasesTest, OfAnEndedConnectionOnlyWhatIsHeldStays) {
  auto gone = std::make_shared<Event>();
  const uint64_t number = Lend(10, gone);
  leases_->Orphan();
  EXPECT_EQ(leases_->Reserve(1), 0u);
  EXPECT_FALSE(gone->IsSet());
  ASSERT_EQ(send(client_.get(), &number, sizeof number, MSG_NOSIGNAL),
            static_cast<ssize_t>(sizeof number));
  EXPECT_TRUE(gone->Wait());
  EXPECT_FALSE(broken_.IsSet());
}

}  // namespace
}  // namespace quire::testing
