// SPDX-License-Identifier: Apache-2.0
#include "client/session.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "client/call.h"
#include "client/recall_codec.h"
#include "client/validate.h"
#include "common/wire/convert.h"
#include "common/wire/convert_context.h"
#include "common/wire/limits.h"
#include "quire/v1/session.pb.h"

namespace quire {
namespace {

constexpr CallSpec kOpen = {"quire.v1.Session/Open", Repeat::kOnlyIfRefused};
constexpr CallSpec kRecall = {"quire.v1.Session/Recall", Repeat::kSafe};
constexpr CallSpec kAck = {"quire.v1.Session/Ack", Repeat::kSafe};
constexpr CallSpec kResync = {"quire.v1.Session/Resync", Repeat::kSafe};
constexpr CallSpec kDigests = {"quire.v1.Session/Digests", Repeat::kSafe};
constexpr CallSpec kClose = {"quire.v1.Session/Close", Repeat::kSafe};

constexpr Duration kCloseInDestructor = std::chrono::seconds(1);

/// The managed layers that `options` mean, or what is wrong with the options.
StatusOr<std::vector<uint32_t>> ManagedLayers(const Client::SessionOptions& options) {
  QUIRE_RETURN_IF_ERROR(CheckSpec(options.spec));
  if (options.slots_per_head == 0 || options.slots_per_head > wire::kMaxSlotsPerHead) {
    return InvalidArgument("slots_per_head is ", options.slots_per_head, "; it must be 1 to ",
                           wire::kMaxSlotsPerHead);
  }
  std::vector<uint32_t> layers = options.managed_layers;
  if (layers.empty()) {
    layers.resize(options.spec.num_layers);
    std::iota(layers.begin(), layers.end(), 0u);
  }
  std::vector<uint32_t> sorted = layers;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.back() >= options.spec.num_layers ||
      std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    return InvalidArgument("managed_layers must be distinct and below ", options.spec.num_layers);
  }
  return layers;
}

}  // namespace

StatusOr<std::unique_ptr<ClientSession>> Client::OpenSession(const ContextRef& context,
                                                             const SessionOptions& options) {
  QUIRE_RETURN_IF_ERROR(CheckRef(context));
  QUIRE_ASSIGN_OR_RETURN(std::vector<uint32_t> layers, ManagedLayers(options));
  v1::OpenSessionRequest request;
  wire::ContextRefToProto<DocumentName>(context, request.mutable_context());
  wire::KvSpecToProto(options.spec, request.mutable_spec());
  request.set_slots_per_head(options.slots_per_head);
  request.mutable_managed_layers()->Add(options.managed_layers.begin(),
                                        options.managed_layers.end());
  v1::OpenSessionReply reply;
  QUIRE_RETURN_IF_ERROR(Call(kOpen, request, {}, NewDeadline(), &reply, nullptr));
  QUIRE_ASSIGN_OR_RETURN(ContextInfo info, ContextFromReply(kOpen.method, reply.context()));
  if (const std::string difference = FirstDifference(info.spec, options.spec);
      !difference.empty()) {
    return BadReply(kOpen.method, "its KvSpec differs in ", difference);
  }
  const uint64_t tail = info.num_tokens % info.spec.page_tokens;
  if (static_cast<uint64_t>(reply.tail_tokens_size()) != tail) {
    return BadReply(kOpen.method, reply.tail_tokens_size(), " tail tokens instead of ", tail);
  }
  ResidentMap map(std::move(layers), options.spec.num_kv_heads, options.slots_per_head);
  return std::unique_ptr<ClientSession>(
      new ClientSession(this, reply, std::move(info), std::move(map)));
}

ClientSession::ClientSession(Client* client, const v1::OpenSessionReply& reply, ContextInfo context,
                             ResidentMap map)
    : client_(client),
      id_(reply.session_id()),
      context_(std::move(context)),
      tail_tokens_(reply.tail_tokens().begin(), reply.tail_tokens().end()),
      epoch_(reply.epoch()),
      map_(std::move(map)) {}

ClientSession::~ClientSession() {
  if (closed_) return;
  // A session that cannot be closed now ends on the server when it has idled too long.
  (void)CloseBefore(client_->options_.clock->Now() + kCloseInDestructor);
}

Status ClientSession::CheckOpen() const {
  return closed_ ? FailedPrecondition("the session is closed; open a new one") : OkStatus();
}

StatusOr<RecallResult> ClientSession::Recall(std::span<const LayerWant> wants) {
  QUIRE_RETURN_IF_ERROR(CheckOpen());
  QUIRE_RETURN_IF_ERROR(CheckWants(wants, context_.spec, map_));
  const TimePoint deadline = client_->NewDeadline();
  if (needs_resync_) QUIRE_RETURN_IF_ERROR(Resync(deadline));
  auto result = TryRecall(wants, deadline);
  if (!absl::IsFailedPrecondition(result.status())) return result;
  QUIRE_RETURN_IF_ERROR(Resync(deadline));
  return TryRecall(wants, deadline);
}

StatusOr<RecallResult> ClientSession::TryRecall(std::span<const LayerWant> wants,
                                                TimePoint deadline) {
  v1::RecallRequest request;
  request.set_session_id(id_);
  request.set_epoch(epoch_);
  request.set_sequence(applied_ + 1);
  request.set_acked_sequence(applied_);
  WantsToProto(wants, &request);
  v1::RecallReply reply;
  Payload payload;
  const Status status = client_->Call(kRecall, request, {}, deadline, &reply, &payload);
  if (absl::IsFailedPrecondition(status)) needs_resync_ = true;
  QUIRE_RETURN_IF_ERROR(status);
  acked_ = applied_;
  auto result = RecallFromProto(reply, std::move(payload), request, wants, context_.spec, map_);
  if (result.ok()) return result;
  needs_resync_ = true;
  return BadReply(kRecall.method, Message(result.status()));
}

void ClientSession::Applied(const RecallResult& result) {
  if (result.sequence != applied_ + 1) return;
  for (const Placement& placement : result.placements) map_.Place(placement);
  applied_ = result.sequence;
}

Status ClientSession::Ack() {
  QUIRE_RETURN_IF_ERROR(CheckOpen());
  if (acked_ == applied_) return OkStatus();
  const TimePoint deadline = client_->NewDeadline();
  v1::AckRequest request;
  request.set_session_id(id_);
  request.set_epoch(epoch_);
  request.set_sequence(applied_);
  v1::AckReply reply;
  const Status status = client_->Call(kAck, request, {}, deadline, &reply, nullptr);
  if (absl::IsFailedPrecondition(status)) return Resync(deadline);  // Which acknowledges as well.
  if (status.ok()) acked_ = applied_;
  return status;
}

Status ClientSession::Resync(TimePoint deadline) {
  needs_resync_ = true;
  Status status;
  // When the reply to a first attempt is lost, its repetition is refused: the epoch has passed.
  for (int attempt = 0; attempt < 2; ++attempt) {
    v1::ResyncRequest request;
    request.set_session_id(id_);
    request.set_epoch(++epoch_);
    request.set_sequence(applied_);
    MapToProto(map_, &request);
    v1::ResyncReply reply;
    status = client_->Call(kResync, request, {}, deadline, &reply, nullptr);
    if (!absl::IsFailedPrecondition(status)) break;
  }
  QUIRE_RETURN_IF_ERROR(status);
  needs_resync_ = false;
  acked_ = applied_;
  return OkStatus();
}

StatusOr<Payload> ClientSession::Digests(std::span<const uint32_t> layers, uint32_t first_page,
                                         uint32_t end_page) {
  QUIRE_RETURN_IF_ERROR(CheckOpen());
  if (layers.empty() || layers.size() > context_.spec.num_layers || first_page >= end_page ||
      end_page > wire::kMaxContextPages) {
    return InvalidArgument("digests of ", layers.size(), " layers and pages [", first_page, ", ",
                           end_page, "): ask for 1 to ", context_.spec.num_layers,
                           " layers and at least one page");
  }
  v1::DigestsRequest request;
  request.set_session_id(id_);
  request.mutable_layers()->Add(layers.begin(), layers.end());
  request.set_first_page(first_page);
  request.set_end_page(end_page);
  v1::DigestsReply reply;
  Payload payload;
  QUIRE_RETURN_IF_ERROR(
      client_->Call(kDigests, request, {}, client_->NewDeadline(), &reply, &payload));
  const KvSpec& spec = context_.spec;
  const uint64_t page_bytes =
      uint64_t{spec.num_kv_heads} * 2 * spec.key_dim() * ElementBytes(spec.dtype);
  const uint64_t bytes = layers.size() * uint64_t{end_page - first_page} * page_bytes;
  if (payload.size_bytes() != bytes) {
    return BadReply(kDigests.method, payload.size_bytes(), " bytes of digests instead of ", bytes);
  }
  return payload;
}

Status ClientSession::Close() {
  QUIRE_RETURN_IF_ERROR(CheckOpen());
  return CloseBefore(client_->NewDeadline());
}

Status ClientSession::CloseBefore(TimePoint deadline) {
  closed_ = true;
  v1::CloseSessionRequest request;
  request.set_session_id(id_);
  v1::CloseSessionReply reply;
  const Status status = client_->Call(kClose, request, {}, deadline, &reply, nullptr);
  return absl::IsNotFound(status) ? OkStatus() : status;
}

}  // namespace quire
