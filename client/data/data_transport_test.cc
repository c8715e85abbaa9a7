// SPDX-License-Identifier: Apache-2.0
#include "client/data/data_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/kit/fake_clock.h"

namespace quire::testing {

using namespace internal;
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Answers every call with one empty part until it is dead.
class FakeConnection final : public Transport {
 public:
  explicit FakeConnection(int* landings) : landings_(landings) {}
  void Die() { dead_ = true; }

  TransportCapabilities capabilities() const override {
    return {.name = "fake", .max_message_bytes = 1000};
  }
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view, CallMessage,
                                               const CallOptions& options) override {
    if (dead_) return Unavailable("the connection is dead");
    const auto* const landing = static_cast<const Memory*>(options.landing);
    EXPECT_TRUE(landing == nullptr || landing->owner == this);
    return std::make_unique<OnePart>();
  }
  StatusOr<std::unique_ptr<Landing>> AddLanding(std::span<std::byte> memory) override {
    if (dead_) return Unavailable("the connection is dead");
    ++*landings_;
    return std::make_unique<Memory>(this, memory);
  }

 private:
  struct Memory final : public Landing {
    Memory(const FakeConnection* made_by, std::span<std::byte> all) : owner(made_by), memory(all) {}
    std::span<std::byte> bytes() const override { return memory; }

    const FakeConnection* const owner;
    const std::span<std::byte> memory;
  };
  class OnePart final : public PendingCall {
   public:
    StatusOr<std::optional<CallMessage>> Next(TimePoint) override {
      if (std::exchange(given_, true)) return std::nullopt;
      return CallMessage();
    }
    void Cancel() override {}

   private:
    bool given_ = false;
  };

  int* const landings_;
  std::atomic<bool> dead_{false};
};

class DataTransportTest : public ::testing::Test {
 protected:
  std::shared_ptr<DataTransport> Open() {
    auto opened = DataTransport::Open(
        {.connect = [this](TimePoint) { return Connect(); },
         .on_other_way = [this](const DataReport& report) { told_.push_back(report.taken); },
         .retry = {.first_backoff = std::chrono::milliseconds(100), .jitter = 0},
         .clock = &clock_});
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *opened;
  }
  StatusOr<DataConnection> Connect() {
    ++attempts_;
    if (!reachable_) return Unavailable("nobody there");
    connection_ = std::make_shared<FakeConnection>(&landings_);
    return DataConnection{connection_,
                          {.taken = way_.value_or("fake" + std::to_string(attempts_)),
                           .detail = {},
                           .passed_over = {}}};
  }
  static Status Call(Transport& transport, Landing* landing = nullptr) {
    const auto call = transport.Start("m", {}, {.landing = landing});
    return call.status();
  }

  FakeClock clock_;
  std::atomic<int> attempts_{0};
  std::atomic<bool> reachable_{true};
  std::optional<std::string> way_;  ///< Transport of all new connections.
  std::vector<std::string> told_;   ///< Reported transports.
  int landings_ = 0;
  std::shared_ptr<FakeConnection> connection_;
};

TEST_F(DataTransportTest, OneConnectionServesManyCalls) {
  const auto transport = Open();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Call(*transport), OkStatus());
  CallMessage reply;
  EXPECT_EQ(transport->Call("m", {}, &reply, {}), OkStatus());
  EXPECT_EQ(attempts_, 1);
  EXPECT_EQ(transport->report().taken, "fake1");
  EXPECT_EQ(transport->capabilities().name, "fake");
}

TEST_F(DataTransportTest, WithoutAConnectionItDoesNotOpen) {
  reachable_ = false;
  const auto opened = DataTransport::Open({.connect = [this](TimePoint) { return Connect(); }});
  EXPECT_EQ(opened.status().code(), StatusCode::kUnavailable);
}

TEST_F(DataTransportTest, ADeadConnectionIsReplacedByTheCallThatFindsIt) {
  const auto transport = Open();
  clock_.Advance(std::chrono::minutes(1));
  connection_->Die();
  EXPECT_EQ(Call(*transport), OkStatus());
  EXPECT_EQ(attempts_, 2);
  EXPECT_EQ(transport->report().taken, "fake2");
}

TEST_F(DataTransportTest, WhoOpenedItIsToldWhenAnotherWayIsTaken) {
  const auto transport = Open();
  EXPECT_THAT(told_, IsEmpty()) << "of the first one Open says it";
  for (const char* way : {"a", "a", "b"}) {
    way_ = way;
    clock_.Advance(std::chrono::minutes(1));
    connection_->Die();
    EXPECT_EQ(Call(*transport), OkStatus());
  }
  EXPECT_THAT(told_, ElementsAre("a", "b"));
}

TEST_F(DataTransportTest, AWholeCallIsNotRepeatedButTheNextOneHasANewConnection) {
  const auto transport = Open();
  clock_.Advance(std::chrono::minutes(1));
  connection_->Die();
  CallMessage reply;
  EXPECT_EQ(transport->Call("m", {}, &reply, {}).code(), StatusCode::kUnavailable);
  EXPECT_EQ(attempts_, 1);
  EXPECT_EQ(transport->Call("m", {}, &reply, {}), OkStatus());
  EXPECT_EQ(attempts_, 2);
}

TEST_F(DataTransportTest, AServerThatIsGoneIsNotAskedMoreOftenThanTheBackOffAllows) {
  const auto transport = Open();
  clock_.Advance(std::chrono::minutes(1));
  connection_->Die();
  reachable_ = false;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Call(*transport).code(), StatusCode::kUnavailable);
  EXPECT_EQ(attempts_, 2);
  clock_.Advance(std::chrono::milliseconds(100));
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(Call(*transport).ok());
  EXPECT_EQ(attempts_, 3);
  clock_.Advance(std::chrono::milliseconds(199));
  EXPECT_FALSE(Call(*transport).ok());
  EXPECT_EQ(attempts_, 3) << "the second wait is twice the first";
  clock_.Advance(std::chrono::milliseconds(1));
  reachable_ = true;
  EXPECT_EQ(Call(*transport), OkStatus());
  EXPECT_EQ(attempts_, 4);
}

TEST_F(DataTransportTest, ConnectionsThatDieYoungAreNotMadeOverAndOver) {
  const auto transport = Open();
  for (int i = 0; i < 100; ++i) {
    connection_->Die();
    EXPECT_EQ(Call(*transport).code(), StatusCode::kUnavailable);
  }
  EXPECT_EQ(attempts_, 1);
  clock_.Advance(std::chrono::milliseconds(100));
  EXPECT_EQ(Call(*transport), OkStatus());
  EXPECT_EQ(attempts_, 2);
}

TEST_F(DataTransportTest, LandingsAreAnnouncedAgainOnANewConnection) {
  const auto transport = Open();
  std::vector<std::byte> memory(100);
  auto landing = transport->AddLanding(memory);
  ASSERT_TRUE(landing.ok()) << landing.status();
  EXPECT_EQ((*landing)->bytes().data(), memory.data());
  EXPECT_EQ(Call(*transport, landing->get()), OkStatus());
  EXPECT_EQ(landings_, 1);
  clock_.Advance(std::chrono::minutes(1));
  connection_->Die();
  EXPECT_EQ(Call(*transport, landing->get()), OkStatus());
  EXPECT_EQ(landings_, 2);
}

TEST_F(DataTransportTest, TheEndOfACallIsNotThatOfTheLandingOnItsConnection) {
  const auto transport = Open();
  std::vector<std::byte> memory(100);
  auto landing = *transport->AddLanding(memory);
  auto call = *transport->Start("m", {}, {.landing = landing.get()});
  const auto lose = [&] {
    const std::weak_ptr<FakeConnection> lost = connection_;
    clock_.Advance(std::chrono::minutes(1));
    std::exchange(connection_, nullptr)->Die();
    EXPECT_EQ(Call(*transport, landing.get()), OkStatus());
    return lost;
  };
  const std::weak_ptr<FakeConnection> first = lose();
  call.reset();
  EXPECT_FALSE(first.expired());
  const std::weak_ptr<FakeConnection> second = lose();
  EXPECT_TRUE(first.expired()) << "nobody uses it, and who announces the memory may wait";
  EXPECT_FALSE(second.expired());
  landing.reset();
  EXPECT_TRUE(second.expired());
}

TEST_F(DataTransportTest, ALandingOfAnotherTransportIsRefused) {
  const auto transport = Open(), other = Open();
  std::vector<std::byte> memory(100);
  const auto landing = other->AddLanding(memory);
  ASSERT_TRUE(landing.ok());
  EXPECT_EQ(Call(*transport, landing->get()).code(), StatusCode::kInvalidArgument);
}

TEST_F(DataTransportTest, ManyThreadsMakeOneConnection) {
  const auto transport = Open();
  clock_.Advance(std::chrono::minutes(1));
  connection_->Die();
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] { failed += Call(*transport).ok() ? 0 : 1; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(attempts_, 2);
}

}  // namespace
}  // namespace quire::testing
