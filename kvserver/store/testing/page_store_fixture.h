// SPDX-License-Identifier: Apache-2.0
//
// PageStoreTest: a store of two tenants, "default" and "other", in its own directory.
#ifndef QUIRE_KVSERVER_STORE_TESTING_PAGE_STORE_FIXTURE_H_
#define QUIRE_KVSERVER_STORE_TESTING_PAGE_STORE_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kvserver/store/page_store.h"
#include "kvserver/store/testing/store_kit.h"
#include "tests/kit/temp_dir.h"

namespace quire::kvserver::testing {

class PageStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    store_.reset();
    auto opened = PageStore::Open(options_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  StatusOr<PutSegmentResult> Put(const std::vector<TokenId>& tokens,
                                 const std::vector<std::byte>& payload,
                                 const SegmentKey& parent = kRootKey, bool strict = false) {
    PutSegmentArgs args;
    args.strict = strict;
    args.spec = &spec_;
    args.parent = parent;
    args.tokens = tokens;
    args.payload = payload;
    return store_->PutSegment("default", args);
  }
  StatusOr<PutSegmentResult> PutStrictly(const std::vector<TokenId>& tokens,
                                         const std::vector<std::byte>& payload) {
    return Put(tokens, payload, kRootKey, /*strict=*/true);
  }
  uint64_t Count(const std::string& name) { return CountersOf(*store_)[name]; }

  quire::testing::TempDir dir_;
  PageStore::Options options_{.ssd_path = dir_.path(),
                              .dram_bytes = 1 << 20,
                              .ssd_volume_bytes = kTestVolumeBytes,
                              .tenants = {"default", "other"}};
  KvSpec spec_ = SmallSpec();
  std::unique_ptr<PageStore> store_;
};

}  // namespace quire::kvserver::testing

#endif  // QUIRE_KVSERVER_STORE_TESTING_PAGE_STORE_FIXTURE_H_
