// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/head/draft_features.h"

#include <algorithm>
#include <utility>

namespace quire::worker {

DraftFeatures::DraftFeatures(std::vector<uint32_t> layers, uint32_t hidden_size)
    : layers_(std::move(layers)), hidden_size_(hidden_size), rows_(layers_.size()) {}

bool DraftFeatures::Wants(uint32_t layer) const {
  return std::ranges::find(layers_, layer) != layers_.end();
}

void DraftFeatures::Take(uint32_t layer, std::span<const float> rows) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (layers_[i] == layer) rows_[i].insert(rows_[i].end(), rows.begin(), rows.end());
  }
}

size_t DraftFeatures::tokens() const {
  if (rows_.empty()) return 0;
  const auto least = std::ranges::min_element(rows_, {}, &std::vector<float>::size);
  return least->size() / hidden_size_;
}

std::vector<float> DraftFeatures::First(size_t count) const {
  std::vector<float> features;
  features.reserve(count * layers_.size() * hidden_size_);
  for (size_t token = 0; token < count; ++token) {
    for (const std::vector<float>& rows : rows_) {
      const auto row = rows.begin() + static_cast<ptrdiff_t>(token * hidden_size_);
      features.insert(features.end(), row, row + static_cast<ptrdiff_t>(hidden_size_));
    }
  }
  return features;
}

std::vector<float> DraftFeatures::Pop(size_t count) {
  std::vector<float> features = First(count);
  for (std::vector<float>& rows : rows_) {
    rows.erase(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(count * hidden_size_));
  }
  return features;
}

void DraftFeatures::Add(std::span<const float> features) {
  for (size_t at = 0; at < features.size(); at += hidden_size_) {
    const std::span<const float> row = features.subspan(at, hidden_size_);
    std::vector<float>& rows = rows_[at / hidden_size_ % rows_.size()];
    rows.insert(rows.end(), row.begin(), row.end());
  }
}

}  // namespace quire::worker
