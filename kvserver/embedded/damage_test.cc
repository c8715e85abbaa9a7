// SPDX-License-Identifier: Apache-2.0
//
// Promise 2 from end to end: bytes that fail their checksum are never returned. The bytes of a unit
// change in the server's memory. The client reports the mismatch, the server repairs its copy, and
// the same call returns the right bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "kvserver/embedded/embedded_store.h"
#include "kvserver/store/testing/memory_damage.h"
#include "kvserver/store/testing/store_kit.h"
#include "quire/client.h"
#include "quire/session.h"
#include "tests/kit/temp_dir.h"

namespace quire {
namespace {

using kvserver::testing::FlipBit;

class DamageTest : public ::testing::Test {
 protected:
  void SetUp() override { Open({}); }
  void Open(kvserver::ServerOptions options) {
    options.data_dir = dir_.path();
    options.dram_bytes = 16 << 20;
    auto store = EmbeddedStore::Open(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    auto client = Client::Create({.transport = store_->transport()});
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }
  void Put() {
    tokens_ = kvserver::testing::MakeTokens(spec_.segment_tokens(), 1);
    payload_ = kvserver::testing::MakePayload(spec_, tokens_.size(), 1);
    const auto put = PutAgain();
    ASSERT_TRUE(put.ok()) << put.status();
    key_ = put->key;
  }
  StatusOr<PutSegmentReply> PutAgain() {
    Payload payload;
    payload.Append(payload_);
    return client_->PutSegment(spec_, kRootKey, tokens_, payload,
                               PutOptions{.durability = PutDurability::kMemory});
  }
  /// Flips a bit of a unit in the server's memory.
  void Flip(uint32_t layer, uint32_t page, uint32_t head) {
    const std::vector<UnitRange> unit = {{.layer = layer, .pages = {page}, .heads = {head}}};
    const auto in_place = client_->Fetch(key_, unit);
    ASSERT_TRUE(in_place.ok()) << in_place.status();
    ASSERT_EQ(in_place->slices().size(), 1u);
    FlipBit(in_place->slices().front().bytes);  // The loopback returns units in place.
  }
  std::vector<std::byte> Unit(uint32_t layer, uint32_t page, uint32_t head) const {
    const uint64_t bytes = UnitBytes(spec_);
    const uint64_t at = layer * ExtentBytes(spec_, spec_.segment_pages) +
                        uint64_t{UnitIndex(spec_, page, head)} * bytes;
    const auto unit = std::span(payload_).subspan(at, bytes);
    return {unit.begin(), unit.end()};
  }
  static std::vector<std::byte> BytesOf(const Payload& payload) {
    std::vector<std::byte> bytes(payload.size_bytes());
    payload.CopyTo(bytes.data());
    return bytes;
  }
  std::unique_ptr<ClientSession> OpenSession() {
    auto session = client_->OpenSession(ContextRef(key_), {.spec = spec_, .slots_per_head = 2});
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }
  /// Page 1 of every head at layer 1.
  LayerWant Want() const {
    LayerWant want;
    want.layer = 1;
    for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
      want.pages.AppendHead();
      want.pages.Append(1);
    }
    return want;
  }
  std::vector<std::byte> Wanted() const {
    std::vector<std::byte> bytes;
    for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
      const auto unit = Unit(1, 1, head);
      bytes.insert(bytes.end(), unit.begin(), unit.end());
    }
    return bytes;
  }
  uint64_t Count(const std::string& name) {
    const auto stats = client_->Stats();
    EXPECT_TRUE(stats.ok()) << stats.status();
    for (const auto& [counter, value] : stats->counters) {
      if (counter == name) return value;
    }
    ADD_FAILURE() << "no counter " << name;
    return 0;
  }

  testing::TempDir dir_;
  const KvSpec spec_ = kvserver::testing::SmallSpec();
  std::unique_ptr<EmbeddedStore> store_;
  std::unique_ptr<Client> client_;
  std::vector<TokenId> tokens_;
  std::vector<std::byte> payload_;
  SegmentKey key_;
};

TEST_F(DamageTest, Promise2AFetchOfAFlippedUnitBringsTheRightBytes) {
  Put();
  Flip(0, 1, 1);
  const std::vector<UnitRange> ranges = {{.layer = 1, .pages = {0}}, {.layer = 0, .pages = {0, 1}}};
  const auto fetched = client_->Fetch(key_, ranges);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  std::vector<std::byte> expected;
  for (const auto& [layer, page] : {std::pair{1u, 0u}, {0u, 0u}, {0u, 1u}}) {
    for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
      const auto unit = Unit(layer, page, head);
      expected.insert(expected.end(), unit.begin(), unit.end());
    }
  }
  EXPECT_EQ(BytesOf(*fetched), expected);
  EXPECT_EQ(Count("units_reported"), 1u);
  EXPECT_EQ(Count("dram_extents_mended"), 1u);
  ASSERT_TRUE(client_->Fetch(key_, ranges).ok());
  EXPECT_EQ(Count("units_reported"), 1u) << "it is mended for good";
}

TEST_F(DamageTest, Promise2ARecallOfAFlippedUnitBringsTheRightBytes) {
  Put();
  const auto session = OpenSession();
  Flip(1, 1, 0);
  const std::vector<LayerWant> wants = {Want()};
  const auto recalled = session->Recall(wants);
  ASSERT_TRUE(recalled.ok()) << recalled.status();
  EXPECT_EQ(BytesOf(recalled->payload), Wanted());
  EXPECT_EQ(Count("units_reported"), 1u);
  EXPECT_EQ(Count("units_reported_intact"), 0u);
  EXPECT_EQ(Count("dram_extents_mended"), 1u);
}

TEST_F(DamageTest, Promise2ACallerThatVerifiesByItselfHasItMendedWithItsNextRecall) {
  Put();
  const auto session = OpenSession();
  Flip(1, 1, 1);
  const std::vector<LayerWant> wants = {Want()};
  const auto damaged = session->Recall(wants, {.verify = false});
  ASSERT_TRUE(damaged.ok()) << damaged.status();
  ASSERT_NE(BytesOf(damaged->payload), Wanted());
  session->Invalidate(*damaged);
  session->Mismatched({.sequence = 0, .layer = 1, .head = 1, .page = 1, .crc32c = 7});
  const auto again = session->Recall(wants, {.verify = false});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(BytesOf(again->payload), Wanted());
  EXPECT_EQ(Count("dram_extents_mended"), 1u);
}

TEST_F(DamageTest, WhatAClientSaysOfIntactUnitsEvictsNothing) {
  Put();
  const auto session = OpenSession();
  session->Mismatched({.sequence = 0, .layer = 1, .head = 0, .page = 1, .crc32c = 7});
  const std::vector<LayerWant> wants = {Want()};
  const uint64_t misses = Count("dram_unit_misses");
  const auto recalled = session->Recall(wants);
  ASSERT_TRUE(recalled.ok()) << recalled.status();
  EXPECT_EQ(BytesOf(recalled->payload), Wanted());
  EXPECT_EQ(Count("units_reported_intact"), 1u);
  EXPECT_EQ(Count("dram_extents_damaged"), 0u);
  EXPECT_EQ(Count("dram_unit_misses"), misses);
}

TEST_F(DamageTest, AMismatchThatNamesNoUnitIsRefused) {
  Put();
  const auto session = OpenSession();
  session->Mismatched({.sequence = 0, .layer = 1, .head = 0, .page = 99, .crc32c = 7});
  const std::vector<LayerWant> wants = {Want()};
  EXPECT_EQ(session->Recall(wants).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quire
