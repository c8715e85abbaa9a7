// SPDX-License-Identifier: Apache-2.0
//
// DirectoryFeed: the agreed state of all names of a cluster, for nodes that keep replicas. Scan
// reads all names once. Changes then tells what changed since. Neither keeps a copy of the
// directory.
//
// To follow the names: scan all pages, then ask for changes since the first page's revision. A
// change during the scan may be told twice, the newer state last.
//
// Implementations: EtcdDirectory; for tests LocalDirectory. Thread-safety: all methods may be
// called concurrently. Errors: UNAVAILABLE while the directory cannot be reached.
#ifndef QUIRE_CLUSTER_DIRECTORY_DIRECTORY_FEED_H_
#define QUIRE_CLUSTER_DIRECTORY_DIRECTORY_FEED_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/documents/document_agreement.h"
#include "quire/clock.h"
#include "quire/documents.h"
#include "quire/status.h"

namespace quire::cluster {

struct DirectoryEntry {
  std::string tenant;
  DocumentName name;  ///< Version 0.
  AgreedName agreed;  ///< A removed name has no versions, and the revision of its removal.
};

struct DirectoryPage {
  std::vector<DirectoryEntry> entries;  ///< In order of their keys.
  std::string next;                     ///< Argument for the next page; empty after the last one.
  uint64_t revision = 0;                ///< Every change up to this one is in the page.
};

struct DirectoryChanges {
  std::vector<DirectoryEntry> entries;  ///< In the order of the changes; empty at the deadline.
  uint64_t revision = 0;                ///< Argument for the next call.
};

class DirectoryFeed {
 public:
  virtual ~DirectoryFeed() = default;

  /// Reads up to `limit` names behind `after`, which is empty for the first page. A name that
  /// cannot be read is left out and logged. INVALID_ARGUMENT for a limit of 0.
  virtual StatusOr<DirectoryPage> Scan(std::string_view after, uint32_t limit) = 0;
  /// Waits until something changed behind revision `since`, until `deadline` of the system's
  /// monotonic clock. A past deadline asks for what has changed already. OUT_OF_RANGE when these
  /// changes are forgotten: scan again.
  virtual StatusOr<DirectoryChanges> Changes(uint64_t since, TimePoint deadline) = 0;
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_DIRECTORY_DIRECTORY_FEED_H_
