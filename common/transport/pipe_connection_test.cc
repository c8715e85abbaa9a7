// SPDX-License-Identifier: Apache-2.0
//
// FrameClient and FrameServer over shared memory and over UCX: the suites of transports.
#include <map>

#include "common/transport/frame_client.h"
#include "common/transport/frame_server.h"
#include "common/transport/parts_conformance.h"
#include "common/transport/shm_listener.h"
#include "common/transport/shm_pipe.h"
#include "common/transport/streaming_conformance.h"
#include "common/transport/transport_conformance.h"
#include "common/transport/ucx.h"
#include "tests/kit/temp_dir.h"

namespace quire::testing {
namespace {

/// The ticket is the tenant's name.
StatusOr<std::string> TenantOfTicket(std::string_view, std::string_view ticket) {
  return std::string(ticket);
}

/// How one kind of pipe is listened on and dialled.
class PipeKind {
 public:
  virtual ~PipeKind() = default;
  virtual StatusOr<std::unique_ptr<PipeListener>> Listen(PipeListener::Accept accept) = 0;
  virtual StatusOr<std::unique_ptr<FramePipe>> Dial(const std::string& address) = 0;
};

class Shm final : public PipeKind {
 public:
  StatusOr<std::unique_ptr<PipeListener>> Listen(PipeListener::Accept accept) override {
    ShmListener::Options options;
    options.path = directory_ / "socket";
    return ShmListener::Listen(options, std::move(accept));
  }
  StatusOr<std::unique_ptr<FramePipe>> Dial(const std::string& address) override {
    return ConnectShm(address, {});
  }

 private:
  TempDir directory_;
};

class Ucx final : public PipeKind {
 public:
  explicit Ucx(UcxOptions options) : options_(std::move(options)) {}
  StatusOr<std::unique_ptr<PipeListener>> Listen(PipeListener::Accept accept) override {
    return ListenUcx("127.0.0.1:0", options_, std::move(accept));
  }
  StatusOr<std::unique_ptr<FramePipe>> Dial(const std::string& address) override {
    return ConnectUcx(address, options_);
  }

 private:
  const UcxOptions options_;
};

class PipeConnectionUnderTest final : public TransportUnderTest {
 public:
  PipeConnectionUnderTest(std::unique_ptr<PipeKind> kind, CallHandler* handler,
                          uint64_t max_message_bytes)
      : max_message_bytes_(max_message_bytes),
        kind_(std::move(kind)),
        frames_(handler, &TenantOfTicket, {.max_message_bytes = max_message_bytes}) {
    auto listener = kind_->Listen([this](auto pipe) { frames_.Accept(std::move(pipe)); });
    EXPECT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    (void)TransportOf("default");  // Tests may ask for it from several threads.
  }
  ~PipeConnectionUnderTest() override {
    clients_.clear();
    KillPeer();
  }

  Transport& transport() override { return TransportOf("default"); }
  Transport& TransportOf(const std::string& tenant) override {
    std::unique_ptr<FrameClient>& client = clients_[tenant];
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
  StatusOr<std::unique_ptr<FrameClient>> Connect(const std::string& tenant) {
    QUIRE_ASSIGN_OR_RETURN(auto pipe, kind_->Dial(listener_->address()));
    FrameClient::Options options{.tenant = tenant,
                                 .ticket = tenant,
                                 .max_message_bytes = max_message_bytes_,
                                 .window_bytes = 1 << 20};
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
  std::map<std::string, std::unique_ptr<FrameClient>> clients_;
};

std::unique_ptr<TransportUnderTest> MakeShm(CallHandler* handler, uint64_t max_message_bytes) {
  return std::make_unique<PipeConnectionUnderTest>(std::make_unique<Shm>(), handler,
                                                   max_message_bytes);
}
std::unique_ptr<TransportUnderTest> MakeUcx(CallHandler* handler, uint64_t max_message_bytes) {
  return std::make_unique<PipeConnectionUnderTest>(std::make_unique<Ucx>(UcxOptions()), handler,
                                                   max_message_bytes);
}
std::unique_ptr<TransportUnderTest> MakeUcxDirect(CallHandler* handler,
                                                  uint64_t max_message_bytes) {
  return std::make_unique<PipeConnectionUnderTest>(std::make_unique<Ucx>(DirectUcxOptions()),
                                                   handler, max_message_bytes);
}

/// The kinds of pipe of this build.
std::vector<TransportFactory> Kinds() {
  if (!UcxAvailable()) return {&MakeShm};
  return {&MakeShm, &MakeUcx, &MakeUcxDirect};
}
std::string NameOf(const ::testing::TestParamInfo<TransportFactory>& info) {
  return info.param == &MakeShm ? "Shm" : info.param == &MakeUcx ? "Ucx" : "UcxDirect";
}

INSTANTIATE_TEST_SUITE_P(Pipes, TransportConformance, ::testing::ValuesIn(Kinds()), &NameOf);
INSTANTIATE_TEST_SUITE_P(Pipes, PartsConformance, ::testing::ValuesIn(Kinds()), &NameOf);
INSTANTIATE_TEST_SUITE_P(Pipes, StreamingConformance, ::testing::ValuesIn(Kinds()), &NameOf);

}  // namespace
}  // namespace quire::testing
