// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/documents/page_strip_text.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "apps/kit/output/table.h"
#include "common/documents/page_strip.h"

namespace quire::cli {
namespace {

constexpr size_t kNarrowest = 20;
constexpr size_t kMostRows = 4;
constexpr std::string_view kUnused = "·";
constexpr std::array<std::string_view, 8> kHeights = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
/// From cold to hot, of the 256 colours of terminals; readable on black and on white.
constexpr std::array<std::string_view, 8> kHeats = {"67",  "68",  "74",  "72",
                                                    "178", "172", "166", "160"};
constexpr std::string_view kNoColour = "\x1b[0m";

std::string StripCell(uint32_t use, uint32_t most, bool coloured) {
  if (use == 0) return std::string(kUnused);
  const size_t level = (uint64_t{use} * kHeights.size() - 1) / most;
  if (!coloured) return std::string(kHeights[level]);
  std::string cell = "\x1b[38;5;";
  return cell.append(kHeats[level]).append("m").append(kHeights[level]).append(kNoColour);
}

std::string StripSummary(const PageUses& pages, uint32_t most) {
  const auto used = pages.uses.size() - std::ranges::count(pages.uses, 0u);
  return FormatCount(used) + " of " + FormatCount(pages.uses.size()) + " pages used (" +
         FormatCount(pages.page_tokens) + " tokens each), the hottest " + FormatCount(most) +
         (most == 1 ? " time\n" : " times\n");
}

}  // namespace

std::string PageStripText(const PageUses& pages, size_t width, bool coloured) {
  const uint32_t most = pages.uses.empty() ? 0 : *std::ranges::max_element(pages.uses);
  if (most == 0) return "no recall has used a page since the server started\n";
  const size_t label = std::to_string(pages.uses.size()).size() + 1;
  const size_t of_row = std::max(width, kNarrowest) - label;
  const std::vector<size_t> bounds = CellBounds(pages.uses.size(), kMostRows * of_row);
  const std::vector<uint32_t> cells = CellsOf(pages.uses, kMostRows * of_row);
  std::string text = StripSummary(pages, most);
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i % of_row == 0) {
      const std::string first = std::to_string(bounds[i]);
      text.append(i == 0 ? "" : "\n").append(label - 1 - first.size(), ' ').append(first + " ");
    }
    text += StripCell(cells[i], most, coloured);
  }
  return text + "\n";
}

}  // namespace quire::cli
