// SPDX-License-Identifier: Apache-2.0
//
// S3Fifo: two queues and a memory. New extents enter the small queue, a tenth of the bytes. At its
// end an extent touched at least twice moves to the main queue. Any other leaves and is remembered
// by key, until about the main queue's bytes have left after it. A remembered extent that returns
// enters the main queue at once. At the end of the main queue a touched extent is requeued, once
// for each touch (three at most). Extents used once thus do not displace frequently used ones.
//
// Shares are in bytes of tracked extents, since extents differ in size. The store asks for a victim
// when it is full, so tracked bytes are its capacity. Every call is O(1) amortised. Each step of
// Victim through a queue is paid for by an insertion or a touch, or moves an extent in use to the
// back.
#ifndef QUIRE_KVSERVER_STORE_POLICY_EVICTION_S3_FIFO_H_
#define QUIRE_KVSERVER_STORE_POLICY_EVICTION_S3_FIFO_H_

#include <list>
#include <unordered_map>
#include <variant>

#include "kvserver/store/policy/eviction/eviction_policy.h"
#include "kvserver/store/policy/eviction/ghost_list.h"

namespace quire::kvserver {

class S3Fifo final : public EvictionPolicy {
 public:
  void Insert(const NewExtent& extent) override;
  void Touch(const ExtentId& id) override;
  void Evict(const ExtentId& id) override;
  void Remove(const ExtentId& id) override;
  std::optional<ExtentId> Victim(const Evictable& evictable) override;
  size_t size() const override { return where_.size(); }

 private:
  struct Entry {
    ExtentId id;
    uint64_t bytes = 0;
    int touches = 0;
    bool in_main = false;
  };
  struct Queue {
    std::list<Entry> entries;  // next to leave first
    uint64_t bytes = 0;
  };
  using Position = std::list<Entry>::iterator;

  const ExtentId* VictimOfSmall(const Evictable& evictable);
  const ExtentId* VictimOfMain(const Evictable& evictable);
  Queue& QueueOf(const Entry& entry) { return entry.in_main ? main_ : small_; }
  bool SmallIsOverItsShare() const;
  void MoveToMain(Position position);

  Queue small_, main_;
  std::unordered_map<ExtentId, Position, ExtentIdHash> where_;
  GhostList<std::monostate> ghosts_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_EVICTION_S3_FIFO_H_
