// SPDX-License-Identifier: Apache-2.0
#include "bench/decode/length_report.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "quire/layout.h"

namespace quire::bench {
namespace {

constexpr char kFullName[] = "full";
constexpr double kHalf = 0.5;

/// Costs of one way with one number of sequences, by length.
using Series = std::map<std::pair<std::string, uint32_t>, std::vector<LengthCost>>;
Series SeriesOf(std::span<const LengthCost> costs) {
  Series series;
  for (const LengthCost& cost : costs) series[{cost.way, cost.sequences}].push_back(cost);
  return series;
}

double ShareOf(const LengthCost& cost) { return cost.scoring_ms / cost.step_ms; }
double PerToken(uint64_t bytes, const LengthCost& cost) {
  return static_cast<double>(bytes) / cost.context_tokens;
}
double OfOne(double of_step, const LengthCost& cost) { return of_step / cost.sequences; }

cli::Json RowOf(const LengthCost& cost) {
  return {{"context_tokens", cost.context_tokens},
          {"batch", cost.sequences},
          {"way", cost.way},
          {"step_ms_p50", cost.step_ms},
          {"step_ms_p99", cost.p99_ms},
          {"scoring_ms_per_step", cost.scoring_ms},
          {"scoring_share", ShareOf(cost)},
          {"stall_ms_per_step", cost.stall_ms},
          {"bytes_per_step", cost.bytes_per_step},
          {"blocking_share", cost.blocking_share},
          {"worker_bytes_per_token", PerToken(cost.worker_bytes, cost)},
          {"server_bytes_per_token", PerToken(cost.server_bytes, cost)},
          {"worker_bytes", cost.worker_bytes},
          {"server_bytes", cost.server_bytes},
          {"open_seconds", cost.open_seconds},
          {"decode_seconds", cost.decode_seconds},
          {"threads", cost.threads},
          {"steps", cost.steps}};
}

/// The inverse of RowOf. Throws for another object.
LengthCost CostOfRow(const cli::Json& row) {
  return {.context_tokens = row.at("context_tokens"),
          .sequences = row.at("batch"),
          .way = row.at("way"),
          .step_ms = row.at("step_ms_p50"),
          .p99_ms = row.at("step_ms_p99"),
          .scoring_ms = row.at("scoring_ms_per_step"),
          .stall_ms = row.at("stall_ms_per_step"),
          .bytes_per_step = row.at("bytes_per_step"),
          .blocking_share = row.at("blocking_share"),
          .open_seconds = row.at("open_seconds"),
          .decode_seconds = row.at("decode_seconds"),
          .worker_bytes = row.at("worker_bytes"),
          .server_bytes = row.at("server_bytes"),
          .threads = row.at("threads"),
          .steps = row.at("steps")};
}

cli::Json ShapeJson(const LengthCosts& costs) {
  const KvSpec& spec = costs.spec;
  return {{"model", "random weights"},
          {"num_layers", spec.num_layers},
          {"num_query_heads", spec.num_query_heads},
          {"num_kv_heads", spec.num_kv_heads},
          {"head_dim", spec.head_dim},
          {"hidden_size", costs.hidden_size},
          {"page_tokens", spec.page_tokens},
          {"segment_pages", spec.segment_pages},
          {"dtype", static_cast<int>(spec.dtype)},
          {"page_bytes_per_token", SegmentBytes(spec, spec.segment_pages) / spec.segment_tokens()}};
}

/// Adds those of `earlier` that `rows` has no row of the same kind for.
template <typename Row>
void AddOthers(const std::vector<Row>& earlier, std::vector<Row>* rows) {
  const auto kind = [](const Row& row) {
    return std::tuple(row.context_tokens, row.sequences, row.way);
  };
  for (const Row& row : earlier) {
    if (std::ranges::find(*rows, kind(row), kind) == rows->end()) rows->push_back(row);
  }
  std::ranges::stable_sort(*rows, {}, &Row::context_tokens);
}

cli::Json ScoringJson(std::span<const LengthCost> costs) {
  const ScoringGrowth growth = GrowthOf(costs);
  cli::Json json = {{"growth_over_linear", growth.relative},
                    {"largest_share", growth.largest_share},
                    {"half_of_step_tokens", nullptr}};
  if (growth.half_of_step_tokens) json["half_of_step_tokens"] = *growth.half_of_step_tokens;
  return json;
}

/// Adds of each policy how much faster its steps are than full attention, at the longest document
/// that both ran over with one sequence, and the growth of its steps.
void AddHeadlines(const Series& series, cli::Json* json) {
  for (const auto& [name, costs] : series) {
    if (name.second != 1) continue;
    (*json)[name.first + "_step_growth"] = costs.back().step_ms / costs.front().step_ms;
    const auto full = series.find({kFullName, 1});
    if (name.first == kFullName || full == series.end()) continue;
    for (const LengthCost& cost : costs) {
      const auto same =
          std::ranges::find(full->second, cost.context_tokens, &LengthCost::context_tokens);
      if (same == full->second.end()) continue;
      (*json)[name.first + "_vs_full"] = same->step_ms / cost.step_ms;
      (*json)["vs_full_tokens"] = cost.context_tokens;
    }
  }
}

void AddRow(const std::string& of, const LengthCost& cost, cli::Table* table) {
  table->AddRow({of, std::to_string(cost.sequences), cost.way, cli::FormatRatio(cost.step_ms, 2),
                 cli::FormatRatio(cost.scoring_ms, 2), cli::FormatRatio(cost.stall_ms, 2),
                 cli::FormatBytes(static_cast<uint64_t>(cost.bytes_per_step)),
                 cli::FormatBytes(static_cast<uint64_t>(PerToken(cost.worker_bytes, cost))),
                 cli::FormatBytes(static_cast<uint64_t>(PerToken(cost.server_bytes, cost)))});
}

std::string TokensText(uint32_t tokens) { return std::to_string(tokens >> 10) + " Ki"; }

}  // namespace

ScoringGrowth GrowthOf(std::span<const LengthCost> costs) {
  const LengthCost &first = costs.front(), &last = costs.back();
  ScoringGrowth growth;
  growth.relative = last.scoring_ms / first.scoring_ms * first.context_tokens / last.context_tokens;
  for (const LengthCost& cost : costs) {
    growth.largest_share = std::max(growth.largest_share, ShareOf(cost));
  }
  for (size_t i = costs.size(); i-- > 0 && ShareOf(costs[i]) >= kHalf;) {
    growth.half_of_step_tokens = costs[i].context_tokens;
    if (i == 0 || ShareOf(costs[i - 1]) >= kHalf) continue;
    // Scoring less half of the step is a straight line between the two, through zero.
    const double below = costs[i - 1].scoring_ms - kHalf * costs[i - 1].step_ms;
    const double above = costs[i].scoring_ms - kHalf * costs[i].step_ms;
    const double from = costs[i - 1].context_tokens, to = costs[i].context_tokens;
    growth.half_of_step_tokens = from + (to - from) * below / (below - above);
  }
  return growth;
}

cli::Json LengthJson(const LengthCosts& costs) {
  cli::Json json = {{"benchmark", "decode"}};
  const Series series = SeriesOf(costs.costs);
  AddHeadlines(series, &json);
  for (const auto& [name, of_way] : series) {
    if (name.first == kFullName) continue;
    json["scoring"][name.first]["batch_" + std::to_string(name.second)] = ScoringJson(of_way);
  }
  json["by_length"] = json["agents"] = json["left_out"] = cli::Json::array();
  for (const LengthCost& cost : costs.costs) json["by_length"].push_back(RowOf(cost));
  for (const LengthCost& cost : costs.agents) {
    cli::Json row = RowOf(cost);
    row["generated_tokens"] = cost.steps + 1;
    row["seconds"] = cost.open_seconds + cost.decode_seconds;
    json["agents"].push_back(std::move(row));
  }
  for (const LengthLeftOut& out : costs.left_out) {
    json["left_out"].push_back({{"context_tokens", out.context_tokens},
                                {"batch", out.sequences},
                                {"way", out.way},
                                {"why", out.why}});
  }
  json["tau"] = costs.tau;
  json["shape"] = ShapeJson(costs);
  return json;
}

StatusOr<LengthCosts> LengthCostsOf(const cli::Json& json) {
  LengthCosts costs;
  try {
    for (const cli::Json& row : json.at("by_length")) costs.costs.push_back(CostOfRow(row));
    for (const cli::Json& row : json.at("agents")) costs.agents.push_back(CostOfRow(row));
    for (const cli::Json& row : json.at("left_out")) {
      costs.left_out.push_back({.context_tokens = row.at("context_tokens"),
                                .sequences = row.at("batch"),
                                .way = row.at("way"),
                                .why = row.at("why")});
    }
    costs.tau = json.at("tau");
    const cli::Json& shape = json.at("shape");
    costs.hidden_size = shape.at("hidden_size");
    costs.spec.num_layers = shape.at("num_layers");
    costs.spec.num_query_heads = shape.at("num_query_heads");
    costs.spec.num_kv_heads = shape.at("num_kv_heads");
    costs.spec.head_dim = shape.at("head_dim");
    costs.spec.page_tokens = shape.at("page_tokens");
    costs.spec.segment_pages = shape.at("segment_pages");
    costs.spec.dtype = static_cast<DType>(shape.at("dtype").get<int>());
  } catch (const cli::Json::exception& malformed) {
    return InvalidArgument("no report of costs by length: ", malformed.what());
  }
  return costs;
}

Status AddEarlier(const LengthCosts& earlier, LengthCosts* costs) {
  const cli::Json before = ShapeJson(earlier), now = ShapeJson(*costs);
  if (before != now || earlier.tau != costs->tau) {
    return InvalidArgument("the earlier report is of ", before.dump(), " and threshold ",
                           earlier.tau, ", this one of ", now.dump(), " and ", costs->tau,
                           "; measure with the same options");
  }
  AddOthers(earlier.costs, &costs->costs);
  AddOthers(earlier.agents, &costs->agents);
  AddOthers(earlier.left_out, &costs->left_out);
  return OkStatus();
}

cli::Table LengthTable(const LengthCosts& costs) {
  cli::Table table({{"TOKENS", cli::Table::kRight},
                    {"BATCH", cli::Table::kRight},
                    {"WAY"},
                    {"STEP MS", cli::Table::kRight},
                    {"SCORING", cli::Table::kRight},
                    {"STALL", cli::Table::kRight},
                    {"A STEP", cli::Table::kRight},
                    {"WORKER/TOKEN", cli::Table::kRight},
                    {"SERVER/TOKEN", cli::Table::kRight}});
  for (const LengthCost& cost : costs.costs) AddRow(TokensText(cost.context_tokens), cost, &table);
  for (const LengthCost& cost : costs.agents) {
    AddRow(TokensText(cost.context_tokens) + ", an agent", cost, &table);
  }
  for (const LengthLeftOut& out : costs.left_out) {
    table.AddRow({TokensText(out.context_tokens), std::to_string(out.sequences), out.way, out.why,
                  "", "", "", "", ""});
  }
  return table;
}

cli::ScatterPlot LengthPlot(const LengthCosts& costs) {
  cli::ScatterPlot plot{.title = "A decoded token against the length of its document",
                        .x_title = "Ki tokens of the document",
                        .y_title = "ms a token of one sequence"};
  for (const auto& [name, of_way] : SeriesOf(costs.costs)) {
    const auto add = [&, &of_way = of_way](std::string line, double LengthCost::*figure) {
      plot.lines.push_back({.name = std::move(line), .points = {}});
      for (const LengthCost& cost : of_way) {
        plot.lines.back().points.push_back({.x = cost.context_tokens / 1024.0,
                                            .y = OfOne(cost.*figure, cost),
                                            .label = TokensText(cost.context_tokens)});
      }
    };
    add(name.second == 1 ? name.first : name.first + ", batch " + std::to_string(name.second),
        &LengthCost::step_ms);
    if (name.first != kFullName && name.second == 1) {
      add(name.first + ", scoring", &LengthCost::scoring_ms);
    }
  }
  return plot;
}

}  // namespace quire::bench
