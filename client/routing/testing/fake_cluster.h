// SPDX-License-Identifier: Apache-2.0
//
// FakeCluster: the nodes of a cluster as far as clients call them, in the caller's thread. A test
// says which are silent or slow and what each has. Time passes on a fake clock only. Nothing that
// ships includes this. Thread-safety: none.
#ifndef QUIRE_CLIENT_ROUTING_TESTING_FAKE_CLUSTER_H_
#define QUIRE_CLIENT_ROUTING_TESTING_FAKE_CLUSTER_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/placement/placement.h"
#include "cluster/view/view_proto.h"
#include "quire/document_router.h"
#include "quire/v1/cluster.pb.h"
#include "quire/v1/registry.pb.h"
#include "tests/kit/fake_clock.h"
#include "transport/transport.h"

namespace quire::testing {

/// Method of a read that any node with the document may answer.
inline constexpr char kFetchMethod[] = "quire.v1.Store/Fetch";

struct FakeCluster {
  cluster::ClusterView view;
  std::map<std::string, cluster::ClusterView> other_views;  ///< By address, where they differ.
  std::map<std::string, std::string> frozen;                ///< By address: why a view may be old.
  std::map<std::string, std::set<std::string>> documents;   ///< By address.
  std::set<std::string> silent;                             ///< Addresses that do not answer.
  std::set<std::string> hung;                  ///< Addresses that let a call's time pass.
  std::set<std::string> behind;                ///< Addresses that lack the latest version.
  std::set<std::string> lossy;                 ///< Addresses that lack segments.
  std::map<std::string, Duration> latency;     ///< By address: time until an answer.
  std::map<std::string, Status> failures;      ///< By method.
  std::map<std::string, int> views_read;       ///< By address.
  std::map<std::string, int> documents_asked;  ///< By address.
  /// Hears the address of each node that was asked for a document.
  std::function<void(const std::string&)> after_get;
  FakeClock clock;

  /// Members a, b and c at the addresses a:1, b:1 and c:1.
  FakeCluster() {
    view = {.name = "demo", .epoch = 1};
    for (const char* name : {"a", "b", "c"}) {
      view.members.push_back({.name = name, .node_id = name, .address = std::string(name) + ":1"});
    }
  }
  cluster::Member& MemberAt(const std::string& address) {
    return *std::ranges::find(view.members, address, &cluster::Member::address);
  }
  /// Addresses by distance to a document of the default collection, the nearest first.
  std::vector<std::string> Order(const std::string& name) const {
    const cluster::Placement placement(std::make_shared<const cluster::ClusterView>(view));
    std::vector<std::string> order;
    for (const uint32_t member :
         placement.MayHold(cluster::KeyOfDocument("default", "default", name))) {
      order.push_back(placement.view().members[member].address);
    }
    return order;
  }
  /// A router that knows the addresses of a and b. The cluster outlives it.
  std::unique_ptr<DocumentRouter> MakeRouter();
};

/// One node. Methods other than Cluster/View and Registry/Get answer with the node's address.
class FakeNode final : public Transport {
 public:
  FakeNode(FakeCluster* cluster, std::string address)
      : cluster_(*cluster), address_(std::move(address)) {}
  TransportCapabilities capabilities() const override {
    return {.name = "fake", .max_message_bytes = 1 << 20};
  }
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view method, CallMessage request,
                                               const CallOptions& options) override {
    CallMessage reply;
    const Status status = Answer(method, request, &reply);
    if (method == "quire.v1.Registry/Get" && cluster_.after_get) cluster_.after_get(address_);
    const bool hung = cluster_.hung.contains(address_);
    return std::make_unique<FakeCall>(&cluster_.clock,
                                      hung ? options.timeout : cluster_.latency[address_],
                                      hung ? StatusOr<CallMessage>(DeadlineExceeded("hung"))
                                      : status.ok() ? StatusOr<CallMessage>(std::move(reply))
                                                    : status);
  }
  Status Call(std::string_view method, const CallMessage& request, CallMessage* reply,
              const CallOptions& options) override {
    QUIRE_ASSIGN_OR_RETURN(const auto call, Start(method, request, options));
    QUIRE_ASSIGN_OR_RETURN(auto part, call->Next(TimePoint::max()));
    *reply = std::move(*part);
    return OkStatus();
  }

 private:
  class FakeCall final : public PendingCall {
   public:
    FakeCall(FakeClock* clock, Duration latency, StatusOr<CallMessage> answer)
        : clock_(*clock), ready_at_(clock->Now() + latency), answer_(std::move(answer)) {}
    StatusOr<std::optional<CallMessage>> Next(TimePoint deadline) override {
      if (std::exchange(taken_, deadline >= ready_at_)) return std::optional<CallMessage>();
      clock_.Advance(std::max(std::min(deadline, ready_at_) - clock_.Now(), Duration::zero()));
      if (deadline < ready_at_) return DeadlineExceeded("not yet");
      QUIRE_RETURN_IF_ERROR(answer_.status());
      return std::optional<CallMessage>(*std::move(answer_));
    }
    void Cancel() override {}

   private:
    FakeClock& clock_;
    const TimePoint ready_at_;
    StatusOr<CallMessage> answer_;
    bool taken_ = false;
  };

  Status Answer(std::string_view method, const CallMessage& request, CallMessage* reply) {
    if (cluster_.silent.contains(address_)) return Unavailable("no answer");
    const auto failure = cluster_.failures.find(std::string(method));
    if (failure != cluster_.failures.end()) return failure->second;
    if (method == "quire.v1.Cluster/View") return View(reply);
    if (method == "quire.v1.Registry/Get") return Get(request, reply);
    reply->control = address_;
    return OkStatus();
  }
  Status View(CallMessage* reply) {
    ++cluster_.views_read[address_];
    v1::ClusterViewReply view;
    const auto other = cluster_.other_views.find(address_);
    *view.mutable_view() = cluster::ToProto(
        other != cluster_.other_views.end() ? other->second : cluster_.view, "default");
    view.set_frozen(cluster_.frozen[address_]);
    reply->control = view.SerializeAsString();
    return OkStatus();
  }
  Status Get(const CallMessage& request, CallMessage* reply) {
    v1::GetDocumentRequest get;
    EXPECT_TRUE(get.ParseFromString(request.control));
    ++cluster_.documents_asked[address_];
    const std::string& name = get.name().name();
    if (cluster_.behind.contains(address_)) {
      return FailedPrecondition("latest version 2 of ", name, " lies on another node");
    }
    if (!cluster_.documents[address_].contains(name)) return NotFound("not here");
    v1::GetDocumentReply found;
    found.mutable_document()->set_segments_lost(cluster_.lossy.contains(address_) ? 1 : 0);
    reply->control = found.SerializeAsString();
    return OkStatus();
  }

  FakeCluster& cluster_;
  const std::string address_;
};

inline std::unique_ptr<DocumentRouter> FakeCluster::MakeRouter() {
  return DocumentRouter::Create({.servers = {"a:1", "b:1"},
                                 .connect =
                                     [this](const std::string& address) {
                                       return std::shared_ptr<Transport>(
                                           std::make_shared<FakeNode>(this, address));
                                     },
                                 .clock = &clock})
      .value();
}

}  // namespace quire::testing

#endif  // QUIRE_CLIENT_ROUTING_TESTING_FAKE_CLUSTER_H_
