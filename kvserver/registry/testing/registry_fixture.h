// SPDX-License-Identifier: Apache-2.0
//
// Fixture of the registry's tests: a registry over a store in a temporary directory and metadata
// with injected failures. Only tests use it.
#ifndef QUIRE_KVSERVER_REGISTRY_TESTING_REGISTRY_FIXTURE_H_
#define QUIRE_KVSERVER_REGISTRY_TESTING_REGISTRY_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvserver/registry/document_registry.h"
#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/store/testing/memory_metadata_store.h"
#include "kvserver/store/testing/store_kit.h"
#include "tests/kit/fake_clock.h"
#include "tests/kit/temp_dir.h"

namespace quire::kvserver::testing {

/// Refuses batches on request, like an unreachable backend.
class FlakyMetadata final : public MetadataStore {
 public:
  StatusOr<std::string> Get(std::string_view key) override { return store_.Get(key); }
  Status Apply(const MetadataBatch& batch) override {
    if (applies_left == 0) return Unavailable("no answer");
    --applies_left;
    return store_.Apply(batch);
  }
  StatusOr<std::vector<MetadataEntry>> Scan(std::string_view prefix, std::string_view after,
                                            uint32_t limit) override {
    return store_.Scan(prefix, after, limit);
  }
  int applies_left = 1 << 30;

 private:
  MemoryMetadataStore store_;
};

class RegistryFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    OpenStore(1 << 20);
    OpenRegistry();
  }
  /// Simulates a restart: state in memory is lost.
  void ReopenStore(uint64_t dram_bytes = 1 << 20) {
    registry_.reset();
    OpenStore(dram_bytes);
    OpenRegistry();
  }
  void OpenStore(uint64_t dram_bytes) {
    store_.reset();
    store_ =
        PageStore::Open(
            {.ssd_path = dir_.path(), .dram_bytes = dram_bytes, .tenants = {"default", "other"}})
            .value();
  }
  void OpenRegistry() {
    auto opened = DocumentRegistry::Open(store_.get(), &metadata_, &clock_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    registry_ = *std::move(opened);
  }
  /// Puts a chain of segments made from `seeds` and returns its tip.
  std::vector<TestSegment> Chain(const std::vector<uint64_t>& seeds,
                                 std::string_view tenant = "default") {
    std::vector<TestSegment> chain;
    for (const uint64_t seed : seeds) {
      const SegmentKey parent = chain.empty() ? kRootKey : chain.back().key;
      chain.push_back(
          PutTestSegment(*store_, spec_, seed, parent, 0, Durability::kMemory, tenant).value());
    }
    return chain;
  }
  StatusOr<DocumentRegistry::RegisterResult> Register(const std::string& name,
                                                      const std::vector<TestSegment>& chain,
                                                      uint64_t version = 0,
                                                      const std::string& collection = "books",
                                                      std::optional<uint64_t> ttl_seconds = {}) {
    return registry_->Register("default", {collection, name, version}, chain.back().key, "",
                               ttl_seconds);
  }
  StatusCode GetCode(const std::string& name, uint64_t version = 0,
                     const std::string& collection = "books") {
    return registry_->Get("default", {collection, name, version}).status().code();
  }
  bool IsStored(const TestSegment& segment) { return store_->Tokens("default", segment.key).ok(); }

  /// Rows of documents: all but the log of events and the version of the layout.
  size_t RowsLeft() {
    size_t rows = 0;
    (void)ForEachEntry(metadata_, "", [&](const MetadataEntry& entry) {
      if (!ParseEventKey(entry.key) && entry.key != FormatKey()) ++rows;
    });
    return rows;
  }
  /// "KIND name@version" of every event.
  std::vector<std::string> Events() {
    std::vector<std::string> events;
    const auto page = registry_->Watch({.tenant = "default", .max_events = 1000}, TimePoint::min(),
                                       [] { return false; });
    if (!page.ok()) return events;
    for (const DocumentEvent& event : page->events) {
      events.push_back(std::string(Name(event.kind)) + " " + event.document.name + "@" +
                       std::to_string(event.document.version));
    }
    return events;
  }

  quire::testing::TempDir dir_;
  quire::testing::FakeClock clock_;
  FlakyMetadata metadata_;
  KvSpec spec_ = SmallSpec();
  std::unique_ptr<PageStore> store_;
  std::unique_ptr<DocumentRegistry> registry_;
};

}  // namespace quire::kvserver::testing

#endif  // QUIRE_KVSERVER_REGISTRY_TESTING_REGISTRY_FIXTURE_H_
