// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/soak_run.h"

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <thread>

#include "bench/torture/store/history_sink.h"
#include "bench/torture/store/load.h"
#include "bench/torture/store/store_look.h"
#include "common/base/observe/metrics.h"
#include "quire/layout.h"

namespace quire::torture {
namespace {

using kvserver::PageStoreImpl;

constexpr double kSoakGib = 1 << 30;
constexpr uint32_t kSegmentsPerChain = 4;

/// Parses a line "NAME:  1234 kB" of /proc/self/status into bytes; 0 if missing.
uint64_t StatusBytes(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    uint64_t kib = 0;
    if (word == name + ":" && file >> kib) return kib << 10;
  }
  return 0;
}

MemorySample TakeSample(const PageStoreImpl& store) {
  MemorySample sample{.private_bytes = StatusBytes("RssAnon"),
                      .shared_bytes = StatusBytes("RssShmem")};
  const auto values = MetricValuesOf(store);
  for (const char* name :
       {"catalog_bytes_cached", "digest_bytes_cached", "db_memtable_bytes", "db_block_cache_bytes",
        "payload_buffer_bytes", "ssd_record_bytes_cached"}) {
    sample.cached_bytes += values.at(name);
  }
  sample.memtable_bytes = values.at("db_memtable_bytes");
  sample.stored_bytes = values.at("ssd_bytes_used");
  return sample;
}

uint64_t WrittenBytes(const PageStoreImpl& store) {
  return MetricValuesOf(store).at("ssd_write_bytes");
}

double MeanUncached(std::span<const MemorySample> samples) {
  double sum = 0;
  for (const MemorySample& sample : samples) sum += static_cast<double>(sample.uncached_bytes());
  return samples.empty() ? 0 : sum / static_cast<double>(samples.size());
}

std::span<const MemorySample> FirstThird(const std::vector<MemorySample>& samples) {
  return std::span(samples).first(samples.size() / 3);
}
std::span<const MemorySample> LastThird(const std::vector<MemorySample>& samples) {
  return std::span(samples).last(samples.size() / 3);
}

/// Twice the store's capacity, so that there are always other segments to put.
Corpus SoakCorpus(const SoakOptions& options) {
  const KvSpec spec = LargeSpec();
  const uint64_t chain_bytes = kSegmentsPerChain * SegmentBytes(spec, spec.segment_pages);
  return Corpus({.seed = options.seed,
                 .chains = static_cast<uint32_t>(2 * options.ssd_bytes / chain_bytes),
                 .segments = kSegmentsPerChain,
                 .specs = {spec}});
}

/// Samples once a second until the time is over.
void Watch(const PageStoreImpl& store, const SoakOptions& options, const Progress& progress,
           SoakReport* report) {
  Clock& clock = SystemClock();
  const TimePoint end = clock.Now() + std::chrono::seconds(options.seconds);
  while (clock.Now() < end) {
    clock.Sleep(std::chrono::seconds(1));
    const double turnovers =
        static_cast<double>(WrittenBytes(store)) / static_cast<double>(options.ssd_bytes);
    if (turnovers >= 1) report->samples.push_back(TakeSample(store));
    progress("turnovers " + std::to_string(turnovers).substr(0, 5));
  }
}

/// Opens a store in `directory`, replaces its content until the time is over, and closes it.
StatusOr<SoakReport> TurnOver(const std::string& directory, const SoakOptions& options,
                              const Progress& progress) {
  const Corpus corpus = SoakCorpus(options);
  if (corpus.chains() < options.threads) {
    return InvalidArgument("ssd-bytes is ", options.ssd_bytes,
                           ", which is less than a chain for each thread; raise it");
  }
  QUIRE_ASSIGN_OR_RETURN(const auto store, PageStoreImpl::Open({.ssd_path = directory,
                                                                .dram_bytes = options.dram_bytes,
                                                                .ssd_bytes = options.ssd_bytes},
                                                               {}));
  QUIRE_ASSIGN_OR_RETURN(const TenantSalt salt, SaltOf(*store));
  HistorySink sink;
  std::atomic<bool> stop{false};
  Load load(store.get(), &corpus, salt, &sink,
            {.threads = options.threads, .seed = options.seed, .stop = &stop});
  SoakReport report;
  report.at_open = TakeSample(*store);
  const TimePoint start = SystemClock().Now();
  std::thread loading([&] { load.Run(); });
  Watch(*store, options, progress, &report);
  stop.store(true);
  loading.join();
  report.seconds = std::chrono::duration<double>(SystemClock().Now() - start).count();
  report.written_bytes = WrittenBytes(*store);
  report.turnovers =
      static_cast<double>(report.written_bytes) / static_cast<double>(options.ssd_bytes);
  report.totals = sink.Copy().totals();
  return report;
}

}  // namespace

double SoakReport::overhead_bytes_per_gib() const {
  if (samples.empty() || samples.back().stored_bytes == 0) return 0;
  const double stored = static_cast<double>(samples.back().stored_bytes) / kSoakGib;
  return (MeanUncached(LastThird(samples)) - static_cast<double>(at_open.uncached_bytes())) /
         stored;
}

double SoakReport::growth_bytes() const {
  return MeanUncached(LastThird(samples)) - MeanUncached(FirstThird(samples));
}

double SoakReport::growth_noise_bytes() const {
  const double mean = MeanUncached(samples);
  double sum = 0;
  for (const MemorySample& sample : samples) {
    const double off = static_cast<double>(sample.uncached_bytes()) - mean;
    sum += off * off;
  }
  return samples.empty() ? 0 : 2 * std::sqrt(sum / static_cast<double>(samples.size()));
}

StatusOr<SoakReport> RunSoak(const SoakOptions& options, const Progress& progress) {
  const std::string directory = options.directory + "/soak";
  const StatusOr<SoakReport> report = TurnOver(directory, options, progress);
  std::error_code ignored;  // Remains lie in a directory of the caller's.
  std::filesystem::remove_all(directory, ignored);
  return report;
}

}  // namespace quire::torture
