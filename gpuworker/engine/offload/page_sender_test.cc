// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/offload/page_sender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpuworker/testing/fake_store.h"
#include "gpuworker/testing/tiny_spec.h"
#include "quire/layout.h"
#include "tests/kit/fake_clock.h"
#include "tests/kit/manual_executor.h"
#include "transport/local/loopback_transport.h"

namespace quire::worker {
namespace {

using quire::testing::FakeClock;
using quire::testing::ManualExecutor;
using testing::FakeStore;
using ::testing::HasSubstr;
using testing::TinySpec;

/// Time that stands still until it is moved, and signals when it has been read.
class WatchedClock final : public Clock {
 public:
  TimePoint Now() const override {
    MutexLock lock(mutex_);
    looked_ = true;
    changed_.NotifyAll();
    return TimePoint(elapsed_);
  }
  int64_t UnixMicros() const override { return 0; }
  void Sleep(Duration) override {}
  /// Moves it once it has been read.
  void AdvanceAfterLook(Duration duration) {
    MutexLock lock(mutex_);
    while (!looked_) changed_.Wait(mutex_);
    elapsed_ += duration;
  }

 private:
  mutable Mutex mutex_;
  mutable CondVar changed_;
  mutable bool looked_ QUIRE_GUARDED_BY(mutex_) = false;
  Duration elapsed_ QUIRE_GUARDED_BY(mutex_) = {};
};

/// Takes nothing.
class FullExecutor final : public Executor {
 public:
  Status Submit(Task) override { return ResourceExhausted("the queue is full"); }
};

class PageSenderTest : public ::testing::Test {
 protected:
  PageSenderTest() {
    auto client = Client::Create({.transport = std::make_shared<LoopbackTransport>(
                                      &store_, LoopbackTransport::Options{.clock = &client_clock_}),
                                  .clock = &client_clock_});
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    const auto context = client_->OpenContext(spec_, std::nullopt);
    EXPECT_TRUE(context.ok()) << context.status();
    context_ = context->id;
  }

  EngineParts Parts() {
    return {.client = client_.get(),
            .device = &CpuDevice(),
            .spec = &spec_,
            .clock = &clock_,
            .max_batch_bytes = page_bytes(),
            .unit_buffers = &buffers_};
  }
  std::unique_ptr<PageSender> Make(Executor* executor) {
    return std::make_unique<PageSender>(Parts(), context_, executor, &waited_);
  }
  uint64_t page_bytes() const { return SegmentBytes(spec_, 1); }
  uint64_t appends() const { return store_.calls("Store/AppendPages"); }

  /// A page whose bytes are its number.
  PageSender::Batch Page(uint32_t page) {
    auto buffer = *buffers_.Take();
    std::memset(buffer->bytes.get(), static_cast<int>(page), page_bytes());
    const auto token = static_cast<TokenId>(page);
    return {.pages = {page, page + 1},
            .tokens = std::vector<TokenId>(spec_.page_tokens, token),
            .layer = {},
            .units = {{.buffer = std::move(buffer), .bytes = page_bytes()}}};
  }
  void ExpectPages(uint32_t count) {
    EXPECT_EQ(store_.last_context_pages(), count);
    for (uint32_t page = 0; page < count; ++page) {
      const UnitRange range{.layer = spec_.num_layers - 1, .pages = {page}};
      const auto units = client_->Fetch(context_, {&range, 1});
      ASSERT_TRUE(units.ok()) << units.status();
      std::vector<std::byte> bytes(units->size_bytes());
      units->CopyTo(bytes.data());
      EXPECT_EQ(bytes, std::vector<std::byte>(bytes.size(), std::byte{uint8_t(page)}));
    }
  }

  const KvSpec spec_ = TinySpec();
  FakeStore store_;
  FakeClock client_clock_;
  WatchedClock clock_;
  UnitBuffers buffers_{&CpuDevice(), page_bytes()};
  std::unique_ptr<Client> client_;
  uint64_t context_ = 0;
  Duration waited_ = {};
};

TEST_F(PageSenderTest, PagesAreSentInTheirOrderAndNobodyWaits) {
  ManualExecutor executor;
  const auto sender = Make(&executor);
  for (uint32_t page = 0; page < 3; ++page) ASSERT_EQ(sender->Add(Page(page)), OkStatus());
  EXPECT_EQ(appends(), 0u);
  ASSERT_TRUE(executor.RunOne());
  EXPECT_FALSE(executor.RunOne());
  EXPECT_EQ(appends(), 3u);
  ASSERT_EQ(sender->Add(Page(3)), OkStatus());
  ASSERT_TRUE(executor.RunOne());
  EXPECT_EQ(sender->Finish(), OkStatus());
  ExpectPages(4);
  EXPECT_EQ(waited_, Duration::zero());
}

TEST_F(PageSenderTest, OnlyThePagesAskedForAreWaitedFor) {
  ThreadPool thread({.threads = 1});
  const auto sender = Make(&thread);
  ASSERT_EQ(sender->Add(Page(0)), OkStatus());
  ASSERT_EQ(sender->Await(1), OkStatus());
  ExpectPages(1);
  store_.Hold("Store/AppendPages");
  ASSERT_EQ(sender->Add(Page(1)), OkStatus());
  ASSERT_EQ(sender->Add(Page(2)), OkStatus());
  store_.AwaitCalls("Store/AppendPages", 2);
  EXPECT_EQ(sender->Await(0), OkStatus());
  EXPECT_EQ(sender->Await(1), OkStatus());
  EXPECT_EQ(store_.last_context_pages(), 1u);
  store_.Release();
  ASSERT_EQ(sender->Await(2), OkStatus());
  EXPECT_GE(store_.last_context_pages(), 2u);
  ASSERT_EQ(sender->Finish(), OkStatus());
  ExpectPages(3);
}

TEST_F(PageSenderTest, WhoIsWaitedForIsCounted) {
  ManualExecutor executor;
  const auto sender = Make(&executor);
  ASSERT_EQ(sender->Add(Page(0)), OkStatus());
  std::thread sending([&] {
    clock_.AdvanceAfterLook(std::chrono::seconds(1));  // The caller waits, or is about to.
    EXPECT_TRUE(executor.RunOne());
  });
  EXPECT_EQ(sender->Await(1), OkStatus());
  ExpectPages(1);
  EXPECT_EQ(waited_, std::chrono::seconds(1));
  sending.join();
}

TEST_F(PageSenderTest, WithAsMuchOnItsWayAsMayBeTheNextPageWaits) {
  ManualExecutor executor;
  const auto sender = Make(&executor);
  uint32_t page = 0;
  for (; page < PageSender::kQueuedCalls; ++page) {
    ASSERT_EQ(sender->Add(Page(page)), OkStatus());
  }
  EXPECT_EQ(waited_, Duration::zero());
  std::thread sending([&] {
    clock_.AdvanceAfterLook(std::chrono::seconds(1));
    while (executor.RunOne()) {
    }
  });
  ASSERT_EQ(sender->Add(Page(page)), OkStatus());
  EXPECT_EQ(waited_, std::chrono::seconds(1));
  sending.join();
  while (executor.RunOne()) {
  }
  ASSERT_EQ(sender->Finish(), OkStatus());
  ExpectPages(page + 1);
}

TEST_F(PageSenderTest, TheFirstErrorEndsTheSendingAndIsTheAnswerFromThenOn) {
  ManualExecutor executor;
  const auto sender = Make(&executor);
  store_.FailOnce("Store/AppendPages", 1, FailedPrecondition("it idled too long"));
  for (uint32_t page = 0; page < 4; ++page) ASSERT_EQ(sender->Add(Page(page)), OkStatus());
  EXPECT_EQ(sender->Await(0), OkStatus());
  ASSERT_TRUE(executor.RunOne());
  EXPECT_EQ(appends(), 2u) << "what waited was dropped";
  ExpectPages(1);
  for (const Status& status :
       {sender->Await(0), sender->Await(1), sender->Add(Page(4)), sender->Finish()}) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(Message(status)),
                HasSubstr("pages 1 to 2 could not be appended to the open context"));
    EXPECT_THAT(std::string(Message(status)), HasSubstr("it idled too long"));
  }
  EXPECT_FALSE(executor.RunOne());
  EXPECT_EQ(appends(), 2u);
}

TEST_F(PageSenderTest, AServerThatIsAwayForAMomentIsAskedAgain) {
  InlineExecutor executor;
  const auto sender = Make(&executor);
  store_.FailOnce("Store/AppendPages", 0, Unavailable("away"));
  ASSERT_EQ(sender->Add(Page(0)), OkStatus());
  EXPECT_EQ(appends(), 2u);
  ASSERT_EQ(sender->Finish(), OkStatus());
  ExpectPages(1);
}

TEST_F(PageSenderTest, WithoutRoomAtTheExecutorThePageIsSentAtOnce) {
  FullExecutor executor;
  const auto sender = Make(&executor);
  for (uint32_t page = 0; page < 2; ++page) {
    ASSERT_EQ(sender->Add(Page(page)), OkStatus());
    ExpectPages(page + 1);
  }
  EXPECT_EQ(sender->Finish(), OkStatus());
}

TEST_F(PageSenderTest, WhoGoesLeavesNoCallBehind) {
  ThreadPool thread({.threads = 1});
  auto sender = Make(&thread);
  store_.Hold("Store/AppendPages");
  for (uint32_t page = 0; page < 4; ++page) ASSERT_EQ(sender->Add(Page(page)), OkStatus());
  store_.AwaitCalls("Store/AppendPages", 1);
  std::thread releasing([&] { store_.Release(); });
  sender.reset();
  releasing.join();
  ExpectPages(static_cast<uint32_t>(appends()));  // Each that began is whole.
}

TEST_F(PageSenderTest, BuffersComeBackAndAreUsedAgain) {
  InlineExecutor executor;
  const auto sender = Make(&executor);
  const std::byte* first = nullptr;
  {
    const std::shared_ptr<UnitBuffer> buffer = *buffers_.Take();
    first = buffer->bytes.get();
  }
  for (uint32_t page = 0; page < 3; ++page) {
    PageSender::Batch batch = Page(page);
    EXPECT_EQ(batch.units.at(0).buffer->bytes.get(), first);
    ASSERT_EQ(sender->Add(std::move(batch)), OkStatus());
  }
  const auto one = *buffers_.Take(), two = *buffers_.Take();
  EXPECT_EQ(one->bytes.get(), first);
  EXPECT_NE(two->bytes.get(), first);
}

}  // namespace
}  // namespace quire::worker
