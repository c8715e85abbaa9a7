// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/dram/numa_nodes.h"

#include <algorithm>
#include <charconv>
#include <fstream>

namespace quire::kvserver {
namespace {

/// Takes a number off the front of `text`.
std::optional<int> TakeNumber(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > kMaxNumaNode) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

bool TakeCharacter(std::string_view& text, char expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::optional<std::vector<int>> ParseNodeList(std::string_view list) {
  std::vector<int> nodes;
  do {
    const std::optional<int> first = TakeNumber(list);
    const std::optional<int> last = TakeCharacter(list, '-') ? TakeNumber(list) : first;
    if (!first || !last || *last < *first || (!nodes.empty() && *first <= nodes.back())) {
      return std::nullopt;
    }
    for (int node = *first; node <= *last; ++node) nodes.push_back(node);
  } while (TakeCharacter(list, ','));
  if (!list.empty()) return std::nullopt;
  return nodes;
}

std::string FormatNodes(const std::vector<int>& nodes) {
  std::string text;
  for (const int node : nodes) text += (text.empty() ? "" : ", ") + std::to_string(node);
  return text;
}

std::vector<int> MemoryNodes() {
  std::ifstream file("/sys/devices/system/node/has_memory");
  std::string list;
  std::getline(file, list);
  return ParseNodeList(list).value_or(std::vector<int>{0});
}

StatusOr<std::vector<int>> ChooseNodes(const std::vector<int>& nodes, int wanted) {
  const bool known = std::ranges::find(nodes, wanted) != nodes.end();
  if (wanted != kInterleaveNodes && !known) {
    return InvalidArgument("NUMA node ", wanted, " is not there or has no memory; use one of ",
                           FormatNodes(nodes), ", or ", kInterleaveNodes, " for all of them");
  }
  if (nodes.size() < 2) return std::vector<int>{};
  return known ? std::vector<int>{wanted} : nodes;
}

}  // namespace quire::kvserver
