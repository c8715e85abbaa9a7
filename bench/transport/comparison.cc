// SPDX-License-Identifier: Apache-2.0
#include "bench/transport/comparison.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <span>

#include "apps/kit/output/progress.h"
#include "bench/kit/filled_pages.h"
#include "bench/kit/side_by_side.h"
#include "bench/rivals/raw_ucx.h"
#include "bench/transport/congestion_control.h"
#include "bench/transport/copy_loops.h"
#include "bench/transport/cpu_time.h"
#include "bench/transport/raw_grpc.h"
#include "bench/transport/recall_rounds.h"
#include "bench/transport/rivals.h"
#include "bench/transport/serve_process.h"
#include "common/base/random.h"
#include "quire/layout.h"
#include "transport/ucx/ucx.h"

namespace quire::bench {
namespace {

/// Part size of the connections, and of the raw gRPC program.
constexpr uint64_t kPartBytes = 1 << 20;

std::vector<uint64_t> Shuffled(uint64_t count, SeededRandom& random) {
  std::vector<uint64_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  for (uint64_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
  return order;
}

/// A transport of ours under measurement.
struct Lane {
  std::string name;  ///< "shm", "ucx_tcp", "grpc"
  std::unique_ptr<Client> client;
  std::unique_ptr<FilledPages> slots;
  std::unique_ptr<RecallRounds> rounds;
  std::unique_ptr<RecallRounds> contiguous;  ///< A separate session with the same slots.
};

/// One set: servers and clients from their start to their end.
class Comparison {
 public:
  /// Adds to `figures`.
  Comparison(const TransportBenchOptions& options, uint32_t set, TransportFigures* figures)
      : options_(options),
        set_(set),
        shape_(ShapeOf(figures->unit_bytes, options.document_bytes)),
        source_(options.document_bytes),
        copied_(shape_.bytes_per_round()),
        figures_(*figures),
        random_(set + 1) {
    figures_.units_per_round = shape_.units_per_round();
  }

  Status Run() {
    QUIRE_RETURN_IF_ERROR(StartServers());
    QUIRE_RETURN_IF_ERROR(MeasureScattered());
    QUIRE_RETURN_IF_ERROR(MeasureContiguous());
    for (Lane& lane : lanes_) QUIRE_RETURN_IF_ERROR(MeasureEmpty(lane));
    return OkStatus();
  }

 private:
  std::string Directory(const std::string& name) const {
    std::string path = options_.directory + "/" + std::to_string(set_) + "/" + name;
    std::filesystem::create_directories(path);
    return path;
  }

  Status StartServers() {
    const std::string dram = std::to_string(options_.document_bytes + (256 << 20));
    QUIRE_ASSIGN_OR_RETURN(server_, ServeProcess::Start(Directory("server"),
                                                        {"--dram-bytes", dram, "--dram-prefault"}));
    QUIRE_ASSIGN_OR_RETURN(const auto client, Client::Create({.transport = server_->control()}));
    QUIRE_ASSIGN_OR_RETURN(document_, PutDocument(*client, shape_));
    QUIRE_RETURN_IF_ERROR(Open("shm", "shm"));
    QUIRE_RETURN_IF_ERROR(Open("ucx", "ucx_tcp"));
    QUIRE_RETURN_IF_ERROR(Open("grpc", "grpc"));
    return OpenInPlace();
  }

  /// Opens a lane; an unavailable transport is left out of the comparison.
  Status Open(const std::string& transport, const std::string& name) {
    if (!options_.Wants(name)) return OkStatus();
    Lane lane;
    lane.name = name;
    auto client = server_->Connect(transport, &figures_.details[name]);
    if (!client.ok()) {
      figures_.absent[name] = std::string(Message(client.status()));
      return OkStatus();
    }
    lane.client = *std::move(client);
    lane.slots = std::make_unique<FilledPages>(shape_.bytes_per_round());
    for (auto* const rounds : {&lane.rounds, &lane.contiguous}) {
      QUIRE_ASSIGN_OR_RETURN(
          *rounds, RecallRounds::Open(lane.client.get(), document_, shape_,
                                      RecallRounds::Delivery::kSlots, lane.slots->bytes()));
    }
    lanes_.push_back(std::move(lane));
    return OkStatus();
  }

  Status OpenInPlace() {
    if (figures_.absent.contains("shm") || !options_.Wants("shm_in_place")) return OkStatus();
    QUIRE_ASSIGN_OR_RETURN(in_place_.client, server_->Connect("shm", &figures_.details["shm"]));
    QUIRE_ASSIGN_OR_RETURN(in_place_.rounds,
                           RecallRounds::Open(in_place_.client.get(), document_, shape_,
                                              RecallRounds::Delivery::kInPlace, {}));
    return OkStatus();
  }

  // ------------------------------------------------------------------------------- contenders

  using Contender = SideBySide::Contender;

  /// `peers`: other processes that take part.
  void Add(const std::string& name, Contender contender, const std::vector<pid_t>& peers = {}) {
    if (options_.Wants(name)) AddAlways(name, Metered(name, std::move(contender), peers));
  }
  void AddAlways(const std::string& name, Contender contender) {
    index_[name] = contenders_.size();
    contenders_.push_back(std::move(contender));
  }
  /// Adds up the CPU time of its turns, including untimed ones.
  Contender Metered(const std::string& name, Contender contender, std::vector<pid_t> peers) {
    contender.turn = [this, name, peers = std::move(peers),
                      turn = std::move(contender.turn)]() -> Status {
      QUIRE_ASSIGN_OR_RETURN(const Duration before, CpuTime(peers));
      QUIRE_RETURN_IF_ERROR(turn());
      QUIRE_ASSIGN_OR_RETURN(const Duration after, CpuTime(peers));
      CpuUse& use = figures_.cpu[name];
      use.time += after - before;
      use.bytes += shape_.bytes_per_round();
      return OkStatus();
    };
    return contender;
  }

  static Contender RoundsOf(RecallRounds& rounds, RecallRounds::Pattern pattern) {
    return {.turn = [&rounds] { return rounds.Run(); },
            .prepare = [&rounds, pattern] { return rounds.Prepare(pattern); }};
  }

  /// The units of a scattered round, in its order and with its places.
  std::vector<RawUcxMove> Moves() {
    const std::vector<uint64_t> from = Shuffled(shape_.units_per_round() * 2, random_);
    const std::vector<uint64_t> to = Shuffled(shape_.units_per_round(), random_);
    std::vector<RawUcxMove> moves(to.size());
    for (size_t i = 0; i < moves.size(); ++i) {
      moves[i] = {.from = from[i] * figures_.unit_bytes, .to = to[i] * figures_.unit_bytes};
    }
    return moves;
  }

  void AddCopyLoops() {
    for (const CopyLoop& loop : CopyLoops()) {
      Add(loop.name, {.turn = [this, &loop]() -> Status {
                        RunCopyLoop(loop, moves_, source_.bytes(), copied_.bytes(),
                                    figures_.unit_bytes);
                        return OkStatus();
                      },
                      .prepare = [this]() -> Status {
                        moves_ = Moves();
                        return OkStatus();
                      }});
    }
  }

  /// Adds a lane if it exists.
  void AddLane(const std::string& name) {
    for (const Lane& lane : lanes_) {
      if (lane.name != name) continue;
      Add(name, RoundsOf(*lane.rounds, RecallRounds::Pattern::kScattered), {server_->pid()});
    }
  }

  /// Adds the limit of "ucx_tcp", unless that lane is absent.
  Status AddRawUcx() {
    if (figures_.absent.contains("ucx_tcp")) return OkStatus();
    if (!options_.Wants("raw_ucx_tcp")) return OkStatus();
    QUIRE_ASSIGN_OR_RETURN(
        std::shared_ptr<RawUcx> raw,
        RawUcx::Connect({}, source_.bytes(), copied_.bytes(), figures_.unit_bytes));
    Add("raw_ucx_tcp", SideBySide::Timing([this, raw] { return raw->Move(Moves()); }));
    return OkStatus();
  }

  Status AddRawGrpc() {
    const RawGrpcShape shape{.unit_bytes = figures_.unit_bytes,
                             .num_units = shape_.units_per_round() * 2,
                             .units_per_read = shape_.units_per_round(),
                             .message_bytes = kPartBytes};
    const std::string directory = Directory("raw_grpc");
    const std::string port_file = directory + "/port";
    QUIRE_ASSIGN_OR_RETURN(
        raw_grpc_, Process::Start({kThisProgram, "bench", "raw-grpc-server", "--unit-bytes",
                                   std::to_string(shape.unit_bytes), "--units",
                                   std::to_string(shape.num_units), "--units-per-read",
                                   std::to_string(shape.units_per_read), "--message-bytes",
                                   std::to_string(shape.message_bytes), "--port-file", port_file},
                                  directory + "/log"));
    QUIRE_ASSIGN_OR_RETURN(const std::string address, AwaitAddress(*raw_grpc_, port_file));
    const auto client = std::make_shared<RawGrpcClient>(shape, address, copied_.bytes());
    Add("raw_grpc", {.turn = [this, client] { return client->Read(random_.Next()); }},
        {raw_grpc_->pid()});
    return OkStatus();
  }

  /// A way to read from Redis.
  struct RedisWay {
    const char* name;
    Redis::Wire wire;
    size_t connections;
  };
  static constexpr RedisWay kRedisWays[] = {
      {"redis_unix", Redis::Wire::kUnix, 1},
      {"redis_unix_by_four", Redis::Wire::kUnix, Redis::kMostConnections},
      {"redis_tcp", Redis::Wire::kTcp, 1},
      {"redis_tcp_by_four", Redis::Wire::kTcp, Redis::kMostConnections}};
  static_assert(Redis::kMostConnections == 4);

  void AddRedis() {
    const auto wanted = [&](const RedisWay& way) { return options_.Wants(way.name); };
    if (std::ranges::none_of(kRedisWays, wanted)) return;
    const uint64_t units = shape_.units_per_round() * 2;
    auto redis = Redis::Start(Directory("redis"), figures_.unit_bytes, units);
    if (!redis.ok()) {
      figures_.absent["redis"] = std::string(Message(redis.status()));
      return;
    }
    redis_ = *std::move(redis);
    for (const auto& [name, wire, connections] : kRedisWays) {
      Add(name,
          {.turn = [this, wire = wire,
                    connections =
                        connections] { return redis_->Read(wire, connections, redis_units_); },
           .prepare = [this]() -> Status {
             redis_units_.clear();
             for (const RawUcxMove& move : Moves()) {
               redis_units_.push_back(
                   {move.from / figures_.unit_bytes, copied_.bytes().data() + move.to});
             }
             return OkStatus();
           }},
          {redis_->pid()});
    }
  }

  /// Reads once more, untimed, in each way over several connections.
  Status WatchRedis() {
    if (redis_ == nullptr) return OkStatus();
    for (const auto& [name, wire, connections] : kRedisWays) {
      if (connections == 1 || !options_.Wants(name)) continue;
      QUIRE_ASSIGN_OR_RETURN(figures_.redis_threads[name], redis_->ReadWatched(wire, redis_units_));
    }
    return OkStatus();
  }

  void AddMooncake() {
    if (options_.mooncake_environment.empty() || !options_.Wants("mooncake_tcp")) return;
    auto mooncake = Mooncake::Start(options_.mooncake_environment, Directory("mooncake"),
                                    {.unit_bytes = figures_.unit_bytes,
                                     .num_units = shape_.units_per_round() * 2,
                                     .units_per_read = shape_.units_per_round()});
    if (!mooncake.ok()) {
      figures_.absent["mooncake"] = std::string(Message(mooncake.status()));
      return;
    }
    mooncake_ = *std::move(mooncake);
    figures_.details["mooncake"] = mooncake_->version();
    Add("mooncake_tcp", SideBySide::Timing([this] { return mooncake_->Read(); }),
        mooncake_->pids());
  }

  // ----------------------------------------------------------------------------- measurements

  Status MeasureScattered() {
    if (in_place_.rounds != nullptr) {
      Add("shm_in_place", RoundsOf(*in_place_.rounds, RecallRounds::Pattern::kScattered),
          {server_->pid()});
    }
    // Places each lane next to its comparisons.
    AddCopyLoops();
    AddLane("shm");
    AddLane("ucx_tcp");
    QUIRE_RETURN_IF_ERROR(AddRawUcx());
    AddLane("grpc");
    QUIRE_RETURN_IF_ERROR(AddRawGrpc());
    AddRedis();
    AddMooncake();
    const std::map<std::string, TcpSenders> senders = Senders();
    QUIRE_RETURN_IF_ERROR(Measure("scattered units", &figures_.scattered));
    for (const auto& [program, sender] : senders) {
      figures_.congestion_controls[program] = sender.CongestionControls();
    }
    for (const Lane& lane : lanes_) {
      QUIRE_RETURN_IF_ERROR(Annotate(lane.rounds->Check(), lane.name));
    }
    if (in_place_.rounds != nullptr) {
      QUIRE_RETURN_IF_ERROR(Annotate(in_place_.rounds->RunVerified(), "shm_in_place"));
    }
    QUIRE_RETURN_IF_ERROR(WatchRedis());
    mooncake_.reset();
    redis_.reset();
    raw_grpc_.reset();
    return OkStatus();
  }

  /// Programs that send units over TCP, counted from now on.
  std::map<std::string, TcpSenders> Senders() const {
    std::map<std::string, TcpSenders> senders;
    senders.emplace("this_program", getpid());
    senders.emplace("quire", server_->pid());
    if (raw_grpc_ != nullptr) senders.emplace("raw_grpc", raw_grpc_->pid());
    if (redis_ != nullptr) senders.emplace("redis", redis_->pid());
    if (mooncake_ != nullptr) senders.emplace("mooncake", mooncake_->store_pid());
    return senders;
  }

  Status MeasureContiguous() {
    if (!options_.Wants("contiguous")) return OkStatus();
    contenders_.clear();
    index_.clear();
    for (const Lane& lane : lanes_) {
      AddAlways(lane.name, RoundsOf(*lane.rounds, RecallRounds::Pattern::kScattered));
      AddAlways(lane.name + "_contiguous",
                RoundsOf(*lane.contiguous, RecallRounds::Pattern::kContiguous));
    }
    return Measure("units in order", &figures_.in_order);
  }

  Status Measure(const std::string& what, TransportTurns* turns) {
    cli::ProgressBar progress(what + ", set " + std::to_string(set_ + 1), options_.rounds);
    SideBySide side_by_side(contenders_, /*untimed=*/1);
    for (uint32_t round = 0; round < options_.rounds; ++round) {
      QUIRE_RETURN_IF_ERROR(side_by_side.Run(1));
      progress.Advance();
    }
    for (const auto& [name, index] : index_) {
      const std::vector<Duration>& times = side_by_side.Times(index);
      (*turns)[name].insert((*turns)[name].end(), times.begin(), times.end());
    }
    return OkStatus();
  }

  Status MeasureEmpty(Lane& lane) {
    std::vector<Duration>& times = figures_.empty_recalls[lane.name];
    for (uint32_t i = 0; i < options_.empty_recalls; ++i) {
      const TimePoint start = SystemClock().Now();
      QUIRE_RETURN_IF_ERROR(lane.rounds->RunEmpty());
      times.push_back(SystemClock().Now() - start);
    }
    return OkStatus();
  }

  const TransportBenchOptions& options_;
  const uint32_t set_;
  const RecallShape shape_;
  const FilledPages source_;
  const FilledPages copied_;
  TransportFigures& figures_;
  SeededRandom random_;

  std::unique_ptr<ServeProcess> server_;
  SegmentKey document_ = kRootKey;  ///< Key of the document in it.
  std::unique_ptr<Process> raw_grpc_;
  std::unique_ptr<Redis> redis_;
  std::unique_ptr<Mooncake> mooncake_;
  std::vector<Lane> lanes_;
  Lane in_place_;
  std::vector<RawUcxMove> moves_;
  std::vector<PlacedUnit> redis_units_;

  std::vector<Contender> contenders_;
  std::map<std::string, size_t> index_;
};

}  // namespace

std::optional<double> TransportFigures::Ratio(const TransportTurns& turns,
                                              const std::string& contender,
                                              const std::string& limit) {
  const auto times = turns.find(contender), limits = turns.find(limit);
  if (times == turns.end() || limits == turns.end()) return std::nullopt;
  if (times->second.size() != limits->second.size()) return std::nullopt;
  return SpeedRatio(times->second, limits->second);
}

StatusOr<TransportFigures> CompareTransports(const TransportBenchOptions& options,
                                             uint64_t unit_bytes) {
  TransportFigures figures{.unit_bytes = unit_bytes};
  for (uint32_t set = 0; set < options.sets; ++set) {
    const auto comparison = std::make_unique<Comparison>(options, set, &figures);
    QUIRE_RETURN_IF_ERROR(comparison->Run());
  }
  return figures;
}

}  // namespace quire::bench
