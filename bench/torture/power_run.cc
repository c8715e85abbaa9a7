// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/power_run.h"

#include <memory>
#include <string>
#include <utility>

#include "bench/torture/server/server_load.h"
#include "bench/torture/server/server_look.h"
#include "bench/torture/store/store_look.h"
#include "common/base/observe/metrics.h"
#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/store/policy/ssd_budget.h"
#include "kvserver/store/testing/disk_file_system.h"

namespace quire::torture {
namespace {

using kvserver::DiskEngine;
using kvserver::PowerDisk;

constexpr uint32_t kRoundsOfADisk = 8;
constexpr uint64_t kPhases = 8;
/// Phases of a disk's last server, which is then emptied.
constexpr uint64_t kPhasesBeforeTheEnd = 2;
constexpr uint64_t kPayloadOfTheTenant = 1 << 20;  ///< With a limit: a third of the corpus.
/// A limit with which the database sometimes flushes and compacts. With the least one it does so
/// all the time, and RocksDB waits a second after a failure.
constexpr uint64_t kRoomyBytes = 64 << 20;
/// Approximate number of disk operations of an opening.
constexpr uint64_t kOperationsOfOpening = 120;
constexpr uint64_t kLies = 8;
constexpr uint64_t kOperationsAfterLie = 32;

/// A simulated disk, and the rest of a store's environment.
struct Machine {
  PowerDisk disk;
  DiskEngine engine{&disk};
  std::unique_ptr<rocksdb::Env> env = kvserver::MakeDiskEnv(&disk);
};

class PowerRun {
 public:
  PowerRun(const PowerOptions& options, const Progress& progress)
      : options_(options),
        progress_(progress),
        corpus_({.seed = options.seed, .chains = 24, .specs = SmallSpecs()}),
        random_(options.seed) {}

  StatusOr<PowerReport> Run() {
    for (uint32_t round = 0; round < options_.rounds; ++round) {
      if (round % kRoundsOfADisk == 0) QUIRE_RETURN_IF_ERROR(StartAfresh());
      is_last_ = (round + 1) % kRoundsOfADisk == 0 || round + 1 == options_.rounds;
      QUIRE_RETURN_IF_ERROR(Annotate(Round(), "round ", round, " of seed ", options_.seed));
      ++report_.rounds;
      for (const std::string& problem : history_.TakeProblems()) Tell(problem);
      progress_("power failure");
      report_.totals = history_.totals();
      if (options_.ends_when_unsound && !report_.sound()) break;
    }
    CountDisk();
    return report_;
  }

 private:
  /// Makes an empty disk with the server's given files, durable.
  Status StartAfresh() {
    CountDisk();
    machine_ = std::make_unique<Machine>();
    ++disks_;
    has_limit_ = disks_ % 2 == 0;
    history_.StartAfresh({.evicts = has_limit_, .segments = corpus_.segments()});
    const int error = kvserver::MakeDurableDirectory(machine_->disk, kPowerMount);
    if (error != 0) return Internal("the simulated disk failed: errno ", error);
    machine_->disk.LieAbout(options_.ignores_sync);
    return OkStatus();
  }

  void CountDisk() {
    if (machine_ == nullptr) return;
    report_.changes_forgotten += machine_->disk.forgotten();
    report_.changes_survived += machine_->disk.survived();
  }

  void Tell(std::string_view problem) {
    *options_.log << "power round " << report_.rounds << ": " << problem << "\n";
  }
  void TellOfSpace(const std::vector<std::string>& problems) {
    for (const std::string& problem : problems) Tell(problem);
    report_.space_problems += problems.size();
  }

  StatusOr<TorturedServer> Open() {
    kvserver::PageStore::Options options{.ssd_path = kPowerDirectory,
                                         .dram_bytes = 1 << 20,
                                         .ssd_volume_bytes = 1 << 20,
                                         .catalog_cache_bytes = 256 << 10,
                                         .digest_cache_bytes = 256 << 10};
    if (has_limit_) {
      options.ssd_bytes = disks_ % 4 == 0 ? kvserver::SsdBudget::kLeastBytes : kRoomyBytes;
      options.tenant_ssd_quota_bytes = {{kTenant, kPayloadOfTheTenant}};
      options.cached_ttl = std::chrono::minutes(1);
    }
    return TorturedServer::Open(
        options, {.env = machine_->env.get(), .engine = &machine_->engine, .disk = &machine_->disk},
        &clock_);
  }

  ServerLoad MakeLoad(TorturedServer* server, uint64_t seed, uint64_t phases) {
    return {server,
            &corpus_,
            [this](const ServerEvent& event) { history_.Apply(event); },
            {.seed = seed, .phases = phases, .sweeps = has_limit_, .is_off = [this] {
               return machine_->disk.is_off();
             }}};
  }

  Status Round() {
    PowerDisk& disk = machine_->disk;
    const bool while_opening = random_.Below(4) == 0;
    disk.CutAfter(while_opening ? random_.Below(kOperationsOfOpening)
                                : kOperationsOfOpening + random_.Below(options_.operations));
    // An ignored sync shows only if the power fails soon after it.
    if (random_.Below(2) == 0) {
      disk.CutAfterLie(1 + random_.Below(kLies), random_.Below(kOperationsAfterLie));
    }
    const uint64_t load_seed = random_.Next() >> 16;
    const uint64_t cut_seed = random_.Next() >> 16;
    {
      StatusOr<TorturedServer> server = Open();
      // The store was opened before on this disk, so this is a fault.
      if (!server.ok() && !disk.is_off()) return Refused(server.status());
      if (server.ok()) {
        ServerLoad load = MakeLoad(&*server, load_seed, kPhases);
        load.Run();
        disk.CutAfter(0);  // Discards writes by the closing of contexts and store.
        report_.contexts_cut += load.num_open_contexts();
        CountEvicted(*server);
      } else {
        ++report_.cut_while_opening;
      }
      disk.CutAfter(0);
    }
    disk.Restart(cut_seed);
    StatusOr<TorturedServer> server = Open();
    if (!server.ok()) return Refused(server.status());
    QUIRE_RETURN_IF_ERROR(CompareServer(*server, corpus_, &history_));
    if (is_last_) QUIRE_RETURN_IF_ERROR(Empty(*server, load_seed));
    return CheckSpace(*std::move(server));
  }

  void CountEvicted(const TorturedServer& server) {
    const auto metrics = MetricValuesOf(*server.store);
    report_.segments_evicted += metrics.at("cached_evictions") + metrics.at("cached_expired");
  }

  Status Refused(const Status& why) {
    ++report_.refused_to_open;
    Tell("the store does not open: " + why.ToString());
    return StartAfresh();
  }

  /// Deletes everything after some more load; nothing may remain.
  Status Empty(TorturedServer& server, uint64_t seed) {
    MakeLoad(&server, seed, kPhasesBeforeTheEnd).Run();
    QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> left, EmptyServer(server, corpus_));
    TellOfSpace(left);
    ++report_.stores_emptied;
    return OkStatus();
  }

  /// Closes the server cleanly and compares its accounts with the disk.
  Status CheckSpace(TorturedServer server) {
    const SpaceAccount account = AccountOf(server);
    { const TorturedServer closed = std::move(server); }
    QUIRE_ASSIGN_OR_RETURN(
        const kvserver::FsckReport checked,
        kvserver::Fsck(kPowerDirectory, {.engine = &machine_->engine,
                                         .disk = &machine_->disk,
                                         .env = machine_->env.get(),
                                         .reference = kvserver::SegmentOfReference}));
    TellOfSpace(ProblemsOfSpace(account, checked));
    return OkStatus();
  }

  const PowerOptions& options_;
  const Progress& progress_;
  const Corpus corpus_;
  SeededRandom random_;
  HandClock clock_;
  std::unique_ptr<Machine> machine_;
  uint32_t disks_ = 0;      ///< Disks made so far.
  bool has_limit_ = false;  ///< True if the disk has a limit.
  bool is_last_ = false;    ///< True in the last round of its disk.
  ServerHistory history_;
  PowerReport report_;
};

}  // namespace

StatusOr<PowerReport> RunPowerFailures(const PowerOptions& options, const Progress& progress) {
  return PowerRun(options, progress).Run();
}

}  // namespace quire::torture
