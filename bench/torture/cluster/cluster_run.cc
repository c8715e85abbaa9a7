// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/cluster/cluster_run.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "bench/torture/cluster/fault_schedule.h"
#include "bench/torture/cluster/torture_cluster.h"
#include "common/base/random.h"
#include "quire/clock.h"

namespace quire::torture {
namespace {

using std::chrono::seconds;

double SecondsSince(TimePoint start) {
  return std::chrono::duration<double>(SystemClock().Now() - start).count();
}

class ClusterRun {
 public:
  ClusterRun(const ClusterRunOptions& options, const Progress& progress)
      : options_(options), progress_(progress), directory_(options.directory + "/cluster") {}

  StatusOr<ClusterRunReport> Run() {
    std::filesystem::create_directories(directory_);
    QUIRE_ASSIGN_OR_RETURN(cluster_, TortureCluster::Start({.directory = directory_,
                                                            .server = options_.server,
                                                            .nodes = options_.nodes,
                                                            .replicas = options_.replicas,
                                                            .network = options_.network,
                                                            .seed = options_.seed}));
    std::vector<std::string> servers = cluster_->addresses();
    for (uint32_t number = 0; number < options_.writers; ++number) {
      QUIRE_ASSIGN_OR_RETURN(writers_.emplace_back(),
                             DocumentWriter::Create(servers, number, options_.seed, &last_fault_));
    }
    QUIRE_RETURN_IF_ERROR(WorkDuringFaults());
    QUIRE_RETURN_IF_ERROR(Heal(&servers));
    QUIRE_ASSIGN_OR_RETURN(report_.look, LookAtCluster(writers_, servers, options_.replicas));
    for (const auto& writer : writers_) report_.totals.Add(writer->totals());
    report_.flipped_bits = cluster_->flipped_bits();
    cluster_.reset();
    RemoveRemains();
    return std::move(report_);
  }

 private:
  /// They lie in a directory of the caller's.
  void RemoveRemains() {
    std::error_code ignored;
    if (report_.sound()) std::filesystem::remove_all(directory_, ignored);
  }

  /// Writers work and end by themselves, also when a fault cannot be made.
  Status WorkDuringFaults() {
    start_ = SystemClock().Now();
    const TimePoint end = start_ + seconds(options_.seconds);
    std::vector<std::thread> threads;
    for (const auto& writer : writers_) {
      threads.emplace_back([&writer, end] { writer->Work(end); });
    }
    const Status status = MakeFaults();
    if (status.ok()) SleepUntil(end);
    for (std::thread& thread : threads) thread.join();
    report_.seconds = SecondsSince(start_);
    return status;
  }

  Status MakeFaults() {
    const auto kinds = options_.faults.empty() ? FaultsOn(options_.network) : options_.faults;
    const auto faults = ScheduleFaults({.seed = options_.seed,
                                        .run = seconds(options_.seconds),
                                        .nodes = options_.nodes,
                                        .kinds = kinds});
    for (const ScheduledFault& fault : faults) {
      SleepUntil(start_ + fault.start);
      last_fault_.Set(fault.kind);
      ++report_.faults[std::string(Name(fault.kind))];
      QUIRE_RETURN_IF_ERROR(cluster_->Begin(fault));
      SleepUntil(start_ + fault.start + fault.length);
      QUIRE_RETURN_IF_ERROR(cluster_->End(fault));
    }
    return OkStatus();
  }

  void SleepUntil(TimePoint time) {
    for (TimePoint now = SystemClock().Now(); now < time; now = SystemClock().Now()) {
      SystemClock().Sleep(std::min<Duration>(time - now, seconds(1)));
      for (; seconds_done_ < SecondsSince(start_) && seconds_done_ < options_.seconds;
           ++seconds_done_) {
        progress_(last_fault_.name());
      }
    }
  }

  /// Takes the address of a server that goes out of `servers`.
  Status Heal(std::vector<std::string>* servers) {
    const TimePoint start = SystemClock().Now();
    QUIRE_RETURN_IF_ERROR(cluster_->AwaitWhole());
    if (options_.lose_disk) {
      const auto node = static_cast<uint32_t>(SeededRandom(options_.seed).Below(options_.nodes));
      QUIRE_RETURN_IF_ERROR(cluster_->LoseDisk(node));
      servers->erase(servers->begin() + node);
      QUIRE_RETURN_IF_ERROR(cluster_->AwaitWhole());
    }
    report_.seconds_until_whole = SecondsSince(start);
    return OkStatus();
  }

  const ClusterRunOptions& options_;
  const Progress& progress_;
  const std::string directory_;
  LastFault last_fault_;
  std::unique_ptr<TortureCluster> cluster_;
  std::vector<std::unique_ptr<DocumentWriter>> writers_;
  TimePoint start_ = {};
  uint32_t seconds_done_ = 0;
  ClusterRunReport report_;
};

}  // namespace

StatusOr<ClusterRunReport> RunClusterFaults(const ClusterRunOptions& options,
                                            const Progress& progress) {
  return ClusterRun(options, progress).Run();
}

}  // namespace quire::torture
