// SPDX-License-Identifier: Apache-2.0
//
// A chapter of the demo: documents that were stored alone, and one question across all of them. It
// is answered by several methods of reuse, side by side.
#ifndef QUIRE_APPS_QUIRE_DEMO_ACROSS_H_
#define QUIRE_APPS_QUIRE_DEMO_ACROSS_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "apps/kit/documents/demo_corpus.h"
#include "apps/kit/output/json_output.h"
#include "gpuworker/engine/engine.h"
#include "gpuworker/engine/reuse/reuse_run.h"
#include "gpuworker/text/tokenizer.h"
#include "quire/status.h"

namespace quire::cli {

struct AcrossRow {
  worker::ReuseMethod method = worker::ReuseMethod::kFull;
  bool right = false;
  worker::ReuseStats stats;
};

struct AcrossReport {
  std::vector<std::string> documents;  ///< In the order of the prompt.
  std::string question;
  std::string answer;           ///< The right one.
  std::vector<AcrossRow> rows;  ///< Empty where nothing could be asked.
};

/// Stores the beginnings of up to ten documents of `corpus`, as much of each as fits in the model's
/// context together, as documents of `collection`. Asks the last question whose answer is in one of
/// them and nowhere else. Nothing is asked with fewer than two documents, or without such a
/// question.
StatusOr<AcrossReport> AskAcross(const worker::Engine& engine, const worker::Tokenizer& tokenizer,
                                 const DemoCorpus& corpus, const std::string& collection);

/// Prints nothing for a report without rows.
void PrintAcross(const AcrossReport& report, std::ostream& out);
/// Null for a report without rows.
Json AcrossJson(const AcrossReport& report);

}  // namespace quire::cli

#endif  // QUIRE_APPS_QUIRE_DEMO_ACROSS_H_
