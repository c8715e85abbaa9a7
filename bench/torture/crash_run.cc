// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/crash_run.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include "bench/torture/child.h"
#include "bench/torture/crash_child.h"
#include "bench/torture/server/server_load.h"
#include "bench/torture/server/server_look.h"
#include "bench/torture/store/store_look.h"
#include "common/base/observe/metrics.h"
#include "common/base/random.h"
#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/store/repair/fsck.h"

namespace quire::torture {
namespace {

using kvserver::PageStoreImpl;

constexpr const char* kRandomMoment = "random_moment";
constexpr double kGib = 1 << 30;

/// A kind of round, and the most passes of its point before the kill. Volumes are made only at the
/// beginning of a store's life, so the first round starts a new store.
struct Turn {
  const char* kill_point;
  uint64_t most_skipped;
};
constexpr uint64_t kFewerSkips = 8;
constexpr std::array<Turn, 8> kTurns = {{
    {"volume_made", 4},
    {"", 0},
    {"data_written", 200},
    {"before_commit", 200},
    {"committed", 200},
    {"releasing", 200},
    {"", 0},
    {"recovering", 200},
}};

class CrashRun {
 public:
  CrashRun(const CrashOptions& options, const Progress& progress)
      : options_(options),
        progress_(progress),
        directory_(options.directory + "/crash"),
        corpus_({.seed = options.seed, .specs = SmallSpecs()}),
        documents_(CorpusOfDocuments(options.seed)),
        random_(options.seed) {}

  StatusOr<CrashReport> Run() {
    QUIRE_RETURN_IF_ERROR(StartAfresh());
    for (uint32_t round = 0; round < options_.rounds; ++round) {
      QUIRE_RETURN_IF_ERROR(Annotate(Round(round), "round ", round, " of seed ", options_.seed));
      ++report_.rounds;
    }
    if (options_.recovery_bytes > 0) QUIRE_RETURN_IF_ERROR(TimeRecovery());
    report_.totals = history_.totals();
    report_.document_totals = server_history_.totals();
    std::error_code ignored;  // Remains lie in a directory of the caller's.
    std::filesystem::remove_all(directory_, ignored);
    return report_;
  }

 private:
  Status StartAfresh() {
    std::error_code error;
    std::filesystem::remove_all(directory_, error);
    if (error) return Unavailable("cannot remove ", directory_, ": ", error.message());
    history_.ForgetStates();
    server_history_.StartAfresh(
        {.keeps_everything = true, .evicts = HasLimit(), .segments = documents_.segments()});
    return OkStatus();
  }

  /// A store lives for one run of turns.
  bool HasDocuments() const { return stores_ % 2 == 0; }
  bool HasLimit() const { return stores_ % 4 == 2; }

  Status Round(uint32_t round) {
    const Turn& turn = kTurns[round % kTurns.size()];
    if (round > 0 && &turn == &kTurns.front()) {
      ++stores_;
      QUIRE_RETURN_IF_ERROR(StartAfresh());
    }
    CrashChildOptions child;
    child.directory = directory_;
    child.corpus_seed = options_.seed;
    child.load_seed = random_.Next() >> 16;
    child.kill_point = turn.kill_point;
    child.has_documents = HasDocuments();
    child.has_limit = HasLimit();
    child.unix_micros = clock_.UnixMicros();
    if (turn.most_skipped > 0) {
      // Operations pass a kill point less often with documents.
      child.kill_skip = random_.Below(turn.most_skipped) / (HasDocuments() ? kFewerSkips : 1);
    }
    const uint64_t limit =
        child.kill_point.empty() ? 1 + random_.Below(options_.events) : options_.events;
    QUIRE_ASSIGN_OR_RETURN(
        const bool by_us,
        HasDocuments()
            ? RunChild<ServerEvent>(child, limit,
                                    [this](const ServerEvent& e) { server_history_.Apply(e); })
            : RunChild<Event>(child, limit, [this](const Event& e) { history_.Apply(e); }));
    QUIRE_RETURN_IF_ERROR(CheckFiles());
    ++report_.killed_at[by_us ? kRandomMoment : turn.kill_point];
    const bool is_last = &turn == &kTurns.back() || round + 1 == options_.rounds;
    QUIRE_RETURN_IF_ERROR(HasDocuments() ? ReopenServer(is_last) : Reopen());
    for (const std::string& problem : history_.TakeProblems()) Tell(problem);
    for (const std::string& problem : server_history_.TakeProblems()) Tell(problem);
    progress_(by_us ? kRandomMoment : turn.kill_point);
    return OkStatus();
  }

  void Tell(const std::string& problem) {
    *options_.log << "crash round " << report_.rounds << ": " << problem << "\n";
  }
  void TellOfSpace(const std::vector<std::string>& problems) {
    for (const std::string& problem : problems) Tell(problem);
    report_.space_problems += problems.size();
  }

  /// Runs a child until it has died. Kills it after `limit` events, and then returns true.
  template <typename AnyEvent, typename Apply>
  StatusOr<bool> RunChild(const CrashChildOptions& options, uint64_t limit, const Apply& apply) {
    std::vector<std::string> command = options_.command;
    std::ranges::copy(options.ToArguments(), std::back_inserter(command));
    QUIRE_ASSIGN_OR_RETURN(const auto child, Child::Start(command));
    uint64_t events = 0;
    for (AnyEvent event; child->Read(&event);) {
      apply(event);
      if (++events == limit) child->Kill();
    }
    QUIRE_RETURN_IF_ERROR(child->AwaitKilled());
    return events >= limit;
  }

  Status CheckFiles() {
    // A server that died while it created its directory left no store.
    if (!std::filesystem::exists(directory_ + "/FORMAT")) return OkStatus();
    QUIRE_ASSIGN_OR_RETURN(const kvserver::FsckReport checked, kvserver::Fsck(directory_, {}));
    for (const kvserver::FsckProblem& problem : checked.problems) Tell(problem.what);
    report_.fsck_problems += checked.problem_count;
    return OkStatus();
  }

  Status Reopen() {
    const TimePoint start = SystemClock().Now();
    QUIRE_ASSIGN_OR_RETURN(const auto store, PageStoreImpl::Open(SmallStore(directory_), {}));
    report_.slowest_reopen = std::max(report_.slowest_reopen, SystemClock().Now() - start);
    return CompareAll(*store, corpus_, &history_);
  }

  /// The same with documents. Empties the last store of its turns.
  Status ReopenServer(bool is_last) {
    clock_.MoveTo(server_history_.now_micros());
    SpaceAccount account;
    {
      const TimePoint start = SystemClock().Now();
      QUIRE_ASSIGN_OR_RETURN(
          TorturedServer server,
          TorturedServer::Open(StoreWithDocuments(directory_, HasLimit()), {}, &clock_));
      report_.slowest_reopen = std::max(report_.slowest_reopen, SystemClock().Now() - start);
      QUIRE_RETURN_IF_ERROR(CompareServer(server, documents_, &server_history_));
      if (is_last) {
        QUIRE_ASSIGN_OR_RETURN(const auto left, EmptyServer(server, documents_));
        TellOfSpace(left);
      }
      account = AccountOf(server);
    }
    QUIRE_ASSIGN_OR_RETURN(const kvserver::FsckReport checked,
                           kvserver::Fsck(directory_, {.reference = kvserver::SegmentOfReference}));
    TellOfSpace(ProblemsOfSpace(account, checked));
    return OkStatus();
  }

  Status TimeRecovery() {
    QUIRE_RETURN_IF_ERROR(StartAfresh());
    CrashChildOptions child;
    child.directory = directory_;
    child.fill_bytes = options_.recovery_bytes;
    const Corpus corpus = FillCorpus(child.fill_bytes);
    const uint64_t events = uint64_t{2} * corpus.chains() * corpus.segments();
    QUIRE_RETURN_IF_ERROR(RunChild<Event>(child, events, [](const Event&) {}).status());
    kvserver::PageStore::Options options = SmallStore(directory_);
    options.ssd_bytes = 0;
    const TimePoint start = SystemClock().Now();
    QUIRE_ASSIGN_OR_RETURN(const auto store, PageStoreImpl::Open(options, {}));
    report_.recovery = SystemClock().Now() - start;
    report_.recovered_bytes = MetricValuesOf(*store).at("ssd_bytes_used");
    progress_("recovery");
    return OkStatus();
  }

  const CrashOptions& options_;
  const Progress& progress_;
  const std::string directory_;
  const Corpus corpus_;     ///< Corpus of puts alone.
  const Corpus documents_;  ///< Corpus of rounds with documents.
  SeededRandom random_;
  uint32_t stores_ = 0;  ///< Runs of turns before this one.
  HandClock clock_;
  History history_;
  ServerHistory server_history_;
  CrashReport report_;
};

}  // namespace

double CrashReport::recovery_seconds_per_gib() const {
  if (recovered_bytes == 0) return 0;
  const double seconds = std::chrono::duration<double>(recovery).count();
  return seconds / (static_cast<double>(recovered_bytes) / kGib);
}

StatusOr<CrashReport> RunCrashes(const CrashOptions& options, const Progress& progress) {
  return CrashRun(options, progress).Run();
}

}  // namespace quire::torture
