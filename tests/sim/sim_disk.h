// SPDX-License-Identifier: Apache-2.0
//
// SimDisk: what a simulated node has on its disk. It outlives the node's processes. SimMetadata and
// SimPageStore are one process's use of it. Rows are durable at once, since the registry writes
// them under its lock. Segments are durable after the disk's time of a write; a process that ends
// before loses them. Thread-safety: none.
#ifndef QUIRE_TESTS_SIM_SIM_DISK_H_
#define QUIRE_TESTS_SIM_SIM_DISK_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvserver/session/testing/fake_page_store.h"
#include "kvserver/store/metadata/metadata_store.h"
#include "kvserver/store/page_store.h"
#include "quire/clock.h"
#include "quire/v1/cluster.pb.h"
#include "tests/sim/sim_scheduler.h"

namespace quire::sim {

/// Tells if the process goes on. Shared by all of its parts.
struct SimLife {
  bool is_alive = true;
  Status Check() const {
    return is_alive ? OkStatus() : Unavailable("the simulated process has ended");
  }
};
using SimLifePtr = std::shared_ptr<SimLife>;

struct SimDisk {
  struct Segment {
    std::string tenant;
    KvSpec spec;
    SegmentKey parent;
    std::vector<TokenId> tokens;
    std::vector<std::byte> payload;
  };
  v1::NodeIdentity identity = {};
  std::map<std::string, std::string, std::less<>> rows = {};
  std::map<SegmentKey, Segment> segments = {};
  Duration write_time = std::chrono::milliseconds(2);  ///< Time to write one segment.

  bool HasChain(const SegmentKey& tip) const;
};

class SimMetadata final : public kvserver::MetadataStore {
 public:
  SimMetadata(SimDisk* disk, SimLifePtr life) : disk_(*disk), life_(std::move(life)) {}

  StatusOr<std::string> Get(std::string_view key) override;
  /// UNAVAILABLE when the process has ended.
  Status Apply(const kvserver::MetadataBatch& batch) override;
  StatusOr<std::vector<kvserver::MetadataEntry>> Scan(std::string_view prefix,
                                                      std::string_view after,
                                                      uint32_t limit) override;

 private:
  SimDisk& disk_;
  const SimLifePtr life_;
};

class SimPageStore final : public kvserver::testing::FakePageStore {
 public:
  /// Reads the disk.
  SimPageStore(SimScheduler* scheduler, SimDisk* disk, SimLifePtr life);

  /// Returns when the segment is durable. Runs in a task.
  StatusOr<kvserver::PutSegmentResult> PutSegment(std::string_view tenant,
                                                  const kvserver::PutSegmentArgs& args) override;
  /// All units are raw, and none has representatives.
  StatusOr<kvserver::CodecParams> StoredCodec(std::string_view, const SegmentKey&) override {
    return kvserver::CodecParams();
  }
  StatusOr<std::vector<std::byte>> ReadRepresentatives(const kvserver::Caller&,
                                                       const SegmentKey&) override {
    return std::vector<std::byte>();
  }
  /// The process has ended: what it deleted is gone from the disk, too.
  void Crash();

 private:
  /// Puts a segment of the disk, and before it those that it continues.
  void Restore(const SegmentKey& key);

  SimScheduler& scheduler_;
  SimDisk& disk_;
  const SimLifePtr life_;
};

}  // namespace quire::sim

#endif  // QUIRE_TESTS_SIM_SIM_DISK_H_
