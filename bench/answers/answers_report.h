// SPDX-License-Identifier: Apache-2.0
//
// What AnswerRun found, summed up: accuracies and what they lose against full attention, with 95 %
// bootstrap intervals, and what was recalled for them. Pure functions.
#ifndef QUIRE_BENCH_ANSWERS_ANSWERS_REPORT_H_
#define QUIRE_BENCH_ANSWERS_ANSWERS_REPORT_H_

#include <cstdint>
#include <string>

#include "apps/kit/json_output.h"
#include "apps/kit/table.h"
#include "bench/answers/answers_run.h"
#include "bench/answers/scatter_plot.h"
#include "common/base/status.h"

namespace quire::bench {

struct AnswerSummaryOptions {
  uint32_t resamples = 2000;
  uint64_t seed = 1;
};

/// Accuracies by key ("full", "freekv_12_5") first, then everything of each cell: overall, by set,
/// and by place, then `freekv_within_1_point_at_12_5` where that was asked, and for the long set,
/// which is not in what is overall, `long_full`, `long_early_full`, `long_late_full` and so on.
cli::Json AnswersJson(const AnswerResults& results, const AnswerSummaryOptions& options);

/// INVALID_ARGUMENT unless `json` is a report that table and plot can be made of.
[[nodiscard]] Status CheckAnswersReport(const cli::Json& json);

/// Adds the cells of `earlier`, a report over the same questions, that `json` has not.
/// INVALID_ARGUMENT as CheckAnswersReport, or names what differs: what was asked, or what full
/// attention answered.
[[nodiscard]] Status AddEarlierCells(const cli::Json& earlier, cli::Json* json);

/// The same for people, from AnswersJson's object: a row for each cell. Which share of the heads
/// blocked is left blank for cells of reports that do not say it. What moved for it is by
/// what it was for, and all of it, over every token that ran. Of a report that CheckAnswersReport
/// passes, as those below.
cli::Table AnswersTable(const cli::Json& json);
/// AnswersTable's rows as a table in Markdown.
std::string AnswersMarkdown(const cli::Json& json);
/// Accuracy against all bytes moved per token (units, digests, and what was read when sequences
/// were opened), a line for each policy.
ScatterPlot AnswersPlot(const cli::Json& json);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_ANSWERS_ANSWERS_REPORT_H_
