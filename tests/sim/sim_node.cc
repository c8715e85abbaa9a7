// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_node.h"

#include <optional>
#include <utility>

#include "cluster/directory/etcd_directory.h"
#include "cluster/hot/etcd_hot_documents.h"
#include "cluster/hot/hot_documents.h"
#include "cluster/replica/chain_copier.h"
#include "cluster/replica/replica_plan.h"
#include "cluster/replica/replicated_put.h"
#include "cluster/replica/replicator.h"
#include "kvserver/registry/document_registry.h"
#include "kvserver/service/replica/replica_documents.h"
#include "kvserver/service/replica/replica_segments.h"
#include "kvserver/session/context/read_counts.h"
#include "tests/sim/sim_content.h"
#include "tests/sim/sim_membership.h"

namespace quire::sim {
namespace {

constexpr Duration kBootPause = std::chrono::milliseconds(500);
constexpr Duration kFollowPause = std::chrono::milliseconds(400);
constexpr Duration kStepPause = std::chrono::milliseconds(300);
constexpr Duration kHeatPause = std::chrono::milliseconds(500);
constexpr int64_t kSimEpochMicros = 1'700'000'000'000'000;

}  // namespace

/// Simulated time, as this node's clocks show it.
class SimNode::NodeClock final : public Clock {
 public:
  NodeClock(SimScheduler* scheduler, const Duration* offset)
      : scheduler_(*scheduler), offset_(*offset) {}
  TimePoint Now() const override { return scheduler_.Now(); }
  int64_t UnixMicros() const override {
    const Duration since = scheduler_.Now().time_since_epoch() + offset_;
    return kSimEpochMicros + std::chrono::duration_cast<std::chrono::microseconds>(since).count();
  }
  void Sleep(Duration duration) override { scheduler_.Sleep(duration); }

 private:
  SimScheduler& scheduler_;
  const Duration& offset_;
};

struct SimNode::Process {
  Process(const SimSurroundings& around, const cluster::Member& self, SimDisk* disk,
          const Duration* clock_offset)
      : clock(&around.scheduler, clock_offset),
        store(&around.scheduler, disk, life),
        metadata(disk, life),
        etcd(&around.etcd, self.name, life),
        directory(&etcd, kSimCluster),
        hot_agreement(&etcd, kSimCluster),
        membership(&around.scheduler, &etcd, disk, {.self = self, .listens_on_address = true}),
        segments(&store),
        peers(&around.network, self.name, life, around.find_peer),
        put(&peers, &membership, self.name, RunInTurn),
        hot({.take_reads = [this] { return reads.Take(); },
             .agreement = &hot_agreement,
             .membership = &membership,
             .clock = &clock,
             .node = self.name}) {}

  const SimLifePtr life = std::make_shared<SimLife>();
  NodeClock clock;
  SimPageStore store;
  SimMetadata metadata;
  SimEtcdClient etcd;
  cluster::EtcdDirectory directory;
  cluster::EtcdHotDocuments hot_agreement;
  SimMembership membership;
  kvserver::ReplicaSegments segments;
  SimPeers peers;
  cluster::ReplicatedPut put;
  kvserver::ReadCounts reads;
  cluster::HotDocuments hot;
  std::unique_ptr<kvserver::DocumentRegistry> registry;
  std::optional<kvserver::ReplicaDocuments> documents;
  std::optional<cluster::Replicator> replicator;
  SimPeerService service;
  bool is_ready = false;
};

SimNode::SimNode(SimSurroundings surroundings, const std::string& name, const std::string& zone)
    : surroundings_(std::move(surroundings)),
      self_({.name = name, .node_id = "disk-of-" + name, .zone = zone, .address = name + ":7410"}) {
  disk_.identity.set_cluster_name(kSimCluster);
  disk_.identity.set_node_name(name);
  disk_.identity.set_node_id(self_.node_id);
}

SimNode::~SimNode() = default;

void SimNode::Start() {
  if (process_ != nullptr) return;
  process_ = std::make_shared<Process>(surroundings_, self_, &disk_, &clock_offset_);
  surroundings_.scheduler.Start([this, process = process_] { Run(process); });
}

void SimNode::Crash() {
  if (process_ == nullptr) return;
  process_->life->is_alive = false;
  process_->store.Crash();
  surroundings_.network.Down(name());
  process_.reset();  // Its tasks keep it until they end.
}

Status SimNode::Open(const ProcessPtr& process) {
  QUIRE_ASSIGN_OR_RETURN(process->registry,
                         kvserver::DocumentRegistry::Open(
                             &process->store, &process->metadata, &process->clock, {},
                             kvserver::DocumentRegistry::kIngestLease, &process->directory));
  process->documents.emplace(process->registry.get(), std::vector<std::string>{kSimTenant});
  process->replicator.emplace(cluster::Replicator::Parts{.documents = &*process->documents,
                                                         .segments = &process->segments,
                                                         .peers = &process->peers,
                                                         .agreement = &process->directory,
                                                         .feed = &process->directory,
                                                         .membership = &process->membership,
                                                         .clock = &process->clock,
                                                         .node = name()});
  process->service = {
      .documents = &*process->documents,
      .segments = &process->segments,
      .copy_chain = [this](std::string_view tenant, const SegmentKey& tip,
                           std::string_view from) { return CopyChain(tenant, tip, from); },
      .adopt = [this](std::string_view tenant,
                      const DocumentName& version) { return Adopt(tenant, version); },
      .is_releasing =
          [replicator = &*process->replicator](std::string_view tenant,
                                               const DocumentName& version) {
            return replicator->IsReleasing(tenant, version);
          }};
  return OkStatus();
}

void SimNode::Run(const ProcessPtr& process) {
  SimScheduler& scheduler = surroundings_.scheduler;
  const auto until_ok = [&](const std::function<Status()>& attempt) {
    while (process->life->is_alive && !attempt().ok()) scheduler.Sleep(kBootPause);
    return process->life->is_alive;
  };
  if (!until_ok([&] { return Open(process); })) return;
  if (!until_ok([&] { return process->replicator->CatchUp(); })) return;
  if (!until_ok([&] { return process->membership.Join(); })) return;
  process->membership.Follow();
  if (!process->life->is_alive) return;
  process->is_ready = true;
  surroundings_.network.Up(name());
  scheduler.Start([this, process] { Serve(process); });
  scheduler.Start([this, process] { MeasureHeat(process); });
  while (process->life->is_alive) {
    scheduler.Sleep(kFollowPause);
    if (process->life->is_alive) process->membership.Follow();
  }
}

void SimNode::Serve(const ProcessPtr& process) {
  SimScheduler& scheduler = surroundings_.scheduler;
  while (process->life->is_alive) {
    process->replicator->Step();
    scheduler.Sleep(kStepPause);
  }
}

void SimNode::MeasureHeat(const ProcessPtr& process) {
  while (process->life->is_alive) {
    process->hot.Step();
    surroundings_.scheduler.Sleep(kHeatPause);
  }
}

Status SimNode::CopyChain(std::string_view tenant, const SegmentKey& tip, std::string_view from) {
  QUIRE_ASSIGN_OR_RETURN(const ProcessPtr process, Ready());
  const auto view = process->membership.View();
  const cluster::Member* const source = view->Find(from);
  if (source == nullptr) return NotFound(from, " is no member");
  cluster::ChainCopier copier(&process->segments, &process->peers, tenant, tip);
  return copier.Advance({*source}, [] { return true; }).status();
}

Status SimNode::Adopt(std::string_view tenant, const DocumentName& version) {
  QUIRE_ASSIGN_OR_RETURN(const ProcessPtr process, Ready());
  QUIRE_ASSIGN_OR_RETURN(const AgreedName agreed, process->directory.Read(tenant, version));
  const Document* const document = agreed.Find(version.version);
  if (document == nullptr) return NotFound("the version is not agreed");
  if (process->documents->StateOf(tenant, *document) != cluster::Held::kNot) return OkStatus();
  QUIRE_RETURN_IF_ERROR(process->documents->Adopt(tenant, version, agreed));
  QUIRE_ASSIGN_OR_RETURN(const AgreedName now, process->directory.Read(tenant, version));
  QUIRE_RETURN_IF_ERROR(process->documents->Align(tenant, version, now));
  return now.Find(version.version) != nullptr ? OkStatus() : NotFound("the version was removed");
}

SimPeerService* SimNode::peer_service() {
  return process_ != nullptr && process_->is_ready ? &process_->service : nullptr;
}

StatusOr<SimNode::ProcessPtr> SimNode::Ready() const {
  if (process_ != nullptr && process_->is_ready) return process_;
  return Unavailable("node ", name(), " is not ready");
}

StatusOr<cluster::ClusterView> SimNode::View() {
  QUIRE_ASSIGN_OR_RETURN(const ProcessPtr process, Ready());
  QUIRE_RETURN_IF_ERROR(process->membership.Frozen());
  return *process->membership.View();
}

StatusOr<Document> SimNode::Put(const DocumentName& name, uint64_t content) {
  QUIRE_ASSIGN_OR_RETURN(const ProcessPtr process, Ready());
  QUIRE_RETURN_IF_ERROR(process->membership.Standing());
  const cluster::Placement placement(process->membership.View());
  if (!cluster::PlaceOf(placement, this->name(), kSimTenant, name).owned) {
    return FailedPrecondition("node ", this->name(), " is no owner");
  }
  QUIRE_ASSIGN_OR_RETURN(const SegmentKey tip, PutContent(process->store, content));
  QUIRE_ASSIGN_OR_RETURN(const auto hold, process->store.HoldChain(kSimTenant, tip));
  QUIRE_ASSIGN_OR_RETURN(const auto copied,
                         process->put.Prepare(kSimTenant, name, tip, TimePoint::max()));
  QUIRE_ASSIGN_OR_RETURN(const auto registered,
                         process->registry->Register(kSimTenant, name, {.chain_tip = tip}));
  QUIRE_RETURN_IF_ERROR(
      process->put.Adopt(kSimTenant, registered.document.name, copied, TimePoint::max()).status());
  return registered.document;
}

StatusOr<Document> SimNode::Read(const DocumentName& name) {
  QUIRE_ASSIGN_OR_RETURN(const ProcessPtr process, Ready());
  QUIRE_ASSIGN_OR_RETURN(Document document, process->registry->Get(kSimTenant, name));
  process->reads.Of(kSimTenant, name)->fetch_add(1, std::memory_order_relaxed);
  return document;
}

Status SimNode::CheckPages(const Document& document, uint64_t content) {
  QUIRE_ASSIGN_OR_RETURN(const ProcessPtr process, Ready());
  return CheckContent(process->store, document.chain_tip, content);
}

Status SimNode::Delete(const DocumentName& name) {
  QUIRE_ASSIGN_OR_RETURN(const ProcessPtr process, Ready());
  QUIRE_RETURN_IF_ERROR(process->membership.Standing());
  return process->registry->Delete(kSimTenant, name, false).status();
}

Status SimNode::SetTag(const DocumentName& name, int64_t value) {
  QUIRE_ASSIGN_OR_RETURN(const ProcessPtr process, Ready());
  QUIRE_RETURN_IF_ERROR(process->membership.Standing());
  return process->registry->Update(kSimTenant, name, {.set_tags = {{"round", value}}}).status();
}

std::vector<Document> SimNode::Documents() {
  const auto process = Ready();
  if (!process.ok()) return {};
  const auto list = (*process)->registry->List(kSimTenant, "", 1000, "");
  return list.ok() ? list->documents : std::vector<Document>();
}

bool SimNode::HasChain(const SegmentKey& tip) {
  if (process_ == nullptr) return disk_.HasChain(tip);
  return process_->store.ResolveChain(kSimTenant, tip).ok();
}

void SimNode::StartPass() {
  if (process_ != nullptr && process_->is_ready) process_->replicator->StartPass();
}

Status SimNode::Settled() {
  QUIRE_ASSIGN_OR_RETURN(const ProcessPtr process, Ready());
  const cluster::ReplicaProgress progress = process->replicator->progress();
  const uint64_t left = progress.copies_pending + progress.releases_pending;
  if (!progress.pass_runs && left == 0) return OkStatus();
  return Unavailable("node ", name(), " has ", progress.copies_pending, " copies and ",
                     progress.releases_pending, " releases left; ", progress.last_failure);
}

}  // namespace quire::sim
