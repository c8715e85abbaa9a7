// SPDX-License-Identifier: Apache-2.0
//
// HostileUcxClient: connects like a client of the UCX pipe, and then sends and signs whatever it is
// told to. Thread-safety: of one thread.
#ifndef QUIRE_COMMON_TRANSPORT_TESTING_HOSTILE_UCX_CLIENT_H_
#define QUIRE_COMMON_TRANSPORT_TESTING_HOSTILE_UCX_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/transport/ucx_context.h"
#include "common/transport/ucx_endpoint.h"
#include "common/transport/ucx_landing.h"
#include "common/transport/ucx_wire.h"
#include "common/transport/ucx_worker.h"

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
      // In the same task, as a client does.
      Send({.kind = UcxKind::kHello}, EncodeUcxHello({token_, options.direct_landings, 1 << 20}));
    });
    MutexLock lock(mutex_);
    while (!welcomed_) changed_.Wait(mutex_);
  }
  ~HostileUcxClient() override {
    worker_->Run([&] {
      worker_->RemoveSink(token_);
      endpoint_.reset();
      memory_.reset();
    });
  }

  /// The key of landing 1 in new memory of `bytes` bytes, as an honest client makes it.
  UcxLandingKey MakeKey(uint64_t bytes) {
    UcxLandingKey key;
    key.serial = 1;
    key.landing = 1;
    key.bytes = bytes;
    worker_->Run([&] {
      memory_ = UcxMemory::Allocate(worker_->context().shared_from_this(), bytes).value();
      key.address = reinterpret_cast<uintptr_t>(memory_->bytes().data());
      key.remote_key = memory_->RemoteKey().value();
    });
    return key;
  }
  std::string Sign(const UcxLandingKey& key) const { return EncodeUcxLandingKey(key, secret_); }

  /// Sends `data` under `header`, addressed rightly, with the payload's length made to fit.
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
      UcxGather gather;
    };
    const auto bytes = std::make_shared<Bytes>(Bytes{std::move(header), std::move(data), {}});
    bytes->gather.Append(bytes->data);
    worker_->Run(
        [&] { endpoint_->Send(bytes->header, bytes->gather, is_hello, [bytes](ucs_status_t) {}); });
  }

  void OnMessage(UcxMessage message) override {
    const auto welcome = DecodeUcxWelcome(message.data());
    if (!welcome.ok()) return;
    MutexLock lock(mutex_);
    server_token_ = welcome->server;
    secret_ = welcome->secret;
    welcomed_ = true;
    changed_.NotifyAll();
  }
  void OnBrokenMessage(const Status&) override {}

 private:
  const UcxToken token_ = MakeUcxToken(SystemRandom());
  std::shared_ptr<UcxWorker> worker_;
  std::unique_ptr<UcxEndpoint> endpoint_;
  std::shared_ptr<UcxMemory> memory_;
  Mutex mutex_;
  CondVar changed_;
  bool welcomed_ QUIRE_GUARDED_BY(mutex_) = false;
  UcxToken server_token_;  ///< Constant once welcomed, as the secret.
  UcxSecret secret_ = {};
};

}  // namespace quire::testing

#endif  // QUIRE_COMMON_TRANSPORT_TESTING_HOSTILE_UCX_CLIENT_H_
