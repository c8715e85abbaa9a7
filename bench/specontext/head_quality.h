// SPDX-License-Identifier: Apache-2.0
//
// Quality of a retrieval head's selections on recorded steps of a model (policy_model.h), against
// the pages with the most attention and against Quest at the same budget. Nothing is moved, only
// counted.
#ifndef QUIRE_BENCH_SPECONTEXT_HEAD_QUALITY_H_
#define QUIRE_BENCH_SPECONTEXT_HEAD_QUALITY_H_

#include <cstdint>
#include <map>
#include <string>

#include "bench/policy/policy_trial.h"
#include "bench/specontext/head_variants.h"
#include "gpuworker/retrieval/options.h"
#include "quire/status.h"

namespace quire::bench {

/// Selected units of decoded steps, and how many of them were not selected in the step before.
struct SelectedUnits {
  uint64_t selected = 0;
  uint64_t moved = 0;

  void Add(const SelectedUnits& other);
  /// 0 without selections.
  double moved_ratio() const;
};

struct SelectionQuality {
  PolicyFigures figures;  ///< All steps, those of the question's tokens included.
  SelectedUnits decoded;

  void Add(const SelectionQuality& other);
};

struct QualityOptions {
  uint32_t questions = 24;
  uint32_t decoded_tokens = 64;  ///< RecordOptions::decoded_tokens
  double percent = 12.5;         ///< Budget, sinks and window included.
  /// RetrievalOptions::selection_memory of trials that are not as published.
  uint32_t memory = worker::RetrievalOptions().selection_memory;
};

/// By "oracle", "quest" and the name of each mode, by itself and with kAsPublished behind it.
using QualityByName = std::map<std::string, SelectionQuality>;

/// Follows `model_directory` with pages of `page_tokens`. Reports progress on stderr.
StatusOr<QualityByName> MeasureQuality(const std::string& model_directory, const HeadsByMode& heads,
                                       uint32_t page_tokens, const QualityOptions& options);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_SPECONTEXT_HEAD_QUALITY_H_
