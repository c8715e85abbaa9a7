// SPDX-License-Identifier: Apache-2.0
//
// Value of an event in the metadata; its position is in the key. Versioned and checksummed. Pure
// functions.
#ifndef QUIRE_KVSERVER_REGISTRY_EVENTS_EVENT_RECORD_H_
#define QUIRE_KVSERVER_REGISTRY_EVENTS_EVENT_RECORD_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "quire/document_events.h"
#include "quire/status.h"

namespace quire::kvserver {

[[nodiscard]] std::string EncodeEvent(const DocumentEvent& event);
/// Decodes untrusted bytes safely. DATA_LOSS naming the position when they are damaged,
/// FAILED_PRECONDITION for a newer version.
[[nodiscard]] StatusOr<DocumentEvent> DecodeEvent(uint64_t position, std::string_view encoded);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_EVENTS_EVENT_RECORD_H_
