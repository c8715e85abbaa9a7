// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/data_plane/ticket_table.h"

#include <gtest/gtest.h>

#include <set>

#include "common/base/retry_hint.h"
#include "tests/kit/fake_clock.h"

namespace quire::kvserver {
namespace {

class TicketTableTest : public ::testing::Test {
 protected:
  std::string Issue(const std::string& tenant = "a", const std::string& kind = "shm") {
    const std::vector<std::string> kinds = {kind};
    const auto tickets = tickets_.Issue(tenant, kinds);
    EXPECT_TRUE(tickets.ok()) << tickets.status();
    return tickets->front();
  }
  void ExpectRefused(const std::string& ticket, const std::string& kind = "shm") {
    EXPECT_EQ(tickets_.Redeem(ticket, kind).status().code(), StatusCode::kUnauthenticated);
  }

  quire::testing::FakeClock clock_;
  TicketTable tickets_{{.max_unused_per_tenant = 4, .clock = &clock_}};
};

TEST_F(TicketTableTest, ATicketIsGoodForOneConnectionOfItsTenant) {
  const std::string a = Issue("a"), b = Issue("b");
  EXPECT_EQ(tickets_.Redeem(b, "shm").value(), "b");
  EXPECT_EQ(tickets_.Redeem(a, "shm").value(), "a");
  ExpectRefused(a);
  ExpectRefused(b);
  EXPECT_EQ(tickets_.unused(), 0u);
}

TEST_F(TicketTableTest, ForgedTicketsAreRefused) {
  std::string ticket = Issue();
  EXPECT_EQ(ticket.size(), wire::kTicketBytes);
  for (const std::string& forged :
       {std::string(), std::string(wire::kTicketBytes, '\0'), ticket + "x", ticket.substr(1)}) {
    ExpectRefused(forged);
  }
  for (size_t i = 0; i < ticket.size(); ++i) {
    ticket[i] = static_cast<char>(ticket[i] ^ 1);
    ExpectRefused(ticket);
    ticket[i] = static_cast<char>(ticket[i] ^ 1);
  }
  EXPECT_TRUE(tickets_.Redeem(ticket, "shm").ok()) << "the forgeries did not use it up";
}

TEST_F(TicketTableTest, ATicketOfAnotherKindIsRefusedAndUsedUp) {
  const std::string ticket = Issue("a", "shm");
  ExpectRefused(ticket, "ucx");
  ExpectRefused(ticket, "shm");
}

TEST_F(TicketTableTest, TicketsExpire) {
  const std::string ticket = Issue();
  clock_.Advance(std::chrono::seconds(20));
  const std::string younger = Issue();
  clock_.Advance(std::chrono::seconds(10));
  ExpectRefused(ticket);
  EXPECT_TRUE(tickets_.Redeem(younger, "shm").ok());
}

TEST_F(TicketTableTest, UnusedTicketsAreBoundedPerTenantUntilTheyExpire) {
  for (int i = 0; i < 3; ++i) Issue("a");
  clock_.Advance(std::chrono::seconds(10));
  const std::vector<std::string> kinds = {"shm", "grpc"};
  const auto refused = tickets_.Issue("a", kinds);
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(RetryAfter(refused.status()), std::chrono::seconds(20));
  EXPECT_EQ(tickets_.unused(), 3u) << "all or none";
  Issue("b");
  clock_.Advance(std::chrono::seconds(20));
  EXPECT_TRUE(tickets_.Issue("a", kinds).ok());
}

TEST_F(TicketTableTest, TheFirstOfAnIssueThatIsShownUsesUpTheOthers) {
  const std::vector<std::string> kinds = {"shm", "grpc"};
  for (int connection = 0; connection < 200; ++connection) {
    const auto tickets = tickets_.Issue("a", kinds);
    ASSERT_TRUE(tickets.ok()) << "connection " << connection << ": " << tickets.status();
    const size_t shown = connection % 2;
    EXPECT_EQ(tickets_.Redeem((*tickets)[shown], kinds[shown]).value(), "a");
    ExpectRefused((*tickets)[1 - shown], kinds[1 - shown]);
  }
  const auto kept = tickets_.Issue("a", kinds);
  EXPECT_TRUE(tickets_.Redeem(Issue("a"), "shm").ok());
  EXPECT_TRUE(tickets_.Redeem(kept->front(), "shm").ok()) << "another issue leaves it alone";
}

TEST_F(TicketTableTest, TicketsDiffer) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string ticket = Issue();
    EXPECT_TRUE(seen.insert(ticket).second);
    EXPECT_TRUE(tickets_.Redeem(ticket, "shm").ok());
  }
}

}  // namespace
}  // namespace quire::kvserver
