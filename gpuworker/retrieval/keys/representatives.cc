// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/keys/representatives.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gpuworker/retrieval/keys/host_keys.h"
#include "kernels/cpu/cpu_kernels.h"

namespace quire::worker {
namespace {

/// Softmax over the scores that are numbers; 0 for the others.
void Softmax(std::span<float> scores) {
  float most = -INFINITY;
  for (const float score : scores) {
    if (score > most) most = score;
  }
  float total = 0;
  for (float& score : scores) {
    score = std::isfinite(score) && std::isfinite(most) ? std::exp(score - most) : 0;
    total += score;
  }
  if (total == 0) return;
  for (float& score : scores) score /= total;
}

}  // namespace

uint32_t Representatives::BlockPages(const KvSpec& spec) {
  uint32_t pages = std::clamp(kBlockTokens / spec.page_tokens, 1u, spec.segment_pages);
  while (spec.segment_pages % pages != 0) --pages;
  return pages;
}

Representatives::Representatives(const KvSpec& spec, uint32_t first_page, uint32_t window_pages)
    : spec_(spec), first_page_(first_page), window_pages_(window_pages) {}

uint32_t Representatives::end_page() const {
  return first_page_ + static_cast<uint32_t>(means_.size() / mean_size());
}

std::span<const float> Representatives::mean(uint32_t page) const {
  return std::span(means_).subspan((page - first_page_) * mean_size(), mean_size());
}

void Representatives::AddPage(std::vector<float> keys) {
  const size_t rows = keys.size() / mean_size();
  window_.push_back({.keys = std::move(keys),
                     .received = std::vector<float>(spec_.num_kv_heads * rows),
                     .rows = rows});
  if (window_.size() >= window_pages_) Leave();
}

Status Representatives::Attend(std::span<const float> queries) {
  if (window_.empty()) return OkStatus();
  const size_t d = spec_.head_dim, group = spec_.group_size();
  const size_t tokens = queries.size() / (spec_.num_query_heads * d);
  size_t window_tokens = 0;
  for (const Page& page : window_) window_tokens += page.rows;
  std::vector<float> of_head(tokens * group * d);
  std::vector<float> scores(tokens * group * window_tokens);
  std::vector<const void*> keys(window_.size());
  for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
    for (size_t token = 0; token < tokens; ++token) {
      const auto rows = queries.subspan((token * spec_.num_query_heads + head * group) * d);
      std::ranges::copy(rows.first(group * d), of_head.begin() + token * group * d);
    }
    for (size_t i = 0; i < window_.size(); ++i) {
      keys[i] = window_[i].keys.data() + head * window_[i].rows * d;
    }
    // The score of a mean is a product, and a page's keys are as many means in a row.
    const kernels::OpStatus status =
        kernels::CpuKernels().score({.q = of_head.data(),
                                     .blocks = keys.data(),
                                     .n_blocks = static_cast<int64_t>(keys.size()),
                                     .pages_per_block = spec_.page_tokens,
                                     .scores = scores.data(),
                                     .n_pages = static_cast<int64_t>(window_tokens),
                                     .n_q = static_cast<int64_t>(tokens * group),
                                     .n_kv = 1,
                                     .head_dim = spec_.head_dim,
                                     .scale = 1 / std::sqrt(static_cast<float>(d)),
                                     .dtype = DType::kF32,
                                     .kind = kernels::DigestKind::kMean});
    if (status != kernels::OpStatus::kOk) {
      return Internal("kernel score: ", kernels::Describe(status));
    }
    for (size_t at = 0; at < scores.size(); at += window_tokens) {
      Pay(head, std::span(scores).subspan(at, window_tokens));
    }
  }
  return OkStatus();
}

void Representatives::Pay(uint32_t head, std::span<float> scores) {
  Softmax(scores);
  for (Page& page : window_) {
    AddTo(scores.first(page.rows), std::span(page.received).subspan(head * page.rows, page.rows));
    scores = scores.subspan(page.rows);
  }
}

void Representatives::Leave() {
  if (end_page() % BlockPages(spec_) == 0) block_.clear();
  block_.push_back(std::move(window_.front()));
  window_.pop_front();
  means_.resize(means_.size() + mean_size());
  const auto block = std::span(means_).last(block_.size() * mean_size());
  for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
    MeanOfBlock(head, block.subspan(head * spec_.head_dim, spec_.head_dim));
  }
  for (size_t page = 1; page < block_.size(); ++page) {
    std::ranges::copy(block.first(mean_size()), block.begin() + page * mean_size());
  }
}

void Representatives::MeanOfBlock(uint32_t head, std::span<float> mean) const {
  std::vector<float> received;
  std::vector<std::span<const float>> keys;
  const size_t d = spec_.head_dim;
  for (const Page& page : block_) {
    const auto of_head = std::span(page.received).subspan(head * page.rows, page.rows);
    received.insert(received.end(), of_head.begin(), of_head.end());
    for (size_t row = 0; row < page.rows; ++row) {
      keys.push_back(std::span(page.keys).subspan((head * page.rows + row) * d, d));
    }
  }
  const uint32_t per_block =
      std::max(1u, kPerBlock * BlockPages(spec_) * spec_.page_tokens / kBlockTokens);
  const bool attended = std::ranges::any_of(received, [](float paid) { return paid > 0; });
  const std::vector<uint32_t> tokens =
      BestPages(received, 0, attended ? per_block : static_cast<uint32_t>(received.size()));
  std::ranges::fill(mean, 0.0f);
  for (const uint32_t token : tokens) AddTo(keys[token], mean);
  for (float& value : mean) value /= static_cast<float>(tokens.size());
}

}  // namespace quire::worker
