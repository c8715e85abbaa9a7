// SPDX-License-Identifier: Apache-2.0
//
// PromptRetrieval: which cells of an assembled prompt a generated token attends to. A retrieval
// policy selects pages of cells, in place of pages of a document. All cells are resident, so every
// selection precedes attention and nothing is recalled.
//
// Cells p * i to p * (i + 1) of a layer are its page i, whatever their positions. Keys carry their
// rotation, so attention does not depend on the order.
//
// Ownership: what `parts` names outlives it. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_ENGINE_REUSE_PROMPT_RETRIEVAL_H_
#define QUIRE_GPUWORKER_ENGINE_REUSE_PROMPT_RETRIEVAL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "gpuworker/device/device.h"
#include "gpuworker/device/device_list.h"
#include "gpuworker/engine/parts.h"
#include "gpuworker/retrieval/options.h"
#include "gpuworker/retrieval/policy.h"
#include "quire/status.h"

namespace quire::worker {

/// Cells of one layer on the device, the new token's among them.
struct CellPools {
  const void* keys = nullptr;    ///< [slots][p][n_kv][d]
  const void* values = nullptr;  ///< [slots][p][n_kv][d]
  uint64_t cells = 0;
  uint64_t slots = 0;  ///< Whole pages that the pools have room for; at least the cells' pages.
};

class PromptRetrieval {
 public:
  /// INVALID_ARGUMENT for options that do not fit. Pages are scored at the worker, whatever
  /// `options` says.
  static StatusOr<std::unique_ptr<PromptRetrieval>> Create(const EngineParts& parts,
                                                           RetrievalOptions options);

  /// Attends one token to its layer: `q` and `out` are [n_q][d] on the device. Cells only grow from
  /// call to call.
  Status Attend(uint32_t layer, const CellPools& pools, const float* q, float* out);

  /// Cells attended to over those there were, in the last token of each layer, a mean over layers
  /// and KV heads. 1 before the first.
  double attended_ratio() const;

 private:
  /// Pages of one token that KV heads attend to: all of them to `fixed`, each to its selection.
  struct Attended {
    std::vector<uint32_t> fixed;
    std::vector<std::vector<uint32_t>> selected;  ///< [n_kv] ascending
  };
  PromptRetrieval(const EngineParts& parts, std::unique_ptr<RetrievalPolicy> policy);

  /// Tells the policy of the pages that are complete by now.
  Status Observe(uint32_t layer, const CellPools& pools);
  StatusOr<Attended> Choose(uint32_t layer, const CellPools& pools, const CacheLayout& layout,
                            const float* q);
  Status AttendTo(const Attended& attended, const CellPools& pools, const float* q, float* out);
  Status AttendToAll(const CellPools& pools, const float* q, float* out) const;
  void Count(uint32_t layer, const Attended& attended, const CellPools& pools);

  const EngineParts parts_;
  const std::unique_ptr<RetrievalPolicy> policy_;
  std::vector<std::optional<uint32_t>> observed_;  ///< [num_layers] pages that the policy knows.
  std::vector<double> ratios_;                     ///< [num_layers]
  DeviceBuffer units_;                             ///< [n_kv] units of a page
  DeviceList<int32_t> slot_;
  DeviceList<int32_t> slots_;
  DeviceList<int32_t> valid_tokens_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_REUSE_PROMPT_RETRIEVAL_H_
