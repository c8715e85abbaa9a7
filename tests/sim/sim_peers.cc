// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_peers.h"

#include <utility>

namespace quire::sim {

using cluster::ChainDescription;
using cluster::Held;
using cluster::Member;
using cluster::SegmentCopy;
using cluster::UnitRun;

namespace {

constexpr uint64_t kMostSegmentBytes = uint64_t{1} << 20;

}  // namespace

template <typename Reply>
StatusOr<Reply> SimPeers::Ask(const Member& member,
                              std::function<StatusOr<Reply>(SimPeerService&)> answer) {
  QUIRE_RETURN_IF_ERROR(life_->Check());
  auto reply = network_.Call<Reply>(
      self_, member.name, {},
      [find = find_, to = member.name, answer = std::move(answer)]() -> StatusOr<Reply> {
        SimPeerService* const service = find(to);
        if (service == nullptr) return Unavailable(to, " is down");
        return answer(*service);
      });
  QUIRE_RETURN_IF_ERROR(life_->Check());
  return reply;
}

StatusOr<ChainDescription> SimPeers::Describe(const Member& member, std::string_view tenant,
                                              const SegmentKey& tip) {
  return Ask<ChainDescription>(member,
                               [tenant = std::string(tenant), tip](SimPeerService& service) {
                                 return service.segments->Describe(tenant, tip);
                               });
}

StatusOr<SegmentCopy> SimPeers::Read(const Member& member, std::string_view tenant, const KvSpec&,
                                     const SegmentKey& key) {
  return Ask<SegmentCopy>(
      member,
      [tenant = std::string(tenant), key](SimPeerService& service) -> StatusOr<SegmentCopy> {
        QUIRE_ASSIGN_OR_RETURN(const UnitRun run,
                               service.segments->Read(tenant, key, 0, kMostSegmentBytes));
        SegmentCopy copy{.tokens = run.tokens, .codec = run.codec};
        for (const Slice& slice : run.units.slices()) {
          copy.units.insert(copy.units.end(), slice.bytes.begin(), slice.bytes.end());
        }
        copy.unit_crc32c = run.unit_crc32c;
        return copy;
      });
}

StatusOr<std::vector<cluster::Held>> SimPeers::Holds(const Member& member, std::string_view tenant,
                                                     std::span<const Document> documents) {
  return Ask<std::vector<cluster::Held>>(
      member,
      [tenant = std::string(tenant), asked = std::vector(documents.begin(), documents.end())](
          SimPeerService& service) -> StatusOr<std::vector<cluster::Held>> {
        std::vector<cluster::Held> holds;
        for (const Document& document : asked) {
          holds.push_back(service.is_releasing(tenant, document.name)
                              ? cluster::Held::kDamaged
                              : service.documents->StateOf(tenant, document));
        }
        return holds;
      });
}

Status SimPeers::CopyChain(const Member& member, std::string_view tenant, const SegmentKey& tip,
                           std::string_view from, TimePoint) {
  return Ask<bool>(member,
                   [tenant = std::string(tenant), tip,
                    from = std::string(from)](SimPeerService& service) -> StatusOr<bool> {
                     QUIRE_RETURN_IF_ERROR(service.copy_chain(tenant, tip, from));
                     return true;
                   })
      .status();
}

Status SimPeers::Adopt(const Member& member, std::string_view tenant, const DocumentName& name,
                       TimePoint) {
  return Ask<bool>(member,
                   [tenant = std::string(tenant), name](SimPeerService& service) -> StatusOr<bool> {
                     QUIRE_RETURN_IF_ERROR(service.adopt(tenant, name));
                     return true;
                   })
      .status();
}

}  // namespace quire::sim
