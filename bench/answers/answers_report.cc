// SPDX-License-Identifier: Apache-2.0
#include "bench/answers/answers_report.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "bench/answers/bootstrap.h"
#include "bench/answers/question_sets.h"
#include "gpuworker/retrieval/policies/freekv.h"

namespace quire::bench {
namespace {

constexpr const char* kFull = "full";
constexpr const char* kGoal = "freekv_12_5";
constexpr double kGoalLoss = 0.01;

using Chosen = std::function<bool(const AnswerSample&)>;

/// Accuracy of a cell over chosen samples, and the lead of full attention.
struct Accuracy {
  size_t samples = 0;
  Estimate right;
  Estimate loss;
};

class Summary {
 public:
  Summary(const AnswerResults& results, const AnswerSummaryOptions& options)
      : results_(results),
        options_(options),
        only_long_(std::ranges::all_of(
            results.samples, [](const AnswerSample& sample) { return sample.set == kLongSet; })) {}

  /// True if a set counts in the overall figures. The long one does only if it is the only one. Its
  /// answers depend on each other, and are about as many as those of all other sets.
  bool InOverall(const std::string& set) const { return set != kLongSet || only_long_; }

  Accuracy Of(const CellAnswers& cell, const Chosen& chosen) const {
    const CellAnswers& full = results_.cells.front();
    std::vector<double> right, loss;
    for (size_t i = 0; i < results_.samples.size(); ++i) {
      if (!chosen(results_.samples[i])) continue;
      right.push_back(cell.right[i]);
      loss.push_back(double{1} * full.right[i] - cell.right[i]);
    }
    return {.samples = right.size(),
            .right = BootstrapMean(right, options_.resamples, options_.seed),
            .loss = BootstrapMean(loss, options_.resamples, options_.seed)};
  }

 private:
  const AnswerResults& results_;
  const AnswerSummaryOptions& options_;
  const bool only_long_;
};

cli::Json Interval(const Estimate& estimate) { return {estimate.low, estimate.high}; }

cli::Json ToJson(const Accuracy& accuracy, const AnswerCosts& costs) {
  return {{"accuracy", accuracy.right.mean},
          {"accuracy_95", Interval(accuracy.right)},
          {"loss", accuracy.loss.mean},
          {"loss_95", Interval(accuracy.loss)},
          {"samples", accuracy.samples},
          {"recalled_bytes_per_token", costs.recalled_per_token()},
          {"resident_share", costs.resident_share()},
          {"bytes_units", costs.moved.units},
          {"bytes_digests", costs.moved.digests},
          {"bytes_at_open", costs.moved.at_open},
          {"steps", costs.steps},
          {"generated", costs.generated},
          {"blocking_heads", costs.blocking_share()},
          {"head_steps", costs.head_steps},
          {"sequences", costs.sequences},
          {"seconds", costs.seconds}};
}

/// Numbers of correct and all answers, at every place.
cli::Json PlacesJson(const AnswerResults& results, const CellAnswers& cell) {
  std::map<std::string, std::pair<uint32_t, uint32_t>> places;
  for (size_t i = 0; i < results.samples.size(); ++i) {
    if (results.samples[i].place.empty()) continue;
    auto& [right, all] = places[results.samples[i].place];
    right += cell.right[i];
    ++all;
  }
  cli::Json json = cli::Json::object();
  for (const auto& [place, counts] : places) {
    json[place] = double{1} * counts.first / counts.second;
  }
  return json;
}

cli::Json CellJson(const AnswerResults& results, const Summary& summary, const CellAnswers& cell) {
  AnswerCosts all;
  for (const auto& [set, costs] : cell.costs) {
    if (summary.InOverall(set)) all.Add(costs);
  }
  const auto in_overall = [&](const AnswerSample& sample) { return summary.InOverall(sample.set); };
  cli::Json json = ToJson(summary.Of(cell, in_overall), all);
  json["policy"] = cell.cell.policy;
  json["budget_percent"] = cell.cell.percent_text;
  if (cell.cell.key_rank > 0) json["key_rank"] = cell.cell.key_rank;
  if (cell.cell.tau) json["tau"] = *cell.cell.tau;
  for (const auto& [name, costs] : cell.costs) {
    const std::string& set = name;
    const auto of_set = [&](const AnswerSample& sample) { return sample.set == set; };
    json["sets"][set] = ToJson(summary.Of(cell, of_set), costs);
  }
  json["places"] = PlacesJson(results, cell);
  return json;
}

/// Adds accuracy while a sequence generates, by key: "long_full", "long_early_freekv_12_5".
void AddLong(cli::Json* json) {
  const cli::Json cells = (*json)["cells"];  // A copy, because new fields move the others.
  for (const auto& [key, cell] : cells.items()) {
    if (!cell.at("sets").contains(kLongSet)) continue;
    (*json)["long_" + key] = cell.at("sets").at(kLongSet).at("accuracy");
    (*json)["long_early_" + key] = cell.at("places").at(kLongEarly);
    (*json)["long_late_" + key] = cell.at("places").at(kLongLate);
  }
}

/// Adds the result of FreeKV against its goal, if it took part.
void AddGoal(cli::Json* json) {
  const cli::Json& cells = (*json)["cells"];
  if (!cells.contains(kGoal)) return;
  const cli::Json goal = cells[kGoal];  // A copy, because new fields move the others.
  (*json)["full_minus_freekv_12_5"] = goal["loss"];
  (*json)["full_minus_freekv_12_5_95"] = goal["loss_95"];
  (*json)["freekv_within_1_point_at_12_5"] = goal["loss"].get<double>() <= kGoalLoss ? 1 : 0;
  (*json)["freekv_within_1_point_at_12_5_by_interval"] =
      goal["loss_95"][1].get<double>() <= kGoalLoss ? 1 : 0;
}

/// Fields of a table row, in the order of the columns.
struct Row {
  std::vector<std::string> titles;
  std::vector<std::string> cells;
};

std::string Percent(double share) { return cli::FormatRatio(100 * share, 1); }
std::string PercentInterval(const cli::Json& interval) {
  return Percent(interval.at(0).get<double>()) + ".." + Percent(interval.at(1).get<double>());
}

/// Bytes of `kinds` that the cell moved, per token that ran.
double BytesPerToken(const cli::Json& cell, std::initializer_list<const char*> kinds) {
  const auto steps = cell.at("steps").get<double>();
  double bytes = 0;
  for (const char* kind : kinds) bytes += cell.at(kind).get<double>();
  return steps == 0 ? 0 : bytes / steps;
}
double MovedPerToken(const cli::Json& cell) {
  return BytesPerToken(cell, {"bytes_units", "bytes_digests", "bytes_at_open"});
}
std::string Bytes(double bytes) { return cli::FormatBytes(static_cast<uint64_t>(bytes)); }

std::vector<Row> Rows(const cli::Json& json) {
  std::vector<Row> rows;
  for (const cli::Json& cell : json.at("cells")) {
    Row row;
    const auto add = [&](std::string title, std::string text) {
      row.titles.push_back(std::move(title));
      row.cells.push_back(std::move(text));
    };
    const bool full = cell.at("policy") == kFull;
    add("policy", cell.at("policy"));
    add("budget", full ? "all" : cell.at("budget_percent").get<std::string>() + " %");
    add("right %", Percent(cell.at("accuracy")));
    add("interval", PercentInterval(cell.at("accuracy_95")));
    add("lost to full", full ? "" : Percent(cell.at("loss")));
    add("its interval", full ? "" : PercentInterval(cell.at("loss_95")));
    // Absent in older reports.
    add("blocked %", cell.contains("blocking_heads") ? Percent(cell.at("blocking_heads")) : "");
    for (const auto& [set, of_set] : cell.at("sets").items()) {
      add(set, Percent(of_set.at("accuracy")));
    }
    add("recalled per token", Bytes(BytesPerToken(cell, {"bytes_units"})));
    add("digests", Bytes(BytesPerToken(cell, {"bytes_digests"})));
    add("at open", Bytes(BytesPerToken(cell, {"bytes_at_open"})));
    add("moved per token", Bytes(MovedPerToken(cell)));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string MarkdownRow(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += " " + cell + " |";
  return line + "\n";
}

}  // namespace

cli::Json AnswersJson(const AnswerResults& results, const AnswerSummaryOptions& options) {
  const Summary summary(results, options);
  cli::Json json = {{"benchmark", "answers"}};
  cli::Json cells = cli::Json::object();
  for (const CellAnswers& cell : results.cells) {
    const std::string& key = cell.cell.key;
    cells[key] = CellJson(results, summary, cell);
    json[key] = cells[key]["accuracy"];
  }
  json["samples"] = cells[kFull]["samples"];
  json["cells"] = std::move(cells);
  json["resamples"] = options.resamples;
  json["seed"] = options.seed;
  AddGoal(&json);
  AddLong(&json);
  return json;
}

Status CheckAnswersReport(const cli::Json& json) {
  if (!json.is_object() || !json.contains("cells") || !json["cells"].is_object()) {
    return InvalidArgument("the report has no cells; give what an earlier --json printed");
  }
  try {
    (void)Rows(json);
  } catch (const cli::Json::exception& malformed) {
    return InvalidArgument("the report is damaged: ", malformed.what());
  }
  return OkStatus();
}

Status AddEarlierCells(const cli::Json& earlier, cli::Json* json) {
  QUIRE_RETURN_IF_ERROR(CheckAnswersReport(earlier));
  for (const char* key : {"questions_seed", "samples", "documents", "page_tokens", "resamples",
                          "seed", kFull, "long_full"}) {
    const cli::Json before = earlier.value(key, cli::Json()), now = json->value(key, cli::Json());
    if (before == now) continue;
    return InvalidArgument("the earlier report has ", key, " ", before.dump(), ", this one ",
                           now.dump(), "; ask the same questions of the same model");
  }
  try {
    cli::Json both = *json;
    for (const auto& [key, cell] : earlier["cells"].items()) {
      if (both["cells"].contains(key)) continue;
      both["earlier_cells"].push_back(key);
      both[key] = cell.at("accuracy");
      both["cells"][key] = cell;
    }
    AddGoal(&both);
    AddLong(&both);
    *json = std::move(both);
  } catch (const cli::Json::exception& malformed) {
    return InvalidArgument("the earlier report is damaged: ", malformed.what());
  }
  return OkStatus();
}

cli::Table AnswersTable(const cli::Json& json) {
  std::optional<cli::Table> table;
  for (const Row& row : Rows(json)) {
    if (!table) {
      std::vector<cli::Table::Column> columns;
      for (size_t i = 0; i < row.titles.size(); ++i) {
        columns.push_back({row.titles[i], i == 0 ? cli::Table::kLeft : cli::Table::kRight});
      }
      table.emplace(std::move(columns));
    }
    table->AddRow(row.cells);
  }
  return table ? *std::move(table) : cli::Table({});
}

std::string AnswersMarkdown(const cli::Json& json) {
  std::string text;
  for (const Row& row : Rows(json)) {
    if (text.empty()) {
      text = MarkdownRow(row.titles);
      std::vector<std::string> alignment(row.titles.size(), "---:");
      alignment.front() = "---";
      text += MarkdownRow(alignment);
    }
    text += MarkdownRow(row.cells);
  }
  return text;
}

cli::ScatterPlot AnswersPlot(const cli::Json& json) {
  constexpr double kKib = 1024;
  cli::ScatterPlot plot{
      .title = "Answers right against bytes moved",
      .x_title = "KiB moved per token: units, digests, and what was read at the start",
      .y_title = "% of answers right"};
  for (const cli::Json& cell : json.at("cells")) {
    const double accuracy = 100 * cell.at("accuracy").get<double>();
    if (cell.at("policy") == kFull) {
      plot.levels.push_back({"full attention", accuracy});
      continue;
    }
    if (plot.lines.empty() || plot.lines.back().name != cell.at("policy")) {
      plot.lines.push_back({.name = cell.at("policy"), .points = {}});
    }
    plot.lines.back().points.push_back(
        {.x = MovedPerToken(cell) / kKib,
         .y = accuracy,
         .label = cell.at("budget_percent").get<std::string>() + " % of the context"});
  }
  return plot;
}

cli::ScatterPlot BlockingPlot(const cli::Json& json) {
  cli::ScatterPlot plot{.title = "FreeKV: answers lost against heads that block",
                        .x_title = "% of heads whose recall precedes attention",
                        .y_title = "points lost to full attention",
                        .levels = {{"one point", 1}}};
  for (const cli::Json& cell : json.at("cells")) {
    const auto policy = cell.at("policy").get<std::string>();
    if (!policy.starts_with(worker::FreeKvPolicy::kName) || !cell.contains("blocking_heads")) {
      continue;
    }
    if (plot.lines.empty() || plot.lines.back().name != policy) {
      plot.lines.push_back({.name = policy, .points = {}});
    }
    const double loss = 100 * cell.at("loss").get<double>();
    plot.lines.back().points.push_back(
        {.x = 100 * cell.at("blocking_heads").get<double>(),
         .y = std::max(0.0, loss),
         .label = cell.at("budget_percent").get<std::string>() + " % of the context"});
  }
  return plot;
}

}  // namespace quire::bench
