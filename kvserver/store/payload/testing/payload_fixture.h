// SPDX-License-Identifier: Apache-2.0
//
// A payload store over a fault engine, with small volumes and self-checking payload.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_TESTING_PAYLOAD_FIXTURE_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_TESTING_PAYLOAD_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/memory/checksum.h"
#include "common/base/random.h"
#include "kvserver/store/payload/engine/engine_choice.h"
#include "kvserver/store/payload/payload_store.h"
#include "kvserver/store/payload/testing/fault_engine.h"
#include "tests/kit/temp_dir.h"

namespace quire::kvserver::testing {

using Bytes = std::vector<std::byte>;

inline Bytes MakeBytes(size_t size, uint64_t seed) {
  SeededRandom random(seed);
  Bytes bytes(size);
  for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
    const uint64_t value = random.Next();
    std::memcpy(bytes.data() + at, &value, std::min(sizeof value, size - at));
  }
  return bytes;
}

class PayloadFixture : public ::testing::Test {
 protected:
  static constexpr uint64_t kVolumeBytes = 1 << 20;

  void SetUp() override { Reopen({}); }

  /// Reopens the store, as after a restart, with the locations of the metadata.
  void Reopen(const std::vector<Location>& named) {
    OpenOnly();
    for (const Location& location : named) {
      const auto lost = store_->Recover(location);
      ASSERT_TRUE(lost.ok()) << lost.status();
    }
    store_->FinishRecovery();
  }
  void OpenOnly() {
    store_.reset();
    auto store = PayloadStore::Open(options_, &engine_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  StatusOr<Location> Write(const Bytes& bytes) {
    const ByteSpan span = bytes;
    return store_->Write({&span, 1});
  }
  StatusOr<Bytes> Read(const Location& location, uint64_t offset, uint64_t size) {
    Bytes bytes(size);
    ReadRequest request{
        .location = &location, .offset = offset, .destination = bytes, .status = {}};
    const auto guard = store_->StartReading();
    QUIRE_RETURN_IF_ERROR(store_->Read(guard, {&request, 1}));
    return bytes;
  }
  StatusOr<Bytes> Read(const Location& location) { return Read(location, 0, location.bytes); }
  uint64_t CounterOf(const std::string& name) const { return MetricValuesOf(*store_).at(name); }
  std::string VolumePath(uint32_t number) const {
    return options_.volumes.directory + "/0000000" + std::to_string(number) + ".vol";
  }

  const quire::testing::TempDir dir_;
  PayloadStore::Options options_{
      .volumes = {.directory = dir_ / "payload", .volume_bytes = kVolumeBytes, .limit_bytes = 0},
      .buffers = {}};
  const std::unique_ptr<IoEngine> device_ =
      std::move(ChooseEngine(EngineKind::kAuto, {.queue_depth = 16, .max_rings = 8})->engine);
  FaultEngine engine_{device_.get()};
  std::unique_ptr<PayloadStore> store_;
};

}  // namespace quire::kvserver::testing

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_TESTING_PAYLOAD_FIXTURE_H_
