// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "common/wire/convert.h"
#include "common/wire/convert_context.h"
#include "kvserver/service/adapters/adapters.h"
#include "quire/v1/conversation.pb.h"

namespace quire::kvserver {
namespace {

/// Payload after which a slice of a prefetch ends.
constexpr uint64_t kSliceBytes = uint64_t{64} << 20;

Status Prefetch(PageStore& store, const Call& call, const v1::PrefetchRequest& request,
                v1::PrefetchReply* reply) {
  QUIRE_RETURN_IF_ERROR(wire::CheckConversation(request.conversation()));
  QUIRE_ASSIGN_OR_RETURN(const HeldChain held,
                         store.HoldConversation(call.tenant, request.conversation()));
  const Chain& chain = *held.chain;
  const auto num_segments = static_cast<uint32_t>(chain.keys.size());
  if (request.first_segment() >= num_segments) {
    return MakeStatus(StatusCode::kOutOfRange, "the conversation's chain has ", num_segments,
                      " segments, and segment ", request.first_segment(), " is none of them");
  }
  Chain one = chain;
  uint32_t next = request.first_segment();
  uint64_t bytes = 0;
  uint32_t not_fitting = 0;
  do {
    one.keys = {chain.keys[next++]};
    const Status brought = store.BringToDram(call.tenant, one.keys.front());
    if (IsResourceExhausted(brought)) {
      ++not_fitting;
    } else {
      QUIRE_RETURN_IF_ERROR(brought);
    }
    QUIRE_ASSIGN_OR_RETURN(const ChainStat stat, store.StatChain(call.tenant, one));
    bytes += stat.bytes;
  } while (next < num_segments && bytes < kSliceBytes);
  QUIRE_ASSIGN_OR_RETURN(const ChainStat whole, store.StatChain(call.tenant, chain));
  reply->set_next_segment(next);
  reply->set_num_segments(num_segments);
  reply->set_bytes(bytes);
  reply->set_segments_not_fitting(not_fitting);
  reply->set_segments_in_dram(whole.segments_in_dram);
  reply->set_chain_tip(wire::KeyToBytes(chain.keys.back()));
  return OkStatus();
}

Status Release(PageStore& store, const Call& call, const v1::ReleaseRequest& request,
               v1::ReleaseReply* reply) {
  QUIRE_RETURN_IF_ERROR(wire::CheckConversation(request.conversation()));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t released,
                         store.ReleaseConversation(call.tenant, request.conversation()));
  reply->set_segments_released(released);
  return OkStatus();
}

}  // namespace

void AddConversationMethods(PageStore* store, Dispatcher* dispatcher) {
  dispatcher->Add<v1::PrefetchRequest, v1::PrefetchReply>(
      "quire.v1.Conversations/Prefetch",
      [store](const Call& call, const v1::PrefetchRequest& request, v1::PrefetchReply* reply) {
        return Prefetch(*store, call, request, reply);
      });
  dispatcher->Add<v1::ReleaseRequest, v1::ReleaseReply>(
      "quire.v1.Conversations/Release",
      [store](const Call& call, const v1::ReleaseRequest& request, v1::ReleaseReply* reply) {
        return Release(*store, call, request, reply);
      });
}

}  // namespace quire::kvserver
