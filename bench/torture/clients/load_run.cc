// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/clients/load_run.h"

#include <array>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

#include "bench/torture/child.h"
#include "bench/torture/clients/load_child.h"
#include "kvserver/store/repair/fsck.h"
#include "quire/client.h"
#include "quire/clock.h"
#include "quire/connect.h"

namespace quire::torture {
namespace {

constexpr std::string_view kListening = "quired listening on ";
/// Counters of an empty server that are 0: named or cached payload, its pages in the volumes and in
/// DRAM, and pages of open contexts.
constexpr std::array<std::string_view, 5> kLeftovers = {"contexts_open_bytes", "dram_bytes_payload",
                                                        "payload_used_bytes", "ssd_bytes_cached",
                                                        "ssd_bytes_used"};

double SecondsSince(TimePoint start) {
  return std::chrono::duration<double>(SystemClock().Now() - start).count();
}

StatusOr<std::map<std::string, uint64_t>> CountersOf(Client& client) {
  QUIRE_ASSIGN_OR_RETURN(const ServerStats stats, client.Stats());
  std::map<std::string, uint64_t> counters(stats.counters.begin(), stats.counters.end());
  for (const std::string_view name : kLeftovers) {
    if (!counters.contains(std::string(name))) {
      return Internal("the server does not count ", name);
    }
  }
  return counters;
}

class LoadRun {
 public:
  LoadRun(const LoadOptions& options, const Progress& progress)
      : options_(options), progress_(progress), directory_(options.directory + "/load") {}

  StatusOr<LoadReport> Run() {
    QUIRE_RETURN_IF_ERROR(StartServer());
    LoadReport report;
    const TimePoint start = SystemClock().Now();
    QUIRE_RETURN_IF_ERROR(RunClients(&report.totals));
    report.seconds = SecondsSince(start);
    QUIRE_RETURN_IF_ERROR(AwaitEmpty(&report));
    server_.reset();  // Kills it: its data must be sound at any moment.
    QUIRE_ASSIGN_OR_RETURN(const kvserver::FsckReport checked, kvserver::Fsck(directory_, {}));
    report.fsck_problems = checked.problem_count;
    report.fsck_segments = checked.segments;
    std::error_code ignored;  // Remains lie in a directory of the caller's.
    std::filesystem::remove_all(directory_, ignored);
    return report;
  }

 private:
  Status StartServer() {
    std::vector<std::string> command = options_.command;
    for (const std::string& argument : std::vector<std::string>{
             "--data-dir", directory_, "--listen", "127.0.0.1:0", "--dram-bytes", "16MiB"}) {
      command.push_back(argument);
    }
    QUIRE_ASSIGN_OR_RETURN(server_, Child::Start(command));
    std::string line;
    if (server_->ReadLine(&line) && line.starts_with(kListening)) {
      address_ = line.substr(kListening.size());
      return OkStatus();
    }
    return Unavailable("the server did not start, it said: ", line);
  }

  StatusOr<std::unique_ptr<Child>> StartClient(uint32_t number) const {
    std::vector<std::string> command = options_.client_command;
    const LoadChildOptions child{
        .address = address_, .number = number, .seed = options_.seed, .seconds = options_.seconds};
    for (std::string& argument : child.ToArguments()) command.push_back(std::move(argument));
    return Child::Start(command);
  }

  /// Runs the clients until their time is over and their documents are deleted.
  Status RunClients(LoadTotals* totals) {
    std::vector<std::unique_ptr<Child>> clients;
    for (uint32_t number = 0; number < options_.clients; ++number) {
      QUIRE_ASSIGN_OR_RETURN(clients.emplace_back(), StartClient(number));
    }
    for (uint32_t second = 0; second < options_.seconds; ++second) {
      SystemClock().Sleep(std::chrono::seconds(1));
      progress_("load");
    }
    for (const auto& client : clients) {
      std::string line;
      (void)client->ReadLine(&line);  // Empty if it died.
      QUIRE_ASSIGN_OR_RETURN(const LoadTotals its, ParseLoadTotals(line));
      totals->Add(its);
    }
    return OkStatus();
  }

  Status AwaitEmpty(LoadReport* report) const {
    QUIRE_ASSIGN_OR_RETURN(auto transport, ConnectGrpc(address_));
    QUIRE_ASSIGN_OR_RETURN(const auto client, Client::Create({.transport = std::move(transport)}));
    const TimePoint start = SystemClock().Now();
    for (;;) {
      QUIRE_ASSIGN_OR_RETURN(auto counters, CountersOf(*client));
      for (const std::string_view name : kLeftovers) {
        report->left[std::string(name)] = counters[std::string(name)];
      }
      report->puts_differed = counters["puts_differed"];
      report->seconds_until_empty = SecondsSince(start);
      if (report->bytes_left() == 0) return OkStatus();
      if (report->seconds_until_empty > LoadReport::kMostSecondsUntilEmpty) return OkStatus();
      SystemClock().Sleep(std::chrono::milliseconds(200));
    }
  }

  const LoadOptions& options_;
  const Progress& progress_;
  const std::string directory_;
  std::unique_ptr<Child> server_;
  std::string address_;
};

}  // namespace

uint64_t LoadReport::bytes_left() const {
  uint64_t bytes = 0;
  for (const auto& [name, value] : left) bytes += value;
  return bytes;
}

StatusOr<LoadReport> RunLoad(const LoadOptions& options, const Progress& progress) {
  return LoadRun(options, progress).Run();
}

}  // namespace quire::torture
