// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "bench/raw_ucx_link.h"
#include "bench/raw_ucx_sides.h"
#include "common/base/unit_copy.h"
#include "common/transport/ucx_landing.h"
#include "common/transport/ucx_status.h"

namespace quire::bench {
namespace {

constexpr uint32_t kMaxTransfers = 64;

struct KeyCloser {
  void operator()(ucp_rkey_h key) const { ucp_rkey_destroy(key); }
};

/// One end owns memory of UCX, and the other moves units into it or out of it. One thread does the
/// work of both: where UCX cannot do without the owner it is there, and nowhere else it takes time.
class MemoryLink final : public RawUcxLink {
 public:
  MemoryLink(RawUcxWay way, const RawUcxUnits& units, uint64_t begin, RawUcxSides sides)
      : way_(way), units_(units), begin_(begin), sides_(std::move(sides)) {}

  Status Open(uint64_t bytes) {
    QUIRE_ASSIGN_OR_RETURN(memory_, UcxMemory::Allocate(owner().context, bytes));
    QUIRE_ASSIGN_OR_RETURN(const std::string packed, memory_->RemoteKey());
    ucp_rkey_h key = nullptr;
    QUIRE_RETURN_IF_ERROR(UcxToStatus(ucp_ep_rkey_unpack(mover().endpoint, packed.data(), &key),
                                      "open the memory of the other end"));
    key_.reset(key);
    if (way_ == RawUcxWay::kCopiesOut || way_ == RawUcxWay::kCopiesIn) {
      void* mapped = nullptr;
      QUIRE_RETURN_IF_ERROR(UcxToStatus(ucp_rkey_ptr(key, AddressOf(begin_), &mapped),
                                        "map the memory of the other end"));
      mapped_ = static_cast<std::byte*>(mapped);
    }
    return Touch(bytes);
  }

  Status Move(std::span<const RawUcxMove> moves) override {
    if (mapped_ == nullptr) return Transfer(moves);
    for (size_t i = 0; i < moves.size(); ++i) {
      CopyAroundCache({From(moves[i]), units_.unit_bytes}, To(moves[i]),
                      i + 1 < moves.size() ? From(moves[i + 1]) : nullptr);
    }
    return OkStatus();
  }
  const std::byte* Moved(uint64_t to) const override {
    return into() ? memory_->bytes().data() + (to - begin_) : units_.destination.data() + to;
  }
  std::string Lanes() const override { return sides_.Lanes(); }

 private:
  bool into() const { return MovesIntoUcxMemory(way_); }
  RawUcxSide& owner() { return into() ? sides_.receiver : sides_.sender; }
  RawUcxSide& mover() { return into() ? sides_.sender : sides_.receiver; }
  uint64_t AddressOf(uint64_t place) const {
    return reinterpret_cast<uintptr_t>(memory_->bytes().data()) + (place - begin_);
  }
  /// For copies.
  const std::byte* From(const RawUcxMove& move) const {
    return into() ? units_.source.data() + move.from : mapped_ + (move.from - begin_);
  }
  std::byte* To(const RawUcxMove& move) const {
    return into() ? mapped_ + (move.to - begin_) : units_.destination.data() + move.to;
  }

  /// Fills the memory, and moves all of it, so that no page is mapped while time is taken.
  Status Touch(uint64_t bytes) {
    if (into()) {
      std::memset(memory_->bytes().data(), 0, bytes);
    } else {
      std::memcpy(memory_->bytes().data(), units_.source.data() + begin_, bytes);
    }
    std::vector<RawUcxMove> all;
    for (uint64_t at = begin_; at < begin_ + bytes; at += units_.unit_bytes) {
      all.push_back({.from = into() ? 0 : at, .to = into() ? at : 0});
    }
    return Move(all);
  }

  Status Transfer(std::span<const RawUcxMove> moves) {
    RawUcxWindow window(mover());
    for (const RawUcxMove& move : moves) {
      Progress(window, kMaxTransfers);
      window.Begin([&](ucp_request_param_t* param) { return Start(move, param); });
    }
    window.Begin(
        [&](ucp_request_param_t* param) { return ucp_ep_flush_nbx(mover().endpoint, param); });
    Progress(window, 1);
    return UcxToStatus(window.status(), "move units");
  }

  ucs_status_ptr_t Start(const RawUcxMove& move, ucp_request_param_t* param) {
    return into() ? ucp_put_nbx(mover().endpoint, units_.source.data() + move.from,
                                units_.unit_bytes, AddressOf(move.to), key_.get(), param)
                  : ucp_get_nbx(mover().endpoint, units_.destination.data() + move.to,
                                units_.unit_bytes, AddressOf(move.from), key_.get(), param);
  }

  /// Until fewer than `limit` operations are under way.
  void Progress(const RawUcxWindow& window, uint32_t limit) {
    while (window.under_way() >= limit) {
      mover().Progress();
      owner().Progress();
    }
  }

  const RawUcxWay way_;
  const RawUcxUnits units_;
  const uint64_t begin_;  ///< Of the memory, among all places.
  RawUcxSides sides_;
  std::shared_ptr<UcxMemory> memory_;
  std::unique_ptr<ucp_rkey, KeyCloser> key_;
  std::byte* mapped_ = nullptr;  ///< The memory, where the mover has it; null unless it copies.
};

}  // namespace

StatusOr<std::unique_ptr<RawUcxLink>> ConnectRawMemory(const UcxOptions& options, RawUcxWay way,
                                                       const RawUcxUnits& units, uint64_t begin,
                                                       uint64_t end) {
  QUIRE_ASSIGN_OR_RETURN(RawUcxSides sides, RawUcxSides::Connect(options));
  auto link = std::make_unique<MemoryLink>(way, units, begin, std::move(sides));
  QUIRE_RETURN_IF_ERROR(link->Open(end - begin));
  return link;
}

}  // namespace quire::bench
