// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/dram_tier.h"
#include "kvserver/store/payload/engine_choice.h"
#include "kvserver/store/policy/lru.h"
#include "kvserver/store/ssd_tier.h"
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
  Tier& tier() override { return *tier_; }

 private:
  std::unique_ptr<DramTier> tier_ =
      DramTier::Open(ArenaOf(4 << 20), std::make_unique<Lru>()).value();
};

class SsdHarness final : public TierHarness {
 public:
  SsdHarness() { EXPECT_TRUE(tier_.Recover().ok()); }
  Tier& tier() override { return tier_; }

 private:
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
