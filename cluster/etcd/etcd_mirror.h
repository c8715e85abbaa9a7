// SPDX-License-Identifier: Apache-2.0
//
// EtcdMirror: a copy of all keys under a prefix, kept up to date by a watch. After a lost stream
// the watch resumes behind the last known revision, at another endpoint where there is one. When
// etcd has compacted that revision, is behind it, or shows another first key, the keys are read
// anew. The last finds an etcd that lost its data and was restored.
//
// Thread-safety: the observer is called from the mirror's thread, one call at a time. Ownership:
// client and observer outlive the mirror; the destructor waits for a running call.
#ifndef QUIRE_CLUSTER_ETCD_ETCD_MIRROR_H_
#define QUIRE_CLUSTER_ETCD_ETCD_MIRROR_H_

#include <cstdint>
#include <map>
#include <string>
#include <thread>

#include "cluster/etcd/etcd_client.h"
#include "common/base/threads/mutex.h"
#include "quire/status.h"

namespace quire::cluster {

struct EtcdKey {
  std::string value;
  int64_t mod_revision = 0;
  friend bool operator==(const EtcdKey&, const EtcdKey&) = default;
};

struct EtcdSnapshot {
  std::map<std::string, EtcdKey> keys;  ///< By the name behind the prefix.
  int64_t revision = 0;                 ///< Every change up to this one is in it.
};

/// Takes keys of a range. `prefix` is cut off their names.
[[nodiscard]] EtcdSnapshot SnapshotOf(const etcdserverpb::RangeResponse& range,
                                      std::string_view prefix);

class EtcdMirror {
 public:
  class Observer {
   public:
    virtual ~Observer() = default;
    /// The keys changed, or were read anew.
    virtual void OnKeys(const EtcdSnapshot& snapshot) = 0;
    /// etcd cannot be reached, for this reason. OnKeys or OnReached follows once it can.
    virtual void OnAway(const Status& why) = 0;
    /// etcd can be reached again, and nothing had changed.
    virtual void OnReached() = 0;
  };

  EtcdMirror(EtcdClient* client, std::string prefix, Observer* observer);
  ~EtcdMirror();
  EtcdMirror(const EtcdMirror&) = delete;
  EtcdMirror& operator=(const EtcdMirror&) = delete;

 private:
  void Run();
  /// Reads all keys.
  Status ReadAll();
  /// OUT_OF_RANGE when etcd's first key is another than the one that is known.
  Status CheckFirstKey();
  /// Follows changes until the stream ends.
  Status Follow();
  Status Take(const etcdserverpb::WatchResponse& response);
  /// Waits before the next attempt. Returns false at destruction.
  bool Pause() QUIRE_EXCLUDES(mutex_);

  EtcdClient& client_;
  const std::string prefix_;
  Observer& observer_;
  EtcdSnapshot snapshot_;  ///< Used by the thread only.
  bool is_read_ = false;   ///< The snapshot is etcd's; used by the thread only.
  EtcdClient::WatchCall watch_;
  Mutex mutex_;
  CondVar stopped_;
  bool stopping_ QUIRE_GUARDED_BY(mutex_) = false;
  std::thread thread_;  ///< Last member, because it uses the others.
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_ETCD_ETCD_MIRROR_H_
