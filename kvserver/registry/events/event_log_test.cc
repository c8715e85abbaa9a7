// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/events/event_log.h"

#include <gtest/gtest.h>

#include <thread>

#include "kvserver/registry/testing/registry_fixture.h"

namespace quire::kvserver::testing {
namespace {

class EventLogTest : public ::testing::Test {
 protected:
  EventLogTest() { Open(); }
  void Open() {
    log_ = std::make_unique<EventLog>(&metadata_, &clock_);
    ASSERT_TRUE(log_->Load().ok());
  }
  Status Add(const std::string& name, const std::string& collection = "books") {
    const NewEvent event{"default", DocumentEventKind::kRegistered, {collection, name, 1}};
    return log_->Apply({}, {&event, 1});
  }
  StatusOr<DocumentEvents> Read(uint64_t after, const std::string& collection = "") {
    return log_->Read({.tenant = "default", .after = after, .collection = collection});
  }

  quire::testing::FakeClock clock_;
  FlakyMetadata metadata_;
  std::unique_ptr<EventLog> log_;
};

TEST_F(EventLogTest, AWatcherThatWasAwayMissesNothing) {
  ASSERT_TRUE(Add("a").ok());
  const auto first = Read(0);
  ASSERT_EQ(first->events.size(), 1u);
  EXPECT_EQ(first->position, 1u);
  ASSERT_TRUE(Add("b").ok());
  Open();
  ASSERT_TRUE(Add("c").ok());
  const auto rest = Read(first->position);
  ASSERT_EQ(rest->events.size(), 2u);
  EXPECT_EQ(rest->events[0].document.name, "b");
  EXPECT_EQ(rest->events[1].position, 3u);
  EXPECT_TRUE(Read(3)->events.empty());
}

TEST_F(EventLogTest, AFailedChangeIsNoEvent) {
  metadata_.applies_left = 0;
  EXPECT_FALSE(Add("a").ok());
  metadata_.applies_left = 1 << 30;
  EXPECT_TRUE(Read(0)->events.empty());
  ASSERT_TRUE(Add("b").ok());
  EXPECT_EQ(Read(0)->events[0].position, 1u);
}

TEST_F(EventLogTest, ACollectionIsFilteredAndThePositionGoesOn) {
  ASSERT_TRUE(Add("a", "one").ok());
  ASSERT_TRUE(Add("b", "two").ok());
  const auto page = Read(0, "one");
  EXPECT_EQ(page->events.size(), 1u);
  EXPECT_EQ(page->position, 2u);
}

TEST_F(EventLogTest, OldEventsAreTrimmedButTheLastOne) {
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(Add(name).ok());
  clock_.Advance(std::chrono::hours(8 * 24));
  EXPECT_EQ(*log_->Trim(), 2u);
  EXPECT_EQ(*log_->Trim(), 0u);
  const Status trimmed = Read(1).status();
  EXPECT_EQ(trimmed.code(), StatusCode::kOutOfRange);
  EXPECT_NE(Message(trimmed).find("3 to 3"), std::string_view::npos) << trimmed;
  EXPECT_EQ(Read(2)->events.size(), 1u);
  EXPECT_EQ(Read(0)->oldest, 3u);
  Open();
  ASSERT_TRUE(Add("d").ok());
  EXPECT_EQ(Read(2)->events.back().position, 4u) << "positions go on over a restart";
  EXPECT_EQ(Read(9).status().code(), StatusCode::kOutOfRange);
}

TEST_F(EventLogTest, AWaitEndsWithTheEventOrItsTime) {
  std::thread writer([&] { EXPECT_TRUE(Add("a").ok()); });
  const auto page = log_->Watch(
      {.tenant = "default"}, SystemClock().Now() + std::chrono::minutes(1), [] { return false; });
  writer.join();
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->events.size(), 1u);
  EXPECT_TRUE(log_->Watch({.tenant = "default", .after = 1}, TimePoint::min(), [] { return false; })
                  ->events.empty());
  EXPECT_TRUE(log_->Watch({.tenant = "default", .from_now = true},
                          SystemClock().Now() + std::chrono::minutes(1), [] { return true; })
                  ->events.empty());
}

using DocumentEventsTest = RegistryFixture;

TEST_F(DocumentEventsTest, EveryChangeIsAnEvent) {
  ASSERT_TRUE(Register("a", Chain({1})).ok());
  ASSERT_TRUE(Register("a", Chain({2})).ok());
  ASSERT_TRUE(registry_->Update("default", {"books", "a", 1}, {.set_tags = {{"t", true}}}).ok());
  ASSERT_TRUE(registry_->SetLatest("default", {"books", "a", 1}).ok());
  ASSERT_TRUE(registry_->Pin("default", {"books", "a", 2}).ok());
  ASSERT_TRUE(registry_->Unpin("default", {"books", "a", 2}).ok());
  ASSERT_TRUE(registry_->Delete("default", {"books", "a", 1}, false).ok());
  ASSERT_TRUE(Register("b", Chain({3}), 0, "books", 60).ok());
  clock_.Advance(std::chrono::seconds(61));
  ASSERT_TRUE(registry_->RemoveExpired().ok());
  const std::vector<std::string> expected = {
      "REGISTERED a@1",   "REGISTERED a@2", "LATEST_MOVED a@2", "UPDATED a@1",
      "LATEST_MOVED a@1", "PINNED a@2",     "UNPINNED a@2",     "DELETED a@1",
      "LATEST_MOVED a@2", "REGISTERED b@1", "EXPIRED b@1"};
  EXPECT_EQ(Events(), expected);
  OpenRegistry();
  EXPECT_EQ(Events(), expected);
}

}  // namespace
}  // namespace quire::kvserver::testing
