// SPDX-License-Identifier: Apache-2.0
//
// ReadSpread: the node for each read of documents that are hot. It is the one with fewer reads in
// flight of two owners drawn by chance, so a slow owner gets less. An owner that fails, or has not
// copied the documents yet, is left out for a while. Thread-safety: all methods may be called
// concurrently.
#ifndef QUIRE_CLIENT_ROUTING_READ_SPREAD_H_
#define QUIRE_CLIENT_ROUTING_READ_SPREAD_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/routing/node_choice.h"
#include "common/base/random.h"
#include "common/base/threads/mutex.h"
#include "quire/clock.h"
#include "quire/document_router.h"
#include "quire/documents.h"
#include "quire/status.h"

namespace quire::internal {

class ReadSpread {
 public:
  /// True for methods that read pages, and need no state of one node.
  static bool MaySpread(std::string_view method) {
    return method == "quire.v1.Store/Fetch" || method == "quire.v1.Store/ReadTokens";
  }
  /// `clock` and `random` outlive this.
  ReadSpread(std::shared_ptr<DocumentRouter> router, std::vector<DocumentName> documents,
             Clock* clock, Random* random = &SystemRandom())
      : router_(std::move(router)),
        documents_(std::move(documents)),
        clock_(*clock),
        random_(*random) {}

  /// The node for the next read, which ends with End; nullopt while no document is hot.
  std::optional<NodeChoice::Node> Begin() QUIRE_EXCLUDES(mutex_);
  /// The read at `address` has ended. Any error but CANCELLED leaves the node out for a while.
  void End(const std::string& address, const Status& status) QUIRE_EXCLUDES(mutex_);

 private:
  /// Time for which the owners are taken as known, and for which a failed one is left out.
  static constexpr Duration kAge = std::chrono::seconds(2);

  struct Owner {
    uint32_t in_flight = 0;
    TimePoint not_before = TimePoint::min();
  };

  /// Asks for the owners when they were not asked for of late.
  void Refresh() QUIRE_EXCLUDES(mutex_);
  std::optional<std::string> Draw() QUIRE_EXCLUDES(mutex_);

  const std::shared_ptr<DocumentRouter> router_;
  const std::vector<DocumentName> documents_;
  Clock& clock_;
  Random& random_;
  Mutex mutex_;
  std::vector<std::string> addresses_ QUIRE_GUARDED_BY(mutex_);  ///< Empty while nothing is hot.
  std::map<std::string, Owner> owners_ QUIRE_GUARDED_BY(mutex_);
  TimePoint known_until_ QUIRE_GUARDED_BY(mutex_) = TimePoint::min();
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_ROUTING_READ_SPREAD_H_
