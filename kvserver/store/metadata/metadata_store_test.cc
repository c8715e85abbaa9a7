// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/metadata/rocksdb_metadata_store.h"
#include "kvserver/store/testing/memory_metadata_store.h"
#include "kvserver/store/testing/metadata_conformance.h"
#include "tests/kit/temp_dir.h"

namespace quire::kvserver::testing {
namespace {

class MemoryHarness final : public MetadataHarness {
 public:
  MetadataStore& store() override { return store_; }

 private:
  MemoryMetadataStore store_;
};

class RocksDbHarness final : public MetadataHarness {
 public:
  MetadataStore& store() override { return store_; }

 private:
  quire::testing::TempDir dir_;
  std::unique_ptr<Database> database_ = Database::Open({.path = dir_ / "db"}).value();
  RocksDbMetadataStore store_{database_.get()};
};

template <typename Harness>
std::unique_ptr<MetadataHarness> MakeHarness() {
  return std::make_unique<Harness>();
}

INSTANTIATE_TEST_SUITE_P(Memory, MetadataConformanceTest,
                         ::testing::Values(&MakeHarness<MemoryHarness>));
INSTANTIATE_TEST_SUITE_P(RocksDb, MetadataConformanceTest,
                         ::testing::Values(&MakeHarness<RocksDbHarness>));

}  // namespace
}  // namespace quire::kvserver::testing
