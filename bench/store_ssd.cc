// SPDX-License-Identifier: Apache-2.0
#include "bench/store_ssd.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "bench/benchmark.h"
#include "bench/raw_uring.h"
#include "common/base/random.h"
#include "kvserver/store/payload/engine_choice.h"
#include "kvserver/store/payload/payload_store.h"

namespace quire::bench {
namespace {

using kvserver::AlignedBuffer;
using kvserver::BlockRun;
using kvserver::ByteSpan;
using kvserver::EngineChoice;
using kvserver::Location;
using kvserver::PayloadStore;
using kvserver::ReadRequest;

constexpr uint64_t kRawWriteBytes = kvserver::kMaxIoBytes;

/// A directory below `parent` that is removed with what is in it.
class ScratchDirectory {
 public:
  ScratchDirectory(const std::string& parent, const std::string& name)
      : path_(parent + "/" + name) {
    std::filesystem::remove_all(path_, ignored_);
    std::filesystem::create_directories(path_, ignored_);
  }
  ~ScratchDirectory() { std::filesystem::remove_all(path_, ignored_); }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  std::error_code ignored_;  ///< What uses the directory reports it.
};

/// Files opened for direct I/O, closed at the end.
class DirectFiles {
 public:
  ~DirectFiles() {
    for (const int fd : fds_) close(fd);
  }
  StatusOr<int> Open(const std::string& path, int flags) {
    const int fd = open(path.c_str(), flags | O_DIRECT | O_CLOEXEC, 0644);
    if (fd < 0) return Unavailable("cannot open ", path, " directly: ", std::strerror(errno));
    fds_.push_back(fd);
    return fd;
  }

 private:
  std::vector<int> fds_;
};

/// An empty store in a directory of its own.
struct ScratchStore {
  ScratchDirectory directory;
  EngineChoice choice;
  std::unique_ptr<PayloadStore> store;

  explicit ScratchStore(const SsdBenchOptions& options)
      : directory(options.directory, "quire-bench-store") {}
  static StatusOr<std::unique_ptr<ScratchStore>> Make(const SsdBenchOptions& options) {
    auto scratch = std::make_unique<ScratchStore>(options);
    QUIRE_ASSIGN_OR_RETURN(scratch->choice, kvserver::ChooseEngine(kvserver::EngineKind::kAuto,
                                                                   {.queue_depth = options.depth}));
    PayloadStore::Options store;
    store.volumes.directory = scratch->directory.path();
    QUIRE_ASSIGN_OR_RETURN(scratch->store, PayloadStore::Open(store, scratch->choice.engine.get()));
    scratch->store->FinishRecovery();
    return scratch;
  }
  double Amplification(const std::string& device, const std::string& asked) const {
    const auto values = MetricValuesOf(*store);
    const auto moved = static_cast<double>(values.at(device));
    const auto wanted = static_cast<double>(values.at(asked));
    return wanted == 0 ? 0 : moved / wanted;
  }
};

/// Writes the dataset into an empty store, as segments of extents of 1 MiB.
StatusOr<std::vector<Location>> Ingest(const SsdBenchOptions& options, PayloadStore& store,
                                       std::span<const std::byte> segment) {
  std::vector<ByteSpan> extents;
  for (uint64_t at = 0; at < segment.size(); at += kRawWriteBytes) {
    extents.push_back(segment.subspan(at, std::min(kRawWriteBytes, segment.size() - at)));
  }
  std::vector<Location> locations;
  for (uint64_t written = 0; written < options.dataset_bytes; written += segment.size()) {
    QUIRE_ASSIGN_OR_RETURN(Location location, store.Write(extents));
    locations.push_back(std::move(location));
  }
  QUIRE_RETURN_IF_ERROR(store.Sync());
  return locations;
}

StatusOr<AlignedBuffer> MakeSegment(const SsdBenchOptions& options, PayloadStore& store) {
  QUIRE_ASSIGN_OR_RETURN(AlignedBuffer segment, store.buffers().Take(options.put_bytes));
  SeededRandom random(1);
  std::ranges::generate(segment.bytes(), [&] { return static_cast<std::byte>(random.Next()); });
  return segment;
}

/// Where units lie: the same ones for the store and for the raw loop.
struct UnitPlaces {
  std::vector<std::pair<const Location*, uint64_t>> units;
  std::vector<RawTransfer> raw;
};

/// Opens each volume once, as the raw loop reads it.
class RawVolumes {
 public:
  explicit RawVolumes(std::string directory) : directory_(std::move(directory)) {}
  StatusOr<int> Open(uint32_t volume) {
    while (fds_.size() <= volume) {
      std::string name = std::to_string(fds_.size());
      name.insert(0, 8 - name.size(), '0');
      QUIRE_ASSIGN_OR_RETURN(const int fd, files_.Open(directory_ + "/" + name + ".vol", O_RDONLY));
      fds_.push_back(fd);
    }
    return fds_[volume];
  }

 private:
  const std::string directory_;
  DirectFiles files_;
  std::vector<int> fds_;
};

StatusOr<UnitPlaces> PickUnits(const std::vector<Location>& locations, uint64_t unit_bytes,
                               uint64_t count, uint64_t seed, RawVolumes& volumes) {
  SeededRandom random(seed);
  UnitPlaces places;
  for (uint64_t i = 0; i < count; ++i) {
    const Location& location = locations[random.Below(locations.size())];
    const uint64_t offset = random.Below(location.bytes / unit_bytes) * unit_bytes;
    const auto piece = kvserver::FirstPiece(location.runs, offset, unit_bytes);
    if (piece.length < unit_bytes) continue;  // Split between two runs: no single raw transfer.
    QUIRE_ASSIGN_OR_RETURN(const int fd, volumes.Open(piece.volume));
    places.units.emplace_back(&location, offset);
    places.raw.push_back({fd, piece.file_offset});
  }
  return places;
}

Status ReadThroughStore(PayloadStore& store, const UnitPlaces& places, uint64_t unit_bytes,
                        std::span<std::byte> memory) {
  const uint64_t batch = memory.size() / unit_bytes;
  std::vector<ReadRequest> requests;
  for (size_t from = 0; from < places.units.size(); from += batch) {
    requests.clear();
    for (size_t i = from; i < std::min(from + batch, places.units.size()); ++i) {
      requests.push_back({.location = places.units[i].first,
                          .offset = places.units[i].second,
                          .destination = memory.subspan((i - from) * unit_bytes, unit_bytes),
                          .status = {}});
    }
    const auto guard = store.StartReading();
    QUIRE_RETURN_IF_ERROR(store.Read(guard, requests));
  }
  return OkStatus();
}

/// Times of both, round by round.
struct Rounds {
  std::vector<Duration> store, raw;
  uint64_t bytes = 0;  ///< Of a round.

  SsdRate Rate() const {
    SsdRate rate;
    std::vector<double> ratios;
    for (size_t i = 0; i < store.size(); ++i) {
      ratios.push_back(static_cast<double>(raw[i].count()) / static_cast<double>(store[i].count()));
    }
    std::ranges::nth_element(ratios, ratios.begin() + static_cast<long>(ratios.size() / 2));
    rate.ratio_to_raw = ratios[ratios.size() / 2];
    rate.store_gb_per_s = static_cast<double>(bytes) / static_cast<double>(Median(store).count());
    rate.raw_gb_per_s = static_cast<double>(bytes) / static_cast<double>(Median(raw).count());
    return rate;
  }
};

template <typename Work>
Status Time(std::vector<Duration>* times, const Work& work) {
  const TimePoint start = SystemClock().Now();
  QUIRE_RETURN_IF_ERROR(work());
  times->push_back(SystemClock().Now() - start);
  return OkStatus();
}

/// Runs both, the one that begins changing from round to round.
template <typename Store, typename Raw>
Status TakeTurns(uint32_t round, Rounds* rounds, const Store& store, const Raw& raw) {
  if (round % 2 == 0) QUIRE_RETURN_IF_ERROR(Time(&rounds->raw, raw));
  QUIRE_RETURN_IF_ERROR(Time(&rounds->store, store));
  if (round % 2 == 1) QUIRE_RETURN_IF_ERROR(Time(&rounds->raw, raw));
  return OkStatus();
}

/// As much as the store ingests, into one file whose space was taken ahead.
Status WriteRaw(const SsdBenchOptions& options, const std::string& path, RawUring& raw) {
  DirectFiles files;
  QUIRE_ASSIGN_OR_RETURN(const int fd, files.Open(path, O_RDWR | O_CREAT));
  if (fallocate(fd, 0, 0, static_cast<off_t>(options.dataset_bytes)) != 0) {
    return Unavailable("cannot preallocate ", path, ": ", std::strerror(errno));
  }
  std::vector<RawTransfer> transfers;
  for (uint64_t at = 0; at < options.dataset_bytes; at += kRawWriteBytes) {
    transfers.push_back({fd, at});
  }
  QUIRE_RETURN_IF_ERROR(raw.Run(RawUring::Kind::kWrite, transfers));
  if (fdatasync(fd) != 0) return Unavailable("cannot sync ", path, ": ", std::strerror(errno));
  return OkStatus();
}

}  // namespace

StatusOr<SsdModes> FindSsdModes(const SsdBenchOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const auto scratch, ScratchStore::Make(options));
  return SsdModes{std::string(scratch->store->engine_name()), std::string(scratch->store->mode())};
}

StatusOr<SsdRate> MeasureSsdReads(const SsdBenchOptions& options, uint64_t unit_bytes) {
  QUIRE_ASSIGN_OR_RETURN(const auto scratch, ScratchStore::Make(options));
  PayloadStore& store = *scratch->store;
  QUIRE_ASSIGN_OR_RETURN(const AlignedBuffer segment, MakeSegment(options, store));
  QUIRE_ASSIGN_OR_RETURN(const auto locations, Ingest(options, store, segment.bytes()));
  QUIRE_ASSIGN_OR_RETURN(const AlignedBuffer memory,
                         store.buffers().Take(options.batch_units * unit_bytes));
  std::ranges::fill(memory.bytes(), std::byte{0});  // So that no loop pays for its pages.
  QUIRE_ASSIGN_OR_RETURN(const auto raw,
                         RawUring::Create(options.depth, unit_bytes, memory.bytes()));
  RawVolumes volumes(scratch->directory.path());
  Rounds rounds;
  for (uint32_t round = 0; round < options.rounds; ++round) {
    QUIRE_ASSIGN_OR_RETURN(
        const UnitPlaces places,
        PickUnits(locations, unit_bytes, options.read_bytes / unit_bytes, round, volumes));
    rounds.bytes = places.raw.size() * unit_bytes;
    QUIRE_RETURN_IF_ERROR(TakeTurns(
        round, &rounds, [&] { return ReadThroughStore(store, places, unit_bytes, memory.bytes()); },
        [&] { return raw->Run(RawUring::Kind::kRead, places.raw); }));
  }
  SsdRate rate = rounds.Rate();
  rate.amplification = scratch->Amplification("payload_device_read_bytes", "payload_read_bytes");
  return rate;
}

StatusOr<SsdRate> MeasureSsdWrites(const SsdBenchOptions& options) {
  const ScratchDirectory raw_directory(options.directory, "quire-bench-raw");
  Rounds rounds{.store = {}, .raw = {}, .bytes = options.dataset_bytes};
  double amplification = 0;
  for (uint32_t round = 0; round < options.rounds; ++round) {
    QUIRE_ASSIGN_OR_RETURN(const auto scratch, ScratchStore::Make(options));
    PayloadStore& store = *scratch->store;
    QUIRE_ASSIGN_OR_RETURN(const AlignedBuffer segment, MakeSegment(options, store));
    QUIRE_ASSIGN_OR_RETURN(const auto raw,
                           RawUring::Create(options.depth, kRawWriteBytes, segment.bytes()));
    const std::string path = raw_directory.path() + "/raw";
    QUIRE_RETURN_IF_ERROR(TakeTurns(
        round, &rounds, [&] { return Ingest(options, store, segment.bytes()).status(); },
        [&] { return WriteRaw(options, path, *raw); }));
    std::filesystem::remove(path);
    amplification = scratch->Amplification("payload_device_write_bytes", "payload_write_bytes");
  }
  SsdRate rate = rounds.Rate();
  rate.amplification = amplification;
  return rate;
}

}  // namespace quire::bench
