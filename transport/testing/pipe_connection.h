// SPDX-License-Identifier: Apache-2.0
//
// FrameClient and FrameServer over pipes of some kind, for the suites of transports.
#ifndef QUIRE_TRANSPORT_TESTING_PIPE_CONNECTION_H_
#define QUIRE_TRANSPORT_TESTING_PIPE_CONNECTION_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "transport/frame_pipe.h"
#include "transport/frames/frame_client.h"
#include "transport/frames/frame_server.h"
#include "transport/testing/server_memory.h"
#include "transport/testing/transport_conformance.h"

namespace quire::testing {

/// Uses the ticket as the tenant's name.
inline StatusOr<std::string> TenantOfTicket(std::string_view, std::string_view ticket) {
  return std::string(ticket);
}

/// Listening and dialling for one kind of pipe. Call Listen once, before Dial.
class PipeKind {
 public:
  explicit PipeKind(std::shared_ptr<ServerMemory> memory = std::make_shared<ServerMemory>())
      : memory_(std::move(memory)) {}
  virtual ~PipeKind() = default;
  virtual StatusOr<std::unique_ptr<PipeListener>> Listen(PipeListener::Accept accept) = 0;
  virtual StatusOr<std::unique_ptr<FramePipe>> Dial(const std::string& address) = 0;
  /// See TransportUnderTest.
  const std::shared_ptr<ServerMemory>& server_memory() const { return memory_; }
  virtual std::string SkipReason() const { return {}; }

 private:
  const std::shared_ptr<ServerMemory> memory_;
};

class PipeConnectionUnderTest final : public TransportUnderTest {
 public:
  PipeConnectionUnderTest(std::unique_ptr<PipeKind> kind, CallHandler* handler,
                          uint64_t max_message_bytes)
      : TransportUnderTest(kind->server_memory()),
        max_message_bytes_(max_message_bytes),
        kind_(std::move(kind)),
        frames_(handler, &TenantOfTicket, {.max_message_bytes = max_message_bytes}) {
    auto listener = kind_->Listen([this](auto pipe) { frames_.Accept(std::move(pipe)); });
    EXPECT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    (void)TransportOf("default");  // Made here, because tests may ask for it from several threads.
  }
  ~PipeConnectionUnderTest() override {
    clients_.clear();
    KillPeer();
  }

  std::string SkipReason() const override { return kind_->SkipReason(); }
  Transport& transport() override { return TransportOf("default"); }
  Transport& TransportOf(const std::string& tenant) override {
    std::shared_ptr<FrameClient>& client = clients_[tenant];
    if (client == nullptr) {
      auto connected = Connect(tenant);
      EXPECT_TRUE(connected.ok()) << connected.status();
      client = *std::move(connected);
    }
    return *client;
  }
  void KillPeer() override {
    listener_.reset();
    frames_.Shutdown();
  }

 private:
  StatusOr<std::shared_ptr<FrameClient>> Connect(const std::string& tenant) {
    QUIRE_ASSIGN_OR_RETURN(auto pipe, kind_->Dial(listener_->address()));
    FrameClient::Options options{.tenant = tenant,
                                 .ticket = tenant,
                                 .max_message_bytes = max_message_bytes_,
                                 .window_bytes = 1 << 20,
                                 .sends_traces = true};
    options.announce = [this, tenant](uint64_t connection, uint64_t landing, uint64_t bytes,
                                      std::string_view key) {
      return frames_.OpenLanding(tenant, connection, landing, key, bytes);
    };
    options.withdraw = [this, tenant](uint64_t connection, uint64_t landing) {
      (void)frames_.CloseLanding(tenant, connection, landing);
    };
    return FrameClient::Connect(std::move(pipe), std::move(options));
  }

  const uint64_t max_message_bytes_;
  const std::unique_ptr<PipeKind> kind_;
  FrameServer frames_;
  std::unique_ptr<PipeListener> listener_;
  std::map<std::string, std::shared_ptr<FrameClient>> clients_;
};

}  // namespace quire::testing

#endif  // QUIRE_TRANSPORT_TESTING_PIPE_CONNECTION_H_
