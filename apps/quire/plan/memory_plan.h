// SPDX-License-Identifier: Apache-2.0
//
// MemoryPlan: what `quire plan` computes from its options, and how it shows that to people and
// programs. It reads a config.json at most. Units: bytes; tokens. Thread-safety: pure functions.
#ifndef QUIRE_APPS_QUIRE_PLAN_MEMORY_PLAN_H_
#define QUIRE_APPS_QUIRE_PLAN_MEMORY_PLAN_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "apps/kit/output/json_output.h"
#include "apps/kit/output/scatter_plot.h"
#include "gpuworker/memory/decode_walk.h"
#include "gpuworker/memory/memory_model.h"
#include "gpuworker/memory/model_sizes.h"
#include "quire/dtype.h"
#include "quire/status.h"

namespace quire::cli {

struct PlanArgs {
  std::string model = "llama-3.1-8b";  ///< A known model, a config.json or its directory.
  uint64_t device_bytes = uint64_t{80} << 30;
  uint32_t requests = 1;
  uint64_t budget_tokens = 2048;
  DType dtype = DType::kF16;              ///< Type of keys and values.
  std::optional<uint64_t> draft_bytes;    ///< Unset: the model's.
  std::optional<uint64_t> runtime_bytes;  ///< Measured; unset: a share of the weights.
  bool key_only_head = false;
  uint64_t context_tokens = 1;    ///< Length that the requests must reach.
  std::vector<uint64_t> prompts;  ///< Lengths that a decode begins with; empty: none is walked.
  uint64_t generate = 0;          ///< Tokens of each request of that decode.
  uint32_t lead_steps = worker::AdaptiveMemory::kLeadSteps;
  std::string plot;  ///< File of the plot; empty: none.
};

struct MemoryPlan {
  worker::ModelSizes sizes;
  worker::MemoryModel model;
  std::optional<worker::DecodeWalk> walk;
};

/// INVALID_ARGUMENT for sizes that make no sense, for a length beyond the model's positions, and
/// for a plan that does not fit, saying what would.
StatusOr<MemoryPlan> MakePlan(const PlanArgs& args);

/// Layers on the device against length: as planned, and offloading all layers at once.
ScatterPlot PlanPlot(const MemoryPlan& plan);
/// Keys "s0" ... "sL" are the thresholds.
Json PlanJson(const MemoryPlan& plan);
/// Table of thresholds, the plot, and the events of the decode.
void PrintPlan(const MemoryPlan& plan, std::ostream& out);

}  // namespace quire::cli

#endif  // QUIRE_APPS_QUIRE_PLAN_MEMORY_PLAN_H_
