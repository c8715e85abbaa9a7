// SPDX-License-Identifier: Apache-2.0
#include "common/transport/ucx_wire.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "common/transport/frame_order.h"
#include "common/transport/pending_places.h"
#include "common/transport/ucx_lanes.h"

namespace quire {
namespace {

UcxHeader SomeHeader() {
  SeededRandom random(7);
  UcxHeader header;
  header.to = MakeUcxToken(random);
  header.sequence = 3;
  header.payload_bytes = 100;
  header.index_bytes = 32;
  header.head_bytes = 5;
  header.landing = 9;
  return header;
}

TEST(UcxWireTest, AHeaderComesBackAsItWas) {
  const UcxHeader header = SomeHeader();
  const auto decoded = DecodeUcxHeader(EncodeUcxHeader(header), 137);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->to, header.to);
  EXPECT_EQ(decoded->sequence, 3);
  EXPECT_EQ(decoded->landing, 9);
  EXPECT_EQ(EncodeUcxHeader(*decoded), EncodeUcxHeader(header));
}

TEST(UcxWireTest, LengthsThatDoNotAddUpAreRefused) {
  UcxHeader header = SomeHeader();
  EXPECT_FALSE(DecodeUcxHeader(EncodeUcxHeader(header), 136).ok());
  header.payload_bytes = UINT64_MAX;
  header.index_bytes = 38;  // The sum is right modulo 2^64.
  header.head_bytes = 100;
  EXPECT_FALSE(DecodeUcxHeader(EncodeUcxHeader(header), 137).ok());
  const auto encoded = EncodeUcxHeader(SomeHeader());
  EXPECT_FALSE(DecodeUcxHeader(std::span(encoded).first(71), 137).ok());
}

TEST(UcxWireTest, AnIndexMustCoverItsPayload) {
  std::vector<std::byte> index;
  AppendUcxPlace({0, 60}, &index);
  AppendUcxPlace({4096, 40}, &index);
  EXPECT_TRUE(DecodeUcxIndex(index, 100).ok());
  EXPECT_FALSE(DecodeUcxIndex(index, 99).ok());
  EXPECT_FALSE(DecodeUcxIndex(index, 101).ok());
  EXPECT_FALSE(DecodeUcxIndex(std::span(index).first(31), 100).ok());
}

TEST(UcxWireTest, TheIndexOfALentFrameMustCoverItsPayload) {
  std::vector<std::byte> index;
  AppendUcxLentSlice({.place = {0, 60}, .address = 7}, &index);
  AppendUcxLentSlice({.place = {4096, 40}, .address = UINT64_MAX}, &index);
  const auto decoded = DecodeUcxLentIndex(index, 100);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->front().address, 7);
  EXPECT_EQ(decoded->back().place.offset, 4096);
  EXPECT_EQ(decoded->back().address, UINT64_MAX);
  for (const uint64_t bytes : {0, 60, 99, 101}) {
    EXPECT_FALSE(DecodeUcxLentIndex(index, bytes).ok()) << bytes;
  }
  EXPECT_FALSE(DecodeUcxLentIndex(std::span(index).first(47), 100).ok());
}

TEST(UcxWireTest, ALentFrameHasNoPayloadAndALandingAndCountsForWhatIsFetched) {
  UcxHeader header = SomeHeader();
  header.kind = UcxKind::kLentFrame;
  EXPECT_FALSE(DecodeUcxHeader(EncodeUcxHeader(header), 137).ok());
  header.payload_bytes = 0;
  header.argument = 1000;
  EXPECT_EQ(header.WindowBytes(), 1000 + header.head_bytes + UcxHeader::kEncodedBytes);
  EXPECT_TRUE(DecodeUcxHeader(EncodeUcxHeader(header), 37).ok());
  header.landing = 0;
  EXPECT_FALSE(DecodeUcxHeader(EncodeUcxHeader(header), 37).ok());
}

TEST(UcxWireTest, TheWelcomeNamesTheProcess) {
  UcxWelcome welcome{.server = {}, .secret = {1}, .direct_landings = true, .window_bytes = 9};
  welcome.process = 77;
  welcome.secret_address = 1234;
  const auto decoded = DecodeUcxWelcome(EncodeUcxWelcome(welcome));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->process, 77);
  EXPECT_EQ(decoded->secret_address, 1234);
  EXPECT_EQ(decoded->secret, welcome.secret);
}

TEST(UcxWireTest, AKeyOpensOnlyWithItsSecret) {
  UcxSecret secret = {1, 2, 3};
  const std::string encoded = EncodeUcxLandingKey({1, 2, 4096, 100, true, false, "remote"}, secret);
  const auto key = DecodeUcxLandingKey(encoded, secret);
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_EQ(key->remote_key, "remote");
  EXPECT_EQ(key->address, 4096);
  EXPECT_TRUE(key->is_host);
  EXPECT_FALSE(key->fetches);
  const auto device = DecodeUcxLandingKey(
      EncodeUcxLandingKey({1, 2, 4096, 100, false, true, "remote"}, secret), secret);
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_FALSE(device->is_host);
  EXPECT_TRUE(device->fetches);
  EXPECT_EQ(device->remote_key, "remote");
  secret[31] = 1;
  EXPECT_EQ(DecodeUcxLandingKey(encoded, secret).status().code(), StatusCode::kInvalidArgument);
}

TEST(UcxWireTest, ASerialIsTakenOnce) {
  ReplayWindow window;
  EXPECT_TRUE(window.Take(2));
  EXPECT_TRUE(window.Take(1));
  EXPECT_FALSE(window.Take(1));
  EXPECT_FALSE(window.Take(2));
  EXPECT_TRUE(window.Take(100));
  EXPECT_TRUE(window.Take(37));
  EXPECT_FALSE(window.Take(36)) << "older than the window";
  EXPECT_FALSE(window.Take(100));
}

TEST(FrameOrderTest, WhatComesEarlyWaits) {
  FrameOrder<int> order(4);
  EXPECT_TRUE(order.Keep(2, 20).ok());
  EXPECT_FALSE(order.Keep(2, 21).ok()) << "twice";
  EXPECT_FALSE(order.Keep(5, 50).ok()) << "too far ahead";
  EXPECT_EQ(order.TakeNext(), std::nullopt);
  ASSERT_TRUE(order.IsNext(0));
  order.Pass();
  EXPECT_TRUE(order.Keep(1, 10).ok());
  EXPECT_EQ(order.TakeNext(), 10);
  EXPECT_EQ(order.TakeNext(), 20);
  EXPECT_FALSE(order.Keep(1, 10).ok()) << "passed";
}

FrameRanges RangesFor(uint64_t landing, std::vector<uint64_t> places) {
  Frame frame{.head = {}, .payload = {}, .landing = landing, .places = std::move(places)};
  for (size_t i = 0; i < frame.places.size(); ++i) {
    frame.payload.Append(std::vector<std::byte>(100));
  }
  return FrameRanges(frame);
}

TEST(PendingPlacesTest, OnlyTheSameBytesOfTheSameLandingOverlap) {
  PendingPlaces pending;
  EXPECT_FALSE(pending.Overlap(RangesFor(1, {0})));
  const uint64_t first = pending.Add(RangesFor(1, {900, 300, 100}));
  const uint64_t second = pending.Add(RangesFor(1, {500}));
  EXPECT_FALSE(pending.Overlap(RangesFor(1, {0, 200, 400, 600, 800, 1000})));
  EXPECT_FALSE(pending.Overlap(RangesFor(2, {100, 300, 500})));
  for (const uint64_t place : {1, 100, 199, 201, 399, 401, 599, 801, 999}) {
    EXPECT_TRUE(pending.Overlap(RangesFor(1, {2000, place}))) << place;
  }
  EXPECT_NE(first, second);
  pending.Remove(first);
  EXPECT_FALSE(pending.Overlap(RangesFor(1, {100, 300, 900})));
  EXPECT_TRUE(pending.Overlap(RangesFor(1, {500})));
  pending.Remove(second);
  EXPECT_FALSE(pending.Overlap(RangesFor(1, {500})));
  EXPECT_EQ(pending.size(), 0u);
}

TEST(UcxLanesTest, LanesAreReadFromUcxsText) {
  const UcxLanes shared = ParseUcxLanes(
      "#\n# UCP endpoint \n#\n#               peer: <no debug data>\n"
      "#                 lane[0]: cm rdmacm\n"
      "#                 lane[1]:  2:posix/memory.0 md[2]   -> md[2]/posix/sysdev[255] am am_bw#0\n"
      "#                 lane[2]:  3:cma/memory.0 md[3]     -> md[3]/cma/sysdev[255] rma_bw#0\n#\n"
      "#                  put[1]: 0..<short>..4294967296..<bcopy>..(inf)\n");
  EXPECT_EQ(shared.names, "posix/memory cma/memory");
  EXPECT_TRUE(shared.remote_write);
  EXPECT_TRUE(shared.within_host);
  EXPECT_EQ(shared.domains, (std::map<uint32_t, std::string>{{2, "posix"}, {3, "cma"}}));
  const UcxLanes tcp = ParseUcxLanes(
      "#  lane[1]:  1:tcp/lo.0 md[1] -> md[1]/tcp/sysdev[255] rma_bw#0 am am_bw#0 wireup\n"
      "#  rma_bw: mds [1] rndv_rkey_size 10 \n");
  EXPECT_EQ(tcp.names, "tcp/lo");
  EXPECT_FALSE(tcp.remote_write);
  EXPECT_FALSE(tcp.within_host);
  EXPECT_TRUE(tcp.tcp);
  EXPECT_FALSE(shared.tcp);
  const UcxLanes both = ParseUcxLanes(
      "#  lane[0]:  2:posix/memory.0 md[2]   -> md[2]/posix/sysdev[255] am\n"
      "#  lane[1]:  0:rc_mlx5/mlx5_0:1.0 md[0]   -> md[0]/ib/sysdev[0] rma_bw#0\n"
      "#  put[1]: 0..<short>..4294967296..<bcopy>..(inf)\n");
  EXPECT_TRUE(both.remote_write);
  EXPECT_FALSE(both.within_host);
  EXPECT_FALSE(both.tcp);
  EXPECT_EQ(both.domains, (std::map<uint32_t, std::string>{{0, "ib"}, {2, "posix"}}));
  for (const char* const strange :
       {"-> md[x]/posix/", "-> md[]/posix/", "-> md[2]", "-> md[99999999999]/a/"}) {
    EXPECT_TRUE(ParseUcxLanes(std::string("lane[0]:  2:posix/memory.0 ") + strange).domains.empty())
        << strange;
  }
  EXPECT_EQ(ParseUcxLanes("lane[ -> / put").names, "");
}

}  // namespace
}  // namespace quire
