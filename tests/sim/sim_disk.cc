// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_disk.h"

#include <algorithm>

namespace quire::sim {

using kvserver::MetadataBatch;
using kvserver::MetadataEntry;
using kvserver::PutSegmentArgs;
using kvserver::PutSegmentResult;

bool SimDisk::HasChain(const SegmentKey& tip) const {
  for (SegmentKey key = tip; key != kRootKey;) {
    const auto found = segments.find(key);
    if (found == segments.end()) return false;
    key = found->second.parent;
  }
  return true;
}

StatusOr<std::string> SimMetadata::Get(std::string_view key) {
  const auto found = disk_.rows.find(key);
  if (found == disk_.rows.end()) return NotFound("no such key");
  return found->second;
}

Status SimMetadata::Apply(const MetadataBatch& batch) {
  QUIRE_RETURN_IF_ERROR(life_->Check());
  QUIRE_RETURN_IF_ERROR(CheckKeys(batch));
  for (const auto& condition : batch.conditions) {
    const auto found = disk_.rows.find(condition.key);
    const bool absent = found == disk_.rows.end();
    if (condition.value ? absent || found->second != *condition.value : !absent) {
      return FailedPrecondition("metadata changed meanwhile; read it and retry");
    }
  }
  for (const auto& operation : batch.operations) {
    if (operation.value) {
      disk_.rows[operation.key] = *operation.value;
    } else {
      disk_.rows.erase(operation.key);
    }
  }
  return OkStatus();
}

StatusOr<std::vector<MetadataEntry>> SimMetadata::Scan(std::string_view prefix,
                                                       std::string_view after, uint32_t limit) {
  std::vector<MetadataEntry> out;
  limit = std::min(limit, kMaxScanEntries);
  for (auto at = disk_.rows.lower_bound(std::max(prefix, after)); at != disk_.rows.end(); ++at) {
    if (out.size() == limit || !at->first.starts_with(prefix)) break;
    if (after.empty() || at->first > after) out.push_back({at->first, at->second});
  }
  return out;
}

SimPageStore::SimPageStore(SimScheduler* scheduler, SimDisk* disk, SimLifePtr life)
    : scheduler_(*scheduler), disk_(*disk), life_(std::move(life)) {
  for (const auto& [key, segment] : disk_.segments) Restore(key);
}

void SimPageStore::Restore(const SegmentKey& key) {
  const auto found = disk_.segments.find(key);
  if (found == disk_.segments.end()) return;
  const SimDisk::Segment& segment = found->second;
  if (segment.parent != kRootKey) Restore(segment.parent);
  (void)FakePageStore::PutSegment(segment.tenant, {.spec = &segment.spec,
                                                   .parent = segment.parent,
                                                   .tokens = segment.tokens,
                                                   .payload = segment.payload});
}

StatusOr<PutSegmentResult> SimPageStore::PutSegment(std::string_view tenant,
                                                    const PutSegmentArgs& args) {
  QUIRE_RETURN_IF_ERROR(life_->Check());
  SimDisk::Segment segment{.tenant = std::string(tenant),
                           .spec = *args.spec,
                           .parent = args.parent,
                           .tokens = {args.tokens.begin(), args.tokens.end()},
                           .payload = {args.payload.begin(), args.payload.end()}};
  QUIRE_ASSIGN_OR_RETURN(PutSegmentResult result, FakePageStore::PutSegment(tenant, args));
  scheduler_.Sleep(disk_.write_time);
  QUIRE_RETURN_IF_ERROR(life_->Check());
  if (Tokens(tenant, result.key).ok()) disk_.segments.try_emplace(result.key, std::move(segment));
  return result;
}

void SimPageStore::Crash() {
  std::erase_if(disk_.segments, [this](const auto& segment) {
    return !Tokens(segment.second.tenant, segment.first).ok();
  });
}

}  // namespace quire::sim
