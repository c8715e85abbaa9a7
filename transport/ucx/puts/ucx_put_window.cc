// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/puts/ucx_put_window.h"

#include <utility>

namespace quire {

void UcxPutWindow::Write(std::shared_ptr<UcxRemoteLanding> landing, std::span<const Slice> slices,
                         std::span<const uint64_t> places, UcxDone done) {
  auto job = std::make_shared<Job>();
  job->landing = std::move(landing);
  job->slices = slices;
  job->places = places;
  job->done = std::move(done);
  if (endpoint_ == nullptr) {
    job->done(UCS_ERR_CANCELED);
    return;
  }
  jobs_.push_back(std::move(job));
  Pump();
}

void UcxPutWindow::Stop() {
  endpoint_ = nullptr;
  for (std::deque<std::shared_ptr<Job>> dropped = std::exchange(jobs_, {}); !dropped.empty();) {
    const std::shared_ptr<Job> job = std::move(dropped.front());
    dropped.pop_front();
    job->flushing = true;
    ++job->under_way;
    End(*job, UCS_ERR_CANCELED);
  }
}

void UcxPutWindow::Pump() {
  if (pumping_) return;  // Puts that end at once re-enter here.
  pumping_ = true;
  while (endpoint_ != nullptr && !jobs_.empty() && puts_ < max_puts_) {
    const std::shared_ptr<Job> job = jobs_.front();
    if (job->next < job->slices.size() && job->status == UCS_OK) {
      Begin(job);
      continue;
    }
    jobs_.pop_front();
    job->flushing = true;
    ++job->under_way;
    endpoint_->Flush(
        [self = shared_from_this(), job](ucs_status_t status) { self->End(*job, status); });
  }
  pumping_ = false;
}

void UcxPutWindow::Begin(const std::shared_ptr<Job>& job) {
  const size_t slice = job->next++;
  ++job->under_way;
  ++puts_;
  endpoint_->Put(job->slices[slice].bytes, job->landing->AddressOf(job->places[slice]),
                 job->landing->key(), [self = shared_from_this(), job](ucs_status_t status) {
                   --self->puts_;
                   self->End(*job, status);
                   self->Pump();
                 });
}

void UcxPutWindow::End(Job& job, ucs_status_t status) {
  if (status != UCS_OK) job.status = status;
  --job.under_way;
  if (job.under_way > 0 || !job.flushing) return;
  const UcxDone done = std::exchange(job.done, nullptr);
  job.landing.reset();
  done(job.status);
}

}  // namespace quire
