// SPDX-License-Identifier: Apache-2.0
#include "cluster/hot/hot_documents.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "cluster/placement/placement_key.h"
#include "common/base/observe/log.h"

namespace quire::cluster {
namespace {

/// Parts of the time for which extra owners are kept: the window over which reads count, and the
/// pause before the next renewal or the next owner. A new owner has its copy and its share of the
/// reads by then.
constexpr int kWindowPart = 6;
constexpr int kPausePart = 3;

Duration KeepOf(const ClusterView& view) {
  return std::chrono::seconds(view.settings.hot_keep_seconds);
}

bool Owns(const Owners& owners, const ClusterView& view, const std::string& node) {
  return std::ranges::any_of(owners.members,
                             [&](uint32_t member) { return view.members[member].name == node; });
}

}  // namespace

void HotDocuments::Step() {
  const auto view = parts_.membership->View();
  meter_.Add(parts_.take_reads(), parts_.clock->Now(), KeepOf(*view) / kWindowPart);
  Follow(*view);
  const Member* const self = view->Find(parts_.node);
  if (self == nullptr || !self->Serves() || !parts_.membership->Frozen().ok()) return;
  const Placement placement(view);
  for (const auto& [name, rate] : meter_.rates()) Decide(placement, name, rate);
}

void HotDocuments::Follow(const ClusterView& view) {
  std::erase_if(seen_, [&](const auto& seen) { return view.FindHot(seen.first) == nullptr; });
  for (const HotDocument& hot : view.hot_documents) {
    Seen& seen = seen_[hot.placement_hash];
    if (seen.extra == hot.extra_replicas) continue;
    const TimePoint now = parts_.clock->Now();
    seen.kept = seen.extra == 0 ? now : seen.kept;
    seen.extra = hot.extra_replicas;
    seen.since = now;
  }
}

void HotDocuments::Decide(const Placement& placement, const ReadName& name,
                          double reads_per_second) {
  const ClusterView& view = placement.view();
  const HeatLimits limits = {.reads_per_second = view.settings.hot_reads_per_second,
                             .most_extra = view.settings.hot_replicas};
  if (limits.reads_per_second == 0) return;
  // Most documents end here, before their hash is computed.
  const bool is_cool = reads_per_second <= limits.reads_per_second;
  if (is_cool && view.hot_documents.empty()) return;
  const PlacementKey key = KeyOfDocument(name.tenant, name.collection, name.document);
  const HotDocument* const hot = view.FindHot(key.hash);
  if (is_cool && hot == nullptr) return;
  const uint32_t copies = placement.CopiesOf(key);
  const Owners more = placement.OwnersOf(key, copies + 1);
  Owners owners = more;
  owners.members.resize(std::min<size_t>(owners.members.size(), copies));
  if (!Owns(owners, view, parts_.node)) return;
  const HeatStep step = StepOf({.reads_per_second = reads_per_second,
                                .owners = static_cast<uint32_t>(owners.members.size()),
                                .extra = copies - view.settings.replicas,
                                .most_owners = static_cast<uint32_t>(more.members.size())},
                               limits);
  const Status done = Act(step, name, view, hot);
  if (done.ok() || IsNotFound(done)) return;
  failures_.Add();
  std::string why = done.ToString();
  if (why != last_failure_) {
    LogInfo("hot_document_failed", {{"tenant", name.tenant},
                                    {"document", name.collection + "/" + name.document},
                                    {"why", why}});
  }
  last_failure_ = std::move(why);
}

Status HotDocuments::Act(HeatStep step, const ReadName& name, const ClusterView& view,
                         const HotDocument* hot) {
  if (step == HeatStep::kNone) return OkStatus();
  const Duration pause = KeepOf(view) / kPausePart;
  const TimePoint now = parts_.clock->Now();
  if (hot == nullptr) {
    if (view.hot_documents.size() >= kMaxHotDocuments) return OkStatus();
    QUIRE_ASSIGN_OR_RETURN(const bool begun, parts_.agreement->Begin(name, KeepOf(view)));
    if (begun) added_.Add();
    return OkStatus();
  }
  Seen& seen = seen_[hot->placement_hash];
  if (step == HeatStep::kAdd && now - seen.since >= pause) {
    seen.since = now;  // Also where it fails.
    QUIRE_ASSIGN_OR_RETURN(const bool added, parts_.agreement->AddOne(*hot));
    if (added) added_.Add();
  }
  if (now - seen.kept < pause) return OkStatus();
  seen.kept = now;
  return parts_.agreement->Keep(*hot);
}

void HotDocuments::VisitMetrics(MetricsVisitor& visit) const {
  visit.Gauge("hot_documents", "Documents that have extra copies because they are read much.",
              parts_.membership->View()->hot_documents.size());
  visit.Counter("hot_owners_added", "Extra owners that this node asked for.", added_.Get());
  visit.Counter("hot_failures", "Changes of extra owners that failed and are tried again.",
                failures_.Get());
}

}  // namespace quire::cluster
