// SPDX-License-Identifier: Apache-2.0
#include "common/documents/page_strip.h"

#include <algorithm>

namespace quire {

std::vector<size_t> CellBounds(size_t num_pages, size_t most_cells) {
  const size_t cells = std::min(num_pages, most_cells);
  std::vector<size_t> bounds(1);
  for (size_t cell = 1; cell <= cells; ++cell) bounds.push_back(cell * num_pages / cells);
  return bounds;
}

std::vector<uint32_t> CellsOf(std::span<const uint32_t> uses, size_t most_cells) {
  const std::vector<size_t> bounds = CellBounds(uses.size(), most_cells);
  std::vector<uint32_t> cells;
  for (size_t cell = 0; cell + 1 < bounds.size(); ++cell) {
    const auto of_cell = uses.subspan(bounds[cell], bounds[cell + 1] - bounds[cell]);
    cells.push_back(*std::ranges::max_element(of_cell));
  }
  return cells;
}

}  // namespace quire
