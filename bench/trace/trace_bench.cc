// SPDX-License-Identifier: Apache-2.0
//
// Trace: the savings of each eviction policy on a trace of requests, with a cache of a share of the
// trace's bytes. The limit is a cache that holds everything. Nothing is timed: the seconds are
// those of kvserver/store/policy/eviction/prefill_cost.h.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <utility>

#include "apps/kit/output/progress.h"
#include "bench/benchmark.h"
#include "bench/trace/mooncake_trace.h"
#include "bench/trace/replay.h"
#include "bench/trace/zipf_trace.h"
#include "kvserver/store/policy/eviction/eviction_factory.h"

namespace quire::bench {
namespace {

struct TraceOptions {
  std::string file;
  ZipfTraceOptions zipf;
  double cache_fraction = 0.05;
};

StatusOr<Trace> LoadTrace(const TraceOptions& options) {
  if (!options.file.empty()) return ReadMooncakeTrace(options.file);
  QUIRE_RETURN_IF_ERROR(Validate(options.zipf));
  return MakeZipfTrace(options.zipf);
}

cli::Json ToJson(const ReplayResult& result) {
  return {{"token_hit_ratio", result.token_hit_ratio()},
          {"byte_hit_ratio", result.byte_hit_ratio()},
          {"saved_s", result.seconds_saved},
          {"saved_ratio", result.seconds_saved / result.seconds_without_cache},
          {"evictions", result.evictions}};
}

void AddRow(const std::string& name, const ReplayResult& result, const ReplayResult& limit,
            cli::Table* table) {
  table->AddRow({name, cli::FormatRatio(result.token_hit_ratio()),
                 cli::FormatRatio(result.byte_hit_ratio()),
                 cli::FormatRatio(result.seconds_saved, 1),
                 cli::FormatRatio(result.seconds_saved / result.seconds_without_cache),
                 cli::FormatRatio(result.seconds_saved / std::max(limit.seconds_saved, 1e-9)),
                 cli::FormatCount(result.evictions)});
}

cli::Json TraceJson(const Trace& trace, const TraceOptions& options) {
  cli::Json json = {{"description", trace.description}, {"requests", trace.requests.size()}};
  if (!options.file.empty()) return json;
  json["documents"] = options.zipf.documents;
  json["zipf"] = options.zipf.zipf;
  json["block_tokens"] = options.zipf.block_tokens;
  json["prefix_tokens"] = options.zipf.prefix_tokens;
  json["seed"] = options.zipf.seed;
  return json;
}

StatusOr<BenchReport> Run(const TraceOptions& options, const cli::CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const Trace trace, LoadTrace(options));
  const uint64_t trace_bytes = DistinctBytes(trace);
  const auto cache_bytes =
      static_cast<uint64_t>(static_cast<double>(trace_bytes) * options.cache_fraction);
  context.err << "trace: " << trace.description << "\ncache: " << cli::FormatBytes(cache_bytes)
              << " of " << cli::FormatBytes(trace_bytes) << "\n";
  BenchReport report{.json = {{"benchmark", "trace"}},
                     .table = cli::Table({{"POLICY"},
                                          {"TOKENS HIT", cli::Table::kRight},
                                          {"BYTES HIT", cli::Table::kRight},
                                          {"SAVED S", cli::Table::kRight},
                                          {"OF ALL", cli::Table::kRight},
                                          {"OF LIMIT", cli::Table::kRight},
                                          {"EVICTIONS", cli::Table::kRight}})};
  const std::vector<std::string> names = kvserver::EvictionPolicyNames();
  cli::ProgressBar progress("replaying", names.size() + 1);
  const auto replay = [&](const std::string& name, uint64_t bytes) -> StatusOr<ReplayResult> {
    QUIRE_ASSIGN_OR_RETURN(const auto policy, kvserver::MakeEvictionPolicy(name));
    const ReplayResult result = Replay(trace, {.cache_bytes = bytes}, *policy);
    progress.Advance(1, name);
    return result;
  };
  QUIRE_ASSIGN_OR_RETURN(const ReplayResult limit, replay("lru", trace_bytes));
  cli::Json policies = cli::Json::object();
  for (const std::string& name : names) {
    QUIRE_ASSIGN_OR_RETURN(const ReplayResult result, replay(name, cache_bytes));
    policies[name] = ToJson(result);
    AddRow(name, result, limit, &report.table);
  }
  AddRow("(no limit)", limit, limit, &report.table);
  const auto saved = [&](const char* name) {
    return std::max(policies[name]["saved_s"].get<double>(), 1e-9);
  };
  report.json["pgdsf_saved_vs_lru"] = saved("pgdsf") / saved("lru");
  report.json["pgdsf_saved_vs_lfu"] = saved("pgdsf") / saved("lfu");
  report.json["policies"] = std::move(policies);
  report.json["no_limit"] = ToJson(limit);
  report.json["prefill_without_cache_s"] = limit.seconds_without_cache;
  report.json["cache_fraction"] = options.cache_fraction;
  report.json["cache_bytes"] = cache_bytes;
  report.json["trace_bytes"] = trace_bytes;
  report.json["trace"] = TraceJson(trace, options);
  report.json["machine"] = Machine();
  return report;
}

void AddOptions(CLI::App& command, TraceOptions* options) {
  CLI::Option* const file =
      command.add_option("--trace", options->file,
                         "Replay this trace instead of a generated one: JSON lines as Mooncake "
                         "publishes them (timestamp, input_length, output_length, hash_ids)");
  command.add_option("--cache-fraction", options->cache_fraction, "Cache, as a share of the bytes")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  const auto generated = [&](const char* name, auto& value, const char* what, auto low, auto high) {
    command.add_option(name, value, what)
        ->check(CLI::Range(low, high))
        ->capture_default_str()
        ->excludes(file);
  };
  ZipfTraceOptions& zipf = options->zipf;
  generated("--documents", zipf.documents, "Documents that are asked about", 1, 10000000);
  generated("--requests", zipf.requests, "Questions", 1, 10000000);
  generated("--zipf", zipf.zipf, "Exponent of the documents' popularity", 0.0, 10.0);
  generated("--block-tokens", zipf.block_tokens, "What is cached as one; 0: a whole document", 0,
            1 << 20);
  generated("--prefix-tokens", zipf.prefix_tokens, "Tokens that all prompts begin with", 0,
            1 << 20);
  command.add_option("--seed", zipf.seed, "Of the generated trace")
      ->capture_default_str()
      ->excludes(file);
}

}  // namespace

void AddTraceBench(Benches& benches) {
  const auto options = std::make_shared<TraceOptions>();
  CLI::App& command = benches.Add(
      {.name = "trace",
       .summary = "What each eviction policy saves on a trace of requests",
       .examples = "  quire bench trace\n"
                   "  quire bench trace --cache-fraction 0.2 --json\n"
                   "  quire bench trace --trace conversation_trace.jsonl"},
      [options](const cli::CommandContext& context) { return Run(*options, context); },
      {.plot = PlotterOf(
           {{.title = "What an eviction policy saves",
             .value_title = "% of the prefill's time",
             .bars = {
                 {.figures = "/policies/([^/]+)/saved_ratio", .place = "$1", .times = 100},
                 {.figures = "/()no_limit/saved_ratio", .place = "no limit", .times = 100}}}})});
  AddOptions(command, options.get());
}

}  // namespace quire::bench
