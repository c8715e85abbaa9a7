// SPDX-License-Identifier: Apache-2.0
//
// Load: puts, deletes and reads of a corpus from several threads, each operation reported to a
// sink. One thread only changes a chain (chain modulo threads), and all read it. Every read is
// compared with the put.
// Ownership: the arguments outlive the load.
// Thread-safety: Run is called once.
#ifndef QUIRE_BENCH_TORTURE_STORE_LOAD_H_
#define QUIRE_BENCH_TORTURE_STORE_LOAD_H_

#include <atomic>
#include <cstdint>
#include <set>
#include <vector>

#include "bench/torture/store/corpus.h"
#include "bench/torture/store/event.h"
#include "common/base/random.h"
#include "kvserver/store/page_store.h"
#include "quire/status.h"

namespace quire::torture {

class Load {
 public:
  struct Options {
    uint32_t threads = 3;
    uint64_t seed = 1;
    uint64_t steps = 0;  ///< Steps of each thread, each an operation on a chain; 0 for no limit.
    const std::atomic<bool>* stop = nullptr;  ///< Ends the load when it becomes true; may be null.
    /// Commits may fail for want of space. Such a failure then does not imply that nothing changed.
    bool commits_run_out_of_space = false;
  };
  Load(kvserver::PageStore* store, const Corpus* corpus, const TenantSalt& salt, EventSink* sink,
       const Options& options);

  /// Returns once every thread has made its steps or was stopped.
  void Run();
  /// Puts every segment of the corpus once, in order, without syncing each. Returns the number
  /// refused.
  uint64_t PutAll();

 private:
  /// State of one thread: the segments that it has put, and not deleted, since the load began.
  struct Worker {
    uint32_t number = 0;
    SeededRandom random;
    std::set<SegmentId> there = {};
  };

  void Work(uint32_t number);
  bool Stopped() const { return options_.stop != nullptr && options_.stop->load(); }
  void Step(Worker& worker);
  /// False when the store refused a part of it.
  bool PutChain(Worker& worker, uint32_t chain);
  void DeleteChain(Worker& worker, uint32_t chain);
  void ReadSome(Worker& worker);
  bool Put(SegmentId id, kvserver::Durability durability);
  void Delete(SegmentId id);
  void Read(SegmentId id, bool is_there);
  Event::Outcome OutcomeOf(const Status& error) const;
  void Tell(SegmentId id, Event::Operation operation, Event::Outcome outcome);
  uint32_t OwnChain(Worker& worker) const;
  const SegmentKey& KeyOf(SegmentId id) const { return keys_[id.chain][id.index]; }

  kvserver::PageStore* const store_;
  const Corpus* const corpus_;
  EventSink* const sink_;
  const Options options_;
  const std::vector<std::vector<SegmentKey>> keys_;  ///< [chain][segment]
};

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_STORE_LOAD_H_
