// SPDX-License-Identifier: Apache-2.0
//
// PowerLoad: what a store and a registry are busy with when the power fails: puts at both levels,
// deletes, documents that are registered, pinned and deleted, and reads. Every operation is told to
// a history. A chain, and the document that is made of it, belong to one thread (chain modulo
// threads).
// Ownership: everything given outlives the load. Thread-safety: Run is called once.
#ifndef QUIRE_BENCH_TORTURE_POWER_LOAD_H_
#define QUIRE_BENCH_TORTURE_POWER_LOAD_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/torture/corpus.h"
#include "bench/torture/power_history.h"
#include "common/base/random.h"
#include "kvserver/registry/document_registry.h"
#include "kvserver/store/page_store_impl.h"

namespace quire::torture {

/// The document that a load makes of a chain.
kvserver::DocumentName DocumentOf(uint32_t chain);

class PowerLoad {
 public:
  struct Options {
    uint32_t threads = 2;
    uint64_t seed = 1;
    uint64_t steps = 0;  ///< Of each thread at most.
    /// Whether the power is off: the load then ends, and what fails is no loss.
    std::function<bool()> is_off;
  };
  PowerLoad(kvserver::PageStoreImpl* store, kvserver::DocumentRegistry* registry,
            const Corpus* corpus, const TenantSalt& salt, PowerHistory* history, Options options);

  void Run();

 private:
  void Work(uint32_t number);
  void Step(uint32_t number, Random& random);
  void PutChain(uint32_t chain, bool persisted);
  bool Put(SegmentId id, bool persisted);
  void DeleteSome(uint32_t chain, Random& random);
  void Delete(SegmentId id);
  void Read(SegmentId id);
  void Register(uint32_t chain);
  void Unregister(uint32_t chain);
  void TurnPin(uint32_t chain, bool on);
  uint32_t OwnChain(uint32_t number, Random& random) const;

  kvserver::PageStoreImpl& store_;
  kvserver::DocumentRegistry& registry_;
  const Corpus& corpus_;
  PowerHistory& history_;
  const Options options_;
  const std::vector<std::vector<SegmentKey>> keys_;  ///< [chain][segment]
};

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_POWER_LOAD_H_
