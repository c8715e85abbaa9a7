// SPDX-License-Identifier: Apache-2.0
#include "cluster/replica/extras_copier.h"

#include "common/base/observe/log.h"

namespace quire::cluster {

Status ExtrasCopier::Take(std::string_view tenant, const DocumentName& name,
                          const std::vector<Member>& sources, std::vector<ExtraCopy> extras) {
  std::vector<ExtraCopy> alone;
  for (ExtraCopy& extra : extras) {
    if (extra.segments.empty()) {
      alone.push_back(std::move(extra));
      continue;
    }
    Job job{.tenant = std::string(tenant),
            .name = name,
            .sources = sources,
            .extra = std::move(extra),
            .awaited = Await(tenant, name)};
    Add(std::move(job));
  }
  return documents_.PutExtras(tenant, name, alone);
}

void ExtrasCopier::Add(Job job) {
  // The job of a full queue ends after the lock, which its end takes.
  MutexLock lock(mutex_);
  if (waiting_.size() < kMostWaiting) waiting_.push_back(std::move(job));
}

bool ExtrasCopier::Awaits(std::string_view tenant, const DocumentName& name) const {
  MutexLock lock(mutex_);
  return awaited_.contains(VersionOf(tenant, name));
}

std::shared_ptr<void> ExtrasCopier::Await(std::string_view tenant, const DocumentName& name) {
  {
    MutexLock lock(mutex_);
    awaited_.insert(VersionOf(tenant, name));
  }
  return {nullptr, [this, version = VersionOf(tenant, name)](void*) {
            MutexLock lock(mutex_);
            awaited_.erase(awaited_.find(version));
          }};
}

size_t ExtrasCopier::num_waiting() const {
  MutexLock lock(mutex_);
  return waiting_.size() + (is_working_ ? 1 : 0);
}

bool ExtrasCopier::Begin() {
  MutexLock lock(mutex_);
  is_working_ = !waiting_.empty();
  if (!is_working_) return false;
  job_ = std::make_unique<Job>(std::move(waiting_.front()));
  waiting_.pop_front();
  left_ = job_->extra.segments.size();
  return true;
}

void ExtrasCopier::Advance(const std::function<bool()>& may_go) {
  while (job_ != nullptr || Begin()) {
    if (!CopyChains(may_go)) return;
    const Status put = documents_.PutExtras(job_->tenant, job_->name, {job_->extra});
    // The document may be gone, or given up.
    if (!put.ok() && !IsNotFound(put)) {
      LogInfo("extra_not_copied", {{"document", job_->name.collection + "/" + job_->name.name},
                                   {"extra", job_->extra.extra.name},
                                   {"why", put.ToString()}});
    }
    job_.reset();
    chains_.clear();
    seen_.clear();
  }
}

// Later segments first: the chain of one has those before it.
bool ExtrasCopier::CopyChains(const std::function<bool()>& may_go) {
  for (; left_ > 0; --left_) {
    const SegmentKey& key = job_->extra.segments[left_ - 1];
    if (!seen_.contains(key) && !CopyChain(key, may_go)) return false;
  }
  return true;
}

bool ExtrasCopier::CopyChain(const SegmentKey& tip, const std::function<bool()>& may_go) {
  if (chains_.empty() || chains_.back()->tip() != tip) {
    chains_.push_back(std::make_unique<ChainCopier>(&segments_, &peers_, job_->tenant, tip));
  }
  ChainCopier& chain = *chains_.back();
  uint64_t counted = chain.copied_bytes();
  const auto count = [&] {
    copied_bytes_ += chain.copied_bytes() - counted;
    counted = chain.copied_bytes();
  };
  const StatusOr<bool> whole = chain.Advance(job_->sources, [&] {
    count();
    return may_go();
  });
  count();
  if (whole.ok() && !*whole) return false;
  seen_.insert(chain.keys().begin(), chain.keys().end());
  seen_.insert(tip);  // Also where no source has it.
  return true;
}

}  // namespace quire::cluster
