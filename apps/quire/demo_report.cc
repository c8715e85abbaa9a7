// SPDX-License-Identifier: Apache-2.0
#include "apps/quire/demo_report.h"

#include <algorithm>
#include <span>

#include "apps/kit/output/moved_json.h"
#include "apps/kit/output/table.h"
#include "common/base/memory/checksum.h"

namespace quire::cli {
namespace {

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

double TokensPerSecond(uint64_t steps, double seconds) {
  return Ratio(static_cast<double>(steps), seconds);
}

double DecodeSeconds(const worker::SequenceStats& stats) {
  return stats.seconds_append + stats.seconds_generate;
}

}  // namespace

DemoTotals Sum(const DemoReport& report) {
  DemoTotals totals;
  double resident = 0, context = 0, full_seconds = 0, sparse_seconds = 0;
  uint64_t full_steps = 0, sparse_steps = 0;
  for (const DemoRow& row : report.rows) {
    const worker::SequenceStats& sparse = row.sparse.stats;
    totals.questions += row.questions;
    totals.full_correct += row.full.correct;
    totals.sparse_correct += row.sparse.correct;
    for (const uint32_t crc32c : {row.full.crc32c, row.sparse.crc32c}) {
      totals.answers_crc32c = Crc32c(std::as_bytes(std::span(&crc32c, 1)), totals.answers_crc32c);
    }
    totals.moved += sparse.moved;
    totals.ssd_reads += row.ssd_reads;
    totals.units_recalled += sparse.units_missed;
    totals.units_landed += sparse.units_landed;
    totals.units_from_host += sparse.units_from_host;
    totals.min_context_tokens = totals.min_context_tokens == 0
                                    ? row.tokens
                                    : std::min(totals.min_context_tokens, row.tokens);
    resident += sparse.resident_tokens;
    context += static_cast<double>(sparse.context_tokens);
    full_steps += row.full.stats.steps;
    sparse_steps += sparse.steps;
    full_seconds += DecodeSeconds(row.full.stats);
    sparse_seconds += DecodeSeconds(sparse);
  }
  totals.budget_ratio = Ratio(resident, context);
  totals.tokens_per_s_full = TokensPerSecond(full_steps, full_seconds);
  totals.tokens_per_s_sparse = TokensPerSecond(sparse_steps, sparse_seconds);
  return totals;
}

void PrintDemoTable(const DemoReport& report, std::ostream& out) {
  Table table({{"document"},
               {"tokens", Table::kRight},
               {"questions", Table::kRight},
               {"full", Table::kRight},
               {"sparse", Table::kRight},
               {"resident", Table::kRight},
               {"moved", Table::kRight},
               {"of resending", Table::kRight},
               {"from SSD", Table::kRight}});
  for (const DemoRow& row : report.rows) {
    const worker::SequenceStats& sparse = row.sparse.stats;
    if (row.questions == 0) {
      table.AddRow({row.document, FormatCount(row.tokens), "0", "-", "-", "-", "-", "-", "-"});
      continue;
    }
    table.AddRow({row.document, FormatCount(row.tokens), FormatCount(row.questions),
                  FormatCount(row.full.correct), FormatCount(row.sparse.correct),
                  FormatRatio(sparse.budget_ratio()), FormatBytes(sparse.moved.total()),
                  FormatRatio(sparse.moved.ratio()), FormatCount(row.ssd_reads) + " units"});
  }
  table.Print(out);
  const DemoTotals totals = Sum(report);
  out << "\nAnswered right, all pages resident:   " << totals.full_correct << " of "
      << totals.questions << "\nAnswered right, " << FormatRatio(totals.budget_ratio)
      << " of them resident: " << totals.sparse_correct << " of " << totals.questions << "\nMoved "
      << FormatBytes(totals.moved.total())
      << "; resending the budget in every step would have moved " << FormatBytes(totals.moved.full)
      << " (ratio " << FormatRatio(totals.moved.ratio()) << ")\n  of it pages at the start "
      << FormatBytes(totals.moved.at_open) << ", digests " << FormatBytes(totals.moved.digests)
      << ", recalls " << FormatBytes(totals.moved.units)
      << "\nRead from SSD: " << FormatCount(totals.ssd_reads)
      << " units\nPlaced from this process's memory: " << FormatCount(totals.units_from_host)
      << " units\nLargest difference from the logits of dense "
      << "attention, budget covering everything: ";
  if (report.logits_compared == 0) {
    out << "not compared\n";
  } else {
    out << report.dense_max_abs_logit_diff << " over " << FormatCount(report.logits_compared)
        << " logits\n";
  }
}

Json DemoJson(const DemoReport& report, const DemoOptions& options) {
  const DemoTotals totals = Sum(report);
  Json json = {{"questions", totals.questions},
               {"full_correct", totals.full_correct},
               {"sparse_correct", totals.sparse_correct},
               {"answers_crc32c", totals.answers_crc32c},
               {"budget_ratio", totals.budget_ratio}};
  AddMoved(totals.moved, &json);
  json["dense_max_abs_logit_diff"] =
      report.logits_compared == 0 ? Json() : Json(report.dense_max_abs_logit_diff);
  json.update(Json{
      {"logits_compared", report.logits_compared},
      {"tokens_per_s_full", totals.tokens_per_s_full},
      {"tokens_per_s_sparse", totals.tokens_per_s_sparse},
      {"ssd_reads", totals.ssd_reads},
      {"units_recalled", totals.units_recalled},
      {"units_landed", totals.units_landed},
      {"units_from_host", totals.units_from_host},
      {"documents", report.rows.size()},
      {"min_context_tokens", totals.min_context_tokens},
      {"ingested_tokens", report.ingested_tokens},
      {"reused_tokens", report.reused_tokens},
      {"ingest_tokens_per_s",
       TokensPerSecond(report.ingested_tokens - report.reused_tokens, report.seconds_ingest)},
      {"policy", options.retrieval.policy},
      {"budget_tokens", options.retrieval.budget_tokens},
      {"select", options.retrieval.side == worker::SelectionSide::kServer ? "server" : "worker"},
  });
  return json;
}

}  // namespace quire::cli
