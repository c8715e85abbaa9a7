// SPDX-License-Identifier: Apache-2.0
//
// Objects: gets and puts of opaque values of several sizes, from DRAM, over shared memory and TCP.
// Rivals are Redis over a Unix socket and over TCP, without persistence, and Mooncake Store over
// TCP. The server beside them has a write budget of a byte a second: it keeps objects in DRAM
// alone, as Redis does. A second server writes every put to its disk. All take turns in one run.
// Every byte of a get of ours is verified, and ends in the caller's memory unless it is said to
// stay in place.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/kit/data_dir.h"
#include "apps/kit/output/progress.h"
#include "bench/benchmark.h"
#include "bench/kit/side_by_side.h"
#include "bench/objects/object_turns.h"
#include "bench/transport/congestion_control.h"
#include "bench/transport/rivals.h"
#include "bench/transport/serve_process.h"
#include "common/base/random.h"

namespace quire::bench {
namespace {

struct ObjectsOptions {
  std::vector<uint64_t> sizes = {64 << 10, 1 << 20, 16 << 20};
  uint64_t stored_bytes = 256 << 20;  ///< Objects of one size that are stored.
  uint64_t round_bytes = 64 << 20;    ///< Gets and puts of one turn.
  uint32_t rounds = 9;
  uint32_t singles = 200;  ///< Timed one by one.
  std::string data_dir;
  std::string rivals_dir;         ///< Python environment of Mooncake.
  std::vector<std::string> ways;  ///< Contenders to run, by their names in the figures; empty: all.

  bool Wants(const std::string& way) const {
    return ways.empty() || std::ranges::find(ways, way) != ways.end();
  }
};

/// An object has its number, and fits in a message of the server's default limit.
constexpr uint64_t kLeastObjectBytes = 64;
constexpr uint64_t kMostObjectBytes = 48 << 20;

std::string SizeName(uint64_t bytes) {
  if (bytes % (1 << 20) == 0) return std::to_string(bytes >> 20) + "m";
  if (bytes % (1 << 10) == 0) return std::to_string(bytes >> 10) + "k";
  return std::to_string(bytes);
}

/// Figures of one way to get or put objects of one size.
struct WayFigures {
  std::vector<Duration> turns;
  std::vector<Duration> singles;
};
using Ways = std::map<std::string, WayFigures>;

struct SizeFigures {
  uint64_t object_bytes = 0;
  uint64_t objects_per_turn = 0;
  Ways get, put;
  std::map<std::string, std::string> absent;
};

Duration Percentile(std::vector<Duration> times, double share) {
  if (times.empty()) return {};
  const auto at = static_cast<size_t>(std::ceil(share * static_cast<double>(times.size()))) - 1;
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(at));
  return times[at];
}

/// All contenders for one size, from their start to their end.
class ObjectsRun {
 public:
  ObjectsRun(const ObjectsOptions& options, std::string directory, SizeFigures* figures)
      : options_(options), directory_(std::move(directory)), figures_(*figures) {
    const uint64_t bytes = figures_.object_bytes;
    stored_ = std::max<uint64_t>(options.stored_bytes / bytes, 1);
    figures_.objects_per_turn = std::clamp<uint64_t>(options.round_bytes / bytes, 1, stored_);
  }

  Status Run() {
    QUIRE_RETURN_IF_ERROR(StartQuire());
    StartRedis();
    StartMooncake();
    QUIRE_RETURN_IF_ERROR(MeasureGets());
    return MeasurePuts();
  }

 private:
  struct Contender {
    std::string name;
    std::unique_ptr<ObjectTurns> turns;
    uint64_t first_put = 0;  ///< Number of the first object that it puts; its own in its server.
  };

  StatusOr<std::string> Directory(const std::string& name) const {
    std::string path = directory_ + "/" + name;
    std::error_code failed;
    std::filesystem::create_directories(path, failed);
    if (failed) return Unavailable("cannot make ", path, ": ", failed.message());
    return path;
  }

  Status StartQuire() {
    const std::string dram = std::to_string(2 * options_.stored_bytes + (512 << 20));
    QUIRE_ASSIGN_OR_RETURN(const std::string in_dram, Directory("quire"));
    QUIRE_ASSIGN_OR_RETURN(server_,
                           ServeProcess::Start(in_dram, {"--dram-bytes", dram, "--dram-prefault",
                                                         "--ssd-write-bytes-per-second", "1",
                                                         "--ssd-write-burst-bytes", "1"}));
    QUIRE_ASSIGN_OR_RETURN(const std::string on_disk, Directory("quire_to_disk"));
    QUIRE_ASSIGN_OR_RETURN(disk_server_, ServeProcess::Start(on_disk, {"--dram-bytes", dram}));
    Client* first = nullptr;
    for (const auto& [transport, name] :
         {std::pair("shm", "shm"), std::pair("ucx", "ucx_tcp"), std::pair("grpc", "grpc")}) {
      Client* const client = Connect(*server_, transport, name);
      if (client == nullptr) continue;
      const auto turns_of = [&](Arrival arrival) {
        return TurnsOfQuire(client, figures_.object_bytes, arrival);
      };
      if (first == nullptr) first = client;
      Add(name, &getters_, [&] { return turns_of(Arrival::kCopied); });
      Add(name, &putters_, [&] { return turns_of(Arrival::kCopied); });
      if (first == client) {
        Add(std::string(name) + "_in_place", &getters_,
            [&] { return turns_of(Arrival::kInPlace); });
      }
      const std::string to_disk = std::string(name) + "_to_disk";
      Client* const writer = Connect(*disk_server_, transport, to_disk);
      if (writer == nullptr) continue;
      Add(to_disk, &putters_,
          [&] { return TurnsOfQuire(writer, figures_.object_bytes, Arrival::kCopied); });
    }
    if (first == nullptr) return Unavailable("no transport of Quire works here");
    return TurnsOfQuire(first, figures_.object_bytes, Arrival::kCopied)->Put(0, stored_).status();
  }

  /// Adds a contender that is wanted.
  template <typename MakeTurns>
  void Add(std::string name, std::vector<Contender>* to, const MakeTurns& make) {
    if (!options_.Wants(name)) return;
    to->push_back({.name = std::move(name), .turns = make()});
  }

  /// Null, with the reason in the figures, for a transport that does not work here.
  Client* Connect(const ServeProcess& server, const std::string& transport,
                  const std::string& name) {
    std::string detail;
    auto client = server.Connect(transport, &detail);
    if (!client.ok()) {
      figures_.absent[name] = std::string(Message(client.status()));
      return nullptr;
    }
    clients_.push_back(*std::move(client));
    return clients_.back().get();
  }

  void StartRedis() {
    const auto directory = Directory("redis");
    auto redis = directory.ok() ? Redis::Start(*directory, figures_.object_bytes, stored_)
                                : StatusOr<std::unique_ptr<Redis>>(directory.status());
    if (!redis.ok()) {
      figures_.absent["redis"] = std::string(Message(redis.status()));
      return;
    }
    redis_ = *std::move(redis);
    const uint64_t bytes = figures_.object_bytes;
    for (const auto& [wire, name] :
         {std::pair(Redis::Wire::kUnix, "redis_unix"), std::pair(Redis::Wire::kTcp, "redis_tcp")}) {
      const auto turns_by = [&, over = wire](size_t connections) {
        return TurnsOfRedis(redis_.get(), bytes, over, connections);
      };
      Add(name, &getters_, [&] { return turns_by(1); });
      Add(std::string(name) + "_by_four", &getters_,
          [&] { return turns_by(Redis::kMostConnections); });
      Add(name, &putters_, [&] { return turns_by(1); });
    }
  }

  void StartMooncake() {
    constexpr char kName[] = "mooncake_tcp";
    if (!options_.Wants(kName)) return;
    const auto directory = Directory("mooncake");
    auto mooncake = directory.ok() ? Mooncake::Start(options_.rivals_dir, *directory,
                                                     {.unit_bytes = figures_.object_bytes,
                                                      .num_units = stored_,
                                                      .units_per_read = figures_.objects_per_turn})
                                   : StatusOr<std::unique_ptr<Mooncake>>(directory.status());
    if (!mooncake.ok()) {
      figures_.absent["mooncake"] = std::string(Message(mooncake.status()));
      return;
    }
    mooncake_ = *std::move(mooncake);
    getters_.push_back({kName, TurnsOfMooncake(mooncake_.get())});
    putters_.push_back({kName, TurnsOfMooncake(mooncake_.get())});
  }

  /// Some stored objects, each at most once.
  std::vector<uint64_t> SomeObjects() {
    std::vector<uint64_t> numbers(stored_);
    std::iota(numbers.begin(), numbers.end(), 0u);
    for (uint64_t i = 0; i < figures_.objects_per_turn; ++i) {
      std::swap(numbers[i], numbers[i + random_.Below(stored_ - i)]);
    }
    numbers.resize(figures_.objects_per_turn);
    return numbers;
  }

  Status MeasureGets() {
    std::vector<SideBySide::Contender> contenders;
    for (Contender& getter : getters_) {
      contenders.push_back(
          SideBySide::Timing([this, &getter] { return getter.turns->Get(wanted_); }));
      contenders.back().prepare = [this]() -> Status {
        wanted_ = SomeObjects();
        return OkStatus();
      };
    }
    SideBySide turns(std::move(contenders), /*untimed=*/1);
    QUIRE_RETURN_IF_ERROR(turns.Run(options_.rounds));
    for (size_t i = 0; i < getters_.size(); ++i) {
      figures_.get[getters_[i].name].turns = turns.Times(i);
    }
    for (uint32_t single = 0; single < Singles(); ++single) {
      for (Contender& getter : getters_) {
        const uint64_t number = random_.Below(stored_);
        QUIRE_ASSIGN_OR_RETURN(const Duration took, getter.turns->Get({&number, 1}));
        figures_.get[getter.name].singles.push_back(took);
      }
    }
    return OkStatus();
  }

  Status MeasurePuts() {
    std::vector<SideBySide::Contender> contenders;
    const uint64_t count = figures_.objects_per_turn;
    for (size_t i = 0; i < putters_.size(); ++i) {
      Contender& putter = putters_[i];
      putter.first_put = stored_ + i * count;
      contenders.push_back(SideBySide::Timing(
          [&putter, count] { return putter.turns->Put(putter.first_put, count); }));
      contenders.back().prepare = [&putter, count] {
        return putter.turns->Remove(putter.first_put, count);
      };
    }
    SideBySide turns(std::move(contenders), /*untimed=*/1);
    QUIRE_RETURN_IF_ERROR(turns.Run(options_.rounds));
    for (size_t i = 0; i < putters_.size(); ++i) {
      figures_.put[putters_[i].name].turns = turns.Times(i);
      QUIRE_RETURN_IF_ERROR(putters_[i].turns->Remove(putters_[i].first_put, count));
    }
    for (uint32_t single = 0; single < Singles(); ++single) {
      for (Contender& putter : putters_) {
        QUIRE_ASSIGN_OR_RETURN(const Duration took, putter.turns->Put(putter.first_put, 1));
        figures_.put[putter.name].singles.push_back(took);
        QUIRE_RETURN_IF_ERROR(putter.turns->Remove(putter.first_put, 1));
      }
    }
    return OkStatus();
  }

  /// Fewer of the large ones, which take long.
  uint32_t Singles() const {
    const uint64_t most = (uint64_t{8} << 30) / figures_.object_bytes;
    return static_cast<uint32_t>(std::clamp<uint64_t>(most / 8, 1, options_.singles));
  }

  const ObjectsOptions& options_;
  const std::string directory_;
  SizeFigures& figures_;
  uint64_t stored_ = 0;
  SeededRandom random_{1};
  std::unique_ptr<ServeProcess> server_, disk_server_;
  std::unique_ptr<Redis> redis_;
  std::unique_ptr<Mooncake> mooncake_;
  std::vector<std::unique_ptr<Client>> clients_;  ///< End before their servers.
  std::vector<Contender> getters_, putters_;
  std::vector<uint64_t> wanted_;
};

// ------------------------------------------------------------------------------------- the report

/// A ratio of the report: the best of ours against the best rival.
struct ObjectsRatio {
  const char* key;
  Ways SizeFigures::*ways;
  std::vector<std::string> ours;
  std::vector<std::string> rivals;

  std::optional<double> Of(const SizeFigures& size) const {
    std::optional<double> best;
    for (const std::string& our : ours) {
      const auto turns = (size.*ways).find(our);
      std::optional<double> least;
      for (const std::string& rival : rivals) {
        const auto theirs = (size.*ways).find(rival);
        if (turns == (size.*ways).end() || theirs == (size.*ways).end()) continue;
        const double ratio = SpeedRatio(turns->second.turns, theirs->second.turns);
        least = std::min(least.value_or(ratio), ratio);
      }
      if (least) best = std::max(best.value_or(*least), *least);
    }
    return best;
  }
};

const std::vector<std::string>& RedisGets() {
  static const std::vector<std::string> kWays = {"redis_unix", "redis_unix_by_four", "redis_tcp",
                                                 "redis_tcp_by_four"};
  return kWays;
}

/// Adds the worst of all sizes, then each.
void AddObjectsRatios(const std::vector<SizeFigures>& sizes, cli::Json* json) {
  const ObjectsRatio ratios[] = {
      {"get_shm_vs_redis", &SizeFigures::get, {"shm"}, RedisGets()},
      {"get_shm_in_place_vs_redis", &SizeFigures::get, {"shm_in_place"}, RedisGets()},
      {"get_tcp_vs_best",
       &SizeFigures::get,
       {"ucx_tcp", "grpc"},
       {"redis_tcp", "redis_tcp_by_four", "mooncake_tcp"}},
      {"put_shm_vs_redis", &SizeFigures::put, {"shm"}, {"redis_unix", "redis_tcp"}},
      {"put_tcp_vs_best", &SizeFigures::put, {"ucx_tcp", "grpc"}, {"redis_tcp", "mooncake_tcp"}},
      {"put_shm_to_disk_vs_redis",
       &SizeFigures::put,
       {"shm_to_disk"},
       {"redis_unix", "redis_tcp"}}};
  for (const ObjectsRatio& ratio : ratios) {
    std::optional<double> worst;
    for (const SizeFigures& size : sizes) {
      const std::optional<double> of_size = ratio.Of(size);
      if (!of_size) continue;
      worst = std::min(worst.value_or(*of_size), *of_size);
      (*json)[std::string(ratio.key) + "_" + SizeName(size.object_bytes)] = *of_size;
    }
    if (worst) (*json)[ratio.key] = *worst;
  }
}

double InMicros(Duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

void AddObjectsFigures(const SizeFigures& size, const char* what, const Ways& ways,
                       BenchReport* report) {
  const uint64_t bytes = size.objects_per_turn * size.object_bytes;
  for (const auto& [name, figures] : ways) {
    const std::string key = std::string(what) + "_" + name + "_" + SizeName(size.object_bytes);
    const double speed = PerSecond(figures.turns, bytes) / 1e9;
    const Duration p50 = Percentile(figures.singles, 0.5);
    const Duration p99 = Percentile(figures.singles, 0.99);
    report->json[key + "_gb_per_s"] = speed;
    report->json[key + "_p50_us"] = InMicros(p50);
    report->json[key + "_p99_us"] = InMicros(p99);
    report->json[key + "_singles"] = figures.singles.size();
    report->table.AddRow({what, cli::FormatBytes(size.object_bytes), name,
                          cli::FormatRatio(speed, 2), cli::FormatDuration(p50),
                          cli::FormatDuration(p99)});
  }
}

StatusOr<BenchReport> RunObjects(const ObjectsOptions& options) {
  for (const uint64_t bytes : options.sizes) {
    if (bytes >= kLeastObjectBytes && bytes <= kMostObjectBytes) continue;
    return InvalidArgument("--sizes: objects of ", bytes, " bytes; give ", kLeastObjectBytes, "..",
                           kMostObjectBytes);
  }
  QUIRE_ASSIGN_OR_RETURN(const auto directory, cli::DataDir::Make(options.data_dir));
  ObjectsOptions with_rivals = options;
  if (options.rivals_dir.empty()) with_rivals.rivals_dir = directory->path() + "/rivals";
  std::vector<SizeFigures> sizes;
  for (const uint64_t object_bytes : options.sizes) {
    SizeFigures size{.object_bytes = object_bytes};
    const std::string path = directory->path() + "/" + SizeName(object_bytes);
    QUIRE_RETURN_IF_ERROR(ObjectsRun(with_rivals, path, &size).Run());
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
    sizes.push_back(std::move(size));
  }
  BenchReport report{.json = {{"benchmark", "objects"}},
                     .table = cli::Table({{"CALL"},
                                          {"BYTES", cli::Table::kRight},
                                          {"WAY"},
                                          {"GB/S", cli::Table::kRight},
                                          {"P50", cli::Table::kRight},
                                          {"P99", cli::Table::kRight}})};
  AddObjectsRatios(sizes, &report.json);
  for (const SizeFigures& size : sizes) {
    AddObjectsFigures(size, "get", size.get, &report);
    AddObjectsFigures(size, "put", size.put, &report);
    for (const auto& [name, why] : size.absent) report.json["absent"][name] = why;
  }
  report.json["stored_bytes"] = options.stored_bytes;
  report.json["round_bytes"] = options.round_bytes;
  report.json["rounds"] = options.rounds;
  report.json["congestion_control"] = HostCongestionControl();
  report.json["machine"] = Machine();
  return report;
}

}  // namespace

void AddObjectsBench(Benches& benches) {
  const auto options = std::make_shared<ObjectsOptions>();
  CLI::App& command = benches.Add(
      {.name = "objects",
       .summary =
           "Gets and puts of opaque objects over shared memory and TCP, beside Redis and Mooncake",
       .examples =
           "  quire bench objects --json\n"
           "  quire bench objects --rounds 3 --stored-bytes 64MiB --round-bytes 16MiB\n"
           "  quire bench objects --sizes 256KiB --json\n"
           "Redis is started when redis-server is installed, and read over one connection and\n"
           "over four (_by_four). Mooncake Store comes from PyPI, once with --rivals-dir. Ratios "
           "are\n"
           "against the fastest way of a rival. All keep objects in memory alone; shm_to_disk and\n"
           "the like write every put to the server's disk. shm_in_place leaves what it gets in "
           "the\n"
           "server's memory, verified; all other gets end in memory of the caller."},
      [options](const cli::CommandContext&) { return RunObjects(*options); },
      {.plot = PlotterOf({{.title = "Gets and puts of objects",
                           .value_title = "GB/s, by the size of an object",
                           .bars = {{.figures = R"(/((?:get|put)\w*)_([0-9a-z]+)_gb_per_s)",
                                     .name = "$2",
                                     .place = "$1"}}}})});
  command.add_option("--sizes", options->sizes, "Bytes of the objects (64KiB,1MiB,16MiB)")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false).description(""))
      ->type_name("SIZES");
  const auto size = [&](const char* name, uint64_t* value, const char* what) {
    command.add_option(name, *value, what)
        ->transform(CLI::AsSizeValue(false).description(""))
        ->type_name("SIZE")
        ->default_str(cli::FormatBytes(*value));
  };
  size("--stored-bytes", &options->stored_bytes, "Objects of each size that are stored");
  size("--round-bytes", &options->round_bytes, "Objects that a turn gets or puts");
  command.add_option("--rounds", options->rounds, "Timed turns of every way")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      .add_option("--singles", options->singles,
                  "Objects that are got and put one by one, for their latency")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command.add_option("--rivals-dir", options->rivals_dir,
                     "Python environment for Mooncake Store, kept for the next run");
  command
      .add_option(
          "--ways", options->ways,
          "Only these, by the names of the figures (shm, ucx_tcp, redis_tcp, ...); all when "
          "not given")
      ->delimiter(',')
      ->type_name("NAMES");
  cli::AddDataDirOption(command, &options->data_dir);
}

}  // namespace quire::bench
