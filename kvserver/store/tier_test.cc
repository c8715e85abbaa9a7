// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/dram/dram_tier.h"
#include "kvserver/store/payload/engine/engine_choice.h"
#include "kvserver/store/policy/eviction/lru.h"
#include "kvserver/store/ssd/ssd_tier.h"
#include "kvserver/store/testing/store_kit.h"
#include "kvserver/store/testing/tier_conformance.h"
#include "tests/kit/temp_dir.h"

namespace quire::kvserver::testing {
namespace {

using quire::testing::TempDir;

DramTier::Options ArenaOf(uint64_t bytes) {
  DramTier::Options options;
  options.memory.bytes = bytes;
  return options;
}

class DramHarness final : public TierHarness {
 public:
  Status Put(std::span<const ExtentView> extents) override { return tier_->Put(extents); }
  StatusOr<UnitBytes> ReadUnit(const ExtentId& id, uint32_t unit) override {
    return tier_->ReadUnit(id, unit);
  }
  Status Erase(const SegmentKey& segment) override {
    tier_->Erase(segment);
    return OkStatus();
  }

 private:
  std::unique_ptr<DramTier> tier_ =
      DramTier::Open(ArenaOf(4 << 20), std::make_unique<Lru>()).value();
};

class SsdHarness final : public TierHarness {
 public:
  SsdHarness() { EXPECT_TRUE(tier_.Recover().ok()); }
  Status Put(std::span<const ExtentView> extents) override {
    Database::Batch batch = database_->NewBatch();
    const auto made = [](size_t) { return OkStatus(); };
    return Commit(batch, tier_.StagePut(extents, made, /*sync=*/false, batch));
  }
  StatusOr<UnitBytes> ReadUnit(const ExtentId& id, uint32_t unit) override {
    SsdTier::UnitRead read{.id = id, .unit = unit};
    tier_.ReadUnits({&read, 1});
    return std::move(read.result);
  }
  Status Erase(const SegmentKey& segment) override {
    Database::Batch batch = database_->NewBatch();
    return Commit(batch, tier_.StageErase(segment, batch));
  }

 private:
  Status Commit(Database::Batch& batch, StatusOr<SsdTier::Change> change) {
    QUIRE_RETURN_IF_ERROR(change.status());
    QUIRE_RETURN_IF_ERROR(database_->Commit(batch, /*sync=*/false));
    change->Committed();
    return OkStatus();
  }

  TempDir dir_;
  std::unique_ptr<Database> database_ = Database::Open({.path = dir_ / "db"}).value();
  std::unique_ptr<IoEngine> engine_ = ChooseEngine(EngineKind::kAuto, {}).value().engine;
  std::unique_ptr<PayloadStore> payload_ =
      PayloadStore::Open(
          {.volumes = {.directory = dir_ / "payload", .volume_bytes = kTestVolumeBytes},
           .buffers = {}},
          engine_.get())
          .value();
  SsdTier tier_{database_.get(), payload_.get(), 1 << 20};
};

template <typename Harness>
std::unique_ptr<TierHarness> Make() {
  return std::make_unique<Harness>();
}

INSTANTIATE_TEST_SUITE_P(Dram, TierConformanceTest, ::testing::Values(&Make<DramHarness>));
INSTANTIATE_TEST_SUITE_P(Ssd, TierConformanceTest, ::testing::Values(&Make<SsdHarness>));

}  // namespace
}  // namespace quire::kvserver::testing
