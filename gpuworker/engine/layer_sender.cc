// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/layer_sender.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace quire::worker {

LayerSender::LayerSender(const EngineParts& parts, uint64_t context_id,
                         std::span<const TokenId> tokens, Executor* executor)
    : parts_(parts),
      context_id_(context_id),
      tokens_(tokens),
      executor_(executor),
      exporter_(parts) {}

LayerSender::~LayerSender() {
  MutexLock lock(mutex_);
  waiting_.clear();
  while (sending_) changed_.Wait(mutex_);
}

Status LayerSender::Export(const BudgetCache& cache, uint32_t layer, PageRange pages) {
  const uint32_t most = PagesPerBatch(parts_, exporter_.layer_bytes());
  for (uint32_t first = pages.first; first < pages.end;) {
    const uint32_t end = first + std::min(most, pages.end - first);
    std::vector<std::byte> units((end - first) * exporter_.layer_bytes());
    for (uint32_t page = first; page < end; ++page) {
      std::byte* const to = units.data() + (page - first) * exporter_.layer_bytes();
      QUIRE_RETURN_IF_ERROR(exporter_.Export(cache, layer, page, parts_.spec->page_tokens, to));
    }
    Batch batch{.layer = layer, .pages = {first, end}, .units = {}};
    batch.units.Append(std::move(units));
    QUIRE_RETURN_IF_ERROR(Enqueue(std::move(batch)));
    first = end;
  }
  return OkStatus();
}

Status LayerSender::Enqueue(Batch batch) {
  {
    MutexLock lock(mutex_);
    while (failure_.ok() && waiting_.size() >= kQueuedBatches) changed_.Wait(mutex_);
    QUIRE_RETURN_IF_ERROR(failure_);
    waiting_.push_back(std::move(batch));
    if (std::exchange(sending_, true)) return OkStatus();
  }
  const Status submitted = executor_->Submit([this] { SendAll(); });
  if (submitted.ok()) return OkStatus();
  MutexLock lock(mutex_);
  sending_ = false;
  return submitted;
}

void LayerSender::SendAll() {
  while (const std::optional<Batch> batch = Next()) Sent(*batch, Send(*batch));
}

std::optional<LayerSender::Batch> LayerSender::Next() {
  MutexLock lock(mutex_);
  std::optional<Batch> next;
  if (failure_.ok() && !waiting_.empty()) {
    next = std::move(waiting_.front());
    waiting_.pop_front();
  } else {
    waiting_.clear();
    sending_ = false;
  }
  changed_.NotifyAll();
  return next;
}

void LayerSender::Sent(const Batch& batch, Status status) {
  MutexLock lock(mutex_);
  bytes_sent_ += status.ok() ? batch.units.size_bytes() : 0;
  failure_.Update(status);
}

Status LayerSender::Send(const Batch& batch) {
  const uint32_t p = parts_.spec->page_tokens;
  const auto tokens =
      tokens_.subspan(uint64_t{batch.pages.first} * p, uint64_t{batch.pages.size()} * p);
  return parts_.client
      ->AppendLayers(context_id_, batch.pages.first, tokens, {&batch.layer, 1}, batch.units)
      .status();
}

StatusOr<uint64_t> LayerSender::Finish() {
  MutexLock lock(mutex_);
  while (sending_) changed_.Wait(mutex_);
  QUIRE_RETURN_IF_ERROR(failure_);
  return bytes_sent_;
}

}  // namespace quire::worker
