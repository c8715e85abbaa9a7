// SPDX-License-Identifier: Apache-2.0
#include "bench/cluster/router_overhead.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/kit/median.h"
#include "cluster/view/view_proto.h"
#include "quire/clock.h"
#include "quire/cluster_connection.h"
#include "quire/document_router.h"
#include "quire/v1/cluster.pb.h"
#include "quire/v1/registry.pb.h"
#include "transport/transport.h"

namespace quire::bench {
namespace {

constexpr char kCall[] = "quire.v1.Store/AppendPages";
constexpr char kRead[] = "quire.v1.Store/Lookup";

/// A node that has every document and answers at once.
class InstantNode final : public Transport {
 public:
  explicit InstantNode(std::string view) : view_(std::move(view)) {}
  TransportCapabilities capabilities() const override {
    return {.name = "instant", .max_message_bytes = 1 << 20};
  }
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view method, CallMessage,
                                               const CallOptions&) override {
    return std::make_unique<InstantCall>(Answer(method));
  }
  Status Call(std::string_view method, const CallMessage&, CallMessage* reply,
              const CallOptions&) override {
    *reply = Answer(method);
    return OkStatus();
  }

 private:
  class InstantCall final : public PendingCall {
   public:
    explicit InstantCall(CallMessage answer) : answer_(std::move(answer)) {}
    StatusOr<std::optional<CallMessage>> Next(TimePoint) override {
      return std::exchange(answer_, std::nullopt);
    }
    void Cancel() override {}

   private:
    std::optional<CallMessage> answer_;
  };

  CallMessage Answer(std::string_view method) const {
    if (method == "quire.v1.Cluster/View") return {.control = view_, .payload = {}};
    return {.control = {}, .payload = {}};
  }

  const std::string view_;
};

std::string ViewOfTwo() {
  v1::ClusterViewReply reply;
  *reply.mutable_view() =
      cluster::ToProto({.name = "bench",
                        .epoch = 1,
                        .members = {{.name = "a", .node_id = "a", .address = "a:1"},
                                    {.name = "b", .node_id = "b", .address = "b:1"}}},
                       "default");
  return reply.SerializeAsString();
}

/// Microseconds of a call of `method`.
StatusOr<double> MicrosOf(Transport& transport, std::string_view method, uint32_t calls) {
  const CallMessage request;
  CallMessage reply;
  const TimePoint start = SystemClock().Now();
  for (uint32_t i = 0; i < calls; ++i) {
    QUIRE_RETURN_IF_ERROR(transport.Call(method, request, &reply, {}));
  }
  const std::chrono::duration<double, std::micro> time = SystemClock().Now() - start;
  return time.count() / calls;
}

}  // namespace

StatusOr<RouterOverhead> MeasureRouterOverhead(uint32_t calls, uint32_t repeats) {
  const auto node = std::make_shared<InstantNode>(ViewOfTwo());
  QUIRE_ASSIGN_OR_RETURN(
      std::shared_ptr<DocumentRouter> router,
      DocumentRouter::Create({.servers = {"a:1"}, .connect = [node](const std::string&) {
                                return std::shared_ptr<Transport>(node);
                              }}));
  QUIRE_ASSIGN_OR_RETURN(const auto connection,
                         ClusterConnection::Open({.router = router, .documents = {{.name = "x"}}}));
  const auto routed = connection->control();
  std::vector<double> call, read;
  for (uint32_t i = 0; i < repeats; ++i) {
    QUIRE_ASSIGN_OR_RETURN(const double direct, MicrosOf(*node, kCall, calls));
    QUIRE_ASSIGN_OR_RETURN(const double through, MicrosOf(*routed, kCall, calls));
    QUIRE_ASSIGN_OR_RETURN(const double direct_read, MicrosOf(*node, kRead, calls));
    QUIRE_ASSIGN_OR_RETURN(const double hedged, MicrosOf(*routed, kRead, calls));
    call.push_back(through - direct);
    read.push_back(hedged - direct_read);
  }
  return RouterOverhead{.call_us = Median(std::move(call)), .hedged_read_us = Median(read)};
}

}  // namespace quire::bench
