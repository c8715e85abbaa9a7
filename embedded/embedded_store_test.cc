// SPDX-License-Identifier: Apache-2.0
#include "embedded/embedded_store.h"

#include <gtest/gtest.h>

#include "client/client.h"
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
