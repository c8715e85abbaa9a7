// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/server.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "cluster/hot/hot_documents.h"
#include "cluster/replica/replicator.h"
#include "common/base/threads/executor.h"
#include "common/base/threads/periodic_task.h"
#include "common/metrics/build_info.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kvserver/registry/document_registry.h"
#include "kvserver/registry/rows/registry_row.h"
#include "kvserver/service/adapters/adapters.h"
#include "kvserver/service/admission/admission.h"
#include "kvserver/service/admission/call_limits.h"
#include "kvserver/service/data_plane/data_plane.h"
#include "kvserver/service/dispatcher.h"
#include "kvserver/service/replica/replica_documents.h"
#include "kvserver/service/replica/replica_segments.h"
#include "kvserver/service/slow/slow_calls.h"
#include "kvserver/session/context/context_resolver.h"
#include "kvserver/session/context/context_table.h"
#include "kvserver/session/context/page_use_table.h"
#include "kvserver/session/context/read_counts.h"
#include "kvserver/session/context/tail_scrub.h"
#include "kvserver/session/session_manager.h"
#include "kvserver/store/page_store.h"
#include "kvserver/store/repair/scrubber.h"

namespace quire::kvserver {
namespace {

/// Longest stay of segments of expired documents, and of sessions and contexts without a lease. The
/// wall clock can jump, so the registry is polled instead of waiting for the next expiry. A poll
/// without work costs nothing.
constexpr Duration kExpiryPeriod = std::chrono::seconds(1);
/// Interval of checks of I/O in flight.
constexpr Duration kDeviceCheckPeriod = std::chrono::seconds(1);
/// Part of such an interval for pins from before a restart.
constexpr Duration kPinRestoreTime = std::chrono::milliseconds(500);
/// Time without a failure after which upkeep counts as recovered. The registry retries its failures
/// a minute later.
constexpr Duration kUpkeepQuiet = std::chrono::minutes(2);

/// Pause between two steps of replication, and the longest wait for changed names in one.
constexpr Duration kReplicationPause = std::chrono::milliseconds(50);
constexpr Duration kChangeWait = std::chrono::seconds(1);

/// Interval at which reads of documents are measured.
constexpr Duration kHeatPeriod = std::chrono::milliseconds(500);

/// Payload of a reply to another node, which may take smaller messages than this one.
constexpr uint64_t kMostBytesToPeers = 16 << 20;

/// Payload that fits in a message with its control bytes, which get at most an eighth. A unit takes
/// some 20 bytes there, and is rarely below 256.
uint64_t MaxReplyBytes(const ServerOptions& options) {
  return options.max_message_bytes - options.max_message_bytes / 8;
}

Clock* ClockOf(const ServerOptions& options) {
  return options.clock != nullptr ? options.clock : &SystemClock();
}

/// Gives `options` a board if it has none, and returns its owner.
std::unique_ptr<Health> TakeBoard(ServerOptions* options) {
  if (options->health != nullptr) return nullptr;
  auto board = std::make_unique<Health>(ClockOf(*options));
  options->health = board.get();
  return board;
}

PageStore::Options StoreOptions(const ServerOptions& options) {
  PageStore::Options store;
  store.ssd_path = options.data_dir;
  store.dram_bytes = options.dram_bytes;
  store.dram_numa_node = options.dram_numa_node;
  store.dram_prefault = options.dram_prefault;
  store.dram_high_watermark = options.dram_high_watermark;
  store.dram_low_watermark = options.dram_low_watermark;
  store.ssd_bytes = options.ssd_bytes;
  store.cached_ttl = std::chrono::seconds(options.cached_ttl_seconds);
  store.ssd_write_bytes_per_second = options.ssd_write_bytes_per_second;
  store.ssd_write_burst_bytes = options.ssd_write_burst_bytes;
  store.tenants = options.tenants;
  store.agree_on_salts = options.cluster.agree_on_salts;
  store.tenant_dram_quota_bytes = options.tenant_dram_quota_bytes;
  store.tenant_ssd_quota_bytes = options.tenant_ssd_quota_bytes;
  store.eviction_policy = options.eviction_policy;
  store.promote_after_touches = options.promote_after_touches;
  store.scrub_bytes_per_second = options.scrub_bytes_per_second;
  store.scrub_observer = options.scrub_observer;
  store.check_metadata = &CheckRegistryRow;
  store.ssd_gate = SsdGateOf(options);
  store.clock = options.clock;
  store.health = options.health;
  return store;
}

ContextTable::Options ContextOptions(const ServerOptions& options, PageStore* store, Clock* clock) {
  return {.max_contexts_per_tenant = options.max_contexts,
          .max_bytes_per_tenant = options.context_bytes,
          .lease = std::chrono::seconds(options.idle_seconds),
          .store = store,
          .ops = &kernels::CpuKernels(),
          .clock = clock};
}

/// Threads that read digests for sessions that hold them from the start.
constexpr size_t kDigestThreads = 2;

SessionManager::Options SessionOptions(const ServerOptions& options, PageStore* store,
                                       ContextResolver* resolver, Executor* executor,
                                       Clock* clock) {
  return {.max_sessions_per_tenant = options.max_sessions,
          .max_reply_bytes = MaxReplyBytes(options),
          .digests = {.max_bytes = options.digest_bytes,
                      .max_bytes_per_tenant = options.max_tenant_digest_bytes()},
          .lease = std::chrono::seconds(options.idle_seconds),
          .store = store,
          .resolver = resolver,
          .ops = &kernels::CpuKernels(),
          .clock = clock,
          .executor = executor};
}

/// Threads for calls over data connections; further calls wait.
constexpr uint64_t kMostDataThreads = 1024;

DataPlane::Options DataPlaneOptions(const ServerOptions& options, CallHandler* handler,
                                    const Clock* clock) {
  const uint64_t threads = std::min(options.max_calls(), kMostDataThreads);
  return {.handler = handler,
          .clock = clock,
          .frames = {.max_message_bytes = options.max_message_bytes,
                     .max_threads = static_cast<uint32_t>(threads),
                     .max_connections = options.max_connections,
                     .max_connections_per_tenant = options.max_connections_per_tenant,
                     .stall_timeout = std::chrono::seconds(options.stall_seconds),
                     .health = options.health}};
}

}  // namespace

/// In order of construction: each uses those before it.
struct Server::Parts {
  Parts(const ServerOptions& options, Clock* clock, std::unique_ptr<Health> board,
        std::unique_ptr<PageStore> page_store, std::unique_ptr<DocumentRegistry> document_registry)
      : own_health(std::move(board)),
        health(options.health),
        store(std::move(page_store)),
        registry(std::move(document_registry)),
        contexts(ContextOptions(options, store.get(), clock)),
        resolver(store.get(), registry.get(), &contexts, &read_counts, &page_uses),
        replica_segments(store.get()),
        replica_documents(registry.get(), options.tenants),
        digest_threads({.threads = kDigestThreads}),
        sessions(SessionOptions(options, store.get(), &resolver, &digest_threads, clock)),
        reads(AdmissionOf(options, Door::kRead)),
        writes(AdmissionOf(options, Door::kWrite)),
        slow(clock),
        dispatcher({.store = store.get(),
                    .reads = &reads,
                    .writes = &writes,
                    .clock = clock,
                    .health = health,
                    .slow = &slow,
                    .tracer = options.tracer}),
        data_plane(DataPlaneOptions(options, &dispatcher, clock)),
        held_digest_scrub(sessions.ScrubHeldDigests(),
                          {.bytes_per_second = options.scrub_bytes_per_second.digests,
                           .clock = clock,
                           .observer = options.scrub_observer}),
        tail_scrub(std::make_unique<TailScrub>(&contexts),
                   {.bytes_per_second = options.scrub_bytes_per_second.dram,
                    .clock = clock,
                    .observer = options.scrub_observer}),
        tenants(options.tenants),
        clock(clock),
        start(clock->Now()),
        cleanup(health, Trouble::kCleanupFailed, clock, kUpkeepQuiet),
        pins(health, Trouble::kPinsWaiting, clock, kUpkeepQuiet),
        standing(options.cluster.standing),
        replicator(MakeReplicator(options.cluster, clock)),
        hot(MakeHot(options.cluster, clock)),
        expiry(kExpiryPeriod, std::bind_front(&Parts::KeepUp, this)),
        // Separate from the expiry, which waits for the device.
        device_check(kDeviceCheckPeriod, std::bind_front(&PageStore::CheckDevice, store.get())) {
    if (options.scrub_bytes_per_second.digests > 0) held_digest_scrub.Start();
    if (options.scrub_bytes_per_second.dram > 0) tail_scrub.Start();
  }

  std::unique_ptr<cluster::Replicator> MakeReplicator(const ClusterPlace& place,
                                                      const Clock* of_intervals) {
    if (place.documents == nullptr || place.feed == nullptr) return nullptr;
    return std::make_unique<cluster::Replicator>(
        cluster::Replicator::Parts{.documents = &replica_documents,
                                   .segments = &replica_segments,
                                   .peers = place.peers,
                                   .agreement = place.documents,
                                   .feed = place.feed,
                                   .membership = place.membership,
                                   .clock = of_intervals,
                                   .node = place.node,
                                   .change_wait = kChangeWait});
  }

  std::unique_ptr<cluster::HotDocuments> MakeHot(const ClusterPlace& place,
                                                 const Clock* of_intervals) {
    if (place.hot == nullptr || !place.keeps_replicas()) return nullptr;
    return std::make_unique<cluster::HotDocuments>(
        cluster::HotDocuments::Parts{.take_reads = std::bind_front(&ReadCounts::Take, &read_counts),
                                     .agreement = place.hot,
                                     .membership = place.membership,
                                     .clock = of_intervals,
                                     .node = place.node});
  }

  /// Upkeep once a second. A failure is reported and retried by itself.
  void KeepUp() {
    Status cleaned = registry->RemoveExpired().status();
    cleaned.Update(registry->FailAbandonedIngests().status());
    cleaned.Update(registry->KeepUp(!standing || standing().ok()));
    cleaned.Update(store->Sweep().status());
    if (cleaned.ok()) {
      cleanup.Succeeded();
    } else {
      cleanup.Failed(Message(cleaned));
    }
    const auto restored = registry->RestorePins(clock->Now() + kPinRestoreTime);
    if (restored.failed == 0) {
      pins.Succeeded();
    } else {
      pins.Failed(Message(restored.first_failure));
    }
    sessions.RemoveExpired();
    contexts.RemoveExpired();
    contexts.ReleaseUnnamed();
  }

  void VisitMetrics(MetricsVisitor& visit) const {
    health->VisitMetrics(visit);
    store->VisitMetrics(visit);
    registry->VisitMetrics(visit);
    contexts.VisitMetrics(visit);
    sessions.VisitMetrics(visit);
    reads.VisitMetrics(visit);
    writes.VisitMetrics(visit);
    dispatcher.VisitMetrics(visit);
    data_plane.VisitMetrics(visit);
    held_digest_scrub.VisitMetrics(visit);
    tail_scrub.VisitMetrics(visit);
    if (replicator != nullptr) replicator->VisitMetrics(visit);
    if (hot != nullptr) hot->VisitMetrics(visit);
    for (const std::string& tenant : tenants) VisitTenant(tenant, visit);
    VisitBuildInfo(visit);
    visit.Gauge("uptime_seconds", "Time since the server started.",
                std::chrono::duration_cast<std::chrono::seconds>(clock->Now() - start).count());
  }

  void VisitTenant(const std::string& tenant, MetricsVisitor& visit) const {
    const PageStore::TenantUse use = store->UseOf(tenant);
    visit.Gauge("tenant_dram_bytes", "Bytes of the DRAM arena that hold a tenant's extents.",
                use.dram_bytes, {{"tenant", tenant}});
    visit.Gauge("tenant_ssd_bytes", "Payload of a tenant on SSD.", use.ssd_bytes,
                {{"tenant", tenant}});
    visit.Gauge("tenant_sessions", "Open sessions of a tenant.", sessions.Count(tenant),
                {{"tenant", tenant}});
  }

  const std::unique_ptr<Health> own_health;  ///< Null when the caller provides it.
  Health* const health;
  std::unique_ptr<PageStore> store;
  std::unique_ptr<DocumentRegistry> registry;
  ContextTable contexts;
  ReadCounts read_counts;
  PageUseTable page_uses;
  ContextResolver resolver;
  ReplicaSegments replica_segments;
  ReplicaDocuments replica_documents;
  ThreadPool digest_threads;
  SessionManager sessions;
  Admission reads;
  Admission writes;
  SlowCalls slow;
  Dispatcher dispatcher;
  DataPlane data_plane;
  Scrubber held_digest_scrub;
  Scrubber tail_scrub;
  const std::vector<std::string> tenants;
  const Clock* const clock;
  const TimePoint start;
  RecurringTrouble cleanup;
  RecurringTrouble pins;
  const std::function<Status()> standing;           ///< Empty: always a member, or in no cluster.
  std::unique_ptr<cluster::Replicator> replicator;  ///< Null when names are the server's own.
  std::unique_ptr<cluster::HotDocuments> hot;       ///< Null without an agreement on them.
  PeriodicTask expiry;
  PeriodicTask device_check;
  std::unique_ptr<PeriodicTask> replication;  ///< Null before StartReplication.
  std::unique_ptr<PeriodicTask> heat;         ///< Null before it, and without `hot`.
};

StatusOr<std::unique_ptr<Server>> Server::Open(const ServerOptions& options) {
  QUIRE_RETURN_IF_ERROR(options.Validate());
  ServerOptions with_board = options;
  std::unique_ptr<Health> own_health = TakeBoard(&with_board);
  QUIRE_ASSIGN_OR_RETURN(auto store, PageStore::Open(StoreOptions(with_board)));
  return Make(std::move(store), with_board, &own_health);
}

StatusOr<std::unique_ptr<Server>> Server::Over(std::unique_ptr<PageStore> store,
                                               const ServerOptions& options) {
  QUIRE_RETURN_IF_ERROR(options.Validate());
  ServerOptions with_board = options;
  std::unique_ptr<Health> own_health = TakeBoard(&with_board);
  return Make(std::move(store), with_board, &own_health);
}

StatusOr<std::unique_ptr<Server>> Server::Make(std::unique_ptr<PageStore> store,
                                               const ServerOptions& options,
                                               std::unique_ptr<Health>* own_health) {
  Clock* const clock = ClockOf(options);
  QUIRE_ASSIGN_OR_RETURN(const CodecParams default_codec, CodecByName(options.default_codec));
  QUIRE_ASSIGN_OR_RETURN(
      auto registry,
      DocumentRegistry::Open(store.get(), &store->metadata(), clock, default_codec,
                             std::chrono::seconds(options.idle_seconds), options.cluster.documents,
                             options.cluster.collections));
  auto parts = std::make_unique<Parts>(options, clock, std::move(*own_health), std::move(store),
                                       std::move(registry));
  AddStoreMethods({.store = parts->store.get(),
                   .registry = parts->registry.get(),
                   .contexts = &parts->contexts,
                   .resolver = &parts->resolver,
                   .place = options.cluster,
                   .max_reply_bytes = MaxReplyBytes(options),
                   .default_durability = options.default_durability},
                  &parts->dispatcher);
  AddObjectMethods(parts->store.get(), MaxReplyBytes(options), &parts->dispatcher);
  AddConversationMethods(parts->store.get(), &parts->dispatcher);
  AddEventMethods(parts->store.get(), &parts->dispatcher);
  AddSessionMethods(&parts->sessions, &parts->dispatcher);
  AddLeaseMethods(&parts->contexts, &parts->sessions, parts->registry.get(), &parts->dispatcher);
  AddRegistryMethods(parts->registry.get(), &parts->contexts, options.cluster, &parts->dispatcher);
  AddPageUseMethods(&parts->resolver, &parts->dispatcher);
  AddClusterMethods(options.cluster, clock, &parts->dispatcher);
  AddReplicaMethods({.place = options.cluster,
                     .segments = &parts->replica_segments,
                     .documents = &parts->replica_documents,
                     .replicator = parts->replicator.get(),
                     .max_reply_bytes = std::min(MaxReplyBytes(options), kMostBytesToPeers)},
                    &parts->dispatcher);
  AddDataPlaneMethods(&parts->data_plane, &parts->dispatcher);
  AddAdminMethods([raw = parts.get()](MetricsVisitor& visit) { raw->VisitMetrics(visit); },
                  parts->health, &parts->slow, clock, &parts->dispatcher);
  return std::unique_ptr<Server>(new Server(std::move(parts)));
}

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Server::~Server() { StopReplication(); }

DocumentRegistry& Server::registry() const { return *parts_->registry; }
SessionManager& Server::sessions() const { return parts_->sessions; }
ContextResolver& Server::resolver() const { return parts_->resolver; }
const SlowCalls& Server::slow_calls() const { return parts_->slow; }

CallHandler* Server::handler() { return &parts_->dispatcher; }
DataPlane& Server::data_plane() const { return parts_->data_plane; }

void Server::VisitMetrics(MetricsVisitor& visit) const { parts_->VisitMetrics(visit); }

std::optional<SharedMemoryView> Server::shared_memory() const {
  return parts_->store->shared_memory();
}
Status Server::CatchUpReplicas() {
  return parts_->replicator != nullptr ? parts_->replicator->CatchUp() : OkStatus();
}
void Server::StartReplication() {
  if (parts_->replicator == nullptr) return;
  parts_->replication = std::make_unique<PeriodicTask>(
      kReplicationPause, std::bind_front(&cluster::Replicator::Step, parts_->replicator.get()));
  if (parts_->hot == nullptr) return;
  parts_->heat = std::make_unique<PeriodicTask>(
      kHeatPeriod, std::bind_front(&cluster::HotDocuments::Step, parts_->hot.get()));
}
void Server::StopReplication() {
  if (parts_->replicator == nullptr) return;
  parts_->replicator->Stop();
  parts_->replication.reset();
  parts_->heat.reset();
}
void Server::KeepUpSoon() { parts_->expiry.RunSoon(); }

std::string Server::ssd_mode() const { return parts_->store->ssd_mode(); }
std::string Server::dram_mode() const { return parts_->store->dram_mode(); }

}  // namespace quire::kvserver
