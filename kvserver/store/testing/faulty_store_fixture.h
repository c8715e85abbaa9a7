// SPDX-License-Identifier: Apache-2.0
//
// FaultyStoreTest: a store in its own directory, on a device and a file system with injected
// failures.
#ifndef QUIRE_KVSERVER_STORE_TESTING_FAULTY_STORE_FIXTURE_H_
#define QUIRE_KVSERVER_STORE_TESTING_FAULTY_STORE_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "kvserver/store/page_store_impl.h"
#include "kvserver/store/payload/engine/engine_choice.h"
#include "kvserver/store/payload/testing/fault_engine.h"
#include "kvserver/store/testing/fault_file_system.h"
#include "kvserver/store/testing/store_kit.h"
#include "tests/kit/temp_dir.h"

namespace quire::kvserver::testing {

class FaultyStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    store_.reset();
    auto opened = PageStoreImpl::Open(
        options_, {.env = env_.env.get(), .engine = &engine_, .faults = points_});
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  uint64_t Count(const std::string& name) { return CountersOf(*store_)[name]; }
  bool IsStored(uint64_t seed) {
    return !store_->Lookup("default", spec_, MakeTokens(spec_.segment_tokens(), seed))->empty();
  }

  quire::testing::TempDir dir_;
  FaultEnv env_;  ///< Environment of the metadata.
  std::unique_ptr<IoEngine> device_ = ChooseEngine(EngineKind::kAuto, {}).value().engine;
  FaultEngine engine_{device_.get()};
  PageStore::Options options_{
      .ssd_path = dir_.path(), .dram_bytes = 1 << 20, .ssd_volume_bytes = kTestVolumeBytes};
  KvSpec spec_ = LargeUnitSpec();
  FaultPoints* points_ = nullptr;  ///< Listener of the store's steps; may be null.
  std::unique_ptr<PageStoreImpl> store_;
};

}  // namespace quire::kvserver::testing

#endif  // QUIRE_KVSERVER_STORE_TESTING_FAULTY_STORE_FIXTURE_H_
