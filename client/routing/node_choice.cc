// SPDX-License-Identifier: Apache-2.0
#include "client/routing/node_choice.h"

#include <algorithm>
#include <utility>

#include "common/base/answered.h"

namespace quire::internal {

StatusOr<NodeChoice::Node> NodeChoice::Find(const HolderSearch& search) {
  QUIRE_ASSIGN_OR_RETURN(std::string address, router_->FindHolder(documents_, search));
  QUIRE_ASSIGN_OR_RETURN(auto transport, router_->ConnectTo(address));
  return Node{std::move(address), std::move(transport)};
}

StatusOr<NodeChoice::Node> NodeChoice::Current(Duration timeout) {
  HolderSearch search;
  {
    MutexLock lock(mutex_);
    if (settled_) return node_;
    search = {.first = node_.address, .last = failed_, .timeout = timeout};
  }
  QUIRE_ASSIGN_OR_RETURN(Node found, Find(search));
  MutexLock lock(mutex_);
  if (settled_) return node_;  // Another thread was faster.
  settled_ = true;
  if (found.address == node_.address) return node_;
  if (!node_.address.empty()) ++changes_;
  node_ = std::move(found);
  spare_.reset();
  spare_until_ = TimePoint::min();
  return node_;
}

std::optional<NodeChoice::Node> NodeChoice::Spare(const Node& than) {
  HolderSearch search{.timeout = kSpareTimeout};
  const TimePoint now = clock_.Now();
  {
    MutexLock lock(mutex_);
    if (now < spare_until_) return spare_;
    spare_until_ = now + kSpareAge;  // Other reads do not search meanwhile.
    spare_.reset();
    search.last = failed_;
    search.last.push_back(than.address);
  }
  StatusOr<Node> found = Find(search);
  if (!found.ok() || found->address == than.address) return std::nullopt;
  MutexLock lock(mutex_);
  if (node_.address == than.address) spare_ = *found;
  return *std::move(found);
}

void NodeChoice::Note(const Node& node, const Status& status) {
  if (status.ok() || IsCancelled(status)) return;
  const bool failed = IsFailure(status);
  MutexLock lock(mutex_);
  if (spare_ && spare_->address == node.address) spare_.reset();
  if (node_.address != node.address) return;
  settled_ = false;
  if (!failed) return;
  ++failures_;
  std::erase(failed_, node.address);
  failed_.push_back(node.address);
}

bool NodeChoice::IsFailure(const Status& status) {
  return (IsUnavailable(status) && !IsAnswered(status)) || IsDeadlineExceeded(status);
}

bool NodeChoice::IsCurrent(const std::string& address) const {
  MutexLock lock(mutex_);
  return node_.address == address;
}

uint64_t NodeChoice::failures() const {
  MutexLock lock(mutex_);
  return failures_;
}

uint64_t NodeChoice::changes() const {
  MutexLock lock(mutex_);
  return changes_;
}

}  // namespace quire::internal
