// SPDX-License-Identifier: Apache-2.0
//
// Store: speed of the store on SSD and in DRAM.
//
// - Sequential ingest through the whole store, units read from SSD, and the SSD tier alone. Rivals:
//   a minimal io_uring loop on the same file system, and BlobDB.
// - Scattered units copied out of DRAM against memcpy of the same pattern, and units returned in
//   place.
//
// Puts are durable when they are acknowledged, as by default. Several at a time share syncs; one
// after the other each has its own, and so has each segment of the compared loop. The working set
// of the reads from DRAM is four times the last level cache. The dataset on SSD is larger than the
// store's DRAM.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "apps/kit/data_dir.h"
#include "apps/kit/output/progress.h"
#include "bench/benchmark.h"
#include "bench/kit/machine_facts.h"
#include "bench/kit/working_set.h"
#include "bench/store/store_dataset.h"
#include "bench/store/store_dram.h"
#include "bench/store/store_ssd.h"

namespace quire::bench {
namespace {

/// Results for one size of units.
struct OfSize {
  uint64_t unit_bytes = 0;
  DramRates dram;
  SsdReads reads;

  std::string suffix() const { return "_" + std::to_string(unit_bytes >> 10) + "k"; }
  std::string title() const { return std::to_string(unit_bytes >> 10) + " KiB units"; }
};

struct Results {
  OfSize small, large;
  SsdWrites writes;
  std::string ssd_mode;
};

void SetSizes(StoreBenchOptions* options, uint64_t cache_bytes) {
  if (options->working_set_bytes == 0) {
    options->working_set_bytes = 4 * (cache_bytes != 0 ? cache_bytes : kLikelyCacheBytes);
  }
  const auto whole_segments = [](uint64_t bytes) {
    return (bytes + kSegmentBytes - 1) / kSegmentBytes * kSegmentBytes;
  };
  options->working_set_bytes = whole_segments(options->working_set_bytes);
  options->dataset_bytes =
      whole_segments(std::max(options->dataset_bytes, 2 * options->dram_bytes()));
  options->write_bytes = whole_segments(options->write_bytes);
}

StatusOr<OfSize> MeasureSize(const StoreBenchOptions& options, uint64_t unit_bytes,
                             Results* results) {
  OfSize size;
  size.unit_bytes = unit_bytes;
  QUIRE_ASSIGN_OR_RETURN(const auto dataset,
                         Dataset::Make(options, unit_bytes, options.dataset_bytes));
  QUIRE_ASSIGN_OR_RETURN(size.reads, MeasureSsdReads(options, *dataset));
  QUIRE_ASSIGN_OR_RETURN(size.dram, MeasureDram(options, *dataset));
  results->ssd_mode = dataset->store().ssd_mode();
  return size;
}

StatusOr<Results> Measure(const StoreBenchOptions& options) {
  cli::ProgressBar progress("measuring", 3);
  Results results;
  progress.Advance(0, "units of 16 KiB");
  QUIRE_ASSIGN_OR_RETURN(results.small, MeasureSize(options, 16 << 10, &results));
  progress.Advance(1, "units of 128 KiB");
  QUIRE_ASSIGN_OR_RETURN(results.large, MeasureSize(options, 128 << 10, &results));
  progress.Advance(1, "writes");
  QUIRE_ASSIGN_OR_RETURN(results.writes, MeasureSsdWrites(options));
  return results;
}

/// Adds the worse of both sizes, then each.
template <typename Value>
void AddWorse(const Results& results, const std::string& key, bool less_is_worse,
              const Value& value, cli::Json* json) {
  const double small = value(results.small), large = value(results.large);
  (*json)[key] = less_is_worse ? std::min(small, large) : std::max(small, large);
  (*json)[key + results.small.suffix()] = small;
  (*json)[key + results.large.suffix()] = large;
}

void AddFigures(const Results& results, cli::Json* json) {
  cli::Json& out = *json;
  const auto less = [&](const std::string& key, auto value) {
    AddWorse(results, key, true, value, json);
  };
  const auto more = [&](const std::string& key, auto value) {
    AddWorse(results, key, false, value, json);
  };
  const SsdWrites& writes = results.writes;
  out["store_write_vs_raw"] = writes.store.vs_raw;
  out["store_write_each_synced_vs_raw"] = writes.store_each_synced.vs_raw;
  less("dram_vs_memcpy", [](const OfSize& s) { return s.dram.vs_memcpy; });
  out["handout_units_per_s"] = results.small.dram.handout_units_per_s;
  out["store_handout_units_per_s"] = results.small.dram.store_units_per_s;
  less("ssd_read_vs_raw", [](const OfSize& s) { return s.reads.store.vs_raw; });
  more("ssd_read_amplification", [](const OfSize& s) { return s.reads.store.amplification; });
  out["store_write_amplification"] = writes.store.amplification;
  out["tier_write_vs_raw"] = writes.tier.vs_raw;
  out["tier_write_amplification"] = writes.tier.amplification;
  less("blobdb_read_vs_raw", [](const OfSize& s) { return s.reads.blobdb.vs_raw; });
  more("blobdb_read_amplification", [](const OfSize& s) { return s.reads.blobdb.amplification; });
  out["blobdb_write_vs_raw"] = writes.blobdb.vs_raw;
  out["blobdb_write_amplification"] = writes.blobdb.amplification;
  for (const OfSize* size : {&results.small, &results.large}) {
    const std::string unit = size->suffix() + "_gb_per_s";
    out["dram" + unit] = size->dram.copied_gb_per_s;
    out["memcpy" + unit] = size->dram.memcpy_gb_per_s;
    out["ssd_read" + unit] = size->reads.store.gb_per_s;
    out["raw_read" + unit] = size->reads.raw_gb_per_s;
    out["blobdb_read" + unit] = size->reads.blobdb.gb_per_s;
  }
  out["store_write_gb_per_s"] = writes.store.gb_per_s;
  out["raw_write_gb_per_s"] = writes.raw_gb_per_s;
  out["store_write_each_synced_gb_per_s"] = writes.store_each_synced.gb_per_s;
  out["raw_write_each_synced_gb_per_s"] = writes.raw_each_synced_gb_per_s;
  out["tier_write_gb_per_s"] = writes.tier.gb_per_s;
  out["blobdb_write_gb_per_s"] = writes.blobdb.gb_per_s;
}

void AddConditions(const StoreBenchOptions& options, const Results& results, uint64_t cache_bytes,
                   cli::Json* json) {
  cli::Json& out = *json;
  out["dram_pages"] = results.small.dram.pages;
  out["ssd_mode"] = results.ssd_mode;
  out["last_level_cache_bytes"] = cache_bytes;
  out["working_set_bytes"] = options.working_set_bytes;
  out["dram_bytes"] = options.dram_bytes();
  out["dataset_bytes"] = options.dataset_bytes;
  out["read_units"] = options.read_units;
  out["write_bytes"] = options.write_bytes;
  out["depth"] = options.depth;
  out["readers"] = options.readers;
  out["writers"] = options.writers;
  out["write_durability"] = "persisted";
  out["batch_units"] = options.batch_units;
  out["read_rounds"] = options.read_rounds;
  out["write_rounds"] = options.write_rounds;
  out["dram_rounds"] = options.dram_rounds;
  out["machine"] = Machine();
}

cli::Table MakeTable(const Results& results) {
  cli::Table table({{"WHAT"},
                    {"OF THE LIMIT", cli::Table::kRight},
                    {"GB/S", cli::Table::kRight},
                    {"LIMIT GB/S", cli::Table::kRight},
                    {"AMPLIFICATION", cli::Table::kRight}});
  const auto add = [&](const std::string& what, const SsdRate& rate, double limit) {
    table.AddRow({what, cli::FormatRatio(rate.vs_raw), cli::FormatRatio(rate.gb_per_s),
                  cli::FormatRatio(limit), cli::FormatRatio(rate.amplification)});
  };
  const SsdWrites& writes = results.writes;
  add("sequential ingest, whole store", writes.store, writes.raw_gb_per_s);
  add("sequential ingest, each put synced by itself", writes.store_each_synced,
      writes.raw_each_synced_gb_per_s);
  for (const OfSize* size : {&results.small, &results.large}) {
    const DramRates& dram = size->dram;
    add("DRAM copied out, " + size->title(), {dram.vs_memcpy, dram.copied_gb_per_s, 1},
        dram.memcpy_gb_per_s);
    add("SSD read, " + size->title(), size->reads.store, size->reads.raw_gb_per_s);
    add("BlobDB read, " + size->title(), size->reads.blobdb, size->reads.raw_gb_per_s);
  }
  add("SSD tier alone, write", writes.tier, writes.raw_gb_per_s);
  add("BlobDB, write", writes.blobdb, writes.raw_gb_per_s);
  const auto millions = [](double units) {
    return cli::FormatRatio(units / 1e6, 1) + " million units/s";
  };
  table.AddRow({"DRAM handed out: " + millions(results.small.dram.handout_units_per_s) +
                ", through the whole store " + millions(results.small.dram.store_units_per_s)});
  return table;
}

StatusOr<BenchReport> Run(StoreBenchOptions options) {
  const uint64_t cache_bytes = LastLevelCacheBytes();
  SetSizes(&options, cache_bytes);
  QUIRE_ASSIGN_OR_RETURN(const auto directory, cli::DataDir::Make(options.directory));
  options.directory = directory->path();
  QUIRE_ASSIGN_OR_RETURN(const Results results, Measure(options));
  BenchReport report{.json = {{"benchmark", "store"}}, .table = MakeTable(results)};
  AddFigures(results, &report.json);
  AddConditions(options, results, cache_bytes, &report.json);
  return report;
}

void AddMib(CLI::App& command, const std::string& name, uint64_t* bytes, const std::string& what) {
  command
      .add_option_function<uint64_t>(
          name, [bytes](const uint64_t& mib) { *bytes = mib << 20; }, what)
      ->check(CLI::Range(1, 1 << 20));
}

}  // namespace

void AddStoreBench(Benches& benches) {
  const auto options = std::make_shared<StoreBenchOptions>();
  CLI::App& command = benches.Add(
      {.name = "store",
       .summary = "Units from DRAM and SSD against memcpy, raw io_uring and BlobDB",
       .examples = "  quire bench store --json\n"
                   "  quire bench store --data-dir /mnt/ssd --dataset-mib 8192"},
      [options](const cli::CommandContext&) { return Run(*options); },
      {.plot = PlotterOf(
           {{.title = "The store against raw programs",
             .value_title = "GB/s",
             .bars = {
                 {.figures = R"(/(\w+)_(16k|128k)_gb_per_s)", .name = "units of $2", .place = "$1"},
                 {.figures = R"(/(\w+_write\w*|raw_write\w*)_gb_per_s)",
                  .name = "segments",
                  .place = "$1"}}}})});
  AddMib(command, "--working-set-mib", &options->working_set_bytes,
         "Read from DRAM, in MiB (four times the last level cache when not given)");
  AddMib(command, "--dataset-mib", &options->dataset_bytes,
         "Dataset on SSD in MiB, at least twice the DRAM (2048 when not given)");
  AddMib(command, "--write-mib", &options->write_bytes,
         "MiB written in a round (512 when not given)");
  command.add_option("--depth", options->depth, "Requests in flight")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--batch", options->batch_units, "Units read from SSD by one call")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--readers", options->readers, "Threads that read from SSD by the store")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command.add_option("--writers", options->writers, "Puts at a time that the store takes in")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command.add_option("--read-units", options->read_units, "Units read from SSD in a round")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("--read-rounds", options->read_rounds, "Rounds of reads from SSD")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command.add_option("--write-rounds", options->write_rounds, "Rounds of writes to SSD")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--dram-rounds", options->dram_rounds, "Rounds on DRAM, a millisecond each")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  cli::AddDataDirOption(command, &options->directory);
}

}  // namespace quire::bench
