// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/ingest/represented_pages.h"

#include <algorithm>
#include <utility>

namespace quire::worker {
namespace {

StatusOr<std::vector<float>> ReadRows(Device* device, const float* rows, size_t values) {
  std::vector<float> read(values);
  QUIRE_RETURN_IF_ERROR(device->CopyToHost(read.data(), rows, values * sizeof(float)));
  return read;
}

}  // namespace

RepresentedPages::RepresentedPages(AttentionBackend* next, const KvSpec& spec, Device* device,
                                   uint32_t first_page)
    : next_(next),
      spec_(spec),
      device_(device),
      layers_(spec.num_layers,
              {.pages = Representatives(spec, first_page,
                                        std::max(2u, kWindowTokens / spec.page_tokens)),
               .open = {}}) {}

Status RepresentedPages::Attend(const LayerStep& step) {
  QUIRE_RETURN_IF_ERROR(next_->Attend(step));
  const size_t q_row = size_t{spec_.num_query_heads} * spec_.head_dim;
  const size_t k_row = size_t{spec_.num_kv_heads} * spec_.head_dim;
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> q,
                         ReadRows(device_, step.q, step.num_tokens * q_row));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> k,
                         ReadRows(device_, step.k, step.num_tokens * k_row));
  Layer& layer = layers_[step.layer];
  for (size_t at = 0; at < step.num_tokens;) {
    // Until the open page is full, all queries are over the same pages.
    const size_t rows = layer.open.size() / k_row;
    const size_t count = std::min<size_t>(spec_.page_tokens - rows, step.num_tokens - at);
    QUIRE_RETURN_IF_ERROR(layer.pages.Attend(std::span(q).subspan(at * q_row, count * q_row)));
    const auto keys = std::span(k).subspan(at * k_row, count * k_row);
    layer.open.insert(layer.open.end(), keys.begin(), keys.end());
    if (rows + count == spec_.page_tokens) Complete(&layer);
    at += count;
  }
  return OkStatus();
}

void RepresentedPages::Complete(Layer* layer) const {
  const size_t d = spec_.head_dim, heads = spec_.num_kv_heads;
  const size_t rows = layer->open.size() / (heads * d);
  std::vector<float> keys(layer->open.size());
  for (size_t i = 0; i < rows * heads; ++i) {
    const size_t row = i / heads, head = i % heads;
    std::ranges::copy(std::span(layer->open).subspan(i * d, d),
                      keys.begin() + static_cast<ptrdiff_t>((head * rows + row) * d));
  }
  layer->open.clear();
  layer->pages.AddPage(std::move(keys));
}

void RepresentedPages::Finish() {
  for (Layer& layer : layers_) {
    if (!layer.open.empty()) Complete(&layer);
    while (layer.pages.in_window() > 0) layer.pages.Leave();
  }
}

std::vector<std::byte> RepresentedPages::Digests(const PageRange& pages) const {
  const size_t values = size_t{spec_.num_kv_heads} * spec_.head_dim;
  std::vector<std::byte> digests(spec_.num_layers * pages.size() * values *
                                 ElementBytes(spec_.dtype));
  int64_t at = 0;
  for (const Layer& layer : layers_) {
    for (uint32_t page = pages.first; page < pages.end; ++page) {
      for (const float value : layer.pages.mean(page)) {
        StoreElement(digests.data(), at++, spec_.dtype, value);
      }
    }
  }
  return digests;
}

}  // namespace quire::worker
