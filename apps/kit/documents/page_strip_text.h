// SPDX-License-Identifier: Apache-2.0
//
// Pages of a document as rows of characters, higher where recalls used a page more. Pure functions.
#ifndef QUIRE_APPS_KIT_DOCUMENTS_PAGE_STRIP_TEXT_H_
#define QUIRE_APPS_KIT_DOCUMENTS_PAGE_STRIP_TEXT_H_

#include <cstddef>
#include <string>

#include "quire/document_calls.h"

namespace quire::cli {

/// Lines of at most `width` columns, 20 or more: a summary, and at most four rows that begin with
/// the number of their first page. A cell has the most used of its pages. `coloured` adds colours
/// of a terminal.
std::string PageStripText(const PageUses& pages, size_t width, bool coloured);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_DOCUMENTS_PAGE_STRIP_TEXT_H_
