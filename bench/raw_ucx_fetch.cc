// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "bench/raw_ucx_link.h"
#include "bench/raw_ucx_sides.h"
#include "common/base/unit_copy.h"
#include "common/transport/peer_memory.h"
#include "common/transport/ucx_status.h"

namespace quire::bench {
namespace {

constexpr unsigned kFetchId = 1;
constexpr uint64_t kMessageBytes = uint64_t{1} << 20;
constexpr uint32_t kMaxUnits = 64;
constexpr uint32_t kMaxMessages = 8;

using Buffer = std::vector<std::byte>;

/// Buffers that are used again.
class Buffers {
 public:
  Buffer Take(uint64_t bytes) {
    Buffer buffer;
    if (!free_.empty()) {
      buffer = std::move(free_.back());
      free_.pop_back();
    }
    buffer.resize(bytes);
    return buffer;
  }
  void GiveBack(Buffer buffer) { free_.push_back(std::move(buffer)); }

 private:
  std::vector<Buffer> free_;
};

/// Every message goes by rendezvous: where there is a lane for it the receiver's UCX reads the
/// sender's memory. One thread does the work of both ends.
class FetchLink final : public RawUcxLink {
 public:
  FetchLink(RawUcxWay way, const RawUcxUnits& units, RawUcxSides sides)
      : gathers_(way == RawUcxWay::kFetchedMessages), units_(units), sides_(std::move(sides)) {}

  Status Receive() {
    ucp_am_handler_param_t handler = {};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                         UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = kFetchId;
    handler.cb = [](void* arg, const void* header, size_t header_bytes, void* data, size_t bytes,
                    const ucp_am_recv_param_t*) {
      std::vector<uint64_t> places(header_bytes / sizeof(uint64_t));
      std::memcpy(places.data(), header, header_bytes);
      static_cast<FetchLink*>(arg)->Fetch(std::move(places), data, bytes);
      return UCS_INPROGRESS;
    };
    handler.arg = this;
    return UcxToStatus(ucp_worker_set_am_recv_handler(sides_.receiver.worker.get(), &handler),
                       "receive units");
  }

  Status Move(std::span<const RawUcxMove> moves) override {
    const size_t per_message =
        gathers_ ? std::max<uint64_t>(1, kMessageBytes / units_.unit_bytes) : 1;
    const uint32_t most = gathers_ ? kMaxMessages : kMaxUnits;
    fetched_units_ = 0;
    status_ = UCS_OK;
    const size_t total = moves.size();
    RawUcxWindow window(sides_.sender);
    const auto failed = [&] { return status_ != UCS_OK || window.status() != UCS_OK; };
    while (!moves.empty() && !failed()) {
      while (window.under_way() >= most) Progress();
      const auto now = moves.first(std::min(per_message, moves.size()));
      moves = moves.subspan(now.size());
      Send(window, now);
    }
    while (window.under_way() > 0 || (fetched_units_ < total && !failed())) Progress();
    QUIRE_RETURN_IF_ERROR(UcxToStatus(window.status(), "send units"));
    return UcxToStatus(status_, "fetch units");
  }
  const std::byte* Moved(uint64_t to) const override { return units_.destination.data() + to; }
  std::string Lanes() const override { return sides_.Lanes(); }

 private:
  /// What is on its way from one end, with all that UCX reads from.
  struct Sent {
    std::vector<uint64_t> places;
    Buffer gathered;
  };
  /// What arrives at the other.
  struct Arriving {
    std::vector<uint64_t> places;
    Buffer buffer;
  };

  void Progress() {
    sides_.sender.Progress();
    sides_.receiver.Progress();
  }

  void Send(RawUcxWindow& window, std::span<const RawUcxMove> moves) {
    auto sent = std::make_shared<Sent>();
    for (const RawUcxMove& move : moves) sent->places.push_back(move.to);
    const std::byte* data = units_.source.data() + moves.front().from;
    if (gathers_) {
      sent->gathered = buffers_.Take(moves.size() * units_.unit_bytes);
      data = sent->gathered.data();
      for (size_t i = 0; i < moves.size(); ++i) {
        const std::byte* const next =
            i + 1 < moves.size() ? units_.source.data() + moves[i + 1].from : nullptr;
        CopyFetchingAhead(units_.source.subspan(moves[i].from, units_.unit_bytes),
                          sent->gathered.data() + i * units_.unit_bytes, next);
      }
    }
    window.Begin(
        [&](ucp_request_param_t* param) {
          param->op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
          param->flags = UCP_AM_SEND_FLAG_RNDV;
          return ucp_am_send_nbx(sides_.sender.endpoint, kFetchId, sent->places.data(),
                                 sent->places.size() * sizeof(uint64_t), data,
                                 moves.size() * units_.unit_bytes, param);
        },
        [this, sent] { buffers_.GiveBack(std::move(sent->gathered)); });
  }

  /// To its place, or where it is copied from.
  void Fetch(std::vector<uint64_t> places, void* descriptor, size_t bytes) {
    auto arriving = std::make_shared<Arriving>(Arriving{.places = std::move(places), .buffer = {}});
    if (gathers_) arriving->buffer = buffers_.Take(bytes);
    std::byte* const to =
        gathers_ ? arriving->buffer.data() : units_.destination.data() + arriving->places.front();
    sides_.receiver.operations->BeginReceive(
        [this, arriving](ucs_status_t status) {
          if (status != UCS_OK) status_ = status;
          fetched_units_ += arriving->places.size();
          if (!gathers_) return;
          for (size_t i = 0; i < arriving->places.size(); ++i) {
            std::memcpy(units_.destination.data() + arriving->places[i],
                        arriving->buffer.data() + i * units_.unit_bytes, units_.unit_bytes);
          }
          buffers_.GiveBack(std::move(arriving->buffer));
        },
        [&](ucp_request_param_t* param) {
          return ucp_am_recv_data_nbx(sides_.receiver.worker.get(), descriptor, to, bytes, param);
        });
  }

  const bool gathers_;
  const RawUcxUnits units_;
  Buffers buffers_;
  size_t fetched_units_ = 0;
  ucs_status_t status_ = UCS_OK;
  RawUcxSides sides_;
};

/// The kernel's copies between processes without anything else, as a receiver that knew all places
/// would have them made.
class AttachLink final : public RawUcxLink {
 public:
  explicit AttachLink(const RawUcxUnits& units) : units_(units) {}

  Status Move(std::span<const RawUcxMove> moves) override {
    const size_t at_once = std::max<uint64_t>(1, kMessageBytes / units_.unit_bytes);
    std::vector<PeerMemory::Piece> pieces;
    while (!moves.empty()) {
      const auto now = moves.first(std::min(at_once, moves.size()));
      moves = moves.subspan(now.size());
      pieces.clear();
      for (const RawUcxMove& move : now) {
        pieces.push_back({.from = reinterpret_cast<uintptr_t>(units_.source.data()) + move.from,
                          .to = units_.destination.subspan(move.to, units_.unit_bytes)});
      }
      QUIRE_RETURN_IF_ERROR(memory_.Read(pieces));
    }
    return OkStatus();
  }
  const std::byte* Moved(uint64_t to) const override { return units_.destination.data() + to; }
  std::string Lanes() const override { return "none: the kernel copies"; }

 private:
  const RawUcxUnits units_;
  const PeerMemory memory_{PeerMemory::OwnProcess()};
};

}  // namespace

StatusOr<std::unique_ptr<RawUcxLink>> ConnectRawFetched(const UcxOptions& options, RawUcxWay way,
                                                        const RawUcxUnits& units) {
  if (way == RawUcxWay::kAttachedCopies) return std::make_unique<AttachLink>(units);
  QUIRE_ASSIGN_OR_RETURN(RawUcxSides sides, RawUcxSides::Connect(options));
  auto link = std::make_unique<FetchLink>(way, units, std::move(sides));
  QUIRE_RETURN_IF_ERROR(link->Receive());
  return link;
}

}  // namespace quire::bench
