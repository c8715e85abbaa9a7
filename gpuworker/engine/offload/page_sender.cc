// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/offload/page_sender.h"

#include <utility>

#include "quire/payload.h"

namespace quire::worker {

uint64_t PageSender::Batch::bytes() const {
  uint64_t bytes = 0;
  for (const Units& one : units) bytes += one.bytes;
  return bytes;
}

PageSender::PageSender(const EngineParts& parts, uint64_t context_id, Executor* executor,
                       Duration* waited)
    : parts_(parts), context_id_(context_id), executor_(executor), waited_(waited) {}

PageSender::~PageSender() {
  std::deque<Batch> dropped;  // Goes last, without the lock.
  MutexLock lock(mutex_);
  dropped.swap(waiting_);
  while (sending_) changed_.Wait(mutex_);
}

Status PageSender::Add(Batch batch) {
  const uint64_t bytes = batch.bytes();
  batch.span = ChildOfCurrent("send_pages");
  {
    MutexLock lock(mutex_);
    while (failure_.ok() && !HasRoomFor(bytes)) Wait();
    QUIRE_RETURN_IF_ERROR(failure_);
    waiting_.push_back(std::move(batch));
    waiting_bytes_ += bytes;
    if (std::exchange(sending_, true)) return OkStatus();
  }
  if (!executor_->Submit([this] { SendAll(); }).ok()) SendAll();
  return OkStatus();
}

Status PageSender::Await(uint32_t end_page) {
  MutexLock lock(mutex_);
  while (failure_.ok() && IsToSend(end_page)) Wait();
  return failure_;
}

bool PageSender::IsToSend(uint32_t end_page) const {
  // Later batches begin with the same page or a later one.
  if (under_way_) return under_way_->first < end_page;
  return !waiting_.empty() && waiting_.front().pages.first < end_page;
}

bool PageSender::HasRoomFor(uint64_t bytes) const {
  return waiting_.empty() || waiting_bytes_ + bytes <= kQueuedCalls * parts_.max_batch_bytes;
}

void PageSender::Wait() {
  const TimePoint start = parts_.clock->Now();
  changed_.Wait(mutex_);
  if (waited_ != nullptr) *waited_ += parts_.clock->Now() - start;
}

void PageSender::SendAll() {
  while (const std::optional<Batch> batch = Next()) Sent(*batch, Send(*batch));
}

std::optional<PageSender::Batch> PageSender::Next() {
  MutexLock lock(mutex_);
  changed_.NotifyAll();
  if (!failure_.ok() || waiting_.empty()) {
    sending_ = false;
    return std::nullopt;
  }
  std::optional<Batch> next = std::move(waiting_.front());
  waiting_.pop_front();
  waiting_bytes_ -= next->bytes();
  under_way_ = next->pages;
  return next;
}

Status PageSender::Send(const Batch& batch) {
  const CurrentSpanScope current(&batch.span);
  Payload payload;
  for (const Units& units : batch.units) {
    QUIRE_RETURN_IF_ERROR(units.buffer->arrived->Await());
    payload.Append(Slice{{units.buffer->bytes.get(), units.bytes}, units.buffer});
  }
  if (!batch.layer) {
    return parts_.client->AppendPages(context_id_, batch.pages.first, batch.tokens, payload)
        .status();
  }
  return parts_.client
      ->AppendLayers(context_id_, batch.pages.first, batch.tokens, {&*batch.layer, 1}, payload)
      .status();
}

void PageSender::Sent(const Batch& batch, const Status& status) {
  std::deque<Batch> dropped;  // Goes last, without the lock.
  MutexLock lock(mutex_);
  under_way_.reset();
  if (status.ok()) return;
  failure_ = Annotate(status, "pages ", batch.pages.first, " to ", batch.pages.end,
                      " could not be appended to the open context");
  dropped.swap(waiting_);
}

}  // namespace quire::worker
