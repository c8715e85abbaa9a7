// SPDX-License-Identifier: Apache-2.0
#include "bench/raw_ucx.h"

#include <netinet/in.h>
#include <ucp/api/ucp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/transport/socket_address.h"
#include "common/transport/ucx_context.h"
#include "common/transport/ucx_landing.h"
#include "common/transport/ucx_operation.h"
#include "common/transport/ucx_sockets.h"
#include "common/transport/ucx_status.h"

namespace quire::bench {
namespace {

constexpr unsigned kUnitsId = 1;
constexpr uint64_t kMessageBytes = uint64_t{1} << 20;
constexpr uint32_t kMaxMessages = 8;
constexpr uint32_t kMaxPuts = 64;

/// Lets UCX work. A core that has nothing to do is left to the other side, without which nothing
/// moves when there are more threads than cores.
void Poll(ucp_worker_h worker) {
  if (ucp_worker_progress(worker) == 0) std::this_thread::yield();
}

struct WorkerCloser {
  void operator()(ucp_worker_h worker) const { ucp_worker_destroy(worker); }
};

/// One side: a context and a worker that its thread spins on.
struct Side {
  std::shared_ptr<UcxContext> context;
  std::unique_ptr<UcxOperations> operations = std::make_unique<UcxOperations>();
  std::unique_ptr<ucp_worker, WorkerCloser> worker;
  ucp_ep_h endpoint = nullptr;

  static StatusOr<Side> Open(const UcxOptions& options, const SocketAddress& address) {
    Side side;
    QUIRE_ASSIGN_OR_RETURN(side.context, UcxContext::Create(options, address));
    ucp_worker_params_t params = {};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    ucp_worker_h worker = nullptr;
    QUIRE_RETURN_IF_ERROR(UcxToStatus(ucp_worker_create(side.context->handle(), &params, &worker),
                                      "make a UCX worker"));
    side.worker.reset(worker);
    return side;
  }
  /// `params` says how to connect.
  Status Connect(ucp_ep_params_t params, bool peer_mode) {
    params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    params.err_mode = peer_mode ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
    params.err_handler.cb = [](void*, ucp_ep_h, ucs_status_t) {};
    return UcxToStatus(ucp_ep_create(worker.get(), &params, &endpoint), "connect");
  }
};

/// What the threads share: they are one process, so that no message is needed for it.
struct Shared {
  std::atomic<uint64_t> placed_bytes{0};
  std::atomic<bool> finished{false};
};

/// The receiver's side of messages.
struct Placing {
  std::span<std::byte> destination;
  uint64_t unit_bytes;
  Shared* shared;

  static ucs_status_t OnUnits(void* arg, const void* header, size_t header_bytes, void* data,
                              size_t bytes, const ucp_am_recv_param_t*) {
    const auto* const self = static_cast<Placing*>(arg);
    const auto* unit = static_cast<const std::byte*>(data);
    for (size_t i = 0; i < header_bytes / sizeof(uint64_t); ++i) {
      uint64_t to;
      std::memcpy(&to, static_cast<const std::byte*>(header) + i * sizeof to, sizeof to);
      std::memcpy(self->destination.data() + to, unit, self->unit_bytes);
      unit += self->unit_bytes;
    }
    self->shared->placed_bytes.fetch_add(bytes, std::memory_order_release);
    return UCS_OK;
  }
};

/// The sender's side.
class Sender {
 public:
  Sender(Side& side, std::span<const std::byte> source, uint64_t unit_bytes, Shared& shared)
      : side_(side), source_(source), unit_bytes_(unit_bytes), shared_(shared) {}

  Status Put(std::span<const RawUcxMove> moves, uint64_t address, ucp_rkey_h key) {
    for (const RawUcxMove& move : moves) {
      Progress(kMaxPuts);
      Begin([&](ucp_request_param_t* param) {
        return ucp_put_nbx(side_.endpoint, source_.data() + move.from, unit_bytes_,
                           address + move.to, key, param);
      });
    }
    Begin([&](ucp_request_param_t* param) { return ucp_ep_flush_nbx(side_.endpoint, param); });
    Progress(1);
    return UcxToStatus(status_, "move units");
  }

  Status Send(std::span<const RawUcxMove> moves) {
    const size_t per_message = std::max<uint64_t>(1, kMessageBytes / unit_bytes_);
    const uint64_t total = moves.size() * unit_bytes_;
    // More messages than can be under way: one is not used again before it has been sent.
    std::vector<Message> messages(kMaxMessages + 1);
    for (size_t next = 0; !moves.empty() && status_ == UCS_OK; ++next) {
      Progress(kMaxMessages);
      Message& message = *std::ranges::find_if(messages, [](auto& m) { return !m.under_way; });
      message.Fill(source_, unit_bytes_, moves.first(std::min(per_message, moves.size())));
      moves = moves.subspan(message.places.size());
      BeginMessage(message);
    }
    Progress(1);
    while (status_ == UCS_OK && shared_.placed_bytes.load(std::memory_order_acquire) < total) {
      Poll(side_.worker.get());
    }
    return UcxToStatus(status_, "move units");
  }

 private:
  struct Message {
    std::vector<uint64_t> places;
    std::vector<ucp_dt_iov_t> units;
    bool under_way = false;

    void Fill(std::span<const std::byte> source, uint64_t unit_bytes,
              std::span<const RawUcxMove> moves) {
      places.clear();
      units.clear();
      for (const RawUcxMove& move : moves) {
        places.push_back(move.to);
        units.push_back({const_cast<std::byte*>(source.data()) + move.from, unit_bytes});
      }
    }
  };

  void BeginMessage(Message& message) {
    message.under_way = true;
    Begin(
        [&](ucp_request_param_t* param) {
          param->op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
          param->datatype = ucp_dt_make_iov();
          return ucp_am_send_nbx(side_.endpoint, kUnitsId, message.places.data(),
                                 message.places.size() * sizeof(uint64_t), message.units.data(),
                                 message.units.size(), param);
        },
        &message.under_way);
  }
  template <typename Start>
  void Begin(Start start, bool* under_way = nullptr) {
    ++under_way_;
    side_.operations->Begin(
        [this, under_way](ucs_status_t status) {
          --under_way_;
          if (under_way != nullptr) *under_way = false;
          if (status != UCS_OK) status_ = status;
        },
        start);
  }
  /// Until fewer than `limit` operations are under way.
  void Progress(uint32_t limit) {
    while (under_way_ >= limit) Poll(side_.worker.get());
  }

  Side& side_;
  const std::span<const std::byte> source_;
  const uint64_t unit_bytes_;
  Shared& shared_;
  uint32_t under_way_ = 0;
  ucs_status_t status_ = UCS_OK;
};

struct ListenerCloser {
  void operator()(ucp_listener_h listener) const { ucp_listener_destroy(listener); }
};
using Listener = std::unique_ptr<ucp_listener, ListenerCloser>;

/// As the pipe's connections.
Status TuneConnections(const Side& side) {
  int event_fd = -1;
  QUIRE_RETURN_IF_ERROR(
      UcxToStatus(ucp_worker_get_efd(side.worker.get(), &event_fd), "wait for a UCX worker"));
  TuneLocalConnections(event_fd);
  return OkStatus();
}

/// Connects the two sides, on the calling thread.
Status ConnectSides(Side& sender, Side& receiver, const UcxOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const auto any_port, SocketAddress::Resolve("127.0.0.1:0"));
  ucp_conn_request_h request = nullptr;
  ucp_listener_params_t listen = {};
  listen.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  listen.sockaddr = {any_port.get(), any_port.size()};
  listen.conn_handler.cb = [](ucp_conn_request_h incoming, void* arg) {
    *static_cast<ucp_conn_request_h*>(arg) = incoming;
  };
  listen.conn_handler.arg = &request;
  ucp_listener_h raw = nullptr;
  QUIRE_RETURN_IF_ERROR(
      UcxToStatus(ucp_listener_create(sender.worker.get(), &listen, &raw), "listen"));
  const Listener listener(raw);
  ucp_listener_attr_t attributes = {};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  QUIRE_RETURN_IF_ERROR(UcxToStatus(ucp_listener_query(raw, &attributes), "listen"));

  ucp_ep_params_t connect = {};
  connect.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
  connect.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  connect.sockaddr = {reinterpret_cast<const sockaddr*>(&attributes.sockaddr), sizeof(sockaddr_in)};
  QUIRE_RETURN_IF_ERROR(receiver.Connect(connect, options.peer_failure_detection));
  const TimePoint deadline = SystemClock().Now() + options.connect_timeout;
  bool flushed = false;
  const auto progress = [&] {
    ucp_worker_progress(sender.worker.get());
    ucp_worker_progress(receiver.worker.get());
    return SystemClock().Now() < deadline;
  };
  while (request == nullptr) {
    if (!progress()) return Unavailable("the two sides do not connect");
  }
  ucp_ep_params_t accept = {};
  accept.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  accept.conn_request = request;
  QUIRE_RETURN_IF_ERROR(sender.Connect(accept, options.peer_failure_detection));
  receiver.operations->Begin(
      [&](ucs_status_t) { flushed = true; },
      [&](ucp_request_param_t* param) { return ucp_ep_flush_nbx(receiver.endpoint, param); });
  // The flush refers to this frame: it has to end, which it does on failure too.
  while (!flushed) progress();
  QUIRE_RETURN_IF_ERROR(TuneConnections(sender));
  return TuneConnections(receiver);
}

Status HandleUnits(Side& receiver, Placing& placing) {
  ucp_am_handler_param_t handler = {};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
  handler.id = kUnitsId;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = Placing::OnUnits;
  handler.arg = &placing;
  return UcxToStatus(ucp_worker_set_am_recv_handler(receiver.worker.get(), &handler),
                     "receive units");
}

class ConnectedSides final : public RawUcx {
 public:
  ConnectedSides(const RawUcxLane& lane, std::span<const std::byte> source,
                 std::span<std::byte> destination, uint64_t unit_bytes)
      : way_(lane.way),
        source_(source),
        destination_(destination),
        unit_bytes_(unit_bytes),
        placing_{destination, unit_bytes, &shared_} {}
  ~ConnectedSides() override {
    if (key_ != nullptr) ucp_rkey_destroy(key_);
  }

  Status Open(const UcxOptions& options) {
    QUIRE_ASSIGN_OR_RETURN(const auto loopback, SocketAddress::Resolve("127.0.0.1:0"));
    QUIRE_ASSIGN_OR_RETURN(sender_, Side::Open(options, loopback));
    QUIRE_ASSIGN_OR_RETURN(receiver_, Side::Open(options, loopback));
    QUIRE_RETURN_IF_ERROR(HandleUnits(receiver_, placing_));
    QUIRE_RETURN_IF_ERROR(ConnectSides(sender_, receiver_, options));
    return way_ == RawUcxWay::kMessages ? OkStatus() : MapDestination();
  }

  StatusOr<Duration> Move(std::span<const RawUcxMove> moves) override {
    shared_.placed_bytes = 0;
    shared_.finished = false;
    std::thread receiving([&] {
      while (!shared_.finished.load(std::memory_order_acquire)) Poll(receiver_.worker.get());
    });
    Sender sending(sender_, source_, unit_bytes_, shared_);
    const TimePoint begin = SystemClock().Now();
    const Status status = Send(sending, moves);
    const Duration took = SystemClock().Now() - begin;
    shared_.finished.store(true, std::memory_order_release);
    receiving.join();
    QUIRE_RETURN_IF_ERROR(status);
    return took;
  }

  std::span<const std::byte> moved() const override {
    return memory_ != nullptr ? std::span<const std::byte>(memory_->bytes()) : destination_;
  }

 private:
  Status Send(Sender& sending, std::span<const RawUcxMove> moves) {
    if (way_ == RawUcxWay::kMessages) return sending.Send(moves);
    if (way_ == RawUcxWay::kPuts) return sending.Put(moves, address(), key_);
    for (const RawUcxMove& move : moves) {
      std::memcpy(mapped_ + move.to, source_.data() + move.from, unit_bytes_);
    }
    return OkStatus();
  }

  uint64_t address() const { return reinterpret_cast<uintptr_t>(memory_->bytes().data()); }

  Status MapDestination() {
    QUIRE_ASSIGN_OR_RETURN(memory_, UcxMemory::Allocate(receiver_.context, destination_.size()));
    QUIRE_ASSIGN_OR_RETURN(const std::string packed, memory_->RemoteKey());
    QUIRE_RETURN_IF_ERROR(UcxToStatus(ucp_ep_rkey_unpack(sender_.endpoint, packed.data(), &key_),
                                      "open the destination"));
    void* mapped = nullptr;
    if (way_ == RawUcxWay::kMapped) {
      QUIRE_RETURN_IF_ERROR(
          UcxToStatus(ucp_rkey_ptr(key_, address(), &mapped), "map the destination"));
      mapped_ = static_cast<std::byte*>(mapped);
    }
    // All of it is touched, so that no page is mapped while time is taken.
    std::vector<RawUcxMove> all;
    for (uint64_t at = 0; at + unit_bytes_ <= destination_.size(); at += unit_bytes_) {
      all.push_back({.from = 0, .to = at});
    }
    return Move(all).status();
  }

  const RawUcxWay way_;
  const std::span<const std::byte> source_;
  const std::span<std::byte> destination_;
  const uint64_t unit_bytes_;
  Shared shared_;
  Placing placing_;
  Side sender_;
  Side receiver_;
  std::shared_ptr<UcxMemory> memory_;
  ucp_rkey_h key_ = nullptr;
  std::byte* mapped_ = nullptr;  ///< The destination, where the sender has it.
};

}  // namespace

StatusOr<std::unique_ptr<RawUcx>> RawUcx::Connect(const RawUcxLane& lane,
                                                  std::span<const std::byte> source,
                                                  std::span<std::byte> destination,
                                                  uint64_t unit_bytes) {
  if (unit_bytes == 0 || source.size() < unit_bytes || destination.size() < unit_bytes) {
    return InvalidArgument("a region holds no unit of ", unit_bytes, " bytes");
  }
  auto sides = std::make_unique<ConnectedSides>(lane, source, destination, unit_bytes);
  QUIRE_RETURN_IF_ERROR(sides->Open(lane.options));
  return sides;
}

}  // namespace quire::bench
