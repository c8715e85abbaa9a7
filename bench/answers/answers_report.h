// SPDX-License-Identifier: Apache-2.0
//
// Summary of an AnswerRun: accuracies and losses against full attention, with 95 % bootstrap
// intervals, and the bytes recalled for them. Pure functions.
#ifndef QUIRE_BENCH_ANSWERS_ANSWERS_REPORT_H_
#define QUIRE_BENCH_ANSWERS_ANSWERS_REPORT_H_

#include <cstdint>
#include <string>

#include "apps/kit/output/json_output.h"
#include "apps/kit/output/scatter_plot.h"
#include "apps/kit/output/table.h"
#include "bench/answers/answers_run.h"
#include "quire/status.h"

namespace quire::bench {

struct AnswerSummaryOptions {
  uint32_t resamples = 2000;
  uint64_t seed = 1;
};

/// Makes the report. First come accuracies by key ("full", "freekv_12_5"), then the details of each
/// cell: overall, by set, and by place. On request it has `freekv_within_1_point_at_12_5`. The long
/// set is not in the overall figures; it has `long_full`, `long_early_full`, `long_late_full` and
/// so on.
cli::Json AnswersJson(const AnswerResults& results, const AnswerSummaryOptions& options);

/// INVALID_ARGUMENT unless `json` is a report from which table and plot can be made.
[[nodiscard]] Status CheckAnswersReport(const cli::Json& json);

/// Adds the cells of `earlier`, a report over the same questions, that `json` lacks.
/// INVALID_ARGUMENT as CheckAnswersReport, or naming the difference in questions or in the answers
/// of full attention.
[[nodiscard]] Status AddEarlierCells(const cli::Json& earlier, cli::Json* json);

/// Makes a table of AnswersJson's object: a row for each cell. The share of blocked heads is blank
/// for cells of reports without it. Bytes moved are given by purpose and in total, per token that
/// ran. REQUIRES, like the functions below: the report passes CheckAnswersReport.
cli::Table AnswersTable(const cli::Json& json);
/// Formats AnswersTable's rows as a table in Markdown.
std::string AnswersMarkdown(const cli::Json& json);
/// Plots accuracy against all bytes moved per token, with a line for each policy. The bytes are
/// units, digests, and reads at the opening of sequences.
cli::ScatterPlot AnswersPlot(const cli::Json& json);
/// Plots what FreeKV loses to full attention against the heads that block, with a line for each of
/// its cells' policies. A gain is drawn as no loss. Cells without a share of blocked heads are left
/// out.
cli::ScatterPlot BlockingPlot(const cli::Json& json);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_ANSWERS_ANSWERS_REPORT_H_
