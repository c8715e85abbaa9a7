// SPDX-License-Identifier: Apache-2.0
//
// Compares docs/metrics.md with a server's metrics: one row for each metric, and no other.
#include <gmock/gmock.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/metrics/testing/metrics_page.h"
#include "kvserver/service/data_plane/data_plane.h"
#include "kvserver/service/data_plane/network_server.h"
#include "kvserver/service/testing/service_fixture.h"
#include "transport/local/inproc_pipe.h"

namespace quire::kvserver::testing {
namespace {

class NoListener final : public PipeListener {
 public:
  std::string_view kind() const override { return "none"; }
  std::string address() const override { return ""; }
  std::optional<SentPayload> sent_payload() const override { return SentPayload(); }
};

/// The metrics of the admin port: a server's and its network port's.
struct Served {
  const Server& server;
  const NetworkServer& network;
  void VisitMetrics(MetricsVisitor& visit) const {
    server.VisitMetrics(visit);
    network.VisitMetrics(visit);
  }
};

class MetricsDocTest : public ServiceFixture {};

TEST_F(MetricsDocTest, ThePageListsEveryMetricAsItIs) {
  EXPECT_FALSE(Call<v1::FetchReply>("Store/Fetch", v1::FetchRequest()).ok());
  EXPECT_TRUE(Call<v1::LookupReply>("Store/Lookup",
                                    [&] {
                                      v1::LookupRequest request;
                                      *request.mutable_spec() = SpecProto();
                                      request.add_tokens(1);
                                      return request;
                                    }())
                  .ok());
  // Each kind of connection has a series once it was used; an in-process one suffices.
  server_->data_plane().Add(std::make_unique<NoListener>());
  InprocPair pipes = MakeInprocPair({});
  server_->data_plane().accept()(std::move(pipes.server));
  const auto network = NetworkServer::Start(*server_, {}, {.listeners = {.transports = {"grpc"}}});
  ASSERT_TRUE(network.ok()) << network.status();
  quire::testing::ExpectSectionLists("Server", Served{*server_, **network}, 60);
}

/// Collects the values of all labels.
class LabelValues final : public MetricsVisitor {
 public:
  const std::set<std::string>& values() const { return values_; }

 protected:
  void OnValue(const Metric& metric, uint64_t) override { Add(metric); }
  void OnHistogram(const Metric& metric, const LatencyHistogram::Snapshot&) override {
    Add(metric);
  }

 private:
  void Add(const Metric& metric) {
    for (const MetricLabel& label : metric.labels) values_.insert(std::string(label.value));
  }
  std::set<std::string> values_;
};

// Names of callers would make as many series as a caller likes.
TEST_F(MetricsDocTest, NoLabelHasAValueThatACallerGave) {
  const std::string given = "given-by-a-caller";
  CallMessage answer;
  EXPECT_FALSE(CallRaw("Store/" + given, {}, &answer).ok());
  EXPECT_FALSE(CallRaw(given + "/Stat", {}, &answer).ok());
  v1::RegisterRequest document;
  document.mutable_name()->set_collection(given);
  document.mutable_name()->set_name(given);
  document.set_chain_tip(Sealed(4).chain_tip());
  document.set_source(given);
  (*document.mutable_tags())[given].set_text(given);
  ASSERT_TRUE(Call<v1::RegisterReply>("Registry/Register", document).ok());
  v1::SetCollectionRequest collection;
  collection.set_collection(given);
  collection.set_ttl_seconds(3600);
  ASSERT_TRUE(Call<v1::SetCollectionReply>("Registry/SetCollection", collection).ok());
  v1::OpenSessionRequest session;
  *session.add_sequences()->add_members()->mutable_context()->mutable_document() = document.name();
  *session.mutable_spec() = SpecProto();
  session.mutable_spec()->set_model(given);
  EXPECT_FALSE(Call<v1::OpenSessionReply>("Session/Open", session).ok());
  tenant_ = given;
  EXPECT_FALSE(Call<v1::OpenSessionReply>("Session/Open", session).ok());

  LabelValues labels;
  server_->VisitMetrics(labels);
  EXPECT_GT(labels.values().size(), 20u);
  for (const std::string& value : labels.values()) {
    EXPECT_EQ(value.find(given), std::string::npos) << value;
  }
}

}  // namespace
}  // namespace quire::kvserver::testing
