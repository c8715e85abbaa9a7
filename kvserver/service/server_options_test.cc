// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/server_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvserver/service/server.h"
#include "tests/kit/temp_dir.h"

namespace quire::kvserver {
namespace {

using ::testing::HasSubstr;

TEST(ServerOptionsTest, EveryOptionOutOfRangeIsNamed) {
  const auto expect = [](const std::string& words, auto change) {
    ServerOptions options;
    options.data_dir = "somewhere";
    ASSERT_TRUE(options.Validate().ok());
    change(options);
    const Status status = options.Validate();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(Message(status)), HasSubstr(words));
    EXPECT_EQ(Server::Open(options).status().code(), StatusCode::kInvalidArgument);
  };
  expect("--data-dir", [](ServerOptions& o) { o.data_dir.clear(); });
  expect("--tenants", [](ServerOptions& o) { o.tenants.clear(); });
  expect("'a b'", [](ServerOptions& o) { o.tenants = {"ok", "a b"}; });
  expect("--max-message-bytes", [](ServerOptions& o) { o.max_message_bytes = 1000; });
  expect("--max-message-bytes", [](ServerOptions& o) { o.max_message_bytes = uint64_t{1} << 40; });
  expect("--eviction", [](ServerOptions& o) { o.eviction_policy = "belady"; });
  expect("--default-codec", [](ServerOptions& o) { o.default_codec = "int7"; });
  expect("--tenant-dram-quota: no tenant 'x'", [](ServerOptions& o) {
    o.tenant_dram_quota_bytes = {{"default", 1}, {"x", 1}};
  });
  expect("--tenant-ssd-quota: no tenant 'x'", [](ServerOptions& o) {
    o.tenant_ssd_quota_bytes = {{"x", 1}};
  });
  expect("--tenant-ssd-quota default=0", [](ServerOptions& o) {
    o.tenant_ssd_quota_bytes = {{"default", 0}};
  });
  expect("--promote-after-touches", [](ServerOptions& o) { o.promote_after_touches = 0; });
  expect("--dram-high-watermark", [](ServerOptions& o) { o.dram_high_watermark = 1.5; });
  expect("--dram-low-watermark", [](ServerOptions& o) { o.dram_low_watermark = 0; });
  expect("--max-sessions", [](ServerOptions& o) { o.max_sessions = 0; });
  expect("--max-contexts", [](ServerOptions& o) { o.max_contexts = 0; });
  expect("--max-concurrent-calls", [](ServerOptions& o) { o.max_concurrent_calls = 15; });
  expect("--max-queued-calls-per-tenant",
         [](ServerOptions& o) { o.max_queued_calls_per_tenant = 0; });
  expect("--max-connections is 0", [](ServerOptions& o) { o.max_connections = 0; });
  expect("--max-connections-per-tenant",
         [](ServerOptions& o) { o.max_connections_per_tenant = 0; });
  expect("--stall-seconds", [](ServerOptions& o) { o.stall_seconds = 0; });
  expect("--lease-seconds", [](ServerOptions& o) { o.lease_seconds = 0; });
  expect("--idle-seconds", [](ServerOptions& o) { o.idle_seconds = 0; });
  expect("--tenant-digest-bytes",
         [](ServerOptions& o) { o.tenant_digest_bytes = o.digest_bytes + 1; });
}

TEST(ServerOptionsTest, NoneOfSeveralTenantsHoldsAllDigests) {
  ServerOptions options;
  options.digest_bytes = 1000;
  EXPECT_EQ(options.max_tenant_digest_bytes(), 1000u);
  options.tenants = {"a", "b"};
  EXPECT_EQ(options.max_tenant_digest_bytes(), 500u);
  options.tenant_digest_bytes = 700;
  EXPECT_EQ(options.max_tenant_digest_bytes(), 700u);
}

TEST(ServerTest, TwoServersOnOneDirectoryAreRefused) {
  quire::testing::TempDir dir;
  ServerOptions options;
  options.data_dir = dir / "data";
  options.dram_bytes = 8 << 20;
  const auto first = Server::Open(options);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = Server::Open(options);
  EXPECT_FALSE(second.ok());
  EXPECT_THAT(std::string(Message(second.status())), HasSubstr(options.data_dir));
}

}  // namespace
}  // namespace quire::kvserver
