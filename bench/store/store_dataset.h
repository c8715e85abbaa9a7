// SPDX-License-Identifier: Apache-2.0
//
// The dataset of `quire bench store`: a page store in a directory of its own, full of segments with
// one unit size. Units are numbered in the order of their puts.
#ifndef QUIRE_BENCH_STORE_STORE_DATASET_H_
#define QUIRE_BENCH_STORE_STORE_DATASET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "kvserver/store/page_store_impl.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::bench {

struct StoreBenchOptions {
  /// Scratch directory, several times as large as the dataset; files are removed afterwards.
  std::string directory;
  /// Working set of reads from DRAM; 0 for four times the cache.
  uint64_t working_set_bytes = 0;
  /// Bytes on SSD; at least twice the DRAM given to the store.
  uint64_t dataset_bytes = 2ull << 30;
  uint32_t readers = 2;        ///< Threads that read from SSD through the store.
  uint32_t read_units = 1024;  ///< Units read from SSD in a round.
  uint32_t read_rounds = 51;
  uint64_t write_bytes = 512ull << 20;  ///< Bytes written in a round.
  /// Concurrent puts that the store accepts. While some write, others wait for a shared sync.
  uint32_t writers = 4;
  uint32_t write_rounds = 7;
  uint32_t depth = 32;         ///< Requests in flight.
  uint32_t batch_units = 128;  ///< Most units of one call that reads from SSD.
  /// Rounds on DRAM: of 4 MiB copied, or 16384 units returned in place.
  uint32_t dram_rounds = 2000;

  /// Requests in flight of one call; the readers together keep `depth`.
  uint32_t depth_of_call() const { return std::max(1u, depth / readers); }
  /// DRAM given to the store: pins may hold half of it.
  uint64_t dram_bytes() const { return 2 * working_set_bytes + (64 << 20); }
};

/// Segments of 32 extents of 1 MiB.
inline constexpr uint64_t kSegmentBytes = 32 << 20;
inline constexpr uint64_t kExtentBytes = 1 << 20;

/// A directory below `parent` that is removed with its contents.
class ScratchDirectory {
 public:
  ScratchDirectory(const std::string& parent, const std::string& name)
      : path_(parent + "/" + name) {
    Remove();
    std::filesystem::create_directories(path_, ignored_);
  }
  ~ScratchDirectory() { Remove(); }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  void Remove() { std::filesystem::remove_all(path_, ignored_); }

  const std::string path_;
  std::error_code ignored_;  ///< Users of the directory report errors.
};

/// Always the same bytes: finite numbers of 16 bits.
std::vector<std::byte> MakeSegmentBytes();

/// A model whose units have `unit_bytes`: 16 KiB or 128 KiB.
KvSpec SpecOfUnits(uint64_t unit_bytes);

class Dataset {
 public:
  /// Puts `bytes` of segments into an empty store. `name`: its directory; use another one for each
  /// store that exists at the same time.
  static StatusOr<std::unique_ptr<Dataset>> Make(const StoreBenchOptions& options,
                                                 uint64_t unit_bytes, uint64_t bytes,
                                                 const std::string& name = "quire-bench-store");

  /// Opens the store again, with nothing in DRAM.
  Status Reopen();
  /// Pins the first `bytes` bytes of the dataset.
  Status Pin(uint64_t bytes);
  /// Puts the segment of a number; each number gives another one. It does not count as units.
  /// Thread-safe.
  StatusOr<SegmentKey> PutSegment(uint64_t number, kvserver::Durability durability);

  kvserver::PageStoreImpl& store() { return *store_; }
  uint64_t unit_bytes() const { return unit_bytes_; }
  uint64_t num_units() const { return keys_.size() * (kSegmentBytes / unit_bytes_); }
  kvserver::UnitAddress Unit(uint64_t number) const;
  std::string payload_path() const { return directory_.path() + "/payload"; }

 private:
  Dataset(const StoreBenchOptions& options, uint64_t unit_bytes, const std::string& name);
  /// Puts the next segment, which need not persist.
  Status Put();

  const StoreBenchOptions options_;
  const uint64_t unit_bytes_;
  const KvSpec spec_;
  const std::vector<std::byte> segment_ = MakeSegmentBytes();
  ScratchDirectory directory_;
  std::unique_ptr<kvserver::IoEngine> engine_;
  std::unique_ptr<kvserver::PageStoreImpl> store_;
  std::vector<SegmentKey> keys_;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_STORE_STORE_DATASET_H_
