// SPDX-License-Identifier: Apache-2.0
#include "common/wire/wire_split.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/base/random.h"
#include "quire/v1/store.pb.h"

namespace quire::wire {
namespace {

/// Cuts `bytes` into slices of at most `piece` bytes with a common owner.
Payload Cut(const std::string& bytes, size_t piece) {
  auto owner = std::make_shared<const std::string>(bytes);
  const std::span<const std::byte> all(reinterpret_cast<const std::byte*>(owner->data()),
                                       owner->size());
  Payload message;
  for (size_t at = 0; at < all.size(); at += piece) {
    message.Append(Slice{all.subspan(at, std::min(piece, all.size() - at)), owner});
  }
  return message;
}

std::string Text(const Payload& payload) {
  std::string text(payload.size_bytes(), '\0');
  payload.CopyTo(reinterpret_cast<std::byte*>(text.data()));
  return text;
}

v1::AppendPagesRequest Example(size_t payload_bytes) {
  v1::AppendPagesRequest request;
  request.set_context_id(uint64_t{1} << 63);
  request.set_first_page(300);
  for (int i = 0; i < 40; ++i) request.add_tokens(i * 1000);
  request.set_payload_crc32c(0xdeadbeef);
  request.set_payload(std::string(payload_bytes, 'p'));
  return request;
}

TEST(WireSplitTest, SplitsWhatProtobufWroteHoweverItIsSliced) {
  for (const size_t payload_bytes : {0, 1, 127, 128, 16383, 16384, 70000}) {
    const v1::AppendPagesRequest request = Example(payload_bytes);
    v1::AppendPagesRequest without = request;
    without.clear_payload();
    for (const size_t piece : {1, 2, 3, 7, 64, 1 << 20}) {
      std::string control;
      Payload payload;
      ASSERT_TRUE(SplitMessage(Cut(request.SerializeAsString(), piece), &control, &payload).ok());
      EXPECT_EQ(control, without.SerializeAsString());
      EXPECT_EQ(Text(payload), request.payload());
    }
  }
}

TEST(WireSplitTest, ControlHeaderAndPayloadJoinToAnOrdinaryMessage) {
  for (const size_t payload_bytes : {0, 1, 127, 128, 16384, 1 << 21}) {
    const v1::AppendPagesRequest request = Example(payload_bytes);
    v1::AppendPagesRequest without = request;
    without.clear_payload();
    EXPECT_EQ(without.SerializeAsString() + PayloadHeader(payload_bytes) + request.payload(),
              request.SerializeAsString());
  }
}

TEST(WireSplitTest, DoesNotCopyThePayload) {
  const Payload message = Cut(Example(5000).SerializeAsString(), 1 << 20);
  std::string control;
  Payload payload;
  ASSERT_TRUE(SplitMessage(message, &control, &payload).ok());
  ASSERT_EQ(payload.slices().size(), 1u);
  const auto& whole = message.slices()[0].bytes;
  EXPECT_EQ(payload.slices()[0].bytes.data() + 5000, whole.data() + whole.size());
  EXPECT_EQ(payload.slices()[0].owner, message.slices()[0].owner);
}

TEST(WireSplitTest, TheLastPayloadWinsAndFieldsAfterItAreKept) {
  const std::string bytes = std::string(
                                "\x7a\x01"
                                "a") +
                            "\x08\x05" +
                            "\x7a\x02"
                            "bc" +
                            "\x10\x07";
  std::string control;
  Payload payload;
  ASSERT_TRUE(SplitMessage(Cut(bytes, 1), &control, &payload).ok());
  EXPECT_EQ(control, "\x08\x05\x10\x07");
  EXPECT_EQ(Text(payload), "bc");
}

TEST(WireSplitTest, RefusesWhatIsNoProtobuf) {
  const std::vector<std::string> malformed = {
      "\x7a",  // payload without a length
      "\x7a\x05"
      "abc",                                           // payload longer than the message
      "\x78\x01",                                      // payload as a varint
      "\x0b",                                          // group
      "\x08",                                          // varint missing
      "\x0d\x01\x02\x03",                              // fixed32 cut short
      "\x09\x01",                                      // fixed64 cut short
      std::string(1, '\0'),                            // field 0
      std::string(11, '\xff'),                         // endless tag
      "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",  // varint above 64 bits
      "\x7a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  // length of 2^64 - 1
  };
  for (const std::string& bad : malformed) {
    std::string control = "untouched";
    Payload payload;
    EXPECT_EQ(SplitMessage(Cut(bad, 2), &control, &payload).code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(control, "untouched");
  }
}

TEST(WireSplitTest, RandomBytesNeverCrashAndTruncationNeverPasses) {
  SeededRandom random(11);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes(random.Below(40), '\0');
    for (char& c : bytes) c = static_cast<char>(random.Next());
    std::string control;
    Payload payload;
    const Status status = SplitMessage(Cut(bytes, 1 + random.Below(8)), &control, &payload);
    EXPECT_TRUE(!status.ok() || control.size() + payload.size_bytes() <= bytes.size());
  }
  const std::string whole = Example(100).SerializeAsString();
  std::string control;
  Payload payload;
  for (size_t size = whole.size() - 99; size < whole.size(); ++size) {
    EXPECT_FALSE(SplitMessage(Cut(whole.substr(0, size), 16), &control, &payload).ok());
  }
}

}  // namespace
}  // namespace quire::wire
