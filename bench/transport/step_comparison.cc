// SPDX-License-Identifier: Apache-2.0
#include "bench/transport/step_comparison.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <filesystem>
#include <latch>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>

#include "apps/kit/output/progress.h"
#include "bench/kit/side_by_side.h"
#include "bench/transport/rivals.h"
#include "bench/transport/serve_process.h"
#include "bench/transport/step_recalls.h"
#include "common/base/random.h"

namespace quire::bench {
namespace {

/// Has twice as many pages as the largest recall.
constexpr uint64_t kLeastDocumentBytes = uint64_t{64} << 20;
/// Larger than the last level cache of most processors; rounds of half a document need more.
constexpr uint64_t kMostDocumentBytes = uint64_t{256} << 20;
constexpr uint64_t kTenantDocumentBytes = kLeastDocumentBytes;
constexpr uint64_t kServerRoomBytes = uint64_t{256} << 20;
constexpr uint32_t kBlocks = 10;  ///< Blocks that a contender's recalls are divided into.

/// A default path of recalls, on one host or between two.
struct Path {
  const char* name;
  const char* transport;
};
constexpr Path kPaths[] = {{"shm", "shm"}, {"ucx_tcp", "ucx"}, {"grpc", "grpc"}};

StatusOr<std::unique_ptr<ServeProcess>> StartServer(const std::string& directory,
                                                    uint64_t document_bytes,
                                                    const std::string& tenants = "default") {
  std::filesystem::create_directories(directory);
  return ServeProcess::Start(directory,
                             {"--dram-bytes", std::to_string(document_bytes + kServerRoomBytes),
                              "--dram-prefault", "--tenants", tenants});
}

/// Contenders of one size of recalls, all of which read a document of the same size.
class StepComparison {
 public:
  explicit StepComparison(const TransportBenchOptions& options)
      : options_(options),
        document_bytes_(
            std::clamp(options.document_bytes, kLeastDocumentBytes, kMostDocumentBytes)),
        shape_(ShapeOf(kStepUnitBytes, document_bytes_)) {}

  /// Starts servers and rivals that are wanted and available.
  Status Start() {
    QUIRE_ASSIGN_OR_RETURN(server_, StartServer(Directory("steps"), document_bytes_));
    QUIRE_ASSIGN_OR_RETURN(const auto client, Client::Create({.transport = server_->control()}));
    QUIRE_ASSIGN_OR_RETURN(document_, PutDocument(*client, shape_));
    for (const Path& path : kPaths) {
      if (!options_.Wants(path.name)) continue;
      std::string detail;
      auto connected = server_->Connect(path.transport, &detail);
      if (connected.ok()) {
        clients_[path.name] = *std::move(connected);
      } else {
        absent_[path.name] = std::string(Message(connected.status()));
      }
    }
    StartRivals();
    return OkStatus();
  }

  StatusOr<StepFigures> Compare(uint32_t units) {
    StepFigures figures{.units = units, .absent = absent_};
    std::vector<std::unique_ptr<StepRecalls>> recalls;
    std::vector<SideBySide::Contender> contenders;
    const auto add = [&](const std::string& name, const std::function<StatusOr<Duration>()>& one) {
      if (!options_.Wants(name)) return;
      contenders.push_back({.turn = [this, times = &figures.times[name], one, name] {
        return Annotate(RunBlock(one, times), name);
      }});
    };
    for (const auto& [name, client] : clients_) {
      QUIRE_ASSIGN_OR_RETURN(recalls.emplace_back(),
                             StepRecalls::Open(client.get(), document_, shape_, units));
      add(name, [step = recalls.back().get()]() -> StatusOr<Duration> {
        step->Prepare();
        return Timed([step] { return step->Run(); });
      });
    }
    AddRedis(units, add);
    if (mooncake_ != nullptr) {
      contenders.push_back({.turn = [this, units, times = &figures.times["mooncake_tcp"]] {
        return ReadMooncake(units, times);
      }});
    }
    cli::ProgressBar progress("recalls of " + std::to_string(units) + " units", kBlocks);
    SideBySide side_by_side(std::move(contenders));
    for (uint32_t block = 0; block < kBlocks; ++block) {
      QUIRE_RETURN_IF_ERROR(side_by_side.Run(1));
      progress.Advance();
    }
    for (const auto& step : recalls) QUIRE_RETURN_IF_ERROR(step->Check());
    return figures;
  }

 private:
  std::string Directory(const std::string& name) const {
    std::string path = options_.directory + "/" + name;
    std::filesystem::create_directories(path);
    return path;
  }

  uint32_t BlockRecalls() const { return std::max(1u, options_.step_recalls / kBlocks); }

  static StatusOr<Duration> Timed(const std::function<Status()>& work) {
    const TimePoint start = SystemClock().Now();
    QUIRE_RETURN_IF_ERROR(work());
    return SystemClock().Now() - start;
  }

  /// Excludes the first recall, which is affected by the previous contender.
  Status RunBlock(const std::function<StatusOr<Duration>()>& one, std::vector<Duration>* times) {
    QUIRE_RETURN_IF_ERROR(one().status());
    for (uint32_t i = 0; i < BlockRecalls(); ++i) {
      QUIRE_ASSIGN_OR_RETURN(const Duration took, one());
      times->push_back(took);
    }
    return OkStatus();
  }
  Status ReadMooncake(uint32_t units, std::vector<Duration>* times) {
    QUIRE_ASSIGN_OR_RETURN(const auto took, mooncake_->Read(units, BlockRecalls() + 1));
    times->insert(times->end(), took.begin() + 1, took.end());
    return OkStatus();
  }

  uint64_t NumUnits() const { return 2 * shape_.units_per_round(); }

  void StartRivals() {
    if (options_.Wants("redis_unix") || options_.Wants("redis_tcp")) {
      auto redis = Redis::Start(Directory("redis"), kStepUnitBytes, NumUnits());
      if (redis.ok()) {
        redis_ = *std::move(redis);
      } else {
        absent_["redis"] = std::string(Message(redis.status()));
      }
    }
    if (options_.mooncake_environment.empty() || !options_.Wants("mooncake_tcp")) return;
    auto mooncake = Mooncake::Start(options_.mooncake_environment, Directory("mooncake"),
                                    {.unit_bytes = kStepUnitBytes,
                                     .num_units = NumUnits(),
                                     .units_per_read = shape_.units_per_round()});
    if (mooncake.ok()) {
      mooncake_ = *std::move(mooncake);
    } else {
      absent_["mooncake"] = std::string(Message(mooncake.status()));
    }
  }

  /// Adds one MGET of all units, and the fastest way for many.
  template <typename AddFunction>
  void AddRedis(uint32_t units, const AddFunction& add) {
    if (redis_ == nullptr) return;
    redis_slots_.resize(units * kStepUnitBytes);
    const auto reading = [this, units](auto read) {
      return [this, units, read]() -> StatusOr<Duration> {
        std::vector<PlacedUnit> wanted(units);
        std::byte* place = redis_slots_.data();
        for (PlacedUnit& read : wanted) {
          read = {random_.Below(NumUnits()), place};
          place += kStepUnitBytes;
        }
        return Timed([&] { return read(wanted); });
      };
    };
    for (const auto& [name, wire] :
         {std::pair{"redis_unix", Redis::Wire::kUnix}, std::pair{"redis_tcp", Redis::Wire::kTcp}}) {
      add(name, reading([this, wire = wire](const std::vector<PlacedUnit>& wanted) {
            return redis_->Get(wire, wanted);
          }));
      add(std::string(name) + "_by_four",
          reading([this, wire = wire](const std::vector<PlacedUnit>& wanted) {
            return redis_->Read(wire, Redis::kMostConnections, wanted);
          }));
    }
  }

  const TransportBenchOptions& options_;
  const uint64_t document_bytes_;
  const RecallShape shape_;
  std::unique_ptr<ServeProcess> server_;
  SegmentKey document_ = kRootKey;
  std::map<std::string, std::unique_ptr<Client>> clients_;
  std::unique_ptr<Redis> redis_;
  std::vector<std::byte> redis_slots_;
  std::unique_ptr<Mooncake> mooncake_;
  std::map<std::string, std::string> absent_;
  SeededRandom random_{1};
};

/// A tenant with its document, and its recalls over one transport.
struct Tenant {
  std::string name;
  SegmentKey document = kRootKey;
  std::unique_ptr<Client> client = nullptr;
  std::unique_ptr<StepRecalls> recalls = nullptr;
  std::vector<Duration> times = {};
  Status status = {};

  /// Recalls `count` times or until `stop` is set. Sets `stop` after the last.
  void Run(uint32_t count, std::atomic<bool>* stop) {
    times.clear();
    while (times.size() < count && !stop->load(std::memory_order_relaxed)) {
      recalls->Prepare();
      const TimePoint start = SystemClock().Now();
      status = recalls->Run();
      if (!status.ok()) break;
      times.push_back(SystemClock().Now() - start);
    }
    stop->store(true, std::memory_order_relaxed);
  }
};

/// Bytes per second of each of `tenants`, all of which recall at once.
StatusOr<std::vector<double>> RunAtOnce(std::span<Tenant> tenants, uint32_t count) {
  std::atomic<bool> stop = false;
  std::latch begun(static_cast<std::ptrdiff_t>(tenants.size()) + 1);
  TimePoint start;
  {
    std::vector<std::jthread> threads;
    for (Tenant& tenant : tenants) {
      threads.emplace_back([&tenant, count, &begun, &stop] {
        begun.arrive_and_wait();
        tenant.Run(count, &stop);
      });
    }
    begun.arrive_and_wait();
    start = SystemClock().Now();
  }
  const std::chrono::duration<double> seconds = SystemClock().Now() - start;
  std::vector<double> rates;
  for (const Tenant& tenant : tenants) {
    QUIRE_RETURN_IF_ERROR(Annotate(tenant.status, tenant.name));
    const double bytes = static_cast<double>(tenant.times.size() * kTenantUnits * kStepUnitBytes);
    rates.push_back(bytes / seconds.count());
  }
  return rates;
}

/// Compares `tenants` over a path to a server that has every tenant's document.
StatusOr<TenantFigures> CompareOver(const Path& path, const ServeProcess& server,
                                    std::vector<Tenant>& tenants, uint32_t count) {
  const RecallShape shape = ShapeOf(kStepUnitBytes, kTenantDocumentBytes);
  TenantFigures figures{.transport = path.name};
  for (Tenant& tenant : tenants) {
    std::string detail;
    auto client = server.Connect(path.transport, &detail, tenant.name);
    if (!client.ok()) {
      figures.absent = std::string(Message(client.status()));
      return figures;
    }
    tenant.client = *std::move(client);
    QUIRE_ASSIGN_OR_RETURN(tenant.recalls, StepRecalls::Open(tenant.client.get(), tenant.document,
                                                             shape, kTenantUnits));
  }
  // Warm-up: the first recalls of every tenant are not timed.
  QUIRE_RETURN_IF_ERROR(RunAtOnce(tenants, std::max(1u, count / 10)).status());
  QUIRE_ASSIGN_OR_RETURN(const auto alone, RunAtOnce(std::span(tenants).first(1), count));
  figures.alone_bytes_per_second = alone.front();
  QUIRE_ASSIGN_OR_RETURN(figures.bytes_per_second, RunAtOnce(tenants, count));
  for (Tenant& tenant : tenants) {
    figures.times.insert(figures.times.end(), tenant.times.begin(), tenant.times.end());
    QUIRE_RETURN_IF_ERROR(tenant.recalls->Check());
    tenant.recalls.reset();  // Destroyed before its client.
    tenant.client.reset();
  }
  return figures;
}

}  // namespace

StatusOr<std::vector<StepFigures>> CompareSteps(const TransportBenchOptions& options) {
  StepComparison comparison(options);
  QUIRE_RETURN_IF_ERROR(comparison.Start());
  std::vector<StepFigures> all;
  for (const uint32_t units : kStepUnits) {
    QUIRE_ASSIGN_OR_RETURN(all.emplace_back(), comparison.Compare(units));
  }
  return all;
}

double TenantFigures::total_bytes_per_second() const {
  return std::accumulate(bytes_per_second.begin(), bytes_per_second.end(), 0.0);
}

double TenantFigures::slowest_vs_fastest() const {
  const auto [slowest, fastest] = std::ranges::minmax(bytes_per_second);
  return fastest > 0 ? slowest / fastest : 0;
}

StatusOr<std::vector<TenantFigures>> CompareTenants(const TransportBenchOptions& options) {
  std::vector<Tenant> tenants(kTenants);
  std::string names;
  for (uint32_t i = 0; i < kTenants; ++i) {
    tenants[i].name = "tenant" + std::to_string(i);
    names += (names.empty() ? "" : ",") + tenants[i].name;
  }
  QUIRE_ASSIGN_OR_RETURN(const auto server, StartServer(options.directory + "/tenants",
                                                        kTenants * kTenantDocumentBytes, names));
  for (uint32_t i = 0; i < kTenants; ++i) {
    QUIRE_ASSIGN_OR_RETURN(const auto client, Client::Create({.transport = server->control(),
                                                              .tenant = tenants[i].name}));
    QUIRE_ASSIGN_OR_RETURN(tenants[i].document,
                           PutDocument(*client, ShapeOf(kStepUnitBytes, kTenantDocumentBytes)));
  }
  std::vector<TenantFigures> all;
  for (const Path& path : kPaths) {
    if (!options.Wants(path.name)) continue;
    QUIRE_ASSIGN_OR_RETURN(all.emplace_back(),
                           CompareOver(path, *server, tenants, options.step_recalls));
  }
  return all;
}

}  // namespace quire::bench
