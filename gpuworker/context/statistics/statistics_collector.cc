// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/statistics/statistics_collector.h"

#include <algorithm>

namespace quire::worker {

StatisticsCollector::StatisticsCollector(const ModelConfig& config, Device* device,
                                         AttentionBackend* attention, const BlockSplit& split)
    : config_(config),
      device_(device),
      attention_(attention),
      split_(split),
      sampled_(SampledTokens(split.tokens)),
      layers_(config.num_layers) {}

Status StatisticsCollector::Attend(const LayerStep& step) {
  Layer& layer = layers_[step.layer];
  const size_t row = size_t{config_.num_kv_heads} * config_.head_dim;
  const size_t before = layer.keys.size();
  layer.keys.resize(before + step.num_tokens * row);
  QUIRE_RETURN_IF_ERROR(device_->CopyToHost(layer.keys.data() + before, step.k,
                                            step.num_tokens * row * sizeof(float)));
  for (uint32_t i = 0; i < step.num_tokens; ++i) {
    const auto token = static_cast<uint32_t>(step.first_position + i);
    if (std::ranges::binary_search(sampled_, token)) {
      QUIRE_RETURN_IF_ERROR(AppendQuery(step, i, &layer.sampled));
    }
    if (token >= split_.LocalBegin()) QUIRE_RETURN_IF_ERROR(AppendQuery(step, i, &layer.local));
  }
  return attention_->Attend(step);
}

Status StatisticsCollector::AppendQuery(const LayerStep& step, uint32_t row,
                                        std::vector<float>* to) const {
  const size_t floats = size_t{config_.num_query_heads} * config_.head_dim;
  to->resize(to->size() + floats);
  return device_->CopyToHost(to->data() + to->size() - floats, step.q + row * floats,
                             floats * sizeof(float));
}

DocumentStatistics StatisticsCollector::Statistics() const {
  DocumentStatistics statistics{.split = split_, .layers = {}};
  const RopeRotation rotation(config_.rope);
  for (const Layer& layer : layers_) {
    statistics.layers.push_back(StatisticsOf({.keys = layer.keys.data(),
                                              .sampled_queries = layer.sampled.data(),
                                              .local_queries = layer.local.data(),
                                              .first_position = 0,
                                              .num_query_heads = config_.num_query_heads,
                                              .num_kv_heads = config_.num_kv_heads,
                                              .head_dim = config_.head_dim,
                                              .interleaved = config_.rope.interleaved},
                                             split_, sampled_, rotation));
  }
  return statistics;
}

}  // namespace quire::worker
