// SPDX-License-Identifier: Apache-2.0
//
// States and events of documents, for people and programs. Pure; thread-safe.
#ifndef QUIRE_APPS_KIT_DOCUMENTS_DOCUMENT_LINES_H_
#define QUIRE_APPS_KIT_DOCUMENTS_DOCUMENT_LINES_H_

#include <string>

#include "apps/kit/output/json_output.h"
#include "quire/document_events.h"
#include "quire/documents.h"

namespace quire::cli {

/// "ready", or "failed: REASON", and whether segments are lost.
std::string StateText(const Document& document);

/// "17  2026-01-01 10:00:00  REGISTERED  handbook/intro.md@2".
std::string FormatEvent(const DocumentEvent& event);

Json ToJson(const DocumentEvent& event);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_DOCUMENTS_DOCUMENT_LINES_H_
