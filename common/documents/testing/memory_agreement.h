// SPDX-License-Identifier: Apache-2.0
//
// MemoryAgreement: an agreement in memory for tests, with faults. Registries that share it behave
// as servers of one cluster. Thread-safety: as the seam's; the faults are set between calls.
#ifndef QUIRE_COMMON_DOCUMENTS_TESTING_MEMORY_AGREEMENT_H_
#define QUIRE_COMMON_DOCUMENTS_TESTING_MEMORY_AGREEMENT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "common/base/threads/mutex.h"
#include "common/documents/agreed_changes.h"
#include "common/documents/changing_agreement.h"

namespace quire::testing {

class MemoryAgreement final : public ChangingAgreement {
 public:
  StatusOr<AgreedName> Read(std::string_view tenant, const DocumentName& name) override {
    MutexLock lock(mutex_);
    ++num_calls;
    if (is_away) return Unavailable("the agreement is away");
    return Find(Key(tenant, name));
  }

  bool HasLost(uint64_t revision) const override {
    return revision > lost_after_ && revision < lost_before_;
  }
  /// All that is agreed, and the revision.
  using Backup = std::pair<std::map<std::string, AgreedName>, uint64_t>;
  Backup BackUp() {
    MutexLock lock(mutex_);
    return {names_, revision_};
  }
  /// Sets everything back to a backup. Revisions go on.
  void Restore(const Backup& backup) {
    MutexLock lock(mutex_);
    names_ = backup.first;
    lost_after_ = backup.second;
    lost_before_ = ++revision_;
    for (auto& [key, name] : names_) name.revision = ++revision_;
  }

  bool is_away = false;  ///< Nothing is answered or changed.
  int num_calls = 0;
  bool loses_reply = false;  ///< The next change is made, and its answer is lost.
  /// Runs once, when the next change is made and not yet answered.
  std::function<void()> before_reply;

 private:
  static std::string Key(std::string_view tenant, const DocumentName& name) {
    return std::string(tenant) + "/" + name.collection + "/" + name.name;
  }
  AgreedName Find(const std::string& key) QUIRE_REQUIRES(mutex_) {
    const auto found = names_.find(key);
    return found != names_.end() ? found->second : AgreedName{.revision = revision_};
  }
  StatusOr<AgreedName> Change(std::string_view tenant, const DocumentName& name,
                              const Edit& edit) override {
    StatusOr<AgreedName> after = MakeChange(tenant, name, edit);
    if (const auto meanwhile = std::exchange(before_reply, nullptr)) meanwhile();
    return after;
  }
  StatusOr<AgreedName> MakeChange(std::string_view tenant, const DocumentName& name,
                                  const Edit& edit) {
    MutexLock lock(mutex_);
    ++num_calls;
    if (is_away) return Unavailable("the agreement is away");
    const std::string key = Key(tenant, name);
    const AgreedName before = Find(key);
    QUIRE_ASSIGN_OR_RETURN(AgreedName after, edit(before));
    if (!SaysTheSame(before, after)) {
      after.revision = ++revision_;
      after.exists() ? (void)names_.insert_or_assign(key, after) : (void)names_.erase(key);
    }
    if (std::exchange(loses_reply, false)) return Unavailable("the reply was lost");
    return after;
  }

  Mutex mutex_;
  std::map<std::string, AgreedName> names_ QUIRE_GUARDED_BY(mutex_);
  uint64_t revision_ QUIRE_GUARDED_BY(mutex_) = 1;
  std::atomic<uint64_t> lost_after_ = 0, lost_before_ = 0;
};

}  // namespace quire::testing

#endif  // QUIRE_COMMON_DOCUMENTS_TESTING_MEMORY_AGREEMENT_H_
