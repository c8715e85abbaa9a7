// SPDX-License-Identifier: Apache-2.0
//
// Registry: many small documents registered, looked up, listed and filtered over gRPC on this
// machine, and ingests beside each other. The limit of a look-up is an empty call over the same
// connection. The limit of a registration is an append and sync of a small file.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/kit/data_dir.h"
#include "apps/kit/output/progress.h"
#include "bench/benchmark.h"
#include "bench/kit/gqa_spec.h"
#include "common/base/random.h"
#include "kvserver/embedded/embedded_store.h"
#include "quire/client.h"
#include "quire/connect.h"
#include "quire/layout.h"
#include "transport/transport.h"

namespace quire::bench {
namespace {

struct RegistryBenchOptions {
  std::string data_dir;
  uint32_t documents = 100'000;
  uint32_t lookups = 20'000;
  uint32_t writers = 16;
  uint32_t ingests = 50;
  uint32_t texts = 1000;  ///< Distinct contents, which the documents share.
};

constexpr uint32_t kTeams = 10;
constexpr uint32_t kSyncs = 200;
constexpr char kBenchCollection[] = "bench";

/// Units of 128 bytes: what a document costs beside its pages.
KvSpec SmallDocumentSpec() {
  KvSpec spec =
      GqaSpec("registry-bench", {.layers = 2, .query_heads = 4, .kv_heads = 2, .head_dim = 8});
  spec.page_tokens = 4;
  spec.segment_pages = 2;
  return spec;
}

double Millis(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

/// Latencies of one kind of call.
class Latencies {
 public:
  template <typename Call>
  Status Time(const Call& call) {
    const TimePoint start = SystemClock().Now();
    QUIRE_RETURN_IF_ERROR(call());
    millis_.push_back(Millis(SystemClock().Now() - start));
    return OkStatus();
  }
  double Quantile(double share) {
    if (millis_.empty()) return 0;
    std::ranges::sort(millis_);
    const auto index = static_cast<size_t>(share * static_cast<double>(millis_.size()));
    return millis_[std::min(index, millis_.size() - 1)];
  }

 private:
  std::vector<double> millis_;
};

struct RegistryFigures {
  double register_seconds = 0;
  double sync_ms = 0;
  Latencies lookups, empty_calls, filters;
  double list_seconds = 0, filter_seconds = 0;
  uint64_t listed = 0, filtered = 0;
  double ingest_seconds = 0;
};

class RegistryBench {
 public:
  RegistryBench(const RegistryBenchOptions& options, Client* client, Transport* transport)
      : options_(options), client_(client), transport_(transport) {}

  StatusOr<RegistryFigures> Run() {
    RegistryFigures figures;
    QUIRE_RETURN_IF_ERROR(PutTexts());
    QUIRE_RETURN_IF_ERROR(RegisterAll(&figures));
    QUIRE_RETURN_IF_ERROR(LookUp(&figures));
    QUIRE_RETURN_IF_ERROR(List(&figures));
    QUIRE_RETURN_IF_ERROR(IngestAll(&figures));
    return figures;
  }

 private:
  static DocumentName NameOf(uint64_t index) {
    return {kBenchCollection, "document-" + std::to_string(index), 0};
  }

  StatusOr<SegmentKey> PutText(uint64_t seed) {
    SeededRandom random(seed);
    std::vector<TokenId> tokens(spec_.segment_tokens());
    for (TokenId& token : tokens) token = static_cast<TokenId>(random.Below(32000));
    Payload payload;
    payload.Append(std::vector<std::byte>(SegmentBytes(spec_, spec_.segment_pages)));
    return client_->PutSegment(spec_, kRootKey, tokens, payload, PutDurability::kMemory);
  }

  Status PutTexts() {
    tips_.resize(std::max(options_.texts, 1u));
    for (size_t i = 0; i < tips_.size(); ++i) {
      QUIRE_ASSIGN_OR_RETURN(tips_[i], PutText(i));
    }
    return OkStatus();
  }

  /// Runs `work(index)` for every index by several threads. Returns the first error.
  template <typename Work>
  static Status InParallel(uint32_t threads, uint64_t count, const Work& work) {
    std::atomic<uint64_t> next{0};
    std::vector<Status> ends(threads);
    std::vector<std::thread> running;
    for (uint32_t t = 0; t < threads; ++t) {
      running.emplace_back([&, t] {
        for (uint64_t i = next++; i < count && ends[t].ok(); i = next++) ends[t] = work(i);
      });
    }
    for (std::thread& thread : running) thread.join();
    Status first;
    for (const Status& end : ends) first.Update(end);
    return first;
  }

  Status RegisterAll(RegistryFigures* figures) {
    cli::ProgressBar progress("registering", options_.documents);
    const TimePoint start = SystemClock().Now();
    QUIRE_RETURN_IF_ERROR(InParallel(options_.writers, options_.documents, [&](uint64_t i) {
      const RegisterOptions said{.source = "/bench/" + std::to_string(i),
                                 .tags = {{"team", "team-" + std::to_string(i % kTeams)},
                                          {"number", static_cast<int64_t>(i)}}};
      const Status done =
          client_->RegisterDocument(NameOf(i), tips_[i % tips_.size()], said).status();
      progress.Advance(1);
      return done;
    }));
    figures->register_seconds = Millis(SystemClock().Now() - start) / 1e3;
    return OkStatus();
  }

  Status LookUp(RegistryFigures* figures) {
    SeededRandom random(1);
    for (uint32_t i = 0; i < options_.lookups; ++i) {
      const DocumentName name = NameOf(random.Below(options_.documents));
      QUIRE_RETURN_IF_ERROR(
          figures->lookups.Time([&] { return client_->GetDocument(name).status(); }));
      QUIRE_RETURN_IF_ERROR(figures->empty_calls.Time([&] {
        CallMessage reply;
        return transport_->Call("quire.v1.Leases/Renew", {}, &reply, {});
      }));
    }
    return OkStatus();
  }

  StatusOr<uint64_t> CountAll(ListOptions options) {
    uint64_t count = 0;
    do {
      QUIRE_ASSIGN_OR_RETURN(DocumentPage page, client_->ListDocuments(options));
      count += page.documents.size();
      options.page_token = std::move(page.next_page_token);
    } while (!options.page_token.empty());
    return count;
  }

  Status List(RegistryFigures* figures) {
    TimePoint start = SystemClock().Now();
    QUIRE_ASSIGN_OR_RETURN(figures->listed, CountAll({.page_size = 1000}));
    figures->list_seconds = Millis(SystemClock().Now() - start) / 1e3;
    start = SystemClock().Now();
    QUIRE_ASSIGN_OR_RETURN(
        figures->filtered,
        CountAll({.filter = "team=team-3 and number<" + std::to_string(options_.documents / 2),
                  .page_size = 1000}));
    figures->filter_seconds = Millis(SystemClock().Now() - start) / 1e3;
    return OkStatus();
  }

  /// Every ingest runs in a thread of its own, beside all others.
  Status IngestAll(RegistryFigures* figures) {
    const TimePoint start = SystemClock().Now();
    QUIRE_RETURN_IF_ERROR(
        InParallel(std::max(options_.ingests, 1u), options_.ingests, [&](uint64_t i) -> Status {
          const DocumentName name = {kBenchCollection, "ingest-" + std::to_string(i), 0};
          QUIRE_ASSIGN_OR_RETURN(const Ingest ingest, client_->BeginIngest(name));
          QUIRE_ASSIGN_OR_RETURN(const SegmentKey tip, PutText(1'000'000 + i));
          return client_
              ->RegisterDocument(ingest.document.name, tip, RegisterOptions{.ingest_id = ingest.id})
              .status();
        }));
    figures->ingest_seconds = Millis(SystemClock().Now() - start) / 1e3;
    return OkStatus();
  }

  const RegistryBenchOptions options_;
  Client* const client_;
  Transport* const transport_;
  const KvSpec spec_ = SmallDocumentSpec();
  std::vector<SegmentKey> tips_;
};

/// Mean time of an append of 256 bytes and its sync.
StatusOr<double> MeasureSync(const std::string& directory) {
  const std::string path = directory + "/sync";
  const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) return Unavailable("cannot write ", path, "; choose another --data-dir");
  const std::string bytes(256, 'x');
  const TimePoint start = SystemClock().Now();
  bool ok = true;
  for (uint32_t i = 0; i < kSyncs && ok; ++i) {
    ok = write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) &&
         fdatasync(file) == 0;
  }
  const double millis = Millis(SystemClock().Now() - start) / kSyncs;
  close(file);
  (void)unlink(path.c_str());
  if (!ok) return Unavailable("cannot write ", path, "; choose another --data-dir");
  return millis;
}

BenchReport ReportOf(const RegistryBenchOptions& options, RegistryFigures figures) {
  const double per_second = options.documents / std::max(figures.register_seconds, 1e-9);
  const double lookup_p99 = figures.lookups.Quantile(0.99);
  const double empty_p99 = figures.empty_calls.Quantile(0.99);
  BenchReport report{.json = {{"benchmark", "registry"}},
                     .table = cli::Table({{"WHAT"}, {"FIGURE", cli::Table::kRight}})};
  report.json["lookup_vs_empty_call_p99"] = lookup_p99 / std::max(empty_p99, 1e-9);
  report.json["register_vs_sync"] = per_second * figures.sync_ms / 1e3;
  report.json["lookup_p50_ms"] = figures.lookups.Quantile(0.5);
  report.json["lookup_p99_ms"] = lookup_p99;
  report.json["empty_call_p50_ms"] = figures.empty_calls.Quantile(0.5);
  report.json["empty_call_p99_ms"] = empty_p99;
  report.json["registered_per_second"] = per_second;
  report.json["sync_ms"] = figures.sync_ms;
  report.json["list_s"] = figures.list_seconds;
  report.json["listed"] = figures.listed;
  report.json["filter_s"] = figures.filter_seconds;
  report.json["filtered"] = figures.filtered;
  report.json["ingests_s"] = figures.ingest_seconds;
  report.json["ingests"] = options.ingests;
  report.json["documents"] = options.documents;
  report.json["lookups"] = options.lookups;
  report.json["writers"] = options.writers;
  report.json["texts"] = options.texts;
  report.json["machine"] = Machine();
  report.table.AddRow({"registrations a second", cli::FormatRatio(per_second, 0)});
  report.table.AddRow({"look-up p99, ms", cli::FormatRatio(lookup_p99)});
  report.table.AddRow({"empty call p99, ms", cli::FormatRatio(empty_p99)});
  report.table.AddRow({"all listed, s", cli::FormatRatio(figures.list_seconds)});
  report.table.AddRow({"filtered, s", cli::FormatRatio(figures.filter_seconds)});
  report.table.AddRow({"concurrent ingests, s", cli::FormatRatio(figures.ingest_seconds)});
  return report;
}

StatusOr<BenchReport> RunRegistry(const RegistryBenchOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const auto directory, cli::DataDir::Make(options.data_dir));
  QUIRE_ASSIGN_OR_RETURN(const double sync_ms, MeasureSync(directory->path()));
  QUIRE_ASSIGN_OR_RETURN(
      const auto store,
      EmbeddedStore::Open({.data_dir = directory->path() + "/store", .dram_bytes = 256u << 20}));
  QUIRE_RETURN_IF_ERROR(store->Listen({}));
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<Transport> grpc, ConnectGrpc(store->address()));
  QUIRE_ASSIGN_OR_RETURN(const auto client, Client::Create({.transport = grpc}));
  QUIRE_ASSIGN_OR_RETURN(RegistryFigures figures,
                         RegistryBench(options, client.get(), grpc.get()).Run());
  figures.sync_ms = sync_ms;
  if (figures.listed != options.documents) {
    return Internal("the listing has ", figures.listed, " documents of ", options.documents);
  }
  return ReportOf(options, std::move(figures));
}

}  // namespace

void AddRegistryBench(Benches& benches) {
  const auto options = std::make_shared<RegistryBenchOptions>();
  CLI::App& command =
      benches.Add({.name = "registry",
                   .summary = "Many small documents: registered, looked up, listed and filtered",
                   .examples = "  quire bench registry --json\n"
                               "  quire bench registry --documents 1000 --data-dir /dev/shm/bench"},
                  [options](const cli::CommandContext&) { return RunRegistry(*options); });
  const auto number = [&](const char* name, uint32_t& value, const char* help) {
    command.add_option(name, value, help)
        ->check(CLI::Range(1u, 10'000'000u))
        ->capture_default_str();
  };
  number("--documents", options->documents, "Documents to register");
  number("--lookups", options->lookups, "Look-ups, each beside an empty call");
  number("--writers", options->writers, "Registrations at a time");
  number("--ingests", options->ingests, "Ingests at a time");
  number("--texts", options->texts, "Distinct contents, which the documents share");
  cli::AddDataDirOption(command, &options->data_dir);
}

}  // namespace quire::bench
