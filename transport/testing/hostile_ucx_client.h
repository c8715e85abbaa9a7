// SPDX-License-Identifier: Apache-2.0
//
// HostileUcxClient: connects like a client of the UCX pipe, and then sends arbitrary messages.
// Thread-safety: for one thread.
#ifndef QUIRE_TRANSPORT_TESTING_HOSTILE_UCX_CLIENT_H_
#define QUIRE_TRANSPORT_TESTING_HOSTILE_UCX_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/base/threads/mutex.h"
#include "transport/ucx/ucx_context.h"
#include "transport/ucx/ucx_endpoint.h"
#include "transport/ucx/ucx_wire.h"
#include "transport/ucx/ucx_worker.h"

namespace quire::testing {

class HostileUcxClient : public UcxMessageSink {
 public:
  /// Waits for the server's welcome.
  HostileUcxClient(const std::string& address, const UcxOptions& options) {
    const auto resolved = SocketAddress::Resolve(address);
    auto context = UcxContext::Create(options, *resolved);
    worker_ = UcxWorker::Create(*context, options).value();
    worker_->Run([&] {
      worker_->AddSink(token_, this);
      endpoint_ = UcxEndpoint::Connect(worker_, *resolved, options, [](const Status&) {}).value();
      // Sent in the same task, as a client does.
      Send({.kind = UcxKind::kHello}, EncodeUcxHello({token_, options.direct_landings, 1 << 20}));
    });
    MutexLock lock(mutex_);
    while (!welcomed_) changed_.Wait(mutex_);
  }
  ~HostileUcxClient() override {
    worker_->Run([&] {
      worker_->RemoveSink(token_);
      endpoint_.reset();
    });
  }

  /// Sends `data` under `header`, with the right address and payload length.
  void Send(UcxHeader header, std::vector<std::byte> data) {
    if (header.payload_bytes == 0) {
      header.payload_bytes = data.size() - header.index_bytes - header.head_bytes;
    }
    header.to = server_token_;
    const auto encoded = EncodeUcxHeader(header);
    SendRaw({encoded.begin(), encoded.end()}, std::move(data), header.kind == UcxKind::kHello);
  }
  void SendRaw(std::vector<std::byte> header, std::vector<std::byte> data, bool is_hello = false) {
    struct Bytes {
      std::vector<std::byte> header, data;
    };
    const auto bytes = std::make_shared<Bytes>(Bytes{std::move(header), std::move(data)});
    const ucp_dt_iov_t only = {bytes->data.data(), bytes->data.size()};
    worker_->Run([&] {
      endpoint_->Send(bytes->header, {&only, 1}, is_hello, [bytes](ucs_status_t) {});
    });
  }

  void OnMessage(UcxMessage message) override {
    const auto welcome = DecodeUcxWelcome(message.data());
    if (!welcome.ok()) return;
    MutexLock lock(mutex_);
    server_token_ = welcome->server;
    welcomed_ = true;
    changed_.NotifyAll();
  }
  void OnBrokenMessage(const Status&) override {}

 private:
  const UcxToken token_ = MakeUcxToken(SystemRandom());
  std::shared_ptr<UcxWorker> worker_;
  std::unique_ptr<UcxEndpoint> endpoint_;
  Mutex mutex_;
  CondVar changed_;
  bool welcomed_ QUIRE_GUARDED_BY(mutex_) = false;
  UcxToken server_token_;  ///< Constant once welcomed.
};

}  // namespace quire::testing

#endif  // QUIRE_TRANSPORT_TESTING_HOSTILE_UCX_CLIENT_H_
