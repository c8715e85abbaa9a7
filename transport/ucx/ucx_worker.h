// SPDX-License-Identifier: Apache-2.0
//
// UcxWorker: a UCX worker and the one thread that uses it. All UCX calls for its endpoints are made
// on that thread, so neither UCX nor its callbacks need locks. The idle thread sleeps. Each message
// goes to the sink that its token names.
// Ownership: endpoints, landings and received data hold the worker; it ends with the last of them.
#ifndef QUIRE_TRANSPORT_UCX_UCX_WORKER_H_
#define QUIRE_TRANSPORT_UCX_UCX_WORKER_H_

#include <ucp/api/ucp.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "transport/ucx/ucx_context.h"
#include "transport/ucx/ucx_operation.h"
#include "transport/ucx/ucx_wire.h"

namespace quire {

/// The one active message that pipes use.
inline constexpr unsigned kUcxMessageId = 1;

/// A message that has arrived. Valid during the call that receives it.
class UcxMessage {
 public:
  using Keeper = std::function<std::shared_ptr<const void>(std::span<const std::byte>*)>;
  UcxMessage(const UcxHeader& header, std::span<const std::byte> data, Keeper keeper)
      : header_(header), data_(data), keeper_(std::move(keeper)) {}

  const UcxHeader& header() const { return header_; }
  std::span<const std::byte> data() const { return data_; }
  /// Makes the data outlive the call, by a copy where UCX needs its memory back. data() may move.
  /// Data and owner may then be used from any thread.
  const std::shared_ptr<const void>& Keep() {
    if (owner_ == nullptr) owner_ = keeper_(&data_);
    return owner_;
  }

 private:
  UcxHeader header_;
  std::span<const std::byte> data_;
  Keeper keeper_;
  std::shared_ptr<const void> owner_;
};

/// Called on the worker's thread.
class UcxMessageSink {
 public:
  virtual ~UcxMessageSink() = default;
  virtual void OnMessage(UcxMessage message) = 0;
  /// Reports malformed bytes from the peer.
  virtual void OnBrokenMessage(const Status& why) = 0;
};

class UcxWorker : public std::enable_shared_from_this<UcxWorker> {
 public:
  using Task = std::function<void()>;
  using HelloHandler = std::function<void(ucp_ep_h from, const UcxHello& hello)>;

  static StatusOr<std::shared_ptr<UcxWorker>> Create(std::shared_ptr<UcxContext> context,
                                                     const UcxOptions& options);
  /// Ends the thread after the posted tasks.
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  ucp_worker_h handle() const;
  UcxContext& context() const;

  // From any thread.
  /// Runs `task` on the worker's thread, after those posted before.
  void Post(Task task);
  /// Runs `task` on the worker's thread and waits for it; runs it directly when already there. The
  /// wait ends: the thread runs while the caller holds the worker, and alternates between tasks and
  /// UCX. Tasks and callbacks on it wait for no peer. Receivers called on it never wait
  /// (FrameReceiver::NeverWaits).
  void Run(const Task& task);
  bool OnThread() const;

  // On the worker's thread.
  /// Runs `task` after `delay`. Tasks that are not due when the worker ends are dropped.
  void After(Duration delay, Task task);
  /// Adds a sink, which must stay valid until it is removed.
  void AddSink(const UcxToken& token, UcxMessageSink* sink);
  void RemoveSink(const UcxToken& token);
  void SetHelloHandler(HelloHandler handler);
  UcxOperations& operations();
  /// For connections that have just been made (ucx_sockets.h).
  void TuneLocalConnections();

 private:
  struct State;
  explicit UcxWorker(std::shared_ptr<State> state);

  const std::shared_ptr<State> state_;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_UCX_UCX_WORKER_H_
