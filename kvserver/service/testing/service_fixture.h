// SPDX-License-Identifier: Apache-2.0
//
// Fixture of the service tests: a whole Server in a temporary directory, called over loopback with
// wire messages. Only tests use it.
#ifndef QUIRE_KVSERVER_SERVICE_TESTING_SERVICE_FIXTURE_H_
#define QUIRE_KVSERVER_SERVICE_TESTING_SERVICE_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/memory/checksum.h"
#include "common/wire/convert.h"
#include "kvserver/service/server.h"
#include "kvserver/session/testing/test_pages.h"
#include "quire/v1/admin.pb.h"
#include "quire/v1/lease.pb.h"
#include "quire/v1/registry.pb.h"
#include "quire/v1/session.pb.h"
#include "quire/v1/store.pb.h"
#include "tests/kit/fake_clock.h"
#include "tests/kit/temp_dir.h"
#include "transport/local/loopback_transport.h"

namespace quire::kvserver::testing {

class ServiceFixture : public ::testing::Test {
 protected:
  ServiceFixture() { Start(); }

  /// Opens the server, or reopens a running one over the same directory.
  void Start() {
    Stop();
    ServerOptions options;
    options.data_dir = dir_ / "data";
    options.dram_bytes = 16 << 20;
    options.tenants = {"default", "team-b"};
    options.max_message_bytes = 1 << 20;
    options.max_sessions = 4;
    options.max_contexts = 4;
    options.clock = &clock_;
    options.cluster = cluster_;
    auto server = Server::Open(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    transport_ = std::make_unique<LoopbackTransport>(
        server_->handler(), LoopbackTransport::Options{.max_message_bytes = 1 << 20});
  }

  /// Ends the server, whose threads use what `cluster_` refers to.
  void Stop() {
    transport_.reset();
    server_.reset();
  }

  static Payload PayloadOf(std::vector<std::byte> bytes) {
    Payload payload;
    payload.Append(std::move(bytes));
    return payload;
  }
  static uint32_t Crc(const std::vector<std::byte>& bytes) { return Crc32c(bytes); }

  /// Calls "quire.v1." + method as `tenant_`.
  Status CallRaw(const std::string& method, const CallMessage& request, CallMessage* reply) {
    const CallOptions options{.tenant = tenant_, .timeout = std::chrono::minutes(5)};
    return transport_->Call("quire.v1." + method, request, reply, options);
  }
  template <typename Reply, typename Request>
  StatusOr<Reply> Call(const std::string& method, const Request& request,
                       std::vector<std::byte> payload = {}, Payload* reply_payload = nullptr) {
    CallMessage answer;
    QUIRE_RETURN_IF_ERROR(
        CallRaw(method, {request.SerializeAsString(), PayloadOf(std::move(payload))}, &answer));
    Reply reply;
    EXPECT_TRUE(reply.ParseFromString(answer.control));
    if (reply_payload != nullptr) *reply_payload = std::move(answer.payload);
    return reply;
  }

  v1::KvSpec SpecProto() const {
    v1::KvSpec proto;
    wire::KvSpecToProto(spec_, &proto);
    return proto;
  }

  uint64_t OpenContext(const v1::ContextRef* continues = nullptr) {
    v1::OpenContextRequest request;
    *request.mutable_spec() = SpecProto();
    if (continues != nullptr) *request.mutable_continues() = *continues;
    const auto reply = Call<v1::OpenContextReply>("Store/OpenContext", request);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? reply->context_id() : 0;
  }
  v1::AppendPagesRequest AppendRequest(uint64_t context, uint32_t first, uint32_t pages,
                                       const std::vector<std::byte>& units) const {
    v1::AppendPagesRequest request;
    request.set_context_id(context);
    request.set_first_page(first);
    const uint32_t p = spec_.page_tokens;
    for (const TokenId id : TestTokens(pages * p, static_cast<TokenId>(100 + first * p))) {
      request.add_tokens(id);
    }
    request.set_payload_crc32c(Crc(units));
    return request;
  }
  StatusOr<v1::AppendPagesReply> Append(uint64_t context, uint32_t first, uint32_t pages,
                                        uint64_t seed = 1) {
    auto units = TestPages(spec_, first, pages, seed);
    const auto request = AppendRequest(context, first, pages, units);
    return Call<v1::AppendPagesReply>("Store/AppendPages", request, std::move(units));
  }
  v1::AppendLayersRequest LayersRequest(uint64_t context, uint32_t first, uint32_t pages,
                                        const std::vector<uint32_t>& layers,
                                        const std::vector<std::byte>& units) const {
    v1::AppendLayersRequest request;
    request.set_context_id(context);
    request.set_first_page(first);
    const uint32_t p = spec_.page_tokens;
    for (const TokenId id : TestTokens(pages * p, static_cast<TokenId>(100 + first * p))) {
      request.add_tokens(id);
    }
    request.mutable_layers()->Add(layers.begin(), layers.end());
    request.set_payload_crc32c(Crc(units));
    return request;
  }
  StatusOr<v1::AppendLayersReply> AppendLayers(uint64_t context, uint32_t first, uint32_t pages,
                                               const std::vector<uint32_t>& layers,
                                               uint64_t seed = 1) {
    auto units = TestLayers(spec_, first, pages, layers, seed);
    const auto request = LayersRequest(context, first, pages, layers, units);
    return Call<v1::AppendLayersReply>("Store/AppendLayers", request, std::move(units));
  }
  StatusOr<v1::SealReply> Seal(uint64_t context, uint32_t pages, uint32_t tail) {
    v1::SealRequest request;
    request.set_context_id(context);
    std::vector<std::byte> units;
    if (tail > 0) units = TestPage(spec_, pages, tail);
    for (const TokenId id :
         TestTokens(tail, static_cast<TokenId>(100 + pages * spec_.page_tokens))) {
      request.add_tail_tokens(id);
    }
    request.set_payload_crc32c(Crc(units));
    return Call<v1::SealReply>("Store/Seal", request, std::move(units));
  }
  /// A sealed context of whole pages and `tail` tokens, as the server describes it.
  v1::ContextInfo Sealed(uint32_t pages, uint32_t tail = 0) {
    const uint64_t context = OpenContext();
    EXPECT_TRUE(Append(context, 0, pages).ok());
    const auto sealed = Seal(context, pages, tail);
    EXPECT_TRUE(sealed.ok()) << sealed.status();
    return sealed.ok() ? sealed->context() : v1::ContextInfo();
  }
  static v1::ContextRef RefTo(const std::string& chain_tip) {
    v1::ContextRef ref;
    ref.set_chain_tip(chain_tip);
    return ref;
  }

  const KvSpec spec_ = TestSpec();
  quire::testing::TempDir dir_;
  quire::testing::FakeClock clock_;
  ClusterPlace cluster_;  ///< In no cluster, unless a test sets it and starts again.
  std::string tenant_ = "default";
  std::unique_ptr<Server> server_;
  std::unique_ptr<LoopbackTransport> transport_;
};

}  // namespace quire::kvserver::testing

#endif  // QUIRE_KVSERVER_SERVICE_TESTING_SERVICE_FIXTURE_H_
