// SPDX-License-Identifier: Apache-2.0
//
// StatisticsCollector: attention over one document that also keeps what its statistics need: the
// keys, the queries of sampled tokens and those of the last blocks. It stands between a decoder
// and the attention that computes.
// Ownership: borrows attention and device. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_CONTEXT_STATISTICS_STATISTICS_COLLECTOR_H_
#define QUIRE_GPUWORKER_CONTEXT_STATISTICS_STATISTICS_COLLECTOR_H_

#include <cstdint>
#include <vector>

#include "gpuworker/context/samkv/samkv_selection.h"
#include "gpuworker/device/device.h"
#include "gpuworker/model/checkpoint/config.h"
#include "gpuworker/model/decoder.h"
#include "quire/status.h"

namespace quire::worker {

class StatisticsCollector final : public AttentionBackend {
 public:
  /// For a document of `split.tokens` tokens, all of which are computed from position 0 on.
  StatisticsCollector(const ModelConfig& config, Device* device, AttentionBackend* attention,
                      const BlockSplit& split);

  Status Attend(const LayerStep& step) override;
  /// After all tokens.
  DocumentStatistics Statistics() const;

 private:
  struct Layer {
    std::vector<float> keys;     ///< [tokens][n_kv][d]
    std::vector<float> sampled;  ///< [sampled tokens][n_q][d]
    std::vector<float> local;    ///< [tokens of the local blocks][n_q][d]
  };
  /// Appends row `row` of the step's queries.
  Status AppendQuery(const LayerStep& step, uint32_t row, std::vector<float>* to) const;

  const ModelConfig& config_;
  Device* const device_;
  AttentionBackend* const attention_;
  const BlockSplit split_;
  const std::vector<uint32_t> sampled_;
  std::vector<Layer> layers_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_STATISTICS_STATISTICS_COLLECTOR_H_
