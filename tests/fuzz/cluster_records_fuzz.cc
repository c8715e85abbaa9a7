// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the records of a cluster: each line is the name of a key, a blank and its value. A view
// that comes of them has members in order, and can be placed by.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>

#include "cluster/membership/cluster_records.h"
#include "cluster/placement/placement.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire::cluster;
  std::istringstream lines(std::string(reinterpret_cast<const char*>(data), size));
  EtcdSnapshot snapshot;
  for (std::string line; std::getline(lines, line);) {
    const size_t blank = std::min(line.find(' '), line.size());
    snapshot.keys[line.substr(0, blank)] = {line.substr(std::min(blank + 1, line.size())), 1};
  }
  const auto records = ParseRecords(snapshot);
  if (!records.ok()) return 0;
  const auto view = std::make_shared<const ClusterView>(ViewOf("demo", *records));
  if (!std::ranges::is_sorted(view->members, {}, &Member::name)) std::abort();
  if (!std::ranges::is_sorted(view->hot_documents, {}, &HotDocument::placement_hash)) std::abort();
  for (const HotDocument& hot : view->hot_documents) {
    if (view->FindHot(hot.placement_hash) == nullptr) std::abort();
  }
  const Placement placement(view);
  const Owners owners = placement.OwnersOf({42}, view->settings.replicas);
  if (owners.members.size() > placement.ReadOrder({42}).size()) std::abort();
  return 0;
}
