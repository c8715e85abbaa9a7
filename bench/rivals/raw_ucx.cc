// SPDX-License-Identifier: Apache-2.0
#include "bench/rivals/raw_ucx.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "bench/rivals/raw_ucx_sides.h"
#include "transport/ucx/ucx_status.h"

namespace quire::bench {
namespace {

constexpr unsigned kUnitsId = 1;
constexpr uint64_t kMessageBytes = uint64_t{1} << 20;
constexpr uint32_t kMaxMessages = 8;

/// Yields an idle core to the other side, which makes the progress when there are more threads than
/// cores.
void Poll(const RawUcxSide& side) {
  if (!side.Progress()) std::this_thread::yield();
}

/// Source and destination memory.
struct RawUcxUnits {
  std::span<const std::byte> source;
  std::span<std::byte> destination;
  uint64_t unit_bytes = 0;
};

struct UnitsMessage {
  std::vector<uint64_t> places;
  std::vector<ucp_dt_iov_t> slices;
  bool under_way = false;

  void Fill(const RawUcxUnits& units, std::span<const RawUcxMove> moves) {
    places.clear();
    slices.clear();
    for (const RawUcxMove& move : moves) {
      places.push_back(move.to);
      slices.push_back({const_cast<std::byte*>(units.source.data()) + move.from, units.unit_bytes});
    }
  }
};

class Messages final : public RawUcx {
 public:
  Messages(const RawUcxUnits& units, RawUcxSides sides) : units_(units), sides_(std::move(sides)) {}

  Status Receive() {
    ucp_am_handler_param_t handler = {};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                         UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
    handler.id = kUnitsId;
    handler.flags = UCP_AM_FLAG_WHOLE_MSG;
    handler.cb = OnUnits;
    handler.arg = this;
    return UcxToStatus(ucp_worker_set_am_recv_handler(sides_.receiver.worker.get(), &handler),
                       "receive units");
  }

  StatusOr<Duration> Move(std::span<const RawUcxMove> moves) override {
    const TimePoint begin = SystemClock().Now();
    placed_bytes_ = 0;
    std::atomic<bool> finished{false};
    std::thread receiving([&] {
      while (!finished.load(std::memory_order_acquire)) Poll(sides_.receiver);
    });
    const Status status = Send(moves);
    finished.store(true, std::memory_order_release);
    receiving.join();
    QUIRE_RETURN_IF_ERROR(status);
    return SystemClock().Now() - begin;
  }

 private:
  static ucs_status_t OnUnits(void* arg, const void* header, size_t header_bytes, void* data,
                              size_t bytes, const ucp_am_recv_param_t*) {
    auto* const self = static_cast<Messages*>(arg);
    const auto* unit = static_cast<const std::byte*>(data);
    for (size_t i = 0; i < header_bytes / sizeof(uint64_t); ++i) {
      uint64_t to;
      std::memcpy(&to, static_cast<const std::byte*>(header) + i * sizeof to, sizeof to);
      std::memcpy(self->units_.destination.data() + to, unit, self->units_.unit_bytes);
      unit += self->units_.unit_bytes;
    }
    self->placed_bytes_.fetch_add(bytes, std::memory_order_release);
    return UCS_OK;
  }

  Status Send(std::span<const RawUcxMove> moves) {
    const size_t per_message = std::max<uint64_t>(1, kMessageBytes / units_.unit_bytes);
    const uint64_t total = moves.size() * units_.unit_bytes;
    // One more than can be in flight, so that none is reused before it is sent.
    std::vector<UnitsMessage> messages(kMaxMessages + 1);
    RawUcxWindow window(sides_.sender);
    while (!moves.empty() && window.status() == UCS_OK) {
      while (window.under_way() >= kMaxMessages) Poll(sides_.sender);
      UnitsMessage& message = *std::ranges::find_if(messages, [](auto& m) { return !m.under_way; });
      message.Fill(units_, moves.first(std::min(per_message, moves.size())));
      moves = moves.subspan(message.places.size());
      Begin(window, message);
    }
    while (window.under_way() > 0) Poll(sides_.sender);
    while (window.status() == UCS_OK && placed_bytes_.load(std::memory_order_acquire) < total) {
      Poll(sides_.sender);
    }
    return UcxToStatus(window.status(), "move units");
  }

  void Begin(RawUcxWindow& window, UnitsMessage& message) {
    message.under_way = true;
    window.Begin(
        [&](ucp_request_param_t* param) {
          param->op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
          param->datatype = ucp_dt_make_iov();
          return ucp_am_send_nbx(sides_.sender.endpoint, kUnitsId, message.places.data(),
                                 message.places.size() * sizeof(uint64_t), message.slices.data(),
                                 message.slices.size(), param);
        },
        [&message] { message.under_way = false; });
  }

  const RawUcxUnits units_;
  std::atomic<uint64_t> placed_bytes_{0};
  RawUcxSides sides_;
};

}  // namespace

StatusOr<std::unique_ptr<RawUcx>> RawUcx::Connect(const UcxOptions& options,
                                                  std::span<const std::byte> source,
                                                  std::span<std::byte> destination,
                                                  uint64_t unit_bytes) {
  if (unit_bytes == 0 || source.size() < unit_bytes || destination.size() < unit_bytes) {
    return InvalidArgument("a region holds no unit of ", unit_bytes, " bytes");
  }
  const RawUcxUnits units{.source = source, .destination = destination, .unit_bytes = unit_bytes};
  QUIRE_ASSIGN_OR_RETURN(RawUcxSides sides, RawUcxSides::Connect(options));
  auto messages = std::make_unique<Messages>(units, std::move(sides));
  QUIRE_RETURN_IF_ERROR(messages->Receive());
  return messages;
}

}  // namespace quire::bench
