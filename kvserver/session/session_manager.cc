// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/session_manager.h"

#include <limits>
#include <numeric>
#include <utility>

namespace quire::kvserver {
namespace {

/// Size of a described context without its keys and tokens: mostly the spec.
constexpr uint64_t kContextInfoBytes = 640;
constexpr uint64_t kKeyBytes = 34;
constexpr uint64_t kTokenBytes = 5;

/// Checks the layers that a session manages.
StatusOr<std::vector<uint32_t>> ManagedLayers(const std::vector<uint32_t>& asked,
                                              uint32_t num_layers) {
  std::vector<uint32_t> layers = asked;
  if (layers.empty()) {
    layers.resize(num_layers);
    std::iota(layers.begin(), layers.end(), 0u);
  }
  std::vector<bool> seen(num_layers);
  for (const uint32_t layer : layers) {
    if (layer >= num_layers || seen[layer]) {
      return InvalidArgument("managed layer ", layer, " is named twice or not below the model's ",
                             num_layers);
    }
    seen[layer] = true;
  }
  return layers;
}

/// Checks the digests held from the start. Discs need pairs of channels.
StatusOr<HeldDigests> CheckHeldDigests(const HeldDigests& asked, const KvSpec& spec,
                                       const std::vector<uint32_t>& managed) {
  if (!kernels::HasDigest(spec, asked.kind)) {
    return InvalidArgument("hold_digests: digest kind ", static_cast<int>(asked.kind),
                           " is unknown, or not one of keys of this spec");
  }
  if (asked.layers.empty()) return HeldDigests{asked.kind, managed};
  std::vector<bool> free(spec.num_layers);
  for (const uint32_t layer : managed) free[layer] = true;
  for (const uint32_t layer : asked.layers) {
    if (layer >= spec.num_layers || !free[layer]) {
      return InvalidArgument("hold_digests: layer ", layer, " is named twice or not managed");
    }
    free[layer] = false;
  }
  return asked;
}

Status CheckCount(std::string_view field, size_t count, size_t max) {
  if (count >= 1 && count <= max) return OkStatus();
  return InvalidArgument(count, " ", field, ": must be 1..", max);
}

Status CheckOffset(const KvSpec& spec, int64_t offset) {
  using Range = std::numeric_limits<int32_t>;
  if (offset < Range::min() || offset > Range::max()) {
    return InvalidArgument("position_offset is ", offset, ": must be ", Range::min(), "..",
                           Range::max());
  }
  if (offset == 0 || spec.rope.CanRebase()) return OkStatus();
  return InvalidArgument(
      "position_offset is ", offset,
      ": keys that are stored before their rotation, or whose frequencies depend "
      "on the length, cannot be moved; it must be 0");
}

}  // namespace

SessionManager::SessionManager(const Options& options)
    : options_(options),
      selector_(*options.ops),
      residency_(std::make_shared<DigestResidency>(options.store, options.digests)),
      sessions_({.noun = "session",
                 .option = "--max-sessions",
                 .max_per_tenant = options.max_sessions_per_tenant,
                 .lease = options.lease,
                 .clock = options.clock}) {
  shared_.recall.store = options.store;
  shared_.recall.selector = &selector_;
  shared_.recall.residency = residency_;
  shared_.executor = options.executor;
  shared_.recall.max_reply_bytes = options.max_reply_bytes;
}

StatusOr<SessionManager::Opened> SessionManager::Open(std::string_view tenant,
                                                      const OpenArgs& args) {
  QUIRE_ASSIGN_OR_RETURN(SessionShape shape, CheckShape(tenant, args));
  auto session = std::make_shared<Session>(&shared_, std::move(shape),
                                           Session::Limits{options_.max_map_bytes});
  Opened opened;
  uint64_t reply_bytes = options_.max_reply_bytes;
  for (const SequenceArgs& sequence : args.sequences) {
    QUIRE_ASSIGN_OR_RETURN(auto members, OpenMembers(tenant, args.spec, sequence, &reply_bytes,
                                                     &opened.sequences.emplace_back()));
    QUIRE_RETURN_IF_ERROR(
        session->AddSequence(std::move(members), sequence.slots_per_head).status());
  }
  opened.epoch = session->epoch();
  QUIRE_ASSIGN_OR_RETURN(opened.id, sessions_.Insert(tenant, std::move(session)));
  return opened;
}

StatusOr<SessionManager::AddedSequence> SessionManager::AddSequence(std::string_view tenant,
                                                                    uint64_t id,
                                                                    const SequenceArgs& args) {
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, Find(tenant, id));
  AddedSequence added;
  uint64_t reply_bytes = options_.max_reply_bytes;
  QUIRE_ASSIGN_OR_RETURN(
      auto members, OpenMembers(tenant, session->shape().spec, args, &reply_bytes, &added.opened));
  QUIRE_ASSIGN_OR_RETURN(added.number,
                         session->AddSequence(std::move(members), args.slots_per_head));
  return added;
}

StatusOr<SessionShape> SessionManager::CheckShape(std::string_view tenant,
                                                  const OpenArgs& args) const {
  QUIRE_RETURN_IF_ERROR(
      CheckCount("sequences", args.sequences.size(), SessionShape::kMaxSequences));
  if (args.slots_per_head < 1 || args.slots_per_head > SessionShape::kMaxSlotsPerHead) {
    return InvalidArgument("slots_per_head is ", args.slots_per_head, ": must be 1..",
                           SessionShape::kMaxSlotsPerHead);
  }
  SessionShape shape{std::string(tenant), args.spec, args.slots_per_head, {}};
  shape.part = args.part;
  shape.codecs = args.codecs;
  if (shape.unit_bytes() == 0) {
    return InvalidArgument(
        "unit_part: the units of this spec (MLA) have no values apart from keys");
  }
  if (args.part != UnitPart::kWhole && args.codecs != CodecSet()) {
    return InvalidArgument(
        "codecs: an encoded unit comes whole; ask for whole units, or for no codecs");
  }
  QUIRE_ASSIGN_OR_RETURN(shape.managed_layers,
                         ManagedLayers(args.managed_layers, args.spec.num_layers));
  if (args.hold_digests) {
    QUIRE_ASSIGN_OR_RETURN(shape.hold_digests,
                           CheckHeldDigests(*args.hold_digests, args.spec, shape.managed_layers));
  }
  uint64_t map_bytes = 0;
  for (const SequenceArgs& sequence : args.sequences) {
    QUIRE_ASSIGN_OR_RETURN(const uint32_t slots, shape.SequenceSlots(sequence.slots_per_head));
    map_bytes += shape.sequence_map_bytes(slots);
  }
  if (map_bytes > options_.max_map_bytes) {
    return ResourceExhausted("the session's resident maps would take ", map_bytes,
                             " bytes, more than ", options_.max_map_bytes,
                             ": ask for fewer slots, layers or sequences");
  }
  return shape;
}

StatusOr<std::vector<MemberContext>> SessionManager::OpenMembers(std::string_view tenant,
                                                                 const KvSpec& spec,
                                                                 const SequenceArgs& args,
                                                                 uint64_t* reply_bytes,
                                                                 OpenedSequence* opened) const {
  QUIRE_RETURN_IF_ERROR(CheckCount("members", args.members.size(), SessionShape::kMaxMembers));
  std::vector<MemberContext> members;
  for (const MemberArgs& arg : args.members) {
    QUIRE_RETURN_IF_ERROR(CheckOffset(spec, arg.position_offset));
    QUIRE_ASSIGN_OR_RETURN(ReadableContext context, options_.resolver->Open(tenant, arg.context));
    OpenedMember& member = opened->emplace_back();
    member.view = context.view();
    if (const std::string difference = FirstDifference(*member.view->spec, spec);
        !difference.empty()) {
      return InvalidArgument("the KvSpec differs from the context's in ", difference,
                             ": read it with the model that wrote it");
    }
    QUIRE_ASSIGN_OR_RETURN(member.tail_tokens,
                           ShortPageTokens(*options_.store, tenant, *member.view));
    const uint64_t bytes = kContextInfoBytes + member.view->keys->size() * kKeyBytes +
                           member.tail_tokens.size() * kTokenBytes;
    if (bytes > *reply_bytes) {
      return ResourceExhausted("the contexts are too large to describe in one reply of ",
                               options_.max_reply_bytes,
                               " bytes: add sequences one at a time, or ask for fewer members");
    }
    *reply_bytes -= bytes;
    options_.store->NoteHints(tenant, args.hints, *member.view->keys);
    members.push_back({std::move(context), arg.position_offset});
  }
  return members;
}

bool SessionManager::Close(std::string_view tenant, uint64_t id) {
  const std::shared_ptr<Session> session = sessions_.Remove(tenant, id);
  if (session == nullptr) return false;
  session->EndLandings();  // Its recalls may still run.
  return true;
}

std::vector<SessionManager::OpenSession> SessionManager::List(size_t most) const {
  std::vector<OpenSession> list;
  for (const auto& [tenant, session, idle] : sessions_.List(most)) {
    const SessionShape& shape = session->shape();
    const std::vector<uint32_t> slots = session->SlotsOfSequences();
    const auto unused = std::ranges::count(slots, 0u);
    list.push_back({.tenant = tenant,
                    .model = shape.spec.model,
                    .sequences = static_cast<uint32_t>(slots.size() - static_cast<size_t>(unused)),
                    .layers = shape.num_managed(),
                    .slots_per_head = shape.slots_per_head,
                    .idle = idle});
  }
  return list;
}

void SessionManager::VisitMetrics(MetricsVisitor& visit) const {
  const RecallParts& recall = shared_.recall;
  visit.Gauge("sessions_open", "Open sessions.", sessions_.size());
  visit.Counter("sessions_expired", "Sessions that ended because nobody renewed their lease.",
                sessions_.expired());
  visit.Counter("sessions_displaced",
                "Sessions that were idle and ended to make room for others of their tenant.",
                sessions_.displaced());
  visit.Counter("session_recalls", "Recalls answered.", recall.recalls.Get());
  visit.Counter("session_recalls_stopped",
                "Recalls that ended between two lanes because nobody waited any more.",
                recall.stopped.Get());
  visit.Counter("session_lanes_rolled_back",
                "Lanes whose last recall was answered and not applied by its worker.",
                recall.rolled_back.Get());
  visit.Counter("session_recalls_of_replaced",
                "Recalls refused because segments of their sequence were damaged and replaced "
                "since it was opened.",
                recall.replaced.Get());
  visit.Histogram("session_plan_seconds",
                  "Time of a recall to find what is missing and where it goes, without selecting, "
                  "reading and sending.",
                  recall.plan_times);
  visit.Counter("session_units_wanted", "Units that recalls selected.", recall.units_wanted.Get());
  visit.Counter("session_units_sent", "Units that workers did not hold and were sent.",
                recall.units_sent.Get());
  visit.Counter("session_bytes_wanted", "Bytes of the units that recalls selected.",
                recall.bytes_wanted.Get());
  visit.Counter("session_bytes_sent", "Bytes of the units that were sent, as they were encoded.",
                recall.bytes_sent.Get());
  visit.Counter("session_resyncs", "Resident maps replaced by what the worker holds.",
                shared_.resyncs.Get());
  selector_.VisitMetrics(visit);
  residency_->VisitMetrics(visit);
  visit.Counter("digest_layers_held_at_open",
                "Layers of a sequence whose digests were held before they were asked for.",
                shared_.held_digests->layers.Get());
  visit.Counter("digest_open_holds_stopped",
                "Sequences that asked to have digests held and of which not all could be.",
                shared_.held_digests->stopped.Get());
}

}  // namespace quire::kvserver
