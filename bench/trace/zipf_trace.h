// SPDX-License-Identifier: Apache-2.0
//
// A trace of questions about documents. A question is about the k-th most popular document with a
// probability proportional to 1 / k^zipf, independently of earlier questions. Lengths are
// log-normal and do not depend on popularity. Requests arrive as a Poisson process. The same
// options give the same trace on every machine.
#ifndef QUIRE_BENCH_TRACE_ZIPF_TRACE_H_
#define QUIRE_BENCH_TRACE_ZIPF_TRACE_H_

#include "bench/trace/trace.h"
#include "common/base/status.h"

namespace quire::bench {

struct ZipfTraceOptions {
  uint32_t documents = 10000;  ///< At least 1.
  uint32_t requests = 100000;
  double zipf = 1.0;  ///< 0 is uniform.
  uint64_t seed = 1;

  double median_tokens = 2048;    ///< Median length of a document.
  double sigma = 1.0;             ///< Standard deviation of the logarithm of the length.
  uint32_t min_tokens = 64;       ///< Shorter documents are extended to this.
  uint32_t max_tokens = 131072;   ///< Longer documents are cut.
  uint32_t prefix_tokens = 0;     ///< Tokens before every document: a system prompt.
  uint32_t question_tokens = 64;  ///< Tokens after the document, never cached.
  uint32_t block_tokens = 256;    ///< 0: a document is one block.
  double requests_per_second = 10;
};

/// INVALID_ARGUMENT, naming the remedy, without documents, or if the trace would exceed a hundred
/// million blocks (24 bytes each in memory).
[[nodiscard]] Status Validate(const ZipfTraceOptions& options);

/// REQUIRES: the options are valid.
Trace MakeZipfTrace(const ZipfTraceOptions& options);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRACE_ZIPF_TRACE_H_
