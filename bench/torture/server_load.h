// SPDX-License-Identifier: Apache-2.0
//
// ServerLoad: what a store and a registry are busy with when the power fails or the process dies:
// puts at both levels, open contexts that are appended to and left open, deletes, documents that
// are registered, pinned, expire and are deleted, and reads. Time goes on between phases, in which
// the threads rest: then what has expired is removed, as a server does once a second. Every
// operation is told to a sink. A chain, and the document that is made of it, belong to one thread
// (chain modulo threads).
// Ownership: everything given outlives the load. Contexts that are open stay open until the load
// goes. Thread-safety: Run is called once.
#ifndef QUIRE_BENCH_TORTURE_SERVER_LOAD_H_
#define QUIRE_BENCH_TORTURE_SERVER_LOAD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/torture/corpus.h"
#include "bench/torture/hand_clock.h"
#include "bench/torture/server_event.h"
#include "common/base/random.h"
#include "kvserver/registry/document_registry.h"
#include "kvserver/session/context_table.h"
#include "kvserver/store/page_store_impl.h"

namespace quire::torture {

/// The document that a load makes of a chain.
DocumentName DocumentOf(uint32_t chain);
/// When a document expires, as events say it.
int64_t MicrosOfExpiry(const Document& document);

/// A server without its network.
struct TorturedServer {
  /// Opens a store as `options` say, on the files of `machine`, with the documents in it. Time is
  /// that of `clock`. All of them outlive the server.
  static StatusOr<TorturedServer> Open(kvserver::PageStore::Options options,
                                       const kvserver::PageStoreImpl::Machine& machine,
                                       HandClock* clock);

  std::unique_ptr<kvserver::PageStoreImpl> store;
  std::unique_ptr<kvserver::DocumentRegistry> registry;
  std::unique_ptr<kvserver::ContextTable> contexts;
  TenantSalt salt = {};
  HandClock* clock = nullptr;
};

class ServerLoad {
 public:
  struct Options {
    uint32_t threads = 2;
    uint64_t seed = 1;
    uint64_t phases = 0;  ///< Of kStepsOfAPhase steps of each thread; 0: for ever.
    bool sweeps = false;  ///< Whether cached segments may expire between phases.
    /// Whether the power is off: the load then ends, and what fails is no loss. Null: never.
    std::function<bool()> is_off = nullptr;
  };
  static constexpr uint64_t kStepsOfAPhase = 50;

  ServerLoad(TorturedServer* server, const Corpus* corpus, ServerEventSink sink, Options options);

  void Run();
  /// Contexts that are open now, with what they have appended.
  uint64_t num_open_contexts() const;

 private:
  /// A context that appends the segments of a chain, page after page.
  struct Growing {
    uint32_t chain = 0;
    uint32_t pages = 0;  ///< Appended.
    bool is_private = false;
    uint64_t id = 0;
    std::shared_ptr<kvserver::OpenContext> context;
  };
  struct Worker {
    uint32_t number = 0;
    SeededRandom random;
    std::vector<Growing> contexts = {};

    bool Holds(uint32_t chain) const;
  };

  bool IsOff() const { return options_.is_off && options_.is_off(); }
  void RunPhase();
  /// Time goes on, and what has expired is removed.
  void PassTime();
  void Step(Worker& worker);
  void PutChain(uint32_t chain, bool persisted);
  bool Put(SegmentId id, bool persisted);
  void DeleteSome(Worker& worker, uint32_t chain);
  void Delete(const Worker& worker, SegmentId id);
  void Read(SegmentId id);
  void Register(Worker& worker, uint32_t chain);
  void Unregister(Worker& worker, uint32_t chain);
  void TurnPin(uint32_t chain, bool on);
  void StepContext(Worker& worker, uint32_t chain);
  void AppendPage(Growing& context);
  uint32_t OwnChain(Worker& worker) const;
  void Tell(const ServerEvent& event) { sink_(event); }

  TorturedServer& server_;
  const Corpus& corpus_;
  const ServerEventSink sink_;
  const Options options_;
  const std::vector<std::vector<SegmentKey>> keys_;  ///< [chain][segment]
  SeededRandom random_;                              ///< Of what comes between phases.
  std::vector<Worker> workers_;
};

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_SERVER_LOAD_H_
