// SPDX-License-Identifier: Apache-2.0
//
// Report of `quire bench rag`: a row for each suite, number of documents and method. Pure
// functions.
#ifndef QUIRE_BENCH_RAG_RAG_REPORT_H_
#define QUIRE_BENCH_RAG_RAG_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "apps/kit/output/json_output.h"
#include "apps/kit/output/table.h"
#include "bench/rag/rag_run.h"

namespace quire::bench {

/// A share with the ends of its 95 % interval (Wilson).
struct Interval {
  double share = 0;
  double low = 0;
  double high = 0;
};
/// All zero without questions.
Interval WilsonInterval(const Share& share);

/// Totals of one suite at one number of documents.
struct RagCell {
  std::string suite;
  uint32_t documents = 0;
  RagTotals totals;
};

/// Times of one method to the first token.
struct FirstToken {
  std::string model;      ///< "suite", "layers"
  std::string tier;       ///< "dram", "ssd"
  std::string transport;  ///< "shm", "ucx", "grpc"
  std::string method;
  double seconds = 0;       ///< Median.
  double full_seconds = 0;  ///< Median of dense prefill, without the store, of the same prompts.
  uint64_t prompt_tokens = 0;
};

/// Adds METHOD_accuracy and so on of `headline`, and SUITE_METHOD_accuracy and so on of the other
/// suites with as many documents. METHOD_ttft_speedup is of the first tier and
/// transport that "layers" was timed on, if it was. Then come "cells" and "first_token". A recovery
/// is (method - reuse_strict) / (full - reuse_strict), of accuracy and of divergence. It is null
/// where full and reuse_strict do not differ.
void AddRagJson(const std::vector<RagCell>& cells, const RagCell& headline,
                const std::vector<FirstToken>& first_tokens, cli::Json* json);
cli::Table RagTable(const std::vector<RagCell>& cells, const std::vector<FirstToken>& first_tokens);

/// 0 for no values.
double MedianSeconds(std::vector<double> seconds);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_RAG_RAG_REPORT_H_
