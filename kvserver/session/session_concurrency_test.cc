// SPDX-License-Identifier: Apache-2.0
//
// Concurrent calls of one session. Lanes do not wait for each other, a lane's writes keep their
// order, and a stalled call delays others only within the bounds.
#include <atomic>
#include <thread>

#include "common/base/retry_hint.h"
#include "kvserver/session/testing/session_fixture.h"

namespace quire::kvserver::testing {
namespace {

/// Closed until it is opened.
class Gate {
 public:
  void Open() {
    MutexLock lock(mutex_);
    open_ = true;
    changed_.NotifyAll();
  }
  /// Blocks the calling thread, which counts as arrived before it waits.
  void Pass() {
    MutexLock lock(mutex_);
    ++arrived_;
    changed_.NotifyAll();
    while (!open_) changed_.Wait(mutex_);
  }
  void AwaitArrivals(int count) {
    MutexLock lock(mutex_);
    while (arrived_ < count) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool open_ QUIRE_GUARDED_BY(mutex_) = false;
  int arrived_ QUIRE_GUARDED_BY(mutex_) = 0;
};

class SessionConcurrencyTest : public SessionFixture {
 protected:
  std::shared_ptr<Session> Open(uint32_t slots, uint32_t sequences = 1) {
    const auto opened = OpenSession(SealedWith(16)->chain_tip(), slots, sequences);
    return *sessions_.Find(kTenant, opened.id);
  }
  static LayerWant Want(uint32_t layer, PageLists pages, uint64_t applied, uint32_t sequence = 0) {
    return {{sequence, layer, {applied}}, std::move(pages), {}};
  }
  /// A want of layers from `first_layer` on.
  static LayerWant Layers(uint32_t first_layer, std::vector<uint64_t> applied, PageLists pages) {
    return {{0, first_layer, std::move(applied)}, std::move(pages), {}};
  }
};

TEST_F(SessionConcurrencyTest, AWriteThatStallsHoldsItsOwnLanesOnly) {
  const auto session = Open(4);
  Gate gate;
  std::thread stalled([&] {
    CollectingSink sink;
    sink.on_write = [&](const auto&) {
      gate.Pass();
      return OkStatus();
    };
    EXPECT_TRUE(session->Recall({1, 1, {Want(0, {{1}, {}}, 0)}}, {}, sink).ok());
  });
  gate.AwaitArrivals(1);
  CollectingSink other, same;
  EXPECT_TRUE(session->Recall({1, 2, {Want(1, {{1}, {}}, 0)}}, {}, other).ok());
  const ReplyShape expired{.deadline = SystemClock().Now()};
  EXPECT_EQ(session->Recall({1, 3, {Want(0, {{2}, {}}, 0)}}, expired, same).code(),
            StatusCode::kDeadlineExceeded);
  EXPECT_EQ(session->RemoveSequence(0, SystemClock().Now()).code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(session->Resync(2, {}, SystemClock().Now()).code(), StatusCode::kDeadlineExceeded);
  gate.Open();
  stalled.join();
  EXPECT_EQ(session->epoch(), 1u);
  EXPECT_TRUE(session->Recall({1, 4, {Want(0, {{2}, {}}, 1)}}, {}, same).ok());
}

TEST_F(SessionConcurrencyTest, ALanesWritesNeverOvertakeEachOther) {
  const auto session = Open(4);
  Gate gate;
  std::vector<int> written;  // Written by the holder of the lane.
  const auto recall = [&](uint64_t exchange, Gate* wait) {
    CollectingSink sink;
    sink.on_write = [&](const auto&) {
      if (wait != nullptr) wait->Pass();
      written.push_back(static_cast<int>(exchange));
      return OkStatus();
    };
    EXPECT_TRUE(session->Recall({1, exchange, {Want(0, {{1}, {}}, 0)}}, {}, sink).ok());
  };
  std::thread older([&] { recall(1, &gate); });
  gate.AwaitArrivals(1);
  std::thread newer([&] { recall(2, nullptr); });
  gate.Open();
  older.join();
  newer.join();
  EXPECT_EQ(written, (std::vector<int>{1, 2}));
}

TEST_F(SessionConcurrencyTest, LanesOfEarlierPartsAreFreeWhileLaterOnesStall) {
  const auto session = Open(4);
  Gate gate;
  std::thread stalled([&] {
    CollectingSink sink;
    sink.on_write = [&](const CollectingSink::Part& part) {
      if (part.lanes[0].layer == 1) gate.Pass();
      return OkStatus();
    };
    const ReplyShape reply{.max_parts = 9, .part_bytes = 1};
    EXPECT_TRUE(session->Recall({1, 1, {Layers(0, {0, 0}, {{1}, {}})}}, reply, sink).ok());
  });
  gate.AwaitArrivals(1);
  CollectingSink sink;
  EXPECT_TRUE(session->Recall({1, 2, {Want(0, {{1, 2}, {}}, 1)}}, {}, sink).ok());
  EXPECT_EQ(sink.lanes()[0].placed.size(), 1u);
  gate.Open();
  stalled.join();
}

TEST_F(SessionConcurrencyTest, OnlySoManyCallsOfASessionWork) {
  const auto session = Open(2, 64);
  Gate gate;
  std::vector<std::thread> calls;
  for (uint32_t i = 0; i < Session::kMaxWorking; ++i) {
    calls.emplace_back([&, i] {
      CollectingSink sink;
      sink.on_write = [&](const auto&) {
        gate.Pass();
        return OkStatus();
      };
      EXPECT_TRUE(session->Recall({1, 1, {Want(0, {{1}, {}}, 0, i)}}, {}, sink).ok());
    });
  }
  gate.AwaitArrivals(Session::kMaxWorking);
  CollectingSink sink;
  const Status refused = session->Recall({1, 1, {Want(0, {{1}, {}}, 0, 60)}}, {}, sink);
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryAfter(refused)) << refused;
  gate.Open();
  for (std::thread& call : calls) call.join();
  EXPECT_TRUE(session->Recall({1, 1, {Want(0, {{1}, {}}, 0, 60)}}, {}, sink).ok());
}

TEST_F(SessionConcurrencyTest, AWorkerThatNeverAcknowledgesIsAnsweredAgainAndAgain) {
  const auto session = Open(4);
  SeededRandom random(3);
  for (uint64_t exchange = 1; exchange <= 500; ++exchange) {
    const auto page = static_cast<uint32_t>(random.Below(16));
    CollectingSink sink;
    ASSERT_TRUE(session->Recall({1, exchange, {Want(0, {{page}, {page}}, 0)}}, {}, sink).ok());
    const PlacedUnits placed = sink.lanes()[0].placed;
    EXPECT_EQ(placed.slots, (std::vector<uint32_t>{0, 0}));
    EXPECT_EQ(placed.generations, (std::vector<uint32_t>{1, 1})) << "nothing piles up";
  }
}

/// Several threads, each a worker of its own sequence, while sequences come and go and another
/// thread acknowledges. Every worker sees its own lane in order.
TEST_F(SessionConcurrencyTest, WorkersOfABatchDoNotDisturbEachOther) {
  constexpr uint32_t kWorkers = 4;
  const auto opened = OpenSession(SealedWith(16)->chain_tip(), 4, kWorkers + 1);
  const auto session = *sessions_.Find(kTenant, opened.id);
  std::vector<std::thread> threads;
  std::atomic<uint32_t> running{kWorkers};
  for (uint32_t sequence = 0; sequence < kWorkers; ++sequence) {
    threads.emplace_back([&, sequence] {
      SeededRandom random(sequence + 1);
      std::vector<int32_t> slots(4, -1);
      uint64_t applied = 0;
      for (uint64_t exchange = 1; exchange <= 200; ++exchange) {
        const auto page = static_cast<uint32_t>(random.Below(15));
        CollectingSink sink;
        const RecallArgs args{1, exchange, {Want(1, {{page, page + 1}, {}}, applied, sequence)}};
        const Status status = session->Recall(args, {}, sink);
        ASSERT_TRUE(status.ok()) << status;
        if (random.Below(4) == 0) continue;  // Lost.
        const PlacedUnits placed = sink.lanes()[0].placed;
        for (size_t i = 0; i < placed.size(); ++i) {
          EXPECT_EQ(placed.replaced[i], slots[placed.slots[i]]);
          slots[placed.slots[i]] = static_cast<int32_t>(placed.pages[i]);
        }
        applied = exchange;
      }
      running.fetch_sub(1);
    });
  }
  while (running.load() > 0) {
    EXPECT_TRUE(session->RemoveSequence(kWorkers, kNever).ok());
    const auto added =
        sessions_.AddSequence(kTenant, opened.id, {{{opened.sequences[0][0].view->chain_tip()}}});
    ASSERT_TRUE(added.ok()) << added.status();
    EXPECT_EQ(added->number, kWorkers);
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace quire::kvserver::testing
