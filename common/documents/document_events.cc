// SPDX-License-Identifier: Apache-2.0
#include "quire/document_events.h"

namespace quire {

std::string_view Name(DocumentEventKind kind) {
  switch (kind) {
    case DocumentEventKind::kIngestBegan:
      return "INGEST_BEGAN";
    case DocumentEventKind::kRegistered:
      return "REGISTERED";
    case DocumentEventKind::kUpdated:
      return "UPDATED";
    case DocumentEventKind::kLatestMoved:
      return "LATEST_MOVED";
    case DocumentEventKind::kPinned:
      return "PINNED";
    case DocumentEventKind::kUnpinned:
      return "UNPINNED";
    case DocumentEventKind::kDeleted:
      return "DELETED";
    case DocumentEventKind::kExpired:
      return "EXPIRED";
    case DocumentEventKind::kInvalidated:
      return "INVALIDATED";
    case DocumentEventKind::kFailed:
      return "FAILED";
  }
  return {};
}

}  // namespace quire
