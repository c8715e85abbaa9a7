// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/torture/fault_run.h"
#include "bench/torture/store/history_sink.h"
#include "bench/torture/store/load.h"
#include "bench/torture/store/store_look.h"
#include "kvserver/store/payload/engine/engine_choice.h"
#include "kvserver/store/payload/testing/fault_engine.h"
#include "kvserver/store/testing/fault_file_system.h"

namespace quire::torture {
namespace {

using kvserver::FaultEngine;
using kvserver::IoFault;
using kvserver::IoRequest;
using kvserver::PageStoreImpl;

constexpr uint64_t kStepsPerThread = 120;
constexpr uint64_t kMostEventsUntilGone = 1500;
/// Few enough that space comes back while every change waits for the database to resume.
constexpr uint64_t kMostMetadataFailures = 16;

/// Behaviour of the device in a round.
enum class Behaviour : uint8_t { kFails, kLies, kMetadataFails, kGoes };
constexpr std::array kBehaviours = {Behaviour::kFails, Behaviour::kLies, Behaviour::kMetadataFails,
                                    Behaviour::kGoes};
constexpr std::array kBehaviourNames = {"fails", "lies", "fails the metadata", "goes"};

/// One fault to inject into the next request of a kind.
struct Injection {
  IoRequest::Kind kind;
  IoFault fault;
};
constexpr std::array kErrors = {
    Injection{IoRequest::Kind::kWrite, IoFault::kIoError},
    Injection{IoRequest::Kind::kWrite, IoFault::kNoSpace},
    Injection{IoRequest::Kind::kWrite, IoFault::kShortWrite},
    Injection{IoRequest::Kind::kRead, IoFault::kIoError},
};
constexpr std::array kLiesTold = {
    Injection{IoRequest::Kind::kWrite, IoFault::kTornWrite},
    Injection{IoRequest::Kind::kRead, IoFault::kBitFlip},
};
constexpr std::array kMetadataFaults = {
    kvserver::Fault::kNoSpace,          kvserver::Fault::kTornNoSpace,
    kvserver::Fault::kNoSpaceAtSync,    kvserver::Fault::kErrorAtSync,
    kvserver::Fault::kErrorOnceWritten, kvserver::Fault::kIoError};

/// Passes events on, and occasionally injects a fault first. Thread-safe.
class Saboteur final : public EventSink {
 public:
  Saboteur(Behaviour behaviour, uint64_t seed, FaultEngine* engine, kvserver::FaultSwitch* metadata,
           EventSink* next)
      : behaviour_(behaviour), engine_(engine), metadata_(metadata), next_(next), random_(seed) {
    MutexLock lock(mutex_);
    gone_at_ = random_.Below(kMostEventsUntilGone);
  }

  void Emit(const Event& event) override {
    if (event.outcome == Event::Outcome::kStarted) Sabotage();
    next_->Emit(event);
  }
  uint64_t metadata_faults() const { return metadata_faults_.load(); }

 private:
  void Sabotage() {
    MutexLock lock(mutex_);
    ++events_;
    switch (behaviour_) {
      case Behaviour::kFails:
        if (random_.Below(800) == 0) engine_->FailNextSync(EIO);
        if (random_.Below(8) == 0) Inject(kErrors);
        return;
      case Behaviour::kLies:
        if (random_.Below(8) == 0) Inject(kLiesTold);
        return;
      case Behaviour::kMetadataFails:
        if (random_.Below(10) != 0) return;
        if (metadata_->fault.load() != kvserver::Fault::kNone) {
          metadata_->fault.store(kvserver::Fault::kNone);
        } else if (random_.Below(3) == 0) {
          metadata_->failures_left.store(1 + random_.Below(kMostMetadataFailures));
          metadata_->fault.store(kMetadataFaults[random_.Below(kMetadataFaults.size())]);
          metadata_faults_.fetch_add(1);
        }
        return;
      case Behaviour::kGoes:
        if (events_ == gone_at_) engine_->FailEverything(ENODEV);
        return;
    }
  }
  void Inject(std::span<const Injection> choices) QUIRE_REQUIRES(mutex_) {
    const Injection& chosen = choices[random_.Below(choices.size())];
    engine_->Inject(chosen.kind, chosen.fault, random_.Below(4));
  }

  const Behaviour behaviour_;
  FaultEngine* const engine_;
  kvserver::FaultSwitch* const metadata_;
  EventSink* const next_;
  std::atomic<uint64_t> metadata_faults_{0};
  Mutex mutex_;
  SeededRandom random_ QUIRE_GUARDED_BY(mutex_);
  uint64_t events_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t gone_at_ QUIRE_GUARDED_BY(mutex_) = 0;
};

/// Loads a store on a device with that behaviour, closes it, and compares the data once the device
/// works again. Adds the differences to `problems`.
StatusOr<FaultReport> RunOne(const std::string& directory, Behaviour behaviour, uint64_t seed,
                             std::vector<std::string>* problems) {
  const Corpus corpus({.seed = seed, .specs = SmallSpecs()});
  QUIRE_ASSIGN_OR_RETURN(const kvserver::EngineChoice device,
                         kvserver::ChooseEngine(kvserver::EngineKind::kAuto, {}));
  FaultEngine engine(device.engine.get());
  kvserver::FaultEnv metadata;
  HistorySink sink;
  Saboteur saboteur(behaviour, seed, &engine, &metadata.faults, &sink);
  {
    QUIRE_ASSIGN_OR_RETURN(
        const auto store,
        PageStoreImpl::Open(SmallStore(directory), {.env = metadata.env.get(), .engine = &engine}));
    QUIRE_ASSIGN_OR_RETURN(const TenantSalt salt, SaltOf(*store));
    Load load(store.get(), &corpus, salt, &saboteur,
              {.seed = seed,
               .steps = kStepsPerThread,
               .commits_run_out_of_space = behaviour == Behaviour::kMetadataFails});
    load.Run();
    metadata.faults.fault.store(kvserver::Fault::kNone);
  }
  QUIRE_ASSIGN_OR_RETURN(const auto store, PageStoreImpl::Open(SmallStore(directory), {}));
  History history = sink.Copy();
  QUIRE_RETURN_IF_ERROR(CompareAll(*store, corpus, &history));
  const History::Totals& totals = history.totals();
  const bool lied = behaviour == Behaviour::kLies;
  // A failed commit may be found in the log after its space was reused. The segment, never
  // acknowledged, is then refused. This is neither a wrong answer nor a loss.
  FaultReport report{.rounds = 1,
                     .faults_injected = engine.injected() + saboteur.metadata_faults(),
                     .refused = totals.refused,
                     .corrupt_served = totals.corrupt,
                     .appeared = lied ? 0 : totals.appeared,
                     .lost = lied ? 0 : totals.lost};
  if (!report.sound()) *problems = history.TakeProblems();
  return report;
}

}  // namespace

void FaultReport::Add(const FaultReport& other) {
  rounds += other.rounds;
  faults_injected += other.faults_injected;
  refused += other.refused;
  corrupt_served += other.corrupt_served;
  appeared += other.appeared;
  lost += other.lost;
}

StatusOr<FaultReport> RunDeviceFaults(const FaultOptions& options, const Progress& progress) {
  const std::string directory = options.directory + "/device";
  SeededRandom random(options.seed);
  FaultReport report;
  for (uint32_t round = 0; round < options.rounds; ++round) {
    const size_t behaviour = round % kBehaviours.size();
    std::vector<std::string> problems;
    const auto one = RunOne(directory, kBehaviours[behaviour], random.Next() >> 16, &problems);
    QUIRE_RETURN_IF_ERROR(
        Annotate(one.status(), "device round ", round, " of seed ", options.seed));
    for (const std::string& problem : problems) {
      *options.log << "device round " << round << " (the device " << kBehaviourNames[behaviour]
                   << "): " << problem << "\n";
    }
    report.Add(*one);
    std::error_code error;
    std::filesystem::remove_all(directory, error);
    if (error) return Unavailable("cannot remove ", directory, ": ", error.message());
    progress("device faults");
  }
  return report;
}

}  // namespace quire::torture
