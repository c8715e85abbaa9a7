// SPDX-License-Identifier: Apache-2.0
//
// Agents: sessions of the published shape, whose turns repeat nearly all of the prompt before. At
// the median 43 turns, 142,000 tokens in at the end, 444 out at each turn. Every eighth turn a
// sub-agent forks half of the prompt and ends. Hits are compared with those of a store that forgets
// nothing. Then everything is started again, and every session takes one more turn. Pages are
// made up; tokens are divided by the scale.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "apps/kit/data_dir.h"
#include "apps/kit/output/progress.h"
#include "bench/benchmark.h"
#include "bench/kit/gqa_spec.h"
#include "bench/transport/serve_process.h"
#include "common/base/random.h"
#include "quire/client.h"
#include "quire/layout.h"

namespace quire::bench {
namespace {

constexpr uint64_t kPublishedTokens = 142'000;
constexpr uint64_t kPublishedOutput = 444;
constexpr uint64_t kTurnsBetweenForks = 8;
/// Segments that a sub-agent adds.
constexpr uint64_t kSegmentsOfFork = 2;

struct AgentsOptions {
  std::vector<uint32_t> sessions = {1, 8, 64};
  uint32_t turns = 43;
  uint32_t scale = 16;
  uint64_t dram_bytes = 128 << 20;
  std::string data_dir;
};

/// Figures of some turns.
struct TurnFigures {
  uint64_t prompt_tokens = 0;
  uint64_t seen_tokens = 0;   ///< Tokens of earlier prompts.
  uint64_t ideal_tokens = 0;  ///< Seen ones in whole segments.
  uint64_t hit_tokens = 0;
  uint64_t bytes_put = 0;
  uint64_t bytes_read = 0;
  std::vector<Duration> first_page;

  double HitsVsIdeal() const {
    return static_cast<double>(hit_tokens) /
           static_cast<double>(std::max<uint64_t>(ideal_tokens, 1));
  }
};

Duration PercentileOf(std::vector<Duration> times, double share) {
  if (times.empty()) return {};
  const auto at = static_cast<size_t>(std::ceil(share * static_cast<double>(times.size()))) - 1;
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(at));
  return times[at];
}

/// One agent, and what it has stored.
class Agent {
 public:
  Agent(std::string name, uint64_t seed) : name_(std::move(name)), random_(seed) {}

  const std::string& name() const { return name_; }
  const std::vector<TokenId>& prompt() const { return prompt_; }
  void Append(uint64_t tokens) {
    for (uint64_t i = 0; i < tokens; ++i) {
      prompt_.push_back(static_cast<TokenId>(random_.Below(32000)));
    }
  }
  /// A sub-agent, whose prompt begins with half of this one's.
  Agent Fork(uint64_t seed, uint64_t segment_tokens) const {
    Agent fork(name_ + ".fork" + std::to_string(seed), seed);
    const uint64_t shared = prompt_.size() / 2 / segment_tokens * segment_tokens;
    fork.prompt_.assign(prompt_.begin(), prompt_.begin() + static_cast<std::ptrdiff_t>(shared));
    fork.seen_ = shared;
    return fork;
  }
  /// Tokens of the prompt that were part of an earlier one.
  uint64_t seen() const { return seen_; }
  void TurnIsOver() { seen_ = prompt_.size(); }

 private:
  std::string name_;
  SeededRandom random_;
  std::vector<TokenId> prompt_;
  uint64_t seen_ = 0;
};

/// A server, and agents that take turns.
class AgentsRun {
 public:
  AgentsRun(const AgentsOptions& options, uint32_t sessions, std::string directory)
      : options_(options), directory_(std::move(directory)) {
    for (uint32_t i = 0; i < sessions; ++i) {
      agents_.emplace_back("agent" + std::to_string(i), 1000 + i);
    }
    units_.resize(SegmentBytes(spec_, spec_.segment_pages), std::byte{1});
  }

  Status Start() {
    client_.reset();
    server_.reset();
    std::error_code failed;
    std::filesystem::create_directories(directory_, failed);
    if (failed) return Unavailable("cannot make ", directory_, ": ", failed.message());
    std::filesystem::remove(directory_ + "/port", failed);  // Written by the server that has ended.
    QUIRE_ASSIGN_OR_RETURN(
        server_,
        ServeProcess::Start(directory_, {"--dram-bytes", std::to_string(options_.dram_bytes)}));
    std::string detail;
    QUIRE_ASSIGN_OR_RETURN(client_, server_->Connect("shm", &detail));
    return OkStatus();
  }

  /// A turn of every agent, and of its sub-agent where it has one.
  Status Round(uint32_t turn, TurnFigures* figures) {
    const uint64_t tokens =
        std::max<uint64_t>(kPublishedTokens / options_.turns / options_.scale, 1);
    for (Agent& agent : agents_) {
      agent.Append(tokens);
      QUIRE_RETURN_IF_ERROR(Turn(agent, figures));
      if ((turn + 1) % kTurnsBetweenForks != 0) continue;
      Agent fork = agent.Fork(++forks_, spec_.segment_tokens());
      fork.Append(kSegmentsOfFork * spec_.segment_tokens());
      QUIRE_RETURN_IF_ERROR(Turn(fork, figures));
      QUIRE_RETURN_IF_ERROR(client_->ReleaseConversation(fork.name()).status());
    }
    return OkStatus();
  }

  const KvSpec& spec() const { return spec_; }

 private:
  Status Turn(Agent& agent, TurnFigures* figures) {
    const Hints hints{.conversation = agent.name(), .keep_seconds = 600};
    const TimePoint start = SystemClock().Now();
    QUIRE_ASSIGN_OR_RETURN(const LookupResult found, client_->Lookup(spec_, agent.prompt(), hints));
    if (!found.segment_keys.empty()) QUIRE_RETURN_IF_ERROR(Read(found, start, figures));
    figures->prompt_tokens += agent.prompt().size();
    figures->seen_tokens += agent.seen();
    figures->ideal_tokens += agent.seen() / spec_.segment_tokens() * spec_.segment_tokens();
    figures->hit_tokens += std::min<uint64_t>(found.num_tokens, agent.seen());
    QUIRE_RETURN_IF_ERROR(Put(agent, found, hints, figures));
    agent.TurnIsOver();
    return OkStatus();
  }

  /// Recalls the first page, and then all pages layer by layer, as an engine does.
  Status Read(const LookupResult& found, TimePoint start, TurnFigures* figures) {
    std::vector<uint32_t> pages(PageCount(spec_, found.num_tokens));
    std::iota(pages.begin(), pages.end(), 0u);
    QUIRE_ASSIGN_OR_RETURN(
        const auto session,
        client_->OpenSession(
            ContextRef(found.segment_keys.back()),
            {.spec = spec_, .slots_per_head = static_cast<uint32_t>(pages.size())}));
    QUIRE_RETURN_IF_ERROR(Recall(*session, {.layer = 0, .pages = {{0}}}, figures));
    figures->first_page.push_back(SystemClock().Now() - start);
    LayerWant all;
    all.pages.AppendHead(pages);
    for (; all.layer < spec_.num_layers; ++all.layer) {
      QUIRE_RETURN_IF_ERROR(Recall(*session, all, figures));
    }
    return session->Close();
  }
  static Status Recall(ClientSession& session, const LayerWant& want, TurnFigures* figures) {
    QUIRE_ASSIGN_OR_RETURN(const RecallResult recalled, session.Recall({&want, 1}));
    figures->bytes_read += recalled.payload.size_bytes();
    session.Applied(recalled);
    return OkStatus();
  }

  Status Put(const Agent& agent, const LookupResult& found, const Hints& hints,
             TurnFigures* figures) {
    SegmentKey parent = found.segment_keys.empty() ? kRootKey : found.segment_keys.back();
    const uint64_t segment = spec_.segment_tokens();
    for (uint64_t first = found.num_tokens; first + segment <= agent.prompt().size();
         first += segment) {
      Payload payload;
      payload.Append(Slice{.bytes = units_, .owner = nullptr});
      const PutOptions options{.durability = PutDurability::kPersisted, .hints = hints};
      QUIRE_ASSIGN_OR_RETURN(
          const PutSegmentReply put,
          client_->PutSegment(spec_, parent, std::span(agent.prompt()).subspan(first, segment),
                              payload, options));
      parent = put.key;
      figures->bytes_put += units_.size();
    }
    return OkStatus();
  }

  const AgentsOptions& options_;
  const std::string directory_;
  const KvSpec spec_ =
      GqaSpec("agents", {.layers = 2, .query_heads = 1, .kv_heads = 1, .head_dim = 64});
  std::vector<std::byte> units_;
  std::vector<Agent> agents_;
  uint64_t forks_ = 0;
  std::unique_ptr<ServeProcess> server_;
  std::unique_ptr<Client> client_;
};

double MicrosOf(Duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

void AddAgentsFigures(uint32_t sessions, const char* when, const TurnFigures& figures,
                      BenchReport* report) {
  const std::string key = "_" + std::to_string(sessions) + when;
  const Duration p50 = PercentileOf(figures.first_page, 0.5);
  const Duration p99 = PercentileOf(figures.first_page, 0.99);
  const double hits = figures.HitsVsIdeal();
  const auto prompt = static_cast<double>(std::max<uint64_t>(figures.prompt_tokens, 1));
  cli::Json& json = report->json;
  json["hits_vs_ideal" + key] = hits;
  json["hit_ratio" + key] = static_cast<double>(figures.hit_tokens) / prompt;
  json["seen_before" + key] = static_cast<double>(figures.seen_tokens) / prompt;
  json["first_page_p50_us" + key] = MicrosOf(p50);
  json["first_page_p99_us" + key] = MicrosOf(p99);
  json["bytes_put" + key] = figures.bytes_put;
  json["bytes_read" + key] = figures.bytes_read;
  json["prompts" + key] = figures.first_page.size();
  report->table.AddRow({std::to_string(sessions), *when == '\0' ? "before" : "after a restart",
                        cli::FormatRatio(hits, 3), cli::FormatBytes(figures.bytes_put),
                        cli::FormatBytes(figures.bytes_read), cli::FormatDuration(p50),
                        cli::FormatDuration(p99)});
}

StatusOr<BenchReport> RunAgents(const AgentsOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const auto directory, cli::DataDir::Make(options.data_dir));
  BenchReport report{.json = {{"benchmark", "agents"}},
                     .table = cli::Table({{"SESSIONS", cli::Table::kRight},
                                          {"WHEN"},
                                          {"HITS/IDEAL", cli::Table::kRight},
                                          {"PUT", cli::Table::kRight},
                                          {"READ", cli::Table::kRight},
                                          {"FIRST PAGE P50", cli::Table::kRight},
                                          {"P99", cli::Table::kRight}})};
  double after_restart = 1;
  for (const uint32_t sessions : options.sessions) {
    AgentsRun run(options, sessions, directory->path() + "/" + std::to_string(sessions));
    QUIRE_RETURN_IF_ERROR(run.Start());
    TurnFigures before, after;
    cli::ProgressBar progress(std::to_string(sessions) + " sessions", options.turns);
    for (uint32_t turn = 0; turn < options.turns; ++turn) {
      QUIRE_RETURN_IF_ERROR(run.Round(turn, &before));
      progress.Advance(1);
    }
    QUIRE_RETURN_IF_ERROR(run.Start());
    QUIRE_RETURN_IF_ERROR(run.Round(0, &after));
    AddAgentsFigures(sessions, "", before, &report);
    AddAgentsFigures(sessions, "_after_restart", after, &report);
    after_restart = std::min(after_restart, after.HitsVsIdeal());
  }
  report.json["hits_after_restart_vs_ideal"] = after_restart;
  report.json["turns"] = options.turns;
  report.json["scale"] = options.scale;
  report.json["tokens_in"] = kPublishedTokens / options.scale;
  report.json["tokens_out_per_turn"] = kPublishedOutput / options.scale;
  report.json["dram_bytes"] = options.dram_bytes;
  report.json["machine"] = Machine();
  return report;
}

}  // namespace

void AddAgentsBench(Benches& benches) {
  const auto options = std::make_shared<AgentsOptions>();
  CLI::App& command = benches.Add(
      {.name = "agents",
       .summary = "Sessions of agents that repeat their prompts, before and after a restart",
       .examples =
           "  quire bench agents --json\n"
           "  quire bench agents --sessions 8 --scale 4\n"
           "A turn adds what a turn of the published shape adds, divided by the scale: its\n"
           "own output, and what its tools return."},
      [options](const cli::CommandContext&) { return RunAgents(*options); },
      {.plot = PlotterOf({{.title = "Time until an agent has the first page of its prompt",
                           .value_title = "ms, by percentile",
                           .bars = {{.figures = R"(/first_page_p(50|99)_us_(\d+))",
                                     .name = "p$1",
                                     .place = "$2 sessions",
                                     .times = 1e-3},
                                    {.figures = R"(/first_page_p(50|99)_us_(\d+)_after_restart)",
                                     .name = "p$1, after a restart",
                                     .place = "$2 sessions",
                                     .times = 1e-3}}}})});
  command.add_option("--sessions", options->sessions, "Agents at a time (1,8,64)")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024));
  command.add_option("--turns", options->turns, "Turns of each agent")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--scale", options->scale, "Divisor of the published tokens")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--dram-bytes", options->dram_bytes, "DRAM of the server")
      ->transform(CLI::AsSizeValue(false).description(""))
      ->type_name("SIZE")
      ->default_str(cli::FormatBytes(options->dram_bytes));
  cli::AddDataDirOption(command, &options->data_dir);
}

}  // namespace quire::bench
