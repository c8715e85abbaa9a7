// SPDX-License-Identifier: Apache-2.0
//
// The main job, as one function. The model reads documents into the store, and answers questions
// with every page resident (`full`) and with a budget (sparse). Moved bytes are counted. Knows
// nothing of servers: it runs against any Client.
#ifndef QUIRE_APPS_QUIRE_DEMO_RUN_H_
#define QUIRE_APPS_QUIRE_DEMO_RUN_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "apps/kit/documents/demo_corpus.h"
#include "gpuworker/engine/engine.h"
#include "gpuworker/text/tokenizer.h"
#include "quire/client.h"
#include "quire/status.h"

namespace quire::cli {

struct DemoOptions {
  worker::RetrievalOptions retrieval;  ///< Retrieval of the sparse runs.
  std::string collection = "demo";
  size_t logit_checks = 2;  ///< Documents over which sparse logits are compared with dense ones.
};

/// Totals of all questions asked over one document with one policy.
struct DemoAnswers {
  uint32_t correct = 0;
  uint32_t crc32c = 0;  ///< Checksum of the tokens of all answers.
  worker::SequenceStats stats;
};

struct DemoRow {
  std::string document;
  uint64_t tokens = 0;
  uint32_t questions = 0;
  DemoAnswers full = {};
  DemoAnswers sparse = {};
  uint64_t ssd_reads = 0;  ///< Units read from SSD while the sparse questions were asked.
};

struct DemoReport {
  std::vector<DemoRow> rows;
  uint64_t ingested_tokens = 0;
  uint64_t reused_tokens = 0;
  double seconds_ingest = 0;
  double dense_max_abs_logit_diff = 0;  ///< Means nothing when none were compared.
  size_t logits_compared = 0;
};

/// Runs everything; progress goes to stderr, remarks (a text cut to the model's context) to
/// `notes`.
StatusOr<DemoReport> RunDemo(const worker::Engine& engine, const worker::Tokenizer& tokenizer,
                             Client& client, const DemoCorpus& corpus, const DemoOptions& options,
                             std::ostream& notes);

}  // namespace quire::cli

#endif  // QUIRE_APPS_QUIRE_DEMO_RUN_H_
