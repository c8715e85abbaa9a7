// SPDX-License-Identifier: Apache-2.0
#include "transport/frames/frame.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "common/base/memory/checksum.h"
#include "common/base/retry_hint.h"
#include "tests/kit/same_bytes.h"
#include "transport/frames/frame_parts.h"
#include "transport/part_pieces.h"

namespace quire {
namespace {

/// One valid head of each kind.
std::vector<FrameHead> ValidHeads() {
  FrameHead hello{.kind = FrameKind::kHello, .amount = 1 << 20, .name = "t", .text = "ticket"};
  FrameHead welcome{.kind = FrameKind::kHelloReply, .id = 77, .amount = 1 << 19, .name = "t"};
  FrameHead refused{.kind = FrameKind::kHelloReply, .id = 77};
  SetFrameStatus(ResourceExhausted("too many"), &refused);
  FrameHead request{.kind = FrameKind::kRequest,
                    .priority = Priority::kCorrection,
                    .id = 1,
                    .amount = 30'000'000'000,
                    .landing = 3,
                    .landing_bytes = 4096,
                    .max_parts = 9,
                    .name = "a.B/C",
                    .text = std::string("\0\1\2", 3)};
  FrameHead traced = request;
  traced.trace = *ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  FrameHead part{.kind = FrameKind::kPart, .id = 1, .text = "p", .places = {{0, 5}, {1000, 6}}};
  FrameHead end{.kind = FrameKind::kEnd, .id = 1};
  FrameHead failed{.kind = FrameKind::kEnd, .id = UINT64_MAX};
  SetFrameStatus(WithRetryAfter(Unavailable("later"), std::chrono::seconds(2)), &failed);
  FrameHead cancel{.kind = FrameKind::kCancel, .id = 1};
  FrameHead credit{.kind = FrameKind::kCredit, .id = 1, .amount = 5};
  return {hello, welcome, refused, request, part, end, failed, cancel, credit, traced};
}

TEST(FrameTest, EveryHeadSurvivesTheRoundTrip) {
  for (const FrameHead& head : ValidHeads()) {
    const std::string bytes = EncodeFrameHead(head);
    EXPECT_EQ(bytes.size(), kFrameHeaderBytes + head.name.size() + head.text.size() +
                                head.places.size() * kFramePlaceBytes +
                                (head.trace.valid() ? kFrameTraceBytes : 0));
    const auto decoded = DecodeFrameHead(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(*decoded, head);
  }
}

TEST(FrameTest, AStatusArrivesWithItsHint) {
  FrameHead head{.kind = FrameKind::kEnd, .id = 1};
  const Status status = WithRetryAfter(ResourceExhausted("busy"), std::chrono::milliseconds(1500));
  SetFrameStatus(status, &head);
  EXPECT_EQ(FrameStatus(head), status);
  EXPECT_EQ(RetryAfter(FrameStatus(head)), std::chrono::milliseconds(1500));
  SetFrameStatus(Internal(std::string(100000, 'x')), &head);
  EXPECT_EQ(head.text.size(), kMaxFrameStatusBytes);
}

TEST(FrameTest, TruncatedAndLengthenedHeadsAreRefused) {
  for (const FrameHead& head : ValidHeads()) {
    const std::string bytes = EncodeFrameHead(head);
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_EQ(DecodeFrameHead(std::string_view(bytes).substr(0, size)).status().code(),
                StatusCode::kInvalidArgument);
    }
    EXPECT_FALSE(DecodeFrameHead(bytes + '\0').ok());
  }
}

TEST(FrameTest, FieldsThatAKindDoesNotNameAreRefused) {
  for (const FrameHead& valid : ValidHeads()) {
    const auto expect_refused = [&](auto change, const char* what) {
      FrameHead head = valid;
      change(head);
      if (head == valid) return;
      EXPECT_FALSE(DecodeFrameHead(EncodeFrameHead(head)).ok())
          << what << " of kind " << static_cast<int>(valid.kind);
    };
    const bool request = valid.kind == FrameKind::kRequest;
    const bool status = valid.kind == FrameKind::kEnd || valid.kind == FrameKind::kHelloReply;
    if (!request) {
      expect_refused([](FrameHead& h) { h.priority = Priority::kNormal; }, "priority");
      expect_refused([](FrameHead& h) { h.landing = h.landing_bytes = 1; }, "landing");
      expect_refused([](FrameHead& h) { h.max_parts = 1; }, "max_parts");
      expect_refused([](FrameHead& h) { h.piece_bytes = 1; }, "piece_bytes");
      expect_refused([](FrameHead& h) { h.trace = {{1}, {1}, true}; }, "trace");
    }
    if (!status) {
      expect_refused([](FrameHead& h) { h.code = StatusCode::kInternal; }, "code");
      expect_refused([](FrameHead& h) { h.retry_millis = 1; }, "retry");
    }
    if (valid.kind != FrameKind::kPart) {
      expect_refused([](FrameHead& h) { h.places = {{0, 1}}; }, "places");
      expect_refused([](FrameHead& h) { h.amount = h.amount == 0 ? 1 : 0; }, "amount");
    }
    expect_refused([](FrameHead& h) { h.id = h.id == 0 ? 1 : h.id; }, "id");
  }
}

TEST(FrameTest, ATraceOutOfRangeIsRefused) {
  const std::string bytes = EncodeFrameHead(ValidHeads().back());
  ASSERT_TRUE(DecodeFrameHead(bytes).ok());
  for (const auto& [from, size, value] : std::vector<std::tuple<size_t, size_t, char>>{
           {25, 16, 0}, {9, 8, 0}, {1, 1, 2}, {bytes.size() - 7, 1, 2}}) {
    std::string changed = bytes;
    changed.replace(changed.size() - from, size, size, value);
    EXPECT_FALSE(DecodeFrameHead(changed).ok()) << from;
  }
}

TEST(FrameTest, NumbersOutOfRangeAreRefused) {
  FrameHead request = ValidHeads()[3];
  const auto refused = [](const FrameHead& head) {
    return !DecodeFrameHead(EncodeFrameHead(head)).ok();
  };
  ASSERT_FALSE(refused(request));
  for (const auto& change : std::vector<void (*)(FrameHead&)>{
           [](FrameHead& h) { h.id = 0; }, [](FrameHead& h) { h.amount = UINT64_MAX; },
           [](FrameHead& h) { h.max_parts = 0; }, [](FrameHead& h) { h.landing = 0; },
           [](FrameHead& h) { h.landing_bytes = uint64_t{1} << 41; },
           [](FrameHead& h) { h.name.clear(); },
           [](FrameHead& h) { h.name.assign(kMaxFrameNameBytes + 1, 'm'); },
           [](FrameHead& h) { h.priority = static_cast<Priority>(3); },
           [](FrameHead& h) { h.kind = static_cast<FrameKind>(9); }}) {
    FrameHead head = request;
    change(head);
    EXPECT_TRUE(refused(head));
  }
  FrameHead part = ValidHeads()[4];
  part.places = {{0, 0}};
  EXPECT_TRUE(refused(part));
  part.places = {{UINT64_MAX, 1}};
  EXPECT_TRUE(refused(part));
}

TEST(FramePartsTest, APartIsAsItWasSentHoweverItsPipeDeliversIt) {
  CallMessage sent{"control", {}};
  for (const size_t size : {3, 100, 1, 50}) {
    sent.payload.Append(std::vector<std::byte>(size, static_cast<std::byte>(size)));
  }
  sent.places = {7, 1000, 0, 500};
  Frame frame = FramesOfPart(1, 2, sent, UINT64_MAX).at(0);
  EXPECT_EQ(frame.landing, 2u);
  const auto head = DecodeFrameHead(frame.head);
  ASSERT_TRUE(head.ok()) << head.status();
  // A pipe may deliver the bytes in any division.
  const Slice flat = frame.payload.Flatten();
  for (const size_t cut : {1, 7, 64, 154}) {
    Frame received{.head = frame.head};
    for (size_t at = 0; at < flat.bytes.size(); at += cut) {
      const size_t size = std::min(cut, flat.bytes.size() - at);
      received.payload.Append(Slice{flat.bytes.subspan(at, size), flat.owner});
    }
    const auto part = PartOf(*head, std::move(received));
    ASSERT_TRUE(part.ok()) << part.status();
    EXPECT_EQ(part->control, "control");
    EXPECT_EQ(part->places, sent.places);
    EXPECT_TRUE(testing::SameBytes(part->payload.Flatten().bytes, flat.bytes)) << cut;
  }
}

TEST(FramePartsTest, PlacesThatDoNotSumUpAreRefused) {
  FrameHead head{.kind = FrameKind::kPart, .id = 1, .places = {{0, 5}, {10, 5}}};
  Payload nine;
  nine.Append(std::vector<std::byte>(9));
  EXPECT_FALSE(PartOf(head, {.head = {}, .payload = nine}).ok());
  EXPECT_FALSE(PartOf(head, {.head = {}, .landed_bytes = 9}).ok());
  EXPECT_TRUE(PartOf(head, {.head = {}, .landed_bytes = 10}).ok());
  EXPECT_FALSE(PartOf(head, {.head = {}, .payload = nine, .landed_bytes = 1}).ok());
  head.places.assign(5, {0, uint64_t{1} << 62});
  EXPECT_FALSE(PartOf(head, {.head = {}, .payload = nine}).ok()) << "sums do not wrap around";
  head.places.clear();
  EXPECT_FALSE(PartOf(head, {.head = {}, .landed_bytes = 10}).ok());
}

TEST(FramePartsTest, APartInPiecesIsPutTogetherAgain) {
  CallMessage sent{"control", {}};
  for (const size_t size : {60, 40, 300, 1, 99}) {
    sent.payload.Append(std::vector<std::byte>(size, static_cast<std::byte>(size)));
    sent.places.push_back(1000 * size);
  }
  std::vector<Frame> frames = FramesOfPart(1, 2, sent, 100);
  ASSERT_EQ(frames.size(), 3u);  // A slice is never cut.
  CallMessage got;
  for (Frame& frame : frames) {
    const auto head = DecodeFrameHead(frame.head);
    ASSERT_TRUE(head.ok()) << head.status();
    EXPECT_EQ(head->kind, &frame == &frames.front() ? FrameKind::kPart : FrameKind::kPiece);
    auto piece = PartOf(*head, std::move(frame));
    ASSERT_TRUE(piece.ok()) << piece.status();
    ASSERT_TRUE(AddPiece(*std::move(piece), &got).ok());
  }
  EXPECT_EQ(got.control, "control");
  EXPECT_EQ(got.places, sent.places);
  EXPECT_TRUE(testing::SameBytes(got.payload.Flatten().bytes, sent.payload.Flatten().bytes));
  EXPECT_EQ(got.bytes_to_come, 0u);
  EXPECT_FALSE(AddPiece({.control = {}, .payload = {}, .landed_bytes = 1}, &got).ok());
  EXPECT_EQ(FramesOfPart(1, 0, {"empty", {}}, 100).size(), 1u);
}

TEST(FramePartsTest, CreditNeverStopsACallForGood) {
  for (const uint64_t window : {1, 2, 3, 4, 7, 1000, 1 << 20}) {
    // A client may keep back less than a step.
    const uint64_t least = window - (CreditStep(window) - 1);
    EXPECT_LE(CreditNeeded(UINT64_MAX, window), least) << window;
  }
}

}  // namespace
}  // namespace quire
