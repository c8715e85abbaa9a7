// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/power_run.h"

#include <memory>
#include <string>
#include <utility>

#include "bench/torture/power_load.h"
#include "bench/torture/store_look.h"
#include "common/base/clock.h"
#include "kvserver/registry/document_registry.h"
#include "kvserver/store/disk_file_system.h"

namespace quire::torture {
namespace {

using kvserver::DiskEngine;
using kvserver::DocumentRegistry;
using kvserver::PageStoreImpl;
using kvserver::PowerDisk;

constexpr uint32_t kRoundsOfADisk = 8;
constexpr uint64_t kStepsPerThread = 400;
constexpr uint64_t kOperationsOfOpening = 120;  ///< About.
constexpr uint64_t kLies = 8;
constexpr uint64_t kOperationsAfterLie = 32;

/// A simulated disk, and everything that a store sees of it.
struct Machine {
  PowerDisk disk;
  DiskEngine engine{&disk};
  std::unique_ptr<rocksdb::Env> env = kvserver::MakeDiskEnv(&disk);
};

/// A server without its network.
struct Opened {
  std::unique_ptr<PageStoreImpl> store;
  std::unique_ptr<DocumentRegistry> registry;
  TenantSalt salt;
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
      QUIRE_RETURN_IF_ERROR(Annotate(Round(), "round ", round, " of seed ", options_.seed));
      ++report_.rounds;
      for (const std::string& problem : history_.TakeProblems()) {
        *options_.log << "power round " << round << ": " << problem << "\n";
      }
      progress_("power failure");
      const bool sound = history_.totals().sound() && report_.refused_to_open == 0;
      if (options_.ends_when_unsound && !sound) break;
    }
    CountDisk();
    report_.totals = history_.totals();
    return report_;
  }

 private:
  /// An empty disk. What the server is given is there and durable.
  Status StartAfresh() {
    CountDisk();
    machine_ = std::make_unique<Machine>();
    history_.Forget();
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

  StatusOr<Opened> Open() {
    kvserver::PageStore::Options options{.ssd_path = kPowerDirectory,
                                         .dram_bytes = 1 << 20,
                                         .ssd_volume_bytes = 1 << 20,
                                         .catalog_cache_bytes = 256 << 10,
                                         .digest_cache_bytes = 256 << 10};
    Opened opened;
    QUIRE_ASSIGN_OR_RETURN(opened.store, PageStoreImpl::Open(options, {.env = machine_->env.get(),
                                                                       .engine = &machine_->engine,
                                                                       .disk = &machine_->disk}));
    QUIRE_ASSIGN_OR_RETURN(
        opened.registry,
        DocumentRegistry::Open(opened.store.get(), &opened.store->metadata(), &SystemClock()));
    QUIRE_ASSIGN_OR_RETURN(opened.salt, SaltOf(*opened.store));
    return opened;
  }

  Status Round() {
    PowerDisk& disk = machine_->disk;
    const bool while_opening = random_.Below(4) == 0;
    disk.CutAfter(while_opening ? random_.Below(kOperationsOfOpening)
                                : kOperationsOfOpening + random_.Below(options_.operations));
    // An ignored sync shows only when the power goes soon afterwards.
    if (random_.Below(2) == 0) {
      disk.CutAfterLie(1 + random_.Below(kLies), random_.Below(kOperationsAfterLie));
    }
    const uint64_t load_seed = random_.Next() >> 16;
    const uint64_t cut_seed = random_.Next() >> 16;
    {
      const StatusOr<Opened> opened = Open();
      // It had been opened before, on this very disk.
      if (!opened.ok() && !disk.is_off()) return Refused(opened.status());
      if (opened.ok()) {
        PowerLoad load(opened->store.get(), opened->registry.get(), &corpus_, opened->salt,
                       &history_, {.seed = load_seed, .steps = kStepsPerThread, .is_off = [&disk] {
                                     return disk.is_off();
                                   }});
        load.Run();
      } else {
        ++report_.cut_while_opening;
      }
      disk.CutAfter(0);  // What closing the store would write is not there.
    }
    disk.Restart(cut_seed);
    const StatusOr<Opened> opened = Open();
    return opened.ok() ? CompareWith(*opened) : Refused(opened.status());
  }

  Status Refused(const Status& why) {
    ++report_.refused_to_open;
    *options_.log << "power round " << report_.rounds << ": the store does not open: " << why
                  << "\n";
    return StartAfresh();
  }

  Status CompareWith(const Opened& opened) {
    const auto keys = AllKeys(corpus_, opened.salt);
    for (uint32_t chain = 0; chain < corpus_.chains(); ++chain) {
      const auto document = opened.registry->Get(kTenant, DocumentOf(chain));
      const bool gone = document.status().code() == StatusCode::kNotFound;
      if (!document.ok() && !gone) {
        return Annotate(document.status(), "the document of chain ", chain);
      }
      history_.CompareDocument(chain, document.ok(), document.status().ToString());
      for (uint32_t index = 0; index < corpus_.segments(); ++index) {
        Status answer;
        const Found found =
            LookAt(*opened.store, corpus_, {chain, index}, keys[chain][index], &answer);
        history_.Compare({chain, index}, found, answer.ToString());
      }
    }
    return OkStatus();
  }

  const PowerOptions& options_;
  const Progress& progress_;
  const Corpus corpus_;
  SeededRandom random_;
  std::unique_ptr<Machine> machine_;
  PowerHistory history_;
  PowerReport report_;
};

}  // namespace

StatusOr<PowerReport> RunPowerFailures(const PowerOptions& options, const Progress& progress) {
  return PowerRun(options, progress).Run();
}

}  // namespace quire::torture
