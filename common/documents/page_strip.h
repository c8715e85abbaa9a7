// SPDX-License-Identifier: Apache-2.0
//
// A strip of a document's pages, for people: which of them questions have used. Pure functions.
#ifndef QUIRE_COMMON_DOCUMENTS_PAGE_STRIP_H_
#define QUIRE_COMMON_DOCUMENTS_PAGE_STRIP_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace quire {

/// The first page of each cell of a strip, and the number of pages at the end. Pages are divided
/// evenly, into one cell each or `most_cells` (1 or more).
std::vector<size_t> CellBounds(size_t num_pages, size_t most_cells);

/// The greatest count of the pages in each cell.
std::vector<uint32_t> CellsOf(std::span<const uint32_t> uses, size_t most_cells);

}  // namespace quire

#endif  // QUIRE_COMMON_DOCUMENTS_PAGE_STRIP_H_
