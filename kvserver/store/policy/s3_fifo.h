// SPDX-License-Identifier: Apache-2.0
//
// S3Fifo: two queues and a memory. What comes enters the small queue (a tenth of the bytes); at its
// end what was touched at least twice moves to the main queue, the rest leaves and is remembered
// by key as long as about the main queue's bytes have left after it. What comes back while it is
// remembered enters the main queue at once. At the end of the main queue what was touched goes
// round again, as many times as it was touched (three at most). Extents that are used once thus
// pass through without displacing what is used often.
//
// Shares are in bytes of what is tracked, since extents differ in size; the store asks for a victim
// when it is full, so this is its capacity. Every call is O(1) amortised: each step that Victim
// takes through a queue is paid for by an insertion or a touch, or asks about an extent that may
// not leave, which goes to the back of its queue.
#ifndef QUIRE_KVSERVER_STORE_POLICY_S3_FIFO_H_
#define QUIRE_KVSERVER_STORE_POLICY_S3_FIFO_H_

#include <list>
#include <unordered_map>
#include <variant>

#include "kvserver/store/policy/eviction_policy.h"
#include "kvserver/store/policy/ghost_list.h"

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

#endif  // QUIRE_KVSERVER_STORE_POLICY_S3_FIFO_H_
