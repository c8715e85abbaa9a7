// SPDX-License-Identifier: Apache-2.0
//
// Reuse of space, syncs and buffers: ReadEpochs, GroupSync, AlignedBuffer.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/memory/large_pages.h"
#include "kvserver/store/payload/engine/aligned_buffer.h"
#include "kvserver/store/payload/group_sync.h"
#include "kvserver/store/payload/read_epochs.h"
#include "tests/kit/look_again.h"

namespace quire::kvserver {
namespace {

std::vector<BlockRun> OneRun(uint64_t block) { return {{0, block * kBlockBytes, kBlockBytes}}; }

TEST(ReadEpochsTest, WithoutReadersSpaceIsFreeAtOnce) {
  ReadEpochs epochs;
  EXPECT_EQ(epochs.Retire(OneRun(1)), OneRun(1));
  EXPECT_EQ(epochs.waiting_bytes(), 0u);
}

TEST(ReadEpochsTest, SpaceWaitsForThoseThatWereInside) {
  ReadEpochs epochs;
  const auto first = epochs.Enter(), second = epochs.Enter();
  EXPECT_TRUE(epochs.Retire(OneRun(1)).empty());
  const auto late = epochs.Enter();
  EXPECT_EQ(epochs.waiting_bytes(), kBlockBytes);
  EXPECT_TRUE(epochs.Leave(second).empty());
  EXPECT_EQ(epochs.Leave(first), OneRun(1)) << "the late reader never looks at it";
  EXPECT_TRUE(epochs.Leave(late).empty());
}

TEST(ReadEpochsTest, AnOldReaderHoldsEverythingReleasedSince) {
  ReadEpochs epochs;
  const auto oldest = epochs.Enter();
  EXPECT_TRUE(epochs.Retire(OneRun(1)).empty());
  EXPECT_TRUE(epochs.Retire(OneRun(2)).empty());
  const auto younger = epochs.Enter();
  EXPECT_TRUE(epochs.Retire(OneRun(3)).empty());
  EXPECT_TRUE(epochs.Leave(younger).empty());
  EXPECT_EQ(epochs.Leave(oldest).size(), 3u);
  EXPECT_EQ(epochs.waiting_bytes(), 0u);
}

TEST(ReadEpochsTest, NothingIsHandedOutTwiceOrLostUnderThreads) {
  ReadEpochs epochs;
  constexpr uint64_t kRuns = 20000;
  std::atomic<uint64_t> freed{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!stop) freed += epochs.Leave(epochs.Enter()).size();
    });
  }
  for (uint64_t run = 0; run < kRuns; ++run) freed += epochs.Retire(OneRun(run)).size();
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(freed.load(), kRuns);
  EXPECT_EQ(epochs.waiting_bytes(), 0u);
}

/// Lets a test hold a round open.
class Gate {
 public:
  void Open() {
    MutexLock lock(mutex_);
    open_ = true;
    changed_.NotifyAll();
  }
  void Pass() {
    MutexLock lock(mutex_);
    ++waiting_;
    changed_.NotifyAll();
    while (!open_) changed_.Wait(mutex_);
  }
  void AwaitWaiting() {
    MutexLock lock(mutex_);
    while (waiting_ == 0) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool open_ QUIRE_GUARDED_BY(mutex_) = false;
  int waiting_ QUIRE_GUARDED_BY(mutex_) = 0;
};

TEST(GroupSyncTest, CallersDuringARoundShareTheNextOne) {
  Gate gate;
  std::atomic<int> rounds{0};
  GroupSync group([&] {
    if (++rounds == 1) gate.Pass();
    return OkStatus();
  });
  std::thread first([&] { EXPECT_TRUE(group.Sync().ok()); });
  gate.AwaitWaiting();
  std::atomic<int> arriving{0};
  std::vector<std::thread> others;
  for (int i = 0; i < 4; ++i) {
    others.emplace_back([&] {
      ++arriving;
      EXPECT_TRUE(group.Sync().ok());
      EXPECT_GE(rounds.load(), 2) << "a round that ran before the call does not count";
    });
  }
  while (arriving < 4) quire::testing::WaitToLookAgain();
  gate.Open();
  first.join();
  for (std::thread& other : others) other.join();
  EXPECT_LE(rounds.load(), 5);
}

TEST(GroupSyncTest, AFailureIsFinal) {
  int rounds = 0;
  GroupSync group([&] { return ++rounds == 2 ? Unavailable("device") : OkStatus(); });
  EXPECT_TRUE(group.Sync().ok());
  EXPECT_TRUE(group.failure().ok());
  EXPECT_EQ(group.Sync().code(), StatusCode::kUnavailable);
  EXPECT_EQ(group.Sync().code(), StatusCode::kUnavailable) << "a sync that works after one that "
                                                              "failed proves nothing";
  EXPECT_EQ(group.failure().code(), StatusCode::kUnavailable);
  EXPECT_EQ(rounds, 2);
}

TEST(AlignedBufferTest, BuffersAreAlignedAndOfTheSizeAskedFor) {
  AlignedBufferPool pool({});
  for (const size_t size : {1, 4096, 4097, 8704, 1 << 20}) {
    const auto buffer = pool.Take(size);
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(buffer->bytes().size(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->bytes().data()) % AlignedBufferPool::kAlignBytes,
              0u);
    std::ranges::fill(buffer->bytes(), std::byte{1});
  }
  EXPECT_EQ(pool.lent_bytes(), 0u);
}

TEST(AlignedBufferTest, MemoryIsUsedAgain) {
  AlignedBufferPool pool({});
  const std::byte* first = pool.Take(5000)->bytes().data();
  EXPECT_EQ(pool.idle_bytes(), LargePages::kPageBytes);
  const auto again = pool.Take(8192);
  EXPECT_EQ(again->bytes().data(), first);
  EXPECT_EQ(pool.idle_bytes(), LargePages::kPageBytes - 8192);
}

TEST(AlignedBufferTest, ASliceKeepsTheBufferUntilItsLastOwner) {
  AlignedBufferPool pool({});
  AlignedBuffer buffer = *pool.Take(4096);
  buffer.bytes()[7] = std::byte{42};
  Slice slice = std::move(buffer).ToSlice(7, 3);
  EXPECT_EQ(slice.bytes.size(), 3u);
  EXPECT_EQ(slice.bytes[0], std::byte{42});
  std::weak_ptr<const void> weak = slice.owner;
  Slice copy = slice;
  slice = {};
  EXPECT_EQ(pool.lent_bytes(), 4096u);
  EXPECT_EQ(copy.bytes[0], std::byte{42});
  copy = {};
  EXPECT_EQ(pool.lent_bytes(), 4096u) << "a weak reference still uses the control block";
  weak.reset();
  EXPECT_EQ(pool.lent_bytes(), 0u);
}

TEST(AlignedBufferTest, BuffersOfOneSizeShareLargePages) {
  AlignedBufferPool pool({});
  constexpr size_t kBytes = 128 << 10, kOfAPage = LargePages::kPageBytes / kBytes;
  std::set<uintptr_t> pages;
  std::vector<AlignedBuffer> out;
  for (size_t i = 0; i < 2 * kOfAPage; ++i) {
    out.push_back(*pool.Take(kBytes));
    pages.insert(reinterpret_cast<uintptr_t>(out.back().bytes().data()) / LargePages::kPageBytes);
  }
  EXPECT_EQ(pages.size(), 2u);
  EXPECT_EQ(pool.idle_bytes(), 0u);
}

TEST(AlignedBufferTest, ASlabIsKeptWhileABufferOfItIsOut) {
  AlignedBufferPool pool({.idle_bytes = 0});
  AlignedBuffer kept = *pool.Take(4096);
  *pool.Take(4096);
  EXPECT_EQ(pool.idle_bytes(), LargePages::kPageBytes - 4096);
  kept = AlignedBuffer();
  EXPECT_EQ(pool.idle_bytes(), 0u);
}

TEST(AlignedBufferTest, SlabsThatRestMakeRoomForOthers) {
  AlignedBufferPool pool(
      {.limit_bytes = LargePages::kPageBytes, .idle_bytes = LargePages::kPageBytes});
  for (size_t bytes = 4096; bytes <= LargePages::kPageBytes; bytes *= 2) {
    ASSERT_TRUE(pool.Take(bytes).ok()) << bytes;
  }
  EXPECT_LE(pool.idle_bytes(), LargePages::kPageBytes);
  const AlignedBuffer one = *pool.Take(4096), another = *pool.Take(8192);
  const Status refused = pool.Take(16384).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << "both slabs have a buffer out";
}

TEST(AlignedBufferTest, SlicesOutliveThePool) {
  Slice slice;
  {
    AlignedBufferPool pool({});
    AlignedBuffer buffer = *pool.Take(100);
    std::ranges::fill(buffer.bytes(), std::byte{9});
    slice = std::move(buffer).ToSlice();
  }
  EXPECT_EQ(slice.bytes[99], std::byte{9});
}

TEST(AlignedBufferTest, WhatIsOutAndWhatIsKeptIsBounded) {
  AlignedBufferPool pool({.limit_bytes = 16384, .idle_bytes = 8192});
  std::vector<AlignedBuffer> out;
  for (int i = 0; i < 4; ++i) out.push_back(*pool.Take(4096));
  EXPECT_EQ(pool.Take(1).status().code(), StatusCode::kResourceExhausted);
  out.clear();
  EXPECT_EQ(pool.idle_bytes(), 0u) << "a slab is more than may be kept";
  EXPECT_EQ(pool.Take(16385).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(pool.Take(SIZE_MAX).status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(pool.Take(16384).ok());
}

TEST(AlignedBufferTest, ManyThreadsTakeAndHandOver) {
  AlignedBufferPool pool({});
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 2000; ++i) {
        AlignedBuffer buffer = *pool.Take(4096u << (i % 3));
        std::ranges::fill(buffer.bytes().first(64), static_cast<std::byte>(thread));
        const Slice slice = std::move(buffer).ToSlice(0, 64);
        for (const std::byte byte : slice.bytes) wrong += byte != static_cast<std::byte>(thread);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(pool.lent_bytes(), 0u);
}

}  // namespace
}  // namespace quire::kvserver
