// SPDX-License-Identifier: Apache-2.0
#include "cluster/directory/testing/local_directory.h"

#include <algorithm>
#include <utility>

#include "cluster/directory/directory_records.h"
#include "common/documents/agreed_changes.h"

namespace quire::cluster {

AgreedName LocalDirectory::Find(const std::string& key) const {
  const auto found = names_.find(key);
  return found != names_.end() ? found->second.agreed : AgreedName{.revision = revision_};
}

StatusOr<AgreedName> LocalDirectory::Read(std::string_view tenant, const DocumentName& name) {
  MutexLock lock(mutex_);
  return Find(DirectoryKeyText(tenant, name));
}

StatusOr<AgreedName> LocalDirectory::Change(std::string_view tenant, const DocumentName& name,
                                            const Edit& edit) {
  const std::string key = DirectoryKeyText(tenant, name);
  MutexLock lock(mutex_);
  const AgreedName before = Find(key);
  QUIRE_ASSIGN_OR_RETURN(AgreedName after, edit(before));
  if (SaysTheSame(before, after)) return before;
  after.revision = ++revision_;
  DirectoryEntry entry{std::string(tenant), {name.collection, name.name, 0}, after};
  changes_.push_back(entry);
  if (changes_.size() > kMostRemembered) {
    forgotten_ = changes_.front().agreed.revision;
    changes_.pop_front();
  }
  if (after.exists()) {
    names_.insert_or_assign(key, std::move(entry));
  } else {
    names_.erase(key);
  }
  changed_.NotifyAll();
  return after;
}

StatusOr<DirectoryPage> LocalDirectory::Scan(std::string_view after, uint32_t limit) {
  if (limit == 0) return InvalidArgument("a page of the directory has at least 1 name");
  MutexLock lock(mutex_);
  DirectoryPage page{.revision = revision_};
  for (auto it = names_.upper_bound(after); it != names_.end(); ++it) {
    if (page.entries.size() == limit) {
      page.next = std::prev(it)->first;
      break;
    }
    page.entries.push_back(it->second);
  }
  return page;
}

StatusOr<DirectoryChanges> LocalDirectory::Changes(uint64_t since, TimePoint deadline) {
  MutexLock lock(mutex_);
  while (since == revision_) {
    const TimePoint now = SystemClock().Now();
    if (now >= deadline) return DirectoryChanges{.revision = since};
    changed_.WaitFor(mutex_, std::min(deadline - now, kLongestWait));
  }
  if (since < forgotten_ || since > revision_) {
    return Status(StatusCode::kOutOfRange, "the directory has forgotten these changes");
  }
  DirectoryChanges changes{.revision = revision_};
  for (const DirectoryEntry& change : changes_) {
    if (change.agreed.revision > since) changes.entries.push_back(change);
  }
  return changes;
}

void LocalDirectory::ForgetChanges() {
  MutexLock lock(mutex_);
  changes_.clear();
  forgotten_ = revision_;
}

}  // namespace quire::cluster
