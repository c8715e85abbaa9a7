// SPDX-License-Identifier: Apache-2.0
//
// Readers, writers, deleters and eviction at once, over a DRAM tier that holds a fraction of the
// data. Every read is exactly as put, or NOT_FOUND. For use under ThreadSanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "kvserver/store/page_store_impl.h"
#include "kvserver/store/payload/engine/engine_choice.h"
#include "kvserver/store/testing/store_kit.h"
#include "tests/kit/look_again.h"
#include "tests/kit/same_bytes.h"
#include "tests/kit/temp_dir.h"

namespace quire::kvserver::testing {
namespace {

using quire::testing::TempDir;

class PageStoreConcurrencyTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kSegments = 24;

  void SetUp() override {
    auto opened = PageStore::Open({.ssd_path = dir_.path(), .dram_bytes = 512 << 10});
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
    for (uint64_t seed = 0; seed < kSegments; ++seed) {
      const auto segment = PutTestSegment(*store_, spec_, seed);
      ASSERT_TRUE(segment.ok()) << segment.status();
      segments_.push_back(*segment);
    }
  }

  /// Runs every function in its own thread, `rounds` times, each with its own randomness.
  void RunAll(int rounds, const std::vector<std::function<void(Random&)>>& functions) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < functions.size(); ++i) {
      threads.emplace_back([&, i] {
        SeededRandom random(i);
        for (int round = 0; round < rounds; ++round) functions[i](random);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  void ReadSome(Random& random) {
    const TestSegment& segment = segments_[random.Below(kSegments)];
    const auto units = AllUnits(spec_, segment.key, 8);
    const size_t first = random.Below(units.size());
    const size_t count = 1 + random.Below(units.size() - first);
    std::vector<UnitBytes> out;
    const Status status =
        store_->ReadUnits("default", std::span(units).subspan(first, count), &out);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), StatusCode::kNotFound) << status;
      return;
    }
    const uint64_t bytes = quire::UnitBytes(spec_);
    const auto expected = std::span(segment.payload).subspan(first * bytes, count * bytes);
    EXPECT_TRUE(quire::testing::SameBytes(Concatenate(out), expected));
  }
  void ReadOthers(Random& random) {
    const TestSegment& segment = segments_[random.Below(kSegments)];
    for (const Status& status : {store_->ReadDigests("default", segment.key, 0).status(),
                                 store_->ResolveChain("default", segment.key).status(),
                                 store_->Lookup("default", spec_, segment.tokens).status()}) {
      EXPECT_TRUE(status.ok() || status.code() == StatusCode::kNotFound) << status;
    }
    EXPECT_GT(CountersOf(*store_)["puts"], 0u);
  }
  void PutOne(Random& random) {
    const auto put = PutTestSegment(*store_, spec_, random.Below(kSegments));
    EXPECT_TRUE(put.ok()) << put.status();
  }
  void DeleteOne(Random& random) {
    const Status status = store_->DeleteSegment("default", segments_[random.Below(kSegments)].key);
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kNotFound) << status;
  }

  TempDir dir_;
  KvSpec spec_ = LargeUnitSpec();
  std::unique_ptr<PageStore> store_;
  std::vector<TestSegment> segments_;
};

TEST_F(PageStoreConcurrencyTest, EveryReadIsExactOrNotFoundAndAccountsEndAtZero) {
  RunAll(150, {[&](Random& r) { ReadSome(r); }, [&](Random& r) { ReadSome(r); },
               [&](Random& r) { ReadOthers(r); }, [&](Random& r) { PutOne(r); },
               [&](Random& r) { PutOne(r); }, [&](Random& r) { DeleteOne(r); }});
  for (const TestSegment& segment : segments_) {
    const Status status = store_->DeleteSegment("default", segment.key);
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kNotFound) << status;
  }
  auto counters = CountersOf(*store_);
  EXPECT_EQ(counters["segments"], 0u);
  EXPECT_EQ(counters["ssd_bytes_used"], 0u);
  EXPECT_EQ(counters["dram_extents"], 0u);
  EXPECT_EQ(counters["dram_bytes_used"], 0u);
  EXPECT_EQ(counters["ssd_checksum_failures"], 0u);
}

// Promise 1 under a race: the first of two different puts under one key stands. The other takes its
// bytes or, when strict, is refused.
TEST_F(PageStoreConcurrencyTest, Promise1OneOfTwoRacingPutsWins) {
  for (uint64_t round = 0; round < 20; ++round) {
    const auto tokens = MakeTokens(8, 1000 + round);
    const std::vector<std::byte> payloads[2] = {MakePayload(spec_, 8, 1), MakePayload(spec_, 8, 2)};
    StatusOr<PutSegmentResult> results[2] = {Internal("not run"), Internal("not run")};
    const bool strict = round % 2 == 1;
    const auto put = [&](int which) {
      PutSegmentArgs args;
      args.spec = &spec_;
      args.tokens = tokens;
      args.payload = payloads[which];
      args.durability = Durability::kMemory;
      args.strict = strict;
      results[which] = store_->PutSegment("default", args);
    };
    std::thread other(put, 1);
    put(0);
    other.join();
    const int winner = results[0].ok() && !results[0]->existed ? 0 : 1;
    ASSERT_TRUE(results[winner].ok()) << results[winner].status();
    EXPECT_FALSE(results[winner]->existed);
    const auto& second = results[1 - winner];
    if (strict) {
      EXPECT_EQ(second.status().code(), StatusCode::kAlreadyExists);
    } else {
      ASSERT_TRUE(second.ok()) << second.status();
      EXPECT_TRUE(second->existed && second->differs);
    }
    EXPECT_EQ(*ReadSegment(*store_, spec_, {results[winner]->key, tokens, {}}), payloads[winner]);
  }
}

/// An engine whose first sync, once armed, lasts until `wait` returns.
class SlowSyncEngine final : public IoEngine {
 public:
  explicit SlowSyncEngine(IoEngine* inner) : inner_(*inner) {}
  void Arm(std::function<void()> wait) { wait_ = std::move(wait); }
  std::string_view name() const override { return inner_.name(); }
  void Run(IoStream& stream) override { inner_.Run(stream); }
  int Sync(int fd) override {
    if (wait_ && !waited_.exchange(true)) wait_();
    return inner_.Sync(fd);
  }

 private:
  IoEngine& inner_;
  std::function<void()> wait_;
  std::atomic<bool> waited_{false};
};

TEST(GroupCommitTest, PutsThatWaitForASyncShareTheNext) {
  constexpr uint64_t kPuts = 8;
  const TempDir dir;
  const auto device = ChooseEngine(EngineKind::kAuto, {}).value().engine;
  SlowSyncEngine engine(device.get());
  const auto store = PageStoreImpl::Open({.ssd_path = dir.path(), .dram_bytes = 1 << 20},
                                         {.env = nullptr, .engine = &engine});
  ASSERT_TRUE(store.ok()) << store.status();
  const KvSpec spec = SmallSpec();
  // Makes the volume.
  ASSERT_TRUE(PutTestSegment(**store, spec, 1, kRootKey, 0, Durability::kPersisted).ok());
  const auto syncs = [&] { return CountersOf(**store)["payload_syncs"]; };
  const uint64_t syncs_before = syncs();
  const uint64_t device_before = CountersOf(**store)["payload_device_syncs"];
  engine.Arm([&] {
    while (syncs() < syncs_before + kPuts) quire::testing::WaitToLookAgain();
  });
  std::vector<std::thread> threads;
  for (uint64_t seed = 2; seed < 2 + kPuts; ++seed) {
    threads.emplace_back([&, seed] {
      const auto put = PutTestSegment(**store, spec, seed, kRootKey, 0, Durability::kPersisted);
      EXPECT_TRUE(put.ok()) << put.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(syncs(), syncs_before + kPuts);
  // The slow sync, one for puts during it, and few for later ones.
  EXPECT_LT(CountersOf(**store)["payload_device_syncs"], device_before + kPuts);
}

}  // namespace
}  // namespace quire::kvserver::testing
