// SPDX-License-Identifier: Apache-2.0
//
// DocumentPlaces: the nodes of a cluster that calls about documents, chains and open contexts go
// to. Each document has a node of its own (node_choice.h): it stays the same while that answers. A
// chain goes where the document goes that it was found by. An open context stays on the node that
// opened it.
//
// Bounds: what was not used for long is forgotten. A document is looked for again then. A forgotten
// chain is NOT_FOUND, and known again once its document was asked for.
//
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_CLIENT_ROUTING_DOCUMENT_PLACES_H_
#define QUIRE_CLIENT_ROUTING_DOCUMENT_PLACES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "client/routing/node_choice.h"
#include "client/routing/recent_map.h"
#include "common/base/threads/mutex.h"
#include "quire/clock.h"
#include "quire/contexts.h"
#include "quire/document_router.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::internal {

class DocumentPlaces {
 public:
  static constexpr size_t kMostDocuments = 4096;
  static constexpr size_t kMostChains = 16384;

  /// `clock` outlives this.
  DocumentPlaces(std::shared_ptr<DocumentRouter> router, Clock* clock)
      : router_(std::move(router)), clock_(*clock) {}

  /// Address of the node to ask about `context`, found within `timeout`. Errors: those of
  /// DocumentRouter::FindHolder; NOT_FOUND for an open context or a chain that is not known.
  StatusOr<std::string> Find(const ContextRef& context, Duration timeout) QUIRE_EXCLUDES(mutex_);
  /// The document's chain, or one that was made from it, goes where `name` goes.
  void NoteChain(const SegmentKey& chain_tip, const DocumentName& name) QUIRE_EXCLUDES(mutex_);
  /// The node at `address` has document `found`, with its version, of this chain.
  void NoteFound(const std::string& address, const DocumentName& found, const SegmentKey& chain_tip)
      QUIRE_EXCLUDES(mutex_);
  void NoteContext(uint64_t id, std::string address) QUIRE_EXCLUDES(mutex_);
  void ForgetContext(uint64_t id) QUIRE_EXCLUDES(mutex_);
  /// Takes in how a call to a node ended. After its failure (NodeChoice::Note) everything that goes
  /// there goes elsewhere, where there is another node.
  void NoteEnd(const std::string& address, const Status& status) QUIRE_EXCLUDES(mutex_);
  /// The same of a call about `context`, which the node may have no more.
  void NoteEndOf(const ContextRef& context, const std::string& address, const Status& status)
      QUIRE_EXCLUDES(mutex_);

 private:
  using Choice = std::shared_ptr<NodeChoice>;
  using DocumentKey = std::tuple<std::string, std::string, uint64_t>;

  Choice ChoiceOf(const DocumentName& name, const std::optional<NodeChoice::Node>& known = {})
      QUIRE_REQUIRES(mutex_);
  StatusOr<Choice> ChoiceOf(const ContextRef& context) QUIRE_EXCLUDES(mutex_);

  const std::shared_ptr<DocumentRouter> router_;
  Clock& clock_;
  Mutex mutex_;
  RecentMap<DocumentKey, Choice> documents_ QUIRE_GUARDED_BY(mutex_){kMostDocuments};
  RecentMap<SegmentKey, Choice> chains_ QUIRE_GUARDED_BY(mutex_){kMostChains};
  std::map<uint64_t, std::string> contexts_ QUIRE_GUARDED_BY(mutex_);  ///< Address by id.
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_ROUTING_DOCUMENT_PLACES_H_
