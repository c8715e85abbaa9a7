// SPDX-License-Identifier: Apache-2.0
//
// Events of documents: the durable log of a tenant's changes, read from a position. Value types.
#ifndef QUIRE_DOCUMENT_EVENTS_H_
#define QUIRE_DOCUMENT_EVENTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quire/documents.h"

namespace quire {

enum class DocumentEventKind : uint8_t {
  kIngestBegan = 1,  ///< A version was reserved.
  kRegistered,       ///< A version is ready.
  kUpdated,          ///< Tags or the time to live changed.
  kLatestMoved,      ///< Version 0 means this version now, and meant another one before.
  kPinned,
  kUnpinned,
  kDeleted,
  kExpired,      ///< Removed when its time had passed.
  kInvalidated,  ///< Removed because its source has changed.
  kFailed,       ///< Its ingest ended before it was complete.
};
/// "REGISTERED", ... as on the wire.
std::string_view Name(DocumentEventKind kind);

struct DocumentEvent {
  uint64_t position = 0;  ///< Place in the tenant's log, from 1 on, without gaps.
  int64_t time_unix_micros = 0;
  DocumentEventKind kind = DocumentEventKind::kRegistered;
  DocumentName document;
  std::string detail = {};  ///< Of a failed ingest: the reason.

  friend bool operator==(const DocumentEvent&, const DocumentEvent&) = default;
};

/// A page of the log.
struct DocumentEvents {
  std::vector<DocumentEvent> events;
  uint64_t position = 0;  ///< `after` of the next read.
  uint64_t oldest = 0;    ///< Position of the oldest event in the log; 0 when it is empty.
};

}  // namespace quire

#endif  // QUIRE_DOCUMENT_EVENTS_H_
