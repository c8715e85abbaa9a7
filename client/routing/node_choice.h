// SPDX-License-Identifier: Apache-2.0
//
// NodeChoice: the node of a cluster that calls about some documents go to. It stays the same while
// it answers. After a failure the next call finds another node that has the documents.
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_CLIENT_ROUTING_NODE_CHOICE_H_
#define QUIRE_CLIENT_ROUTING_NODE_CHOICE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/threads/mutex.h"
#include "quire/clock.h"
#include "quire/document_router.h"
#include "quire/documents.h"
#include "quire/status.h"
#include "transport/transport.h"

namespace quire::internal {

class NodeChoice {
 public:
  struct Node {
    std::string address;
    std::shared_ptr<Transport> transport;
  };
  /// All are non-empty; `clock` outlives this. `known` is a node that has the documents, if one is
  /// known.
  NodeChoice(std::shared_ptr<DocumentRouter> router, std::vector<DocumentName> documents,
             Clock* clock, const std::optional<Node>& known = std::nullopt)
      : router_(std::move(router)),
        documents_(std::move(documents)),
        clock_(*clock),
        node_(known.value_or(Node{})),
        settled_(known.has_value()) {}

  /// The node that has the documents, found within `timeout`. After a failure of it the nearest
  /// other one, and the failed ones only when no other has them. Errors: those of
  /// DocumentRouter::FindHolder.
  StatusOr<Node> Current(Duration timeout) QUIRE_EXCLUDES(mutex_);
  /// Another node that has the documents; nullopt when none answers soon.
  std::optional<Node> Spare(const Node& than) QUIRE_EXCLUDES(mutex_);
  /// Takes in how a call to `node` ended. UNAVAILABLE without an answer and DEADLINE_EXCEEDED are
  /// failures of the node. Other errors may mean that it has the documents no more, which the next
  /// call of Current checks.
  void Note(const Node& node, const Status& status) QUIRE_EXCLUDES(mutex_);
  /// True for the end of a call whose node has failed.
  static bool IsFailure(const Status& status);
  bool IsCurrent(const std::string& address) const QUIRE_EXCLUDES(mutex_);
  /// Times that the calls went to another node.
  uint64_t changes() const QUIRE_EXCLUDES(mutex_);
  /// Failures of the node that the calls went to.
  uint64_t failures() const QUIRE_EXCLUDES(mutex_);

 private:
  /// Limit of the search for a spare, which a read waits for.
  static constexpr Duration kSpareTimeout = std::chrono::milliseconds(100);
  /// Time for which a spare, or the lack of one, is taken as known.
  static constexpr Duration kSpareAge = std::chrono::seconds(5);

  StatusOr<Node> Find(const HolderSearch& search);

  const std::shared_ptr<DocumentRouter> router_;
  const std::vector<DocumentName> documents_;
  Clock& clock_;
  mutable Mutex mutex_;
  Node node_ QUIRE_GUARDED_BY(mutex_);
  bool settled_ QUIRE_GUARDED_BY(mutex_);                     ///< node_ need not be checked.
  std::vector<std::string> failed_ QUIRE_GUARDED_BY(mutex_);  ///< The latest at the end.
  std::optional<Node> spare_ QUIRE_GUARDED_BY(mutex_);
  TimePoint spare_until_ QUIRE_GUARDED_BY(mutex_) = TimePoint::min();
  uint64_t changes_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t failures_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_ROUTING_NODE_CHOICE_H_
