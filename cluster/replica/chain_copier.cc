// SPDX-License-Identifier: Apache-2.0
#include "cluster/replica/chain_copier.h"

#include <utility>

namespace quire::cluster {
namespace {

/// The error that says most: one of a source that does not answer hides none that lacks the chain.
Status Worse(Status so_far, const Member& source, const Status& failure) {
  if (!so_far.ok() && !IsNotFound(so_far)) return so_far;
  return Annotate(failure, "node ", source.name);
}

}  // namespace

StatusOr<bool> ChainCopier::Advance(const std::vector<Member>& sources,
                                    const std::function<bool()>& may_go) {
  if (put_ == nullptr) {
    if (!may_go()) return false;
    QUIRE_RETURN_IF_ERROR(Describe(sources));
  }
  for (; next_ < chain_.keys.size(); ++next_) {
    if (put_->Has(next_)) continue;
    if (!may_go()) return false;
    QUIRE_RETURN_IF_ERROR(CopyNext(sources));
  }
  return true;
}

Status ChainCopier::Describe(const std::vector<Member>& sources) {
  Status failure = NotFound("no other node may have the chain ", tip_.Hex());
  for (const Member& source : sources) {
    auto chain = peers_.Describe(source, tenant_, tip_);
    if (!chain.ok()) {
      failure = Worse(std::move(failure), source, chain.status());
      continue;
    }
    chain_ = *std::move(chain);
    put_ = local_.Begin(tenant_, chain_);
    return OkStatus();
  }
  return failure;
}

Status ChainCopier::CopyNext(const std::vector<Member>& sources) {
  Status failure = NotFound("no other node may have segment ", chain_.keys[next_].Hex());
  for (const Member& source : sources) {
    const Status copied = CopyFrom(source);
    if (copied.ok()) return copied;
    failure = Worse(std::move(failure), source, copied);
  }
  return failure;
}

Status ChainCopier::CopyFrom(const Member& source) {
  QUIRE_ASSIGN_OR_RETURN(const SegmentCopy segment,
                         peers_.Read(source, tenant_, chain_.spec, chain_.keys[next_]));
  QUIRE_RETURN_IF_ERROR(put_->Put(next_, segment));
  copied_bytes_ += segment.units.size() + segment.representatives.size();
  return OkStatus();
}

}  // namespace quire::cluster
