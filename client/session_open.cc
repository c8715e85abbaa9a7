// SPDX-License-Identifier: Apache-2.0
//
// Opening sessions and sequences: what is asked for, and checking what was opened.
#include <algorithm>
#include <utility>

#include "client/caller.h"
#include "client/node_session.h"
#include "client/session_state.h"
#include "client/validate.h"
#include "common/wire/convert.h"
#include "common/wire/convert_codec.h"
#include "common/wire/convert_context.h"
#include "common/wire/limits.h"
#include "kernels/api/page_digest.h"
#include "quire/session.h"
#include "quire/v1/session.pb.h"

namespace quire {

using namespace internal;

namespace {

constexpr CallSpec kOpen = {"quire.v1.Session/Open", Repeat::kOnlyIfRefused};
constexpr CallSpec kAddSequence = {"quire.v1.Session/AddSequence", Repeat::kOnlyIfRefused};

/// `managed`: the session's layers.
Status HeldDigestsToProto(const SessionOptions& options, const std::vector<uint32_t>& managed,
                          v1::HeldDigests* proto) {
  const HeldDigests& held = *options.hold_digests;
  if (!kernels::HasDigest(options.spec, held.kind)) {
    return InvalidArgument("hold_digests: digest kind ", static_cast<int>(held.kind),
                           " is unknown, or not one of keys of this spec");
  }
  std::vector<uint32_t> sorted = held.layers;
  std::sort(sorted.begin(), sorted.end());
  const bool distinct = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  const bool known = std::all_of(sorted.begin(), sorted.end(), [&](uint32_t layer) {
    return std::find(managed.begin(), managed.end(), layer) != managed.end();
  });
  if (!distinct || !known) {
    return InvalidArgument("hold_digests: layers must be distinct and managed by the session");
  }
  proto->set_kind(static_cast<v1::DigestKind>(held.kind));
  proto->mutable_layers()->Add(held.layers.begin(), held.layers.end());
  return OkStatus();
}

/// The slots per head of a sequence in a session of `session_slots`, which there are.
uint32_t SlotsOf(const SequenceSpec& sequence, uint32_t session_slots) {
  return sequence.slots_per_head == 0 ? session_slots : sequence.slots_per_head;
}

/// `session_slots`: the most that the sequence may have.
Status SequenceToProto(const SequenceSpec& sequence, uint32_t session_slots,
                       v1::SequenceSpec* proto) {
  if (sequence.slots_per_head > session_slots) {
    return InvalidArgument("slots_per_head of a sequence is ", sequence.slots_per_head,
                           "; the session has ", session_slots,
                           ": ask for fewer, or open a session with more");
  }
  proto->set_slots_per_head(sequence.slots_per_head);
  if (!sequence.hints.empty()) {
    QUIRE_RETURN_IF_ERROR(wire::CheckHints(sequence.hints));
    wire::HintsToProto(sequence.hints, proto->mutable_hints());
  }
  if (sequence.members.empty() || sequence.members.size() > wire::kMaxMembers) {
    return InvalidArgument("a sequence of ", sequence.members.size(),
                           " members; it must have 1 to ", wire::kMaxMembers);
  }
  for (const SequenceMember& member : sequence.members) {
    QUIRE_RETURN_IF_ERROR(CheckRef(member.context));
    v1::SequenceMember& out = *proto->add_members();
    wire::ContextRefToProto(member.context, out.mutable_context());
    out.set_position_offset(member.position_offset);
  }
  return OkStatus();
}

StatusOr<SessionMember> MemberFromReply(std::string_view method, const v1::OpenedMember& proto,
                                        const KvSpec& spec) {
  SessionMember member;
  QUIRE_ASSIGN_OR_RETURN(member.context, ContextFromReply(method, proto.context()));
  if (const std::string difference = FirstDifference(member.context.spec, spec);
      !difference.empty()) {
    return BadReply(method, "its KvSpec differs in ", difference);
  }
  const uint64_t tail = member.context.num_tokens % spec.page_tokens;
  if (static_cast<uint64_t>(proto.tail_tokens_size()) != tail) {
    return BadReply(method, proto.tail_tokens_size(), " tail tokens instead of ", tail);
  }
  member.tail_tokens.assign(proto.tail_tokens().begin(), proto.tail_tokens().end());
  return member;
}

StatusOr<std::vector<SessionMember>> MembersFromReply(std::string_view method,
                                                      const v1::OpenedSequence& proto,
                                                      const SequenceSpec& asked,
                                                      const KvSpec& spec) {
  if (static_cast<size_t>(proto.members_size()) != asked.members.size()) {
    return BadReply(method, proto.members_size(), " members instead of ", asked.members.size());
  }
  std::vector<SessionMember> members;
  for (const v1::OpenedMember& opened : proto.members()) {
    QUIRE_ASSIGN_OR_RETURN(members.emplace_back(), MemberFromReply(method, opened, spec));
  }
  return members;
}

}  // namespace

StatusOr<std::unique_ptr<ClientSession>> Client::OpenSession(const ContextRef& context,
                                                             const SessionOptions& options) {
  const SequenceSpec sequence = {.members = {{.context = context}}};
  return OpenSession({&sequence, 1}, options);
}

StatusOr<std::unique_ptr<ClientSession>> Client::OpenSession(
    std::span<const SequenceSpec> sequences, const SessionOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(std::vector<uint32_t> layers, LayersOf(options));
  if (sequences.empty() || sequences.size() > wire::kMaxSequences) {
    return InvalidArgument("a session of ", sequences.size(), " sequences; it must have 1 to ",
                           wire::kMaxSequences);
  }
  v1::OpenSessionRequest request;
  for (const SequenceSpec& sequence : sequences) {
    QUIRE_RETURN_IF_ERROR(
        SequenceToProto(sequence, options.slots_per_head, request.add_sequences()));
  }
  wire::KvSpecToProto(options.spec, request.mutable_spec());
  request.set_slots_per_head(options.slots_per_head);
  request.mutable_managed_layers()->Add(options.managed_layers.begin(),
                                        options.managed_layers.end());
  if (options.part == UnitPart::kValues) request.set_unit_part(v1::UNIT_PART_VALUES);
  wire::CodecsToProto(options.codecs, request.mutable_codecs());
  if (options.hold_digests) {
    QUIRE_RETURN_IF_ERROR(HeldDigestsToProto(options, layers, request.mutable_hold_digests()));
  }
  v1::OpenSessionReply reply;
  QUIRE_RETURN_IF_ERROR(caller_->Call(kOpen, request, {}, caller_->NewDeadline(), &reply, nullptr));
  if (static_cast<size_t>(reply.sequences_size()) != sequences.size()) {
    return BadReply(kOpen.method, reply.sequences_size(), " sequences instead of ",
                    sequences.size());
  }
  std::vector<std::vector<SessionMember>> members;
  WorkerSlots slots(ManagedLayers(std::move(layers)), options.spec.num_kv_heads,
                    options.slots_per_head);
  for (uint32_t i = 0; i < sequences.size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(members.emplace_back(),
                           MembersFromReply(kOpen.method, reply.sequences(static_cast<int>(i)),
                                            sequences[i], options.spec));
    slots.AddSequence(i, SlotsOf(sequences[i], options.slots_per_head));
  }
  auto state = std::make_unique<SessionState>(
      caller_.get(), reply.session_id(), reply.epoch(), options.spec,
      UnitSizes(options.spec, options.part, options.codecs), std::move(slots), std::move(members));
  state->lease = caller_->leases().Keep(LeaseKeeper::Kind::kSession, reply.session_id(),
                                        std::chrono::seconds(reply.lease_seconds()));
  return std::make_unique<NodeSession>(std::move(state));
}

StatusOr<uint32_t> NodeSession::AddSequence(const SequenceSpec& sequence) {
  QUIRE_RETURN_IF_ERROR(state_->CheckOpen());
  v1::AddSequenceRequest request;
  request.set_session_id(state_->id);
  QUIRE_RETURN_IF_ERROR(SequenceToProto(sequence, slots_per_head(), request.mutable_sequence()));
  v1::AddSequenceReply reply;
  QUIRE_RETURN_IF_ERROR(state_->caller->Call(kAddSequence, request, {},
                                             state_->caller->NewDeadline(), &reply, nullptr));
  const uint32_t number = reply.sequence();
  if (number >= wire::kMaxSequences || state_->slots.Has(number)) {
    return BadReply(kAddSequence.method, "sequence ", number, " is taken or out of range");
  }
  QUIRE_ASSIGN_OR_RETURN(
      std::vector<SessionMember> members,
      MembersFromReply(kAddSequence.method, reply.opened(), sequence, state_->spec));
  state_->slots.AddSequence(number, SlotsOf(sequence, slots_per_head()));
  if (number >= state_->members.size()) state_->members.resize(number + 1);
  state_->members[number] = std::move(members);
  return number;
}

}  // namespace quire
