// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/load_run.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>

#include "bench/torture/child.h"
#include "client/client.h"
#include "client/connect.h"
#include "common/base/clock.h"

namespace quire::torture {
namespace {

constexpr std::string_view kListening = "quired listening on ";
constexpr Duration kMostUntilEmpty = std::chrono::seconds(60);

double SecondsSince(TimePoint start) {
  return std::chrono::duration<double>(SystemClock().Now() - start).count();
}

StatusOr<std::unique_ptr<Client>> Connect(const std::string& address) {
  QUIRE_ASSIGN_OR_RETURN(auto transport, ConnectGrpc(address));
  return Client::Create({.transport = std::move(transport)});
}

StatusOr<uint64_t> StoredBytes(Client& client) {
  QUIRE_ASSIGN_OR_RETURN(const ServerStats stats, client.Stats());
  for (const auto& [name, value] : stats.counters) {
    if (name == "ssd_bytes_used") return value;
  }
  return Internal("the server does not count ssd_bytes_used");
}

/// One client and the thread that it runs on.
struct Driver {
  std::unique_ptr<Client> client;
  std::unique_ptr<LoadClient> load;
};

class LoadRun {
 public:
  LoadRun(const LoadOptions& options, const Progress& progress)
      : options_(options), progress_(progress), directory_(options.directory + "/load") {}

  StatusOr<LoadReport> Run() {
    QUIRE_ASSIGN_OR_RETURN(const std::string address, StartServer());
    std::vector<Driver> drivers;
    for (uint32_t number = 0; number < options_.clients; ++number) {
      QUIRE_ASSIGN_OR_RETURN(auto client, Connect(address));
      auto load = std::make_unique<LoadClient>(client.get(), number, options_.seed);
      drivers.push_back({std::move(client), std::move(load)});
    }
    LoadReport report;
    const TimePoint start = SystemClock().Now();
    Drive(drivers);
    report.seconds = SecondsSince(start);
    for (const Driver& driver : drivers) report.totals.Add(driver.load->totals());
    QUIRE_RETURN_IF_ERROR(AwaitEmpty(*drivers.front().client, &report));
    drivers.clear();
    server_.reset();
    std::error_code ignored;  // What stays behind is in a directory of the caller's.
    std::filesystem::remove_all(directory_, ignored);
    return report;
  }

 private:
  /// The address that it listens on.
  StatusOr<std::string> StartServer() {
    std::vector<std::string> command = options_.command;
    for (const std::string& argument : std::vector<std::string>{
             "--data-dir", directory_, "--listen", "127.0.0.1:0", "--dram-bytes", "16MiB"}) {
      command.push_back(argument);
    }
    QUIRE_ASSIGN_OR_RETURN(server_, Child::Start(command));
    std::string line;
    if (server_->ReadLine(&line) && line.starts_with(kListening)) {
      return line.substr(kListening.size());
    }
    return Unavailable("the server did not start, it said: ", line);
  }

  /// Runs the load until its time is over, and deletes what it has left.
  void Drive(std::vector<Driver>& drivers) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (Driver& driver : drivers) {
      threads.emplace_back([&stop, load = driver.load.get()] {
        while (!stop.load(std::memory_order_relaxed)) load->Step();
        load->DeleteAll();
      });
    }
    for (uint32_t second = 0; second < options_.seconds; ++second) {
      SystemClock().Sleep(std::chrono::seconds(1));
      progress_("load");
    }
    stop.store(true);
    for (std::thread& thread : threads) thread.join();
  }

  static Status AwaitEmpty(Client& client, LoadReport* report) {
    const TimePoint start = SystemClock().Now();
    for (;;) {
      QUIRE_ASSIGN_OR_RETURN(report->bytes_left, StoredBytes(client));
      report->seconds_until_empty = SecondsSince(start);
      if (report->bytes_left == 0) return OkStatus();
      if (SystemClock().Now() - start > kMostUntilEmpty) return OkStatus();
      SystemClock().Sleep(std::chrono::milliseconds(200));
    }
  }

  const LoadOptions& options_;
  const Progress& progress_;
  const std::string directory_;
  std::unique_ptr<Child> server_;
};

}  // namespace

StatusOr<LoadReport> RunLoad(const LoadOptions& options, const Progress& progress) {
  return LoadRun(options, progress).Run();
}

}  // namespace quire::torture
