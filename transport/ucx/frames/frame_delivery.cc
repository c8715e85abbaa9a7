// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/frames/frame_delivery.h"

#include <utility>

namespace quire {

void FrameDelivery::Start(FrameReceiver* receiver) {
  MutexLock join_lock(join_mutex_);
  if (receiver->NeverWaits()) return CallAtOnce(receiver);
  MutexLock lock(mutex_);
  if (stopped_ || thread_.joinable()) return;
  thread_ = std::thread([this, receiver] { Run(receiver); });
  thread_id_ = thread_.get_id();
}

void FrameDelivery::CallAtOnce(FrameReceiver* receiver) {
  std::optional<Status> end;
  while (true) {
    std::optional<Waiting> next;
    {
      MutexLock lock(mutex_);
      if (stopped_) return;
      if (waiting_.empty()) {
        called_at_once_ = receiver;
        end = end_;
        break;
      }
      next.emplace(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    receiver->OnFrame(std::move(next->frame));
    Taken(next->bytes);
  }
  if (end) receiver->OnClosed(*end);
}

void FrameDelivery::SetReportBytes(uint64_t bytes) {
  MutexLock lock(mutex_);
  report_bytes_ = bytes;
}

void FrameDelivery::Push(Frame frame, uint64_t bytes) {
  FrameReceiver* receiver = nullptr;
  {
    MutexLock lock(mutex_);
    if (stopped_ || end_) return;
    waiting_bytes_ += bytes;
    receiver = called_at_once_;
    if (receiver == nullptr) {
      waiting_.push_back({std::move(frame), bytes});
      changed_.NotifyOne();
      return;
    }
  }
  receiver->OnFrame(std::move(frame));
  Taken(bytes);
}

uint64_t FrameDelivery::waiting_bytes() {
  MutexLock lock(mutex_);
  return waiting_bytes_;
}

void FrameDelivery::End(const Status& why) {
  FrameReceiver* receiver = nullptr;
  {
    MutexLock lock(mutex_);
    if (end_) return;
    end_ = why;
    if (!stopped_) receiver = called_at_once_;
    changed_.NotifyOne();
  }
  if (receiver != nullptr) receiver->OnClosed(why);
}

void FrameDelivery::Stop() {
  std::deque<Waiting> dropped;  // Owners are destroyed outside the lock.
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    dropped.swap(waiting_);
    changed_.NotifyOne();
  }
  MutexLock join_lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

bool FrameDelivery::OnThread() {
  MutexLock lock(mutex_);
  return thread_id_ == std::this_thread::get_id();
}

void FrameDelivery::Run(FrameReceiver* receiver) {
  while (auto next = Next()) {
    receiver->OnFrame(std::move(next->frame));
    Taken(next->bytes);
  }
  std::optional<Status> end;
  {
    MutexLock lock(mutex_);
    if (!stopped_) end = end_;
  }
  if (end) receiver->OnClosed(*end);
}

std::optional<FrameDelivery::Waiting> FrameDelivery::Next() {
  MutexLock lock(mutex_);
  while (!stopped_ && waiting_.empty() && !end_) changed_.Wait(mutex_);
  if (stopped_ || waiting_.empty()) return std::nullopt;
  std::optional<Waiting> next(std::move(waiting_.front()));
  waiting_.pop_front();
  return next;
}

void FrameDelivery::Taken(uint64_t bytes) {
  uint64_t report = 0;
  {
    MutexLock lock(mutex_);
    waiting_bytes_ -= bytes;
    unreported_bytes_ += bytes;
    if (unreported_bytes_ >= report_bytes_) report = std::exchange(unreported_bytes_, 0);
  }
  if (report > 0) on_taken_(report);
}

}  // namespace quire
