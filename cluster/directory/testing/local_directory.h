// SPDX-License-Identifier: Apache-2.0
//
// LocalDirectory: names of documents in the memory of one process, for tests and simulated
// clusters. It remembers the last changes for readers of its feed. Thread-safety: all methods may
// be called concurrently.
#ifndef QUIRE_CLUSTER_DIRECTORY_TESTING_LOCAL_DIRECTORY_H_
#define QUIRE_CLUSTER_DIRECTORY_TESTING_LOCAL_DIRECTORY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>

#include "cluster/directory/directory_feed.h"
#include "common/base/threads/mutex.h"
#include "common/documents/changing_agreement.h"
#include "quire/status.h"

namespace quire::cluster {

class LocalDirectory final : public ChangingAgreement, public DirectoryFeed {
 public:
  /// Changes that Changes can still tell.
  static constexpr size_t kMostRemembered = 4096;

  StatusOr<AgreedName> Read(std::string_view tenant, const DocumentName& name) override
      QUIRE_EXCLUDES(mutex_);
  StatusOr<DirectoryPage> Scan(std::string_view after, uint32_t limit) override
      QUIRE_EXCLUDES(mutex_);
  StatusOr<DirectoryChanges> Changes(uint64_t since, TimePoint deadline) override
      QUIRE_EXCLUDES(mutex_);

  /// Forgets all changes so far, as a compaction of etcd does.
  void ForgetChanges() QUIRE_EXCLUDES(mutex_);

 private:
  StatusOr<AgreedName> Change(std::string_view tenant, const DocumentName& name,
                              const Edit& edit) override QUIRE_EXCLUDES(mutex_);
  AgreedName Find(const std::string& key) const QUIRE_REQUIRES(mutex_);

  Mutex mutex_;
  CondVar changed_;
  /// By DirectoryKeyText.
  std::map<std::string, DirectoryEntry, std::less<>> names_ QUIRE_GUARDED_BY(mutex_);
  std::deque<DirectoryEntry> changes_ QUIRE_GUARDED_BY(mutex_);
  uint64_t revision_ QUIRE_GUARDED_BY(mutex_) = 1;
  uint64_t forgotten_ QUIRE_GUARDED_BY(mutex_) = 1;  ///< Changes up to this one are forgotten.
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_DIRECTORY_TESTING_LOCAL_DIRECTORY_H_
