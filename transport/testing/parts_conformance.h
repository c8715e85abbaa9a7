// SPDX-License-Identifier: Apache-2.0
//
// The suite of transports whose replies have parts and places. Instantiate it like
// TransportConformance. No test sleeps.
#ifndef QUIRE_TRANSPORT_TESTING_PARTS_CONFORMANCE_H_
#define QUIRE_TRANSPORT_TESTING_PARTS_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/kit/same_bytes.h"
#include "transport/part_pieces.h"
#include "transport/testing/transport_conformance.h"

namespace quire::testing {

/// Answers in parts.
class PartsHandler final : public CallHandler {
 public:
  std::vector<std::string> Methods() const override {
    return {"quire.test.P/Count", "quire.test.P/CountAndFail", "quire.test.P/Place",
            "quire.test.P/Silent"};
  }
  Status Handle(const CallContext& context, std::string_view method, const CallMessage& request,
                ReplyWriter& reply) override {
    const uint64_t number = NumberOf(request.control);
    if (method == "quire.test.P/Count") return Count(context, number, reply);
    if (method == "quire.test.P/CountAndFail") {
      QUIRE_RETURN_IF_ERROR(Count(context, number, reply));
      return DataLoss("after ", number, " parts");
    }
    if (method == "quire.test.P/Place") return Place(number, reply);
    if (method == "quire.test.P/Silent") return OkStatus();
    return Unimplemented("no method ", method);
  }

  /// Sets the memory that answers lie in. Call it before any call.
  void AnswerFrom(std::shared_ptr<ServerMemory> memory) { memory_.Use(std::move(memory)); }

  static std::vector<std::byte> PartBytes(uint64_t part) {
    return std::vector<std::byte>(part * 1000, static_cast<std::byte>(part));
  }

 private:
  Status Count(const CallContext& context, uint64_t count, ReplyWriter& reply) {
    for (uint64_t i = 0; i < std::min<uint64_t>(count, context.max_parts); ++i) {
      CallMessage part{Control("part", i), {}};
      part.payload.Append(memory_.Keep(PartBytes(i)));
      QUIRE_RETURN_IF_ERROR(reply.Write(std::move(part)));
    }
    return OkStatus();
  }
  /// Writes three slices: at `first`, at 0, and at 100. They are 50, 60 and 70 bytes of their
  /// number.
  Status Place(uint64_t first, ReplyWriter& reply) {
    CallMessage part{Control("placed"), {}};
    for (const uint64_t size : {50, 60, 70}) {
      part.payload.Append(memory_.Keep(std::vector<std::byte>(size, static_cast<std::byte>(size))));
    }
    part.places = {first, 0, 100};
    return reply.Write(std::move(part));
  }

  AnswerMemory memory_;
};

class PartsConformance : public ::testing::TestWithParam<TransportFactory> {
 protected:
  static constexpr TimePoint kEver = TimePoint::max();
  /// Memory of landings; the landings of 1000 bytes lie at its beginning.
  static constexpr uint64_t kRoom = 4096;

  void SetUp() override {
    handler_.AnswerFrom(memory_);
    if (const std::string why = connection_->SkipReason(); !why.empty()) GTEST_SKIP() << why;
  }
  void TearDown() override {
    memory_->ExpectAllReturned();
    connection_.reset();
    memory_->ExpectAllReleased();
  }

  Transport& transport() { return connection_->transport(); }
  std::unique_ptr<PendingCall> Start(const std::string& method, uint64_t number,
                                     Landing* landing = nullptr) {
    auto call = transport().Start("quire.test.P/" + method, {Control("", number), {}},
                                  {.timeout = std::chrono::minutes(1), .landing = landing});
    EXPECT_TRUE(call.ok()) << call.status();
    return call.ok() ? std::move(call).value() : nullptr;
  }
  /// The next part, which must exist.
  static CallMessage Take(PendingCall& call) {
    auto part = call.Next(kEver);
    EXPECT_TRUE(part.ok()) << part.status();
    if (!part.ok() || !*part) return {};
    return **std::move(part);
  }
  /// The expected `kRoom` bytes, 0xee where nothing was placed, after Place with 950.
  static std::vector<std::byte> PlacedAt950() {
    std::vector<std::byte> bytes(kRoom, std::byte{0xee});
    std::fill_n(bytes.begin() + 950, 50, std::byte{50});
    std::fill_n(bytes.begin(), 60, std::byte{60});
    std::fill_n(bytes.begin() + 100, 70, std::byte{70});
    return bytes;
  }
  static void ExpectEnd(PendingCall& call) {
    for (int i = 0; i < 2; ++i) {
      const auto end = call.Next(kEver);
      ASSERT_TRUE(end.ok()) << end.status();
      EXPECT_FALSE(end->has_value());
    }
  }

  PartsHandler handler_;
  std::unique_ptr<TransportUnderTest> connection_ = GetParam()(&handler_, kTestMaxMessageBytes);
  const std::shared_ptr<ServerMemory> memory_ = connection_->server_memory();
};

TEST_P(PartsConformance, PartsArriveInOrderAndThenTheEnd) {
  const auto call = Start("Count", 50);
  for (uint64_t i = 0; i < 50; ++i) {
    const CallMessage part = Take(*call);
    EXPECT_EQ(NumberOf(part.control), i);
    const std::vector<std::byte> expected = PartsHandler::PartBytes(i);
    ASSERT_EQ(part.payload.size_bytes(), expected.size());
    const Slice bytes = part.payload.Flatten();
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), bytes.bytes.begin()));
  }
  ExpectEnd(*call);
}

TEST_P(PartsConformance, AnErrorComesAfterThePartsBeforeIt) {
  const auto call = Start("CountAndFail", 3);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(NumberOf(Take(*call).control), i);
  for (int i = 0; i < 2; ++i) {
    const auto end = call->Next(kEver);
    EXPECT_EQ(end.status(), DataLoss("after 3 parts"));
  }
}

TEST_P(PartsConformance, ACallThatTakesItsReplyWholeSaysSo) {
  CallMessage reply;
  const Status status =
      transport().Call("quire.test.P/Count", {Control("", 50), {}}, &reply, CallOptions{});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(TextOf(reply.control), "part");
}

TEST_P(PartsConformance, AReplyWithoutPartsIsNoReply) {
  CallMessage reply{"untouched", {}};
  EXPECT_EQ(transport().Call("quire.test.P/Silent", {}, &reply, CallOptions{}).code(),
            StatusCode::kInternal);
  EXPECT_EQ(reply.control, "untouched");
}

TEST_P(PartsConformance, ACancelledCallGivesNothingMore) {
  const auto call = Start("Count", 10);
  EXPECT_EQ(NumberOf(Take(*call).control), 0u);
  call->Cancel();
  call->Cancel();
  EXPECT_EQ(call->Next(kEver).status().code(), StatusCode::kCancelled);
}

TEST_P(PartsConformance, PlacedBytesLandWhereTheServerSaidOrComeAsPayload) {
  for (const OwnedMemory& memory : LandingMemories(transport(), kRoom)) {
    std::fill(memory.bytes.begin(), memory.bytes.end(), std::byte{0xee});
    const auto landing = transport().AddLanding(memory.bytes.first(1000));
    if (IsUnimplemented(landing.status())) GTEST_SKIP() << landing.status();
    ASSERT_TRUE(landing.ok()) << landing.status();
    EXPECT_EQ((*landing)->bytes().data(), memory.bytes.data());
    const auto call = Start("Place", 950, landing->get());
    const CallMessage part = Take(*call);
    EXPECT_EQ(TextOf(part.control), "placed");
    ExpectEnd(*call);
    if (!transport().capabilities().direct_landing) {
      EXPECT_EQ(part.landed_bytes, 0u);
      EXPECT_EQ(part.payload.size_bytes(), 180u);
      EXPECT_TRUE(IsFilled(memory.bytes, std::byte{0xee}));
      continue;
    }
    EXPECT_TRUE(part.payload.empty());
    EXPECT_EQ(part.landed_bytes, 180u);
    EXPECT_TRUE(SameBytes(memory.bytes, PlacedAt950()));
  }
}

TEST_P(PartsConformance, PiecesOfAPartAreCutBetweenSlicesAndMakeAllOfIt) {
  const auto call = transport().Start("quire.test.P/Place", {Control("", 950), {}},
                                      {.timeout = std::chrono::minutes(1), .piece_bytes = 110});
  ASSERT_TRUE(call.ok()) << call.status();
  CallMessage all = Take(**call);
  EXPECT_EQ(TextOf(all.control), "placed");
  while (all.bytes_to_come > 0) {
    const CallMessage piece = Take(**call);
    EXPECT_TRUE(piece.control.empty());
    ASSERT_GT(piece.payload.size_bytes(), 0u);
    EXPECT_EQ(piece.bytes_to_come + piece.payload.size_bytes(), all.bytes_to_come);
    ASSERT_EQ(AddPiece(piece, &all), OkStatus());
  }
  EXPECT_EQ(all.places, (std::vector<uint64_t>{950, 0, 100}));
  const std::vector<std::byte> placed = PlacedAt950();
  const Slice bytes = all.payload.Flatten();
  ASSERT_EQ(bytes.bytes.size(), 180u);
  EXPECT_EQ(bytes.bytes[0], placed[950]);
  EXPECT_EQ(bytes.bytes[50], placed[0]);
  EXPECT_EQ(bytes.bytes[179], placed[169]);
  ExpectEnd(**call);
}

TEST_P(PartsConformance, WithoutALandingPlacedBytesComeAsPayload) {
  const auto call = Start("Place", 950);
  const CallMessage part = Take(*call);
  EXPECT_EQ(part.places, (std::vector<uint64_t>{950, 0, 100}));
  EXPECT_EQ(part.landed_bytes, 0u);
  EXPECT_EQ(part.payload.size_bytes(), 180u);
  ExpectEnd(*call);
}

TEST_P(PartsConformance, PlacesOutsideTheLandingAreRefusedAndNothingIsWritten) {
  for (const OwnedMemory& memory : LandingMemories(transport(), kRoom)) {
    std::fill(memory.bytes.begin(), memory.bytes.end(), std::byte{0xee});
    const auto landing = transport().AddLanding(memory.bytes.first(1000));
    if (IsUnimplemented(landing.status())) GTEST_SKIP() << landing.status();
    ASSERT_TRUE(landing.ok()) << landing.status();
    for (const uint64_t first :
         {uint64_t{951}, uint64_t{1000}, uint64_t{1} << 40, UINT64_MAX - 10}) {
      const auto call = Start("Place", first, landing->get());
      EXPECT_EQ(call->Next(kEver).status().code(), StatusCode::kInvalidArgument) << first;
    }
    EXPECT_TRUE(IsFilled(memory.bytes, std::byte{0xee}));
  }
}

TEST_P(PartsConformance, ALandingOfAnotherTransportIsRefused) {
  PartsHandler handler;
  const auto other = GetParam()(&handler, kTestMaxMessageBytes);
  std::vector<std::byte> memory(1000);
  const auto landing = other->transport().AddLanding(memory);
  if (IsUnimplemented(landing.status())) GTEST_SKIP() << landing.status();
  ASSERT_TRUE(landing.ok()) << landing.status();
  EXPECT_EQ(
      transport().Start("quire.test.P/Place", {}, {.landing = landing->get()}).status().code(),
      StatusCode::kInvalidArgument);
}

}  // namespace quire::testing

#endif  // QUIRE_TRANSPORT_TESTING_PARTS_CONFORMANCE_H_
