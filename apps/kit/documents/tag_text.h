// SPDX-License-Identifier: Apache-2.0
//
// Tags as people write them: KEY=VALUE. Whole numbers, other numbers, true and false have their
// type. All else is text, and so is what stands in quotes: year=2026, price=1.5, draft=false,
// team=ops, room='12'. Pure; thread-safe.
#ifndef QUIRE_APPS_KIT_DOCUMENTS_TAG_TEXT_H_
#define QUIRE_APPS_KIT_DOCUMENTS_TAG_TEXT_H_

#include <span>
#include <string>
#include <string_view>

#include "quire/documents.h"
#include "quire/status.h"

namespace quire::cli {

/// INVALID_ARGUMENT for a text that is no KEY=VALUE, a key or value outside its limits, or a key
/// that is given twice.
StatusOr<Tags> ParseTags(std::span<const std::string> texts);

/// "draft=false team=ops"; ParseTags reads each back.
std::string FormatTags(const Tags& tags);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_DOCUMENTS_TAG_TEXT_H_
