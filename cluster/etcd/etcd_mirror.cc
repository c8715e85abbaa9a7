// SPDX-License-Identifier: Apache-2.0
#include "cluster/etcd/etcd_mirror.h"

#include <algorithm>
#include <utility>

#include "cluster/etcd/etcd_requests.h"

namespace quire::cluster {
namespace {

/// Pause between attempts to reach etcd.
constexpr Duration kMirrorPause = std::chrono::milliseconds(200);

}  // namespace

EtcdSnapshot SnapshotOf(const etcdserverpb::RangeResponse& range, std::string_view prefix) {
  EtcdSnapshot snapshot;
  snapshot.revision = range.header().revision();
  for (const etcdserverpb::KeyValue& kv : range.kvs()) {
    snapshot.keys[kv.key().substr(prefix.size())] = {.value = kv.value(),
                                                     .mod_revision = kv.mod_revision()};
  }
  return snapshot;
}

EtcdMirror::EtcdMirror(EtcdClient* client, std::string prefix, Observer* observer)
    : client_(*client),
      prefix_(std::move(prefix)),
      observer_(*observer),
      thread_([this] { Run(); }) {}

EtcdMirror::~EtcdMirror() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  stopped_.NotifyAll();
  watch_.Cancel();
  thread_.join();
}

void EtcdMirror::Run() {
  do {
    Status status = is_read_ ? OkStatus() : ReadAll();
    if (status.ok()) status = Follow();
    if (status.code() == StatusCode::kCancelled) return;
    if (status.code() == StatusCode::kOutOfRange) {
      is_read_ = false;
      continue;
    }
    observer_.OnAway(status);
  } while (Pause());
}

bool EtcdMirror::Pause() {
  MutexLock lock(mutex_);
  if (!stopping_) stopped_.WaitFor(mutex_, kMirrorPause);
  return !stopping_;
}

Status EtcdMirror::ReadAll() {
  QUIRE_ASSIGN_OR_RETURN(const auto range, client_.ReadPrefix(prefix_));
  snapshot_ = SnapshotOf(range, prefix_);
  is_read_ = true;
  observer_.OnKeys(snapshot_);
  return OkStatus();
}

Status EtcdMirror::CheckFirstKey() {
  etcdserverpb::RangeRequest request;
  request.set_key(prefix_);
  request.set_range_end(PrefixEnd(prefix_));
  request.set_limit(1);
  QUIRE_ASSIGN_OR_RETURN(const auto range, client_.Read(request));
  const EtcdSnapshot first = SnapshotOf(range, prefix_);
  const bool is_known = first.keys.empty() ? snapshot_.keys.empty()
                                           : !snapshot_.keys.empty() &&
                                                 *first.keys.begin() == *snapshot_.keys.begin();
  return is_known ? OkStatus()
                  : Status(StatusCode::kOutOfRange, "etcd has other keys than those known");
}

Status EtcdMirror::Follow() {
  QUIRE_RETURN_IF_ERROR(CheckFirstKey());
  return client_.Watch(
      prefix_, snapshot_.revision + 1, watch_,
      [this](const etcdserverpb::WatchResponse& response) { return Take(response); });
}

Status EtcdMirror::Take(const etcdserverpb::WatchResponse& response) {
  // An etcd that lost data would wait for its revisions to come up to ours, and say nothing.
  if (response.header().revision() < snapshot_.revision) {
    return Status(StatusCode::kOutOfRange, "etcd is behind the revision that is known");
  }
  if (response.events().empty()) {
    // etcd has told all changes up to here. A compaction up to here loses none.
    if (!response.created()) snapshot_.revision = response.header().revision();
    observer_.OnReached();
    return OkStatus();
  }
  for (const etcdserverpb::Event& event : response.events()) {
    const etcdserverpb::KeyValue& kv = event.kv();
    std::string name = kv.key().substr(prefix_.size());
    if (event.type() == etcdserverpb::Event::DELETE) {
      snapshot_.keys.erase(name);
    } else {
      snapshot_.keys[std::move(name)] = {.value = kv.value(), .mod_revision = kv.mod_revision()};
    }
    snapshot_.revision = std::max(snapshot_.revision, kv.mod_revision());
  }
  observer_.OnKeys(snapshot_);
  return OkStatus();
}

}  // namespace quire::cluster
