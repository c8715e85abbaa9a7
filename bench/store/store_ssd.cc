// SPDX-License-Identifier: Apache-2.0
#include "bench/store/store_ssd.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/kit/filled_pages.h"
#include "bench/kit/machine_facts.h"
#include "bench/kit/side_by_side.h"
#include "bench/rivals/blob_db.h"
#include "bench/rivals/direct_files.h"
#include "bench/rivals/raw_uring.h"
#include "common/base/random.h"
#include "kvserver/store/ssd/extent_record.h"
#include "kvserver/store/ssd/ssd_tier.h"

namespace quire::bench {
namespace {

using kvserver::SsdTier;
using kvserver::UnitAddress;
using kvserver::UnitBytes;

// Fastest on a few cores: BlobDB reads one value at a time.
constexpr uint32_t kBlobThreads = 4;

/// Location of units in the volumes.
class UnitPlaces {
 public:
  explicit UnitPlaces(Dataset& dataset) : dataset_(dataset) {}

  /// Finds the raw transfer of a unit. A unit in two pieces has none; its length is then 0.
  StatusOr<RawTransfer> Find(uint64_t unit, bool* whole) {
    const UnitAddress address = dataset_.Unit(unit);
    QUIRE_ASSIGN_OR_RETURN(
        const std::string value,
        dataset_.store().database().Get(kvserver::Table::kExtents,
                                        SsdTier::RecordKey({address.segment, address.layer})));
    QUIRE_ASSIGN_OR_RETURN(const kvserver::ExtentRecord record,
                           kvserver::DecodeExtentRecord(value));
    const kvserver::LocatedPiece piece = kvserver::FirstPiece(
        record.location.runs, address.unit * dataset_.unit_bytes(), dataset_.unit_bytes());
    *whole = piece.length == dataset_.unit_bytes();
    QUIRE_ASSIGN_OR_RETURN(const int fd, Volume(piece.volume));
    return RawTransfer{fd, piece.file_offset};
  }

 private:
  StatusOr<int> Volume(uint32_t number) {
    while (fds_.size() <= number) {
      std::string name = std::to_string(fds_.size());
      name.insert(0, 8 - name.size(), '0');
      QUIRE_ASSIGN_OR_RETURN(const int fd,
                             files_.Open(dataset_.payload_path() + "/" + name + ".vol", O_RDONLY));
      fds_.push_back(fd);
    }
    return fds_[number];
  }

  Dataset& dataset_;
  DirectFiles files_;
  std::vector<int> fds_;
};

/// The reads of every contender in one round.
struct ReadPlan {
  std::vector<uint64_t> units;
  std::vector<UnitAddress> addresses;
  std::vector<RawTransfer> transfers;
};

StatusOr<ReadPlan> MakePlan(const StoreBenchOptions& options, Dataset& dataset, uint32_t seed,
                            UnitPlaces& places) {
  SeededRandom random(seed);
  ReadPlan plan;
  while (plan.units.size() < options.read_units) {
    const uint64_t unit = random.Below(dataset.num_units());
    bool whole = false;
    QUIRE_ASSIGN_OR_RETURN(const RawTransfer transfer, places.Find(unit, &whole));
    if (!whole) continue;
    plan.units.push_back(unit);
    plan.addresses.push_back(dataset.Unit(unit));
    plan.transfers.push_back(transfer);
  }
  return plan;
}

StatusOr<std::vector<ReadPlan>> MakePlans(const StoreBenchOptions& options, Dataset& dataset,
                                          UnitPlaces& places) {
  std::vector<ReadPlan> plans;
  for (uint32_t round = 0; round < options.read_rounds; ++round) {
    QUIRE_ASSIGN_OR_RETURN(ReadPlan plan, MakePlan(options, dataset, round, places));
    plans.push_back(std::move(plan));
  }
  return plans;
}

/// Concurrent calls as in a server: each of a few threads reads a batch, checks it, and takes the
/// next one. Requests of one are in flight while another checks its bytes. The threads share the
/// depth.
class StoreReaders {
 public:
  StoreReaders(const StoreBenchOptions& options, Dataset& dataset)
      : batch_(options.batch_units), dataset_(dataset), units_(options.readers) {}

  Status Read(std::span<const UnitAddress> addresses) {
    next_.store(0);
    std::vector<Status> results(units_.size());
    std::vector<std::thread> others;
    for (size_t reader = 1; reader < units_.size(); ++reader) {
      others.emplace_back([&, reader] { results[reader] = ReadSome(addresses, &units_[reader]); });
    }
    results[0] = ReadSome(addresses, &units_[0]);
    for (std::thread& other : others) other.join();
    for (const Status& result : results) QUIRE_RETURN_IF_ERROR(result);
    return OkStatus();
  }

 private:
  /// Reads batches that no other reader has taken, until none is left.
  Status ReadSome(std::span<const UnitAddress> addresses, std::vector<UnitBytes>* units) {
    for (size_t at = next_.fetch_add(batch_); at < addresses.size(); at = next_.fetch_add(batch_)) {
      const auto batch = addresses.subspan(at, std::min(batch_, addresses.size() - at));
      QUIRE_RETURN_IF_ERROR(dataset_.store().ReadUnits("default", batch, units));
    }
    return OkStatus();
  }

  const size_t batch_;
  Dataset& dataset_;
  std::vector<std::vector<UnitBytes>> units_;  ///< By reader.
  std::atomic<size_t> next_{0};
};

StatusOr<std::unique_ptr<BlobDb>> FillBlobDb(const std::string& path, const Dataset& dataset) {
  QUIRE_ASSIGN_OR_RETURN(auto blobs, BlobDb::Open(path));
  const std::vector<std::byte> segment = MakeSegmentBytes();
  const uint64_t per_segment = kSegmentBytes / dataset.unit_bytes();
  for (uint64_t unit = 0; unit < dataset.num_units(); unit += per_segment) {
    QUIRE_RETURN_IF_ERROR(blobs->Put(unit, segment, dataset.unit_bytes()));
  }
  QUIRE_RETURN_IF_ERROR(blobs->Flush());
  return blobs;
}

/// Gives each turn the plan of its round, and adds up the bytes that the devices moved.
class ReadTurns {
 public:
  ReadTurns(const std::vector<ReadPlan>& plans, std::function<Status(const ReadPlan&)> read)
      : plans_(plans), read_(std::move(read)) {}
  Status Next() {
    const DeviceBytes before = ProcessDeviceBytes();
    QUIRE_RETURN_IF_ERROR(read_(plans_[next_++]));
    moved_ += ProcessDeviceBytes() - before;
    return OkStatus();
  }
  double Amplification(uint64_t asked) const {
    return static_cast<double>(moved_.read) / static_cast<double>(asked);
  }

 private:
  const std::vector<ReadPlan>& plans_;
  const std::function<Status(const ReadPlan&)> read_;
  size_t next_ = 0;
  DeviceBytes moved_;
};

}  // namespace

StatusOr<SsdReads> MeasureSsdReads(const StoreBenchOptions& options, Dataset& dataset) {
  const ScratchDirectory blob_directory(options.directory, "quire-bench-blobs");
  QUIRE_ASSIGN_OR_RETURN(const auto blobs, FillBlobDb(blob_directory.path(), dataset));
  QUIRE_RETURN_IF_ERROR(dataset.Reopen());
  const uint64_t unit_bytes = dataset.unit_bytes();
  const FilledPages memory(options.batch_units * unit_bytes);  // As the store's buffers.
  QUIRE_ASSIGN_OR_RETURN(const auto raw,
                         RawUring::Create(options.depth, unit_bytes, memory.bytes()));
  UnitPlaces places(dataset);
  QUIRE_ASSIGN_OR_RETURN(const std::vector<ReadPlan> plans, MakePlans(options, dataset, places));
  StoreReaders readers(options, dataset);
  ReadTurns store_turns(plans, [&](const ReadPlan& plan) { return readers.Read(plan.addresses); });
  ReadTurns raw_turns(
      plans, [&](const ReadPlan& plan) { return raw->Run(RawUring::Kind::kRead, plan.transfers); });
  ReadTurns blob_turns(plans,
                       [&](const ReadPlan& plan) { return blobs->Read(plan.units, kBlobThreads); });
  SideBySide contest({{[&] { return store_turns.Next(); }},
                      {[&] { return raw_turns.Next(); }},
                      {[&] { return blob_turns.Next(); }}});
  QUIRE_RETURN_IF_ERROR(contest.Run(options.read_rounds));
  const uint64_t round_bytes = plans.front().units.size() * unit_bytes;
  const auto rate = [&](size_t contender, const ReadTurns& turns) {
    return SsdRate{.vs_raw = contest.Ratio(contender, 1),
                   .gb_per_s = contest.PerSecond(contender, round_bytes) / 1e9,
                   .amplification = turns.Amplification(round_bytes * options.read_rounds)};
  };
  return SsdReads{.store = rate(0, store_turns),
                  .blobdb = rate(2, blob_turns),
                  .raw_gb_per_s = contest.PerSecond(1, round_bytes) / 1e9};
}

}  // namespace quire::bench
