// SPDX-License-Identifier: Apache-2.0
#include "kvserver/embedded/embedded_store.h"

#include <gtest/gtest.h>

#include "client/client.h"
#include "client/connect.h"
#include "client/data_transport.h"
#include "tests/kit/temp_dir.h"

namespace quire {
namespace {

TEST(EmbeddedStoreTest, AnswersAClientAndOutlivesNothing) {
  testing::TempDir dir;
  auto store = EmbeddedStore::Open({.data_dir = dir.path(), .dram_bytes = 16 << 20});
  ASSERT_TRUE(store.ok()) << store.status();
  auto client = Client::Create({.transport = (*store)->transport(), .retry = {.max_attempts = 1}});
  ASSERT_TRUE(client.ok()) << client.status();
  const auto stats = (*client)->Stats();
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_FALSE(stats->counters.empty());
  store->reset();
  EXPECT_EQ((*client)->Stats().status().code(), StatusCode::kUnavailable);
}

TEST(EmbeddedStoreTest, IsReachedOverARealTransportWhenItListens) {
  testing::TempDir dir;
  auto store = EmbeddedStore::Open({.data_dir = dir.path(), .dram_bytes = 16 << 20});
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->address(), "");
  ASSERT_EQ((*store)->Listen({.transports = {"grpc"}}), OkStatus());
  EXPECT_EQ((*store)->Listen({.transports = {"grpc"}}).code(), StatusCode::kFailedPrecondition);
  const auto control = ConnectGrpc((*store)->address());
  ASSERT_TRUE(control.ok()) << control.status();
  const auto data = DataTransport::Open(*control, {.control_address = (*store)->address()});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->report().taken, "grpc");
  CallMessage reply;
  EXPECT_EQ((*data)->Call("quire.v1.Admin/Stats", {}, &reply, {}), OkStatus());
  store->reset();
  EXPECT_EQ((*data)->Call("quire.v1.Admin/Stats", {}, &reply, {}).code(), StatusCode::kUnavailable);
}

TEST(EmbeddedStoreTest, ADirectoryHasOneServer) {
  testing::TempDir dir;
  auto first = EmbeddedStore::Open({.data_dir = dir.path(), .dram_bytes = 16 << 20});
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = EmbeddedStore::Open({.data_dir = dir.path(), .dram_bytes = 16 << 20});
  ASSERT_FALSE(second.ok());
  EXPECT_NE(Message(second.status()).find(dir.path()), std::string_view::npos) << second.status();
}

}  // namespace
}  // namespace quire
