// SPDX-License-Identifier: Apache-2.0
//
// ServerLoad: the work of a store and a registry at a power failure or crash. It consists of puts
// at both levels, open contexts that are appended to and left open, deletes, and reads. Documents
// are registered, pinned, expire and are deleted. The clock moves between phases, while the threads
// rest. Expired documents are then removed, as a server does once a second. Every operation is
// reported to a sink. A chain, and its document, belong to one thread (chain modulo threads).
// Ownership: the arguments outlive the load. Open contexts stay open until the load is destroyed.
// Thread-safety: Run is called once.
#ifndef QUIRE_BENCH_TORTURE_SERVER_SERVER_LOAD_H_
#define QUIRE_BENCH_TORTURE_SERVER_SERVER_LOAD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/torture/server/hand_clock.h"
#include "bench/torture/server/server_event.h"
#include "bench/torture/store/corpus.h"
#include "common/base/random.h"
#include "kvserver/registry/document_registry.h"
#include "kvserver/session/context/context_table.h"
#include "kvserver/store/page_store_impl.h"

namespace quire::torture {

/// The document that a load makes of a chain.
DocumentName DocumentOf(uint32_t chain);
/// When a document expires, as events say it.
int64_t MicrosOfExpiry(const Document& document);

/// A server without its network.
struct TorturedServer {
  /// Opens a store with `options` on the files of `machine`, with the documents in it, by the time
  /// of `clock`. All arguments outlive the server.
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
    uint64_t phases = 0;  ///< Phases of kStepsOfAPhase steps of each thread; 0 for no limit.
    bool sweeps = false;  ///< True if cached segments may expire between phases.
    /// Returns true once the power is off. The load then ends, and failures are no loss. Null:
    /// never.
    std::function<bool()> is_off = nullptr;
  };
  static constexpr uint64_t kStepsOfAPhase = 50;

  ServerLoad(TorturedServer* server, const Corpus* corpus, ServerEventSink sink, Options options);

  void Run();
  /// Number of contexts open now, with their appended pages.
  uint64_t num_open_contexts() const;

 private:
  /// An open context to which a chain's segments are appended, page by page.
  struct Growing {
    uint32_t chain = 0;
    uint32_t pages = 0;  ///< Pages appended so far.
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
  /// Moves the clock, and removes expired documents.
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
  SeededRandom random_;                              ///< Source of the work between phases.
  std::vector<Worker> workers_;
};

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_SERVER_SERVER_LOAD_H_
