// SPDX-License-Identifier: Apache-2.0
#include "bench/cluster/cluster_servers.h"

#include <optional>
#include <utility>

#include "bench/kit/gqa_spec.h"
#include "cluster/placement/placement.h"
#include "quire/connect.h"
#include "quire/layout.h"
#include "transport/transport.h"

namespace quire::bench {
namespace {

constexpr uint64_t kDramBytes = uint64_t{192} << 20;

}  // namespace

KvSpec ClusterSpec() {
  KvSpec spec = GqaSpec("cluster", {.layers = 4, .query_heads = 8, .kv_heads = 8});
  spec.page_tokens = 16;
  spec.segment_pages = 16;
  return spec;
}

std::string ClusterDocument(uint32_t number) { return "document-" + std::to_string(number); }

/// Holds answers of a node back.
class ClusterServers::SlowTransport final : public Transport {
 public:
  /// `delay` is in nanoseconds, and outlives this.
  SlowTransport(std::shared_ptr<Transport> inner, const std::atomic<int64_t>* delay)
      : inner_(std::move(inner)), delay_(*delay) {}

  TransportCapabilities capabilities() const override { return inner_->capabilities(); }
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view method, CallMessage request,
                                               const CallOptions& options) override {
    const TimePoint not_before = SystemClock().Now() + Duration(delay_.load());
    QUIRE_ASSIGN_OR_RETURN(auto call, inner_->Start(method, std::move(request), options));
    return std::make_unique<SlowCall>(std::move(call), not_before);
  }
  Status Call(std::string_view method, const CallMessage& request, CallMessage* reply,
              const CallOptions& options) override {
    const TimePoint not_before = SystemClock().Now() + Duration(delay_.load());
    const Status status = inner_->Call(method, request, reply, options);
    SystemClock().Sleep(not_before - SystemClock().Now());
    return status;
  }

 private:
  class SlowCall final : public PendingCall {
   public:
    SlowCall(std::unique_ptr<PendingCall> call, TimePoint not_before)
        : call_(std::move(call)), not_before_(not_before) {}
    StatusOr<std::optional<CallMessage>> Next(TimePoint deadline) override {
      SystemClock().Sleep(std::min(deadline, not_before_) - SystemClock().Now());
      if (deadline < not_before_) return DeadlineExceeded("held back");
      return call_->Next(deadline);
    }
    void Cancel() override { call_->Cancel(); }

   private:
    const std::unique_ptr<PendingCall> call_;
    const TimePoint not_before_;
  };

  const std::shared_ptr<Transport> inner_;
  const std::atomic<int64_t>& delay_;
};

StatusOr<std::unique_ptr<ClusterServers>> ClusterServers::Start(uint32_t servers,
                                                                uint32_t documents,
                                                                uint32_t replicas) {
  std::unique_ptr<ClusterServers> all(new ClusterServers());
  all->view_ = {.name = "bench", .id = "bench", .epoch = 1, .settings = {.replicas = replicas}};
  all->delays_ = std::make_unique<std::atomic<int64_t>[]>(servers);
  std::vector<std::string> addresses;
  for (uint32_t i = 0; i < servers; ++i) {
    QUIRE_RETURN_IF_ERROR(all->StartNode(i));
    addresses.push_back(all->view_.members.back().address);
  }
  for (uint32_t i = 0; i < documents; ++i) QUIRE_RETURN_IF_ERROR(all->Put(i, replicas));
  for (Node& node : all->nodes_) node.membership->Set(all->view_);
  const auto connect =
      [all = all.get()](const std::string& address) -> StatusOr<std::shared_ptr<Transport>> {
    QUIRE_ASSIGN_OR_RETURN(auto inner, ConnectGrpc(address));
    const auto member = std::ranges::find(all->view_.members, address, &cluster::Member::address);
    return std::make_shared<SlowTransport>(std::move(inner),
                                           &all->delays_[member - all->view_.members.begin()]);
  };
  QUIRE_ASSIGN_OR_RETURN(all->router_,
                         DocumentRouter::Create({.servers = addresses, .connect = connect}));
  return all;
}

ClusterServers::~ClusterServers() = default;

Status ClusterServers::StartNode(uint32_t number) {
  Node node;
  QUIRE_ASSIGN_OR_RETURN(node.directory, cli::DataDir::Make(""));
  cluster::Member member{.name = "node-" + std::to_string(number),
                         .node_id = "id-" + std::to_string(number)};
  // Alone it takes every document that it is given.
  node.membership = std::make_unique<cluster::StaticMembership>(
      cluster::ClusterView{.name = "bench", .id = "bench", .members = {member}});
  QUIRE_ASSIGN_OR_RETURN(
      node.store,
      EmbeddedStore::Open({.data_dir = node.directory->path(),
                           .dram_bytes = kDramBytes,
                           .default_durability = kvserver::Durability::kMemory,
                           .cluster = {.membership = node.membership.get(), .node = member.name}}));
  QUIRE_RETURN_IF_ERROR(node.store->Listen({.transports = {"grpc"}}));
  member.address = node.store->address();
  view_.members.push_back(std::move(member));
  nodes_.push_back(std::move(node));
  return OkStatus();
}

std::vector<uint32_t> ClusterServers::Order(uint32_t document) const {
  const cluster::Placement placement(std::make_shared<const cluster::ClusterView>(view_));
  return placement.ReadOrder(
      cluster::KeyOfDocument("default", "default", ClusterDocument(document)));
}

Status ClusterServers::Put(uint32_t document, uint32_t replicas) {
  const KvSpec spec = ClusterSpec();
  const std::vector<TokenId> tokens(spec.segment_tokens(), static_cast<TokenId>(document));
  Payload payload;
  payload.Append(
      std::vector<std::byte>(SegmentBytes(spec, spec.segment_pages), std::byte(document)));
  std::vector<uint32_t> owners = Order(document);
  owners.resize(std::min<size_t>(owners.size(), replicas));
  for (const uint32_t owner : owners) {
    QUIRE_ASSIGN_OR_RETURN(const auto client,
                           Client::Create({.transport = nodes_[owner].store->transport()}));
    QUIRE_ASSIGN_OR_RETURN(const SegmentKey tip,
                           client->PutSegment(spec, kRootKey, tokens, payload));
    QUIRE_RETURN_IF_ERROR(
        client->RegisterDocument({.name = ClusterDocument(document)}, tip).status());
  }
  return OkStatus();
}

StatusOr<ClusterServers::Reader> ClusterServers::ReaderOf(uint32_t number, bool hedge) const {
  Reader reader;
  QUIRE_ASSIGN_OR_RETURN(reader.connection,
                         ClusterConnection::Open({.router = router_,
                                                  .documents = {{.name = ClusterDocument(number)}},
                                                  .hedge_reads = hedge}));
  QUIRE_ASSIGN_OR_RETURN(reader.client,
                         Client::Create({.transport = reader.connection->control()}));
  return reader;
}

void ClusterServers::Heat(uint32_t number) {
  const uint32_t replicas = std::exchange(view_.settings.replicas, 1);
  view_.settings.hot_replicas = replicas;
  view_.hot_documents = {
      {.tenant = "default",
       .collection = "default",
       .document = ClusterDocument(number),
       .extra_replicas = replicas - 1,
       .placement_hash =
           cluster::KeyOfDocument("default", "default", ClusterDocument(number)).hash}};
  for (Node& node : nodes_) node.membership->Set(view_);
}

StatusOr<std::vector<uint64_t>> ClusterServers::BytesServed(uint32_t number) const {
  std::vector<uint64_t> served;
  for (const Node& node : nodes_) {
    QUIRE_ASSIGN_OR_RETURN(const auto client,
                           Client::Create({.transport = node.store->transport()}));
    QUIRE_ASSIGN_OR_RETURN(const Document document,
                           client->GetDocument({.name = ClusterDocument(number)}));
    served.push_back(document.statistics.bytes_served);
  }
  return served;
}

void ClusterServers::SlowDown(uint32_t number, Duration delay) {
  delays_[Order(number)[0]] = delay.count();
}

}  // namespace quire::bench
