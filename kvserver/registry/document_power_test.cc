// SPDX-License-Identifier: Apache-2.0
//
// Promise 3 for documents: what a registered one still has after a power failure, by the durability
// of its puts. `quire torture power` does the same at random.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kvserver/registry/document_registry.h"
#include "kvserver/store/page_store_impl.h"
#include "kvserver/store/payload/testing/power_disk.h"
#include "kvserver/store/testing/disk_file_system.h"
#include "kvserver/store/testing/store_kit.h"
#include "tests/kit/fake_clock.h"

namespace quire::kvserver::testing {
namespace {

constexpr uint64_t kSeeds = 24;

class DocumentPowerTest : public ::testing::Test {
 protected:
  void StartAfresh() {
    registry_.reset();
    store_.reset();
    env_.reset();
    disk_ = std::make_unique<PowerDisk>();
    engine_ = std::make_unique<DiskEngine>(disk_.get());
    env_ = MakeDiskEnv(disk_.get());
    ASSERT_EQ(MakeDurableDirectory(*disk_, "/disk"), 0);
    Open();
  }
  void Open() {
    auto store = PageStoreImpl::Open(
        {.ssd_path = "/disk/store", .dram_bytes = 1 << 20, .ssd_volume_bytes = kTestVolumeBytes},
        {.env = env_.get(), .engine = engine_.get(), .disk = disk_.get()});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    auto registry = DocumentRegistry::Open(store_.get(), &store_->metadata(), &clock_);
    ASSERT_TRUE(registry.ok()) << registry.status();
    registry_ = *std::move(registry);
  }
  void FailPower(uint64_t seed) {
    disk_->CutAfter(0);
    registry_.reset();
    store_.reset();
    disk_->Restart(seed);
    Open();
  }
  /// Puts a chain of two segments, the last one with `durability`, the first in memory.
  std::vector<TestSegment> PutChain(Durability durability) {
    std::vector<TestSegment> chain;
    for (const Durability its : {Durability::kMemory, durability}) {
      const SegmentKey parent = chain.empty() ? kRootKey : chain.back().key;
      auto put = PutTestSegment(*store_, spec_, chain.size() + 1, parent, /*num_tokens=*/0, its);
      EXPECT_TRUE(put.ok()) << put.status();
      if (!put.ok()) break;
      chain.push_back(*std::move(put));
    }
    return chain;
  }
  bool IsRead(const std::vector<TestSegment>& chain) {
    for (const TestSegment& segment : chain) {
      const auto bytes = ReadSegment(*store_, spec_, segment);
      if (!bytes.ok() || *bytes != segment.payload) return false;
    }
    return true;
  }
  StatusOr<Document> Get() { return registry_->Get("default", kName); }

  const DocumentName kName{"books", "a", 1};
  const KvSpec spec_ = LargeUnitSpec();
  quire::testing::FakeClock clock_;
  std::unique_ptr<PowerDisk> disk_;
  std::unique_ptr<DiskEngine> engine_;
  std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<PageStoreImpl> store_;
  std::unique_ptr<DocumentRegistry> registry_;
};

TEST_F(DocumentPowerTest, Promise3ADocumentWhoseLastSegmentIsPersistedIsWhole) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    StartAfresh();
    const auto chain = PutChain(Durability::kPersisted);
    ASSERT_TRUE(registry_->Register("default", kName, chain.back().key, "").ok());
    FailPower(seed);
    const auto document = Get();
    ASSERT_TRUE(document.ok()) << document.status();
    EXPECT_EQ(document->segments_lost, 0u);
    EXPECT_TRUE(IsRead(chain));
  }
}

TEST_F(DocumentPowerTest, Promise3ADocumentInMemoryStaysAndTellsWhatItLost) {
  uint64_t whole = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    StartAfresh();
    const auto chain = PutChain(Durability::kMemory);
    ASSERT_TRUE(registry_->Register("default", kName, chain.back().key, "").ok());
    FailPower(seed);
    const auto document = Get();
    ASSERT_TRUE(document.ok()) << document.status();
    EXPECT_EQ(document->segments_lost == 0, IsRead(chain));
    if (document->segments_lost == 0) ++whole;
    PutChain(Durability::kPersisted);
    EXPECT_EQ(Get()->segments_lost, 0u);
    EXPECT_TRUE(IsRead(chain));
    for (const TestSegment& segment : chain) {
      EXPECT_EQ(store_->CountNames(segment.key), 1u) << "the document names it as before";
    }
  }
  EXPECT_LT(whole, kSeeds) << "nothing was ever lost: the test shows nothing";
}

}  // namespace
}  // namespace quire::kvserver::testing
