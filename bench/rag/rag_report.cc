// SPDX-License-Identifier: Apache-2.0
#include "bench/rag/rag_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

namespace quire::bench {
namespace {

/// The model whose speed-ups stand at the top of the report.
constexpr char kTimedModel[] = "layers";
constexpr char kStrict[] = "reuse_strict";
constexpr double kLeastLoss = 0.1;         ///< Accuracy that reuse loses, for a recovery.
constexpr double kLeastDivergence = 0.01;  ///< Nats likewise.
constexpr double kNormal95 = 1.959964;     ///< 97.5th percentile of the normal distribution.

double Mean(double sum, uint64_t count) {
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

double Accuracy(const Share& share) { return Mean(static_cast<double>(share.right), share.asked); }

double AnswerDivergence(const MethodTotals& totals) {
  return Mean(totals.answer_divergence, totals.questions);
}

/// Unset where no row of a document was measured.
std::optional<double> DocumentDivergence(const MethodTotals& totals) {
  if (totals.document_rows == 0) return std::nullopt;
  return Mean(totals.document_divergence, totals.document_rows);
}

cli::Json OrNull(std::optional<double> figure) {
  return figure ? cli::Json(*figure) : cli::Json(nullptr);
}

/// Null where less than `least` was lost.
cli::Json Recovery(double strict, double method, double full, double least) {
  if (std::abs(full - strict) < least) return nullptr;
  return (method - strict) / (full - strict);
}

/// Null also where one of the two was not measured.
cli::Json DocumentRecovery(const MethodTotals& strict, const MethodTotals& method) {
  const std::optional<double> lost = DocumentDivergence(strict);
  const std::optional<double> left = DocumentDivergence(method);
  return lost && left ? Recovery(*lost, *left, 0, kLeastDivergence) : cli::Json(nullptr);
}

double BytesVsFull(const MethodTotals& totals) {
  return Mean(static_cast<double>(totals.bytes_read), totals.bytes_whole);
}

cli::Json ShareJson(const Share& share) {
  const Interval interval = WilsonInterval(share);
  return {{"accuracy", interval.share},
          {"low", interval.low},
          {"high", interval.high},
          {"right", share.right},
          {"questions", share.asked}};
}

cli::Json TasksJson(const MethodTotals& totals) {
  cli::Json json = cli::Json::object();
  for (const auto& [task, share] : totals.by_task) json[task] = ShareJson(share);
  return json;
}

cli::Json FullJson(const MethodTotals& full) {
  cli::Json json = ShareJson(full.all);
  json["by_task"] = TasksJson(full);
  json["seconds_to_first_token"] = MedianSeconds(full.seconds);
  return json;
}

cli::Json MethodJson(const RagTotals& totals, const MethodTotals& method) {
  cli::Json json = ShareJson(method.all);
  json["by_task"] = TasksJson(method);
  json["sequence_ratio"] = Mean(method.sequence_ratio, method.questions);
  json["recompute_ratio"] = Mean(method.recompute_ratio, method.questions);
  json["bytes_vs_full"] = BytesVsFull(method);
  json["bytes_fetched"] = Mean(static_cast<double>(method.bytes_read), method.questions);
  json["kl_answer"] = AnswerDivergence(method);
  json["kl_documents"] = OrNull(DocumentDivergence(method));
  json["kl_document_tokens"] = method.document_rows;
  const auto strict = totals.methods.find(kStrict);
  if (strict != totals.methods.end()) {
    json["recovery"] = Recovery(Accuracy(strict->second.all), Accuracy(method.all),
                                Accuracy(totals.full.all), kLeastLoss);
    json["recovery_kl_answer"] =
        Recovery(AnswerDivergence(strict->second), AnswerDivergence(method), 0, kLeastDivergence);
    json["recovery_kl_documents"] = DocumentRecovery(strict->second, method);
  }
  const double seconds = MedianSeconds(method.seconds);
  json["seconds_to_first_token"] = seconds;
  json["ttft_speedup"] =
      seconds > 0 ? cli::Json(MedianSeconds(totals.full.seconds) / seconds) : cli::Json(nullptr);
  return json;
}

cli::Json CellJson(const RagCell& cell) {
  cli::Json json = {{"suite", cell.suite},
                    {"documents", cell.documents},
                    {"prompt_tokens", Mean(static_cast<double>(cell.totals.prompt_tokens),
                                           cell.totals.full.questions)},
                    {"full", FullJson(cell.totals.full)}};
  cli::Json methods = cli::Json::object();
  for (const auto& [name, totals] : cell.totals.methods) {
    methods[name] = MethodJson(cell.totals, totals);
  }
  json["methods"] = std::move(methods);
  return json;
}

double SpeedUp(const FirstToken& one) {
  return one.seconds > 0 ? one.full_seconds / one.seconds : 0;
}

cli::Json FirstTokenJson(const FirstToken& one) {
  return {{"model", one.model},
          {"tier", one.tier},
          {"transport", one.transport},
          {"method", one.method},
          {"prompt_tokens", one.prompt_tokens},
          {"seconds", one.seconds},
          {"full_seconds", one.full_seconds},
          {"ttft_speedup", SpeedUp(one)}};
}

/// Adds shares of a suite beside the headline.
void AddSuiteShares(const RagCell& cell, cli::Json* json) {
  const cli::Json of_cell = CellJson(cell);
  const std::string prefix = cell.suite + "_";
  (*json)[prefix + "full_accuracy"] = of_cell["full"]["accuracy"];
  for (const auto& [name, method] : of_cell["methods"].items()) {
    for (const char* const key :
         {"accuracy", "sequence_ratio", "recompute_ratio", "bytes_vs_full", "recovery"}) {
      (*json)[prefix + name + "_" + key] = method.value(key, cli::Json());
    }
  }
}

std::string Percent(const Share& share) {
  if (share.asked == 0) return "";
  const Interval interval = WilsonInterval(share);
  return cli::FormatRatio(100 * interval.share, 1) + " (" +
         cli::FormatRatio(100 * interval.low, 1) + ".." + cli::FormatRatio(100 * interval.high, 1) +
         ")";
}

std::string Seconds(double seconds) {
  return seconds > 0 ? cli::FormatDuration(std::chrono::duration_cast<Duration>(
                           std::chrono::duration<double>(seconds)))
                     : "";
}

void AddCellRows(const RagCell& cell, cli::Table* table) {
  const std::string label = cell.suite + ", " + std::to_string(cell.documents);
  table->AddRow({label, "full", Percent(cell.totals.full.all), "", "100.0", "", "", "",
                 Seconds(MedianSeconds(cell.totals.full.seconds))});
  for (const auto& [name, method] : cell.totals.methods) {
    const std::optional<double> of_documents = DocumentDivergence(method);
    table->AddRow({label, name, Percent(method.all),
                   cli::FormatRatio(100 * Mean(method.sequence_ratio, method.questions), 1),
                   cli::FormatRatio(100 * Mean(method.recompute_ratio, method.questions), 1),
                   cli::FormatRatio(100 * BytesVsFull(method), 1),
                   cli::FormatRatio(AnswerDivergence(method), 4),
                   of_documents ? cli::FormatRatio(*of_documents, 4) : "",
                   Seconds(MedianSeconds(method.seconds))});
  }
}

}  // namespace

Interval WilsonInterval(const Share& share) {
  if (share.asked == 0) return {};
  const auto n = static_cast<double>(share.asked);
  const double p = static_cast<double>(share.right) / n;
  const double z2 = kNormal95 * kNormal95;
  const double middle = (p + z2 / (2 * n)) / (1 + z2 / n);
  const double half = kNormal95 / (1 + z2 / n) * std::sqrt(p * (1 - p) / n + z2 / (4 * n * n));
  return {.share = p, .low = std::max(0.0, middle - half), .high = std::min(1.0, middle + half)};
}

double MedianSeconds(std::vector<double> seconds) {
  if (seconds.empty()) return 0;
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

void AddRagJson(const std::vector<RagCell>& cells, const RagCell& headline,
                const std::vector<FirstToken>& first_tokens, cli::Json* json) {
  const cli::Json cell = CellJson(headline);
  (*json)["full_accuracy"] = cell["full"]["accuracy"];
  const auto strict = headline.totals.methods.find(kStrict);
  if (strict != headline.totals.methods.end()) {
    (*json)["full_minus_reuse_strict"] =
        Accuracy(headline.totals.full.all) - Accuracy(strict->second.all);
  }
  for (const auto& [name, method] : cell["methods"].items()) {
    (*json)[name + "_accuracy"] = method["accuracy"];
    (*json)[name + "_kl"] = method["kl_answer"];
    for (const char* const key : {"sequence_ratio", "recompute_ratio", "bytes_vs_full",
                                  "ttft_speedup", "recovery", "kl_documents"}) {
      (*json)[name + "_" + key] = method.value(key, cli::Json());
    }
    (*json)[name + "_recovery_kl"] = method.value("recovery_kl_answer", cli::Json());
    (*json)[name + "_recovery_kl_documents"] = method.value("recovery_kl_documents", cli::Json());
  }
  for (const RagCell& one : cells) {
    const bool beside = one.suite != headline.suite && one.documents == headline.documents;
    if (beside) AddSuiteShares(one, json);
  }
  for (auto one = first_tokens.rbegin(); one != first_tokens.rend(); ++one) {
    if (one->model == kTimedModel) (*json)[one->method + "_ttft_speedup"] = SpeedUp(*one);
  }
  (*json)["cells"] = cli::Json::array();
  for (const RagCell& one : cells) (*json)["cells"].push_back(CellJson(one));
  (*json)["first_token"] = cli::Json::array();
  for (const FirstToken& one : first_tokens) (*json)["first_token"].push_back(FirstTokenJson(one));
}

cli::Table RagTable(const std::vector<RagCell>& cells,
                    const std::vector<FirstToken>& first_tokens) {
  cli::Table table({{"SUITE, DOCUMENTS"},
                    {"METHOD"},
                    {"RIGHT %", cli::Table::kRight},
                    {"READ %", cli::Table::kRight},
                    {"COMPUTED %", cli::Table::kRight},
                    {"BYTES %", cli::Table::kRight},
                    {"KL ANSWER", cli::Table::kRight},
                    {"KL DOCUMENTS", cli::Table::kRight},
                    {"FIRST TOKEN", cli::Table::kRight}});
  for (const RagCell& cell : cells) AddCellRows(cell, &table);
  for (const FirstToken& one : first_tokens) {
    table.AddRow({one.model + ", " + one.tier + ", " + one.transport, one.method, "", "", "", "",
                  "", "", Seconds(one.seconds) + " (" + cli::FormatRatio(SpeedUp(one), 2) + "x)"});
  }
  return table;
}

}  // namespace quire::bench
