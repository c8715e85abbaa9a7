// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
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
#include "bench/store/store_ssd.h"
#include "common/base/memory/checksum.h"
#include "kvserver/store/payload/engine/engine_choice.h"
#include "kvserver/store/ssd/ssd_tier.h"

namespace quire::bench {
namespace {

using kvserver::Database;
using kvserver::Durability;
using kvserver::ExtentView;
using kvserver::PayloadStore;
using kvserver::SsdTier;

constexpr uint64_t kUnitBytes = 16 << 10;
constexpr uint64_t kRawWriteBytes = 1 << 20;

/// Writes segments into an empty target. Every turn makes a new one.
class Ingest {
 public:
  virtual ~Ingest() = default;
  /// Writes `segment` that many times, one after the other. All is on the device when it returns.
  virtual Status Write(std::span<const std::byte> segment, uint64_t times) = 0;
};

/// The SSD tier alone.
class TierIngest final : public Ingest {
 public:
  static StatusOr<std::unique_ptr<Ingest>> Make(const StoreBenchOptions& options,
                                                std::span<const std::byte> segment) {
    auto ingest = std::make_unique<TierIngest>(options, segment);
    const std::string& path = ingest->directory_.path();
    QUIRE_ASSIGN_OR_RETURN(
        kvserver::EngineChoice choice,
        kvserver::ChooseEngine(kvserver::EngineKind::kAuto, {.queue_depth = options.depth}));
    ingest->engine_ = std::move(choice.engine);
    QUIRE_ASSIGN_OR_RETURN(ingest->database_, Database::Open({.path = path + "/metadata"}));
    PayloadStore::Options payload;
    payload.volumes.directory = path + "/payload";
    std::filesystem::create_directories(payload.volumes.directory);
    QUIRE_ASSIGN_OR_RETURN(ingest->payload_, PayloadStore::Open(payload, ingest->engine_.get()));
    ingest->tier_.emplace(ingest->database_.get(), ingest->payload_.get(), uint64_t{1} << 20);
    QUIRE_RETURN_IF_ERROR(ingest->tier_->Recover().status());
    return ingest;
  }
  TierIngest(const StoreBenchOptions& options, std::span<const std::byte> segment)
      : directory_(options.directory, "quire-bench-tier") {
    for (uint64_t at = 0; at < segment.size(); at += kUnitBytes) {
      crcs_.push_back(Crc32c(segment.subspan(at, kUnitBytes)));
    }
  }

  Status Write(std::span<const std::byte> segment, uint64_t times) override {
    for (uint64_t i = 0; i < times; ++i) QUIRE_RETURN_IF_ERROR(Put(i, segment));
    QUIRE_RETURN_IF_ERROR(tier_->Sync());
    return database_->Sync();
  }

 private:
  Status Put(uint64_t number, std::span<const std::byte> segment) {
    SegmentKey key;
    std::memcpy(key.bytes.data(), &number, sizeof number);
    constexpr uint64_t kUnits = kExtentBytes / kUnitBytes;
    std::vector<ExtentView> extents;
    for (uint32_t layer = 0; layer < segment.size() / kExtentBytes; ++layer) {
      extents.push_back({.id = {key, layer},
                         .bytes = segment.subspan(layer * kExtentBytes, kExtentBytes),
                         .unit_crc32c = std::span(crcs_).subspan(layer * kUnits, kUnits),
                         .full_bytes = kExtentBytes});
    }
    kvserver::Database::Batch batch = database_->NewBatch();
    const auto made = [](size_t) { return OkStatus(); };
    QUIRE_ASSIGN_OR_RETURN(kvserver::SsdTier::Change change,
                           tier_->StagePut(extents, made, /*sync=*/false, batch));
    QUIRE_RETURN_IF_ERROR(database_->Commit(batch, /*sync=*/false));
    change.Committed();
    return OkStatus();
  }

  const ScratchDirectory directory_;
  std::vector<uint32_t> crcs_;
  std::unique_ptr<kvserver::IoEngine> engine_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<PayloadStore> payload_;
  std::optional<SsdTier> tier_;
};

/// The whole store: every put is durable when it is acknowledged.
class StoreIngest final : public Ingest {
 public:
  static StatusOr<std::unique_ptr<Ingest>> Make(const StoreBenchOptions& options, uint32_t writers,
                                                const std::string& name) {
    auto ingest = std::make_unique<StoreIngest>(writers);
    QUIRE_ASSIGN_OR_RETURN(ingest->dataset_, Dataset::Make(options, kUnitBytes, 0, name));
    return ingest;
  }
  explicit StoreIngest(uint32_t writers) : results_(writers) {}

  Status Write(std::span<const std::byte>, uint64_t times) override {
    next_.store(0);
    std::vector<std::thread> others;
    for (size_t writer = 1; writer < results_.size(); ++writer) {
      others.emplace_back([this, writer, times] { results_[writer] = WriteSome(times); });
    }
    results_[0] = WriteSome(times);
    for (std::thread& other : others) other.join();
    for (const Status& result : results_) QUIRE_RETURN_IF_ERROR(result);
    return OkStatus();
  }

 private:
  /// Puts segments that no other writer has taken, until none is left.
  Status WriteSome(uint64_t times) {
    for (uint64_t i = next_.fetch_add(1); i < times; i = next_.fetch_add(1)) {
      QUIRE_RETURN_IF_ERROR(dataset_->PutSegment(i, Durability::kPersisted).status());
    }
    return OkStatus();
  }

  std::unique_ptr<Dataset> dataset_;
  std::vector<Status> results_;  ///< By writer.
  std::atomic<uint64_t> next_{0};
};

class BlobIngest final : public Ingest {
 public:
  static StatusOr<std::unique_ptr<Ingest>> Make(const StoreBenchOptions& options) {
    auto ingest = std::make_unique<BlobIngest>(options);
    QUIRE_ASSIGN_OR_RETURN(ingest->blobs_, BlobDb::Open(ingest->directory_.path()));
    return ingest;
  }
  explicit BlobIngest(const StoreBenchOptions& options)
      : directory_(options.directory, "quire-bench-blobs") {}
  Status Write(std::span<const std::byte> segment, uint64_t times) override {
    const uint64_t units = segment.size() / kUnitBytes;
    for (uint64_t i = 0; i < times; ++i) {
      QUIRE_RETURN_IF_ERROR(blobs_->Put(i * units, segment, kUnitBytes));
    }
    return blobs_->Flush();
  }

 private:
  const ScratchDirectory directory_;
  std::unique_ptr<BlobDb> blobs_;
};

/// A loop of writes into one file with preallocated space.
class RawIngest final : public Ingest {
 public:
  enum class Syncs { kAtTheEnd, kEachSegment };

  static StatusOr<std::unique_ptr<Ingest>> Make(const StoreBenchOptions& options,
                                                std::span<std::byte> segment, Syncs syncs) {
    auto ingest = std::make_unique<RawIngest>(options, syncs);
    QUIRE_ASSIGN_OR_RETURN(ingest->raw_, RawUring::Create(options.depth, kRawWriteBytes, segment));
    const std::string path = ingest->directory_.path() + "/raw";
    QUIRE_ASSIGN_OR_RETURN(ingest->fd_, ingest->files_.Open(path, O_RDWR | O_CREAT));
    return ingest;
  }
  RawIngest(const StoreBenchOptions& options, Syncs syncs)
      : directory_(options.directory,
                   syncs == Syncs::kAtTheEnd ? "quire-bench-raw" : "quire-bench-raw-synced"),
        syncs_(syncs) {}
  Status Write(std::span<const std::byte> segment, uint64_t times) override {
    const uint64_t bytes = segment.size() * times;
    if (fallocate(fd_, 0, 0, static_cast<off_t>(bytes)) != 0) return Failed("preallocate");
    const uint64_t bytes_of_sync = syncs_ == Syncs::kAtTheEnd ? bytes : segment.size();
    for (uint64_t at = 0; at < bytes; at += bytes_of_sync) {
      QUIRE_RETURN_IF_ERROR(WriteAndSync(at, at + bytes_of_sync));
    }
    return OkStatus();
  }

 private:
  Status WriteAndSync(uint64_t begin, uint64_t end) {
    std::vector<RawTransfer> transfers;
    for (uint64_t at = begin; at < end; at += kRawWriteBytes) transfers.push_back({fd_, at});
    QUIRE_RETURN_IF_ERROR(raw_->Run(RawUring::Kind::kWrite, transfers));
    return fdatasync(fd_) == 0 ? OkStatus() : Failed("sync");
  }
  static Status Failed(const char* what) {
    return Unavailable("cannot ", what, " the raw file: ", std::strerror(errno));
  }

  const ScratchDirectory directory_;
  const Syncs syncs_;
  DirectFiles files_;
  int fd_ = -1;
  std::unique_ptr<RawUring> raw_;
};

/// One contender's turns, each into a new target.
class WriteTurns {
 public:
  using Make = std::function<StatusOr<std::unique_ptr<Ingest>>()>;
  WriteTurns(const StoreBenchOptions& options, std::span<const std::byte> segment, Make make)
      : segments_(options.write_bytes / kSegmentBytes), segment_(segment), make_(std::move(make)) {}

  SideBySide::Contender contender() {
    return {.turn = [this] { return Turn(); }, .prepare = [this] { return Prepare(); }};
  }
  /// Device bytes written per byte, over all turns.
  double Amplification() const {
    return static_cast<double>(moved_.written) /
           static_cast<double>(turns_ * segments_ * kSegmentBytes);
  }

 private:
  Status Prepare() {
    ingest_.reset();
    QUIRE_ASSIGN_OR_RETURN(ingest_, make_());
    before_ = ProcessDeviceBytes();
    return OkStatus();
  }
  Status Turn() {
    QUIRE_RETURN_IF_ERROR(ingest_->Write(segment_, segments_));
    moved_ += ProcessDeviceBytes() - before_;
    ++turns_;
    return OkStatus();
  }

  const uint64_t segments_;
  const std::span<const std::byte> segment_;
  const Make make_;
  std::unique_ptr<Ingest> ingest_;
  DeviceBytes before_, moved_;
  uint64_t turns_ = 0;
};

}  // namespace

StatusOr<SsdWrites> MeasureSsdWrites(const StoreBenchOptions& options) {
  // Large pages, as the store has: a write then has fewer pieces, which is half as fast again on
  // some devices.
  const FilledPages memory(kSegmentBytes);
  const std::span<std::byte> segment = memory.bytes();
  std::ranges::copy(MakeSegmentBytes(), segment.begin());
  using Syncs = RawIngest::Syncs;
  WriteTurns raw(options, segment,
                 [&] { return RawIngest::Make(options, segment, Syncs::kAtTheEnd); });
  WriteTurns raw_each(options, segment,
                      [&] { return RawIngest::Make(options, segment, Syncs::kEachSegment); });
  WriteTurns store(options, segment, [&] {
    return StoreIngest::Make(options, options.writers, "quire-bench-ingest");
  });
  WriteTurns store_each(options, segment,
                        [&] { return StoreIngest::Make(options, 1, "quire-bench-ingest-synced"); });
  WriteTurns tier(options, segment, [&] { return TierIngest::Make(options, segment); });
  WriteTurns blobs(options, segment, [&] { return BlobIngest::Make(options); });
  enum Contenders : size_t { kStore, kRaw, kTier, kStoreEach, kRawEach, kBlobs };
  SideBySide contest({store.contender(), raw.contender(), tier.contender(), store_each.contender(),
                      raw_each.contender(), blobs.contender()});
  QUIRE_RETURN_IF_ERROR(contest.Run(options.write_rounds));
  const uint64_t round_bytes = options.write_bytes / kSegmentBytes * kSegmentBytes;
  const auto gb_per_s = [&](size_t contender) {
    return contest.PerSecond(contender, round_bytes) / 1e9;
  };
  const auto rate = [&](size_t contender, const WriteTurns& turns, size_t limit) {
    return SsdRate{.vs_raw = contest.Ratio(contender, limit),
                   .gb_per_s = gb_per_s(contender),
                   .amplification = turns.Amplification()};
  };
  return SsdWrites{.store = rate(kStore, store, kRaw),
                   .store_each_synced = rate(kStoreEach, store_each, kRawEach),
                   .tier = rate(kTier, tier, kRaw),
                   .blobdb = rate(kBlobs, blobs, kRaw),
                   .raw_gb_per_s = gb_per_s(kRaw),
                   .raw_each_synced_gb_per_s = gb_per_s(kRawEach)};
}

}  // namespace quire::bench
