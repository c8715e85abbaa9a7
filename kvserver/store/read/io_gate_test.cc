// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/read/io_gate.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/retry_hint.h"
#include "common/base/threads/mutex.h"
#include "tests/kit/look_again.h"

namespace quire::kvserver {
namespace {

class IoGateTest : public ::testing::Test {
 protected:
  static void AwaitWaiting(const IoGate& gate, uint64_t count) {
    while (MetricValuesOf(gate).at("ssd_gate_waiting") != count) quire::testing::WaitToLookAgain();
  }
  static void ExpectRefused(const StatusOr<IoGate::Pass>& pass) {
    ASSERT_EQ(pass.status().code(), StatusCode::kResourceExhausted);
    EXPECT_TRUE(RetryAfter(pass.status())) << pass.status();
  }
};

TEST_F(IoGateTest, ATenantHasItsShareAndNoMore) {
  IoGate gate({.max_inside = 3,
               .max_waiting = 3,
               .max_inside_per_tenant = 2,
               .max_waiting_per_tenant = 0,
               .max_wait = std::chrono::minutes(5)});
  const auto one = gate.Enter("a");
  auto two = std::make_optional(gate.Enter("a"));
  ExpectRefused(gate.Enter("a"));
  const auto other = gate.Enter("b");
  EXPECT_TRUE(one.ok() && two->ok() && other.ok()) << "b is not in a's way";
  two.reset();
  EXPECT_TRUE(gate.Enter("a").ok());
  EXPECT_EQ(MetricValuesOf(gate).at("ssd_gate_inside"), 2u);
  EXPECT_EQ(MetricValuesOf(gate).at("ssd_gate_refused"), 1u);
}

TEST_F(IoGateTest, TheQueueIsBoundedAndEverybodyInItGetsIn) {
  IoGate gate({.max_inside = 1,
               .max_waiting = 2,
               .max_inside_per_tenant = 1,
               .max_waiting_per_tenant = 2,
               .max_wait = std::chrono::minutes(5)});
  auto inside = std::make_optional(gate.Enter("a"));
  ASSERT_TRUE(inside->ok());
  std::vector<std::thread> waiting;
  for (const char* tenant : {"a", "b"}) {
    waiting.emplace_back([&gate, tenant] { EXPECT_TRUE(gate.Enter(tenant).ok()); });
  }
  AwaitWaiting(gate, 2);
  ExpectRefused(gate.Enter("c"));
  inside.reset();
  for (std::thread& thread : waiting) thread.join();
  EXPECT_EQ(MetricValuesOf(gate).at("ssd_gate_inside"), 0u);
  EXPECT_EQ(MetricValuesOf(gate).at("ssd_gate_waiting"), 0u);
}

TEST_F(IoGateTest, WhoWaitsForATenantsShareIsPassedByOthers) {
  IoGate gate({.max_inside = 2,
               .max_waiting = 4,
               .max_inside_per_tenant = 1,
               .max_waiting_per_tenant = 4,
               .max_wait = std::chrono::minutes(5)});
  auto a = std::make_optional(gate.Enter("a"));
  auto b = std::make_optional(gate.Enter("b"));
  std::thread second_a([&gate] { EXPECT_TRUE(gate.Enter("a").ok()); });
  AwaitWaiting(gate, 1);
  std::thread second_b([&gate] { EXPECT_TRUE(gate.Enter("b").ok()); });
  AwaitWaiting(gate, 2);
  b.reset();  // Tenant a's call came first, but a has its share.
  second_b.join();
  EXPECT_EQ(MetricValuesOf(gate).at("ssd_gate_waiting"), 1u);
  a.reset();
  second_a.join();
}

TEST_F(IoGateTest, ACorrectionOvertakesTheTenantsPrefetchesAndNobodyElse) {
  IoGate gate({.max_inside = 1,
               .max_waiting = 4,
               .max_inside_per_tenant = 1,
               .max_waiting_per_tenant = 4,
               .max_wait = std::chrono::minutes(5)});
  auto inside = std::make_optional(gate.Enter("a"));
  Mutex mutex;
  std::vector<std::string> order;
  const auto wait = [&](const char* tenant, Priority priority, const char* name) {
    return std::thread([&gate, &mutex, &order, tenant, priority, name] {
      const auto pass = gate.Enter(tenant, priority);
      EXPECT_TRUE(pass.ok()) << pass.status();
      MutexLock lock(mutex);
      order.emplace_back(name);
    });
  };
  std::vector<std::thread> threads;
  threads.push_back(wait("a", Priority::kPrefetch, "prefetch of a"));
  AwaitWaiting(gate, 1);
  threads.push_back(wait("b", Priority::kPrefetch, "prefetch of b"));
  AwaitWaiting(gate, 2);
  threads.push_back(wait("a", Priority::kCorrection, "correction of a"));
  AwaitWaiting(gate, 3);
  threads.push_back(wait("a", Priority::kNormal, "call of a"));
  AwaitWaiting(gate, 4);
  inside.reset();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector<std::string>{"correction of a", "prefetch of b", "call of a",
                                             "prefetch of a"}));
}

TEST_F(IoGateTest, WhereAllPlacesAreTakenACorrectionTakesThatOfAPrefetch) {
  IoGate gate({.max_inside = 1,
               .max_waiting = 1,
               .max_inside_per_tenant = 1,
               .max_waiting_per_tenant = 1,
               .max_wait = std::chrono::minutes(5)});
  auto inside = std::make_optional(gate.Enter("a"));
  std::thread prefetch([&gate] { ExpectRefused(gate.Enter("a", Priority::kPrefetch)); });
  AwaitWaiting(gate, 1);
  ExpectRefused(gate.Enter("a", Priority::kPrefetch));
  ExpectRefused(gate.Enter("b", Priority::kCorrection));  // Displaces no call of another tenant.
  std::thread correction([&gate] { EXPECT_TRUE(gate.Enter("a", Priority::kCorrection).ok()); });
  prefetch.join();
  ExpectRefused(gate.Enter("a", Priority::kCorrection));
  EXPECT_EQ(MetricValuesOf(gate).at("ssd_gate_waiting"), 1u);
  inside.reset();
  correction.join();
  EXPECT_EQ(MetricValuesOf(gate).at("ssd_gate_inside"), 0u);
  EXPECT_EQ(MetricValuesOf(gate).at("ssd_gate_waiting"), 0u);
}

TEST_F(IoGateTest, NobodyWaitsForEver) {
  IoGate gate({.max_inside = 1,
               .max_waiting = 4,
               .max_inside_per_tenant = 1,
               .max_waiting_per_tenant = 4,
               .max_wait = std::chrono::milliseconds(1)});
  const auto inside = gate.Enter("a");
  ExpectRefused(gate.Enter("a"));
  EXPECT_EQ(MetricValuesOf(gate).at("ssd_gate_waiting"), 0u);
}

}  // namespace
}  // namespace quire::kvserver
