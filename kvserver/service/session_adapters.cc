// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "common/base/payload_cutter.h"
#include "kvserver/service/adapters.h"
#include "kvserver/service/payload_check.h"
#include "kvserver/service/session_convert.h"
#include "quire/v1/session.pb.h"

namespace quire::kvserver {
namespace {

Status Open(SessionManager& sessions, const Call& call, const v1::OpenSessionRequest& request,
            v1::OpenSessionReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const auto args, OpenArgsFromProto(request));
  QUIRE_ASSIGN_OR_RETURN(const SessionManager::Opened opened, sessions.Open(call.tenant, args));
  reply->set_session_id(opened.id);
  reply->set_epoch(opened.epoch);
  reply->set_lease_seconds(LeaseSeconds(sessions.lease()));
  for (const auto& sequence : opened.sequences) OpenedToProto(sequence, reply->add_sequences());
  return OkStatus();
}

Status AddSequence(SessionManager& sessions, const Call& call,
                   const v1::AddSequenceRequest& request, v1::AddSequenceReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const auto args, SequenceArgsFromProto(request.sequence()));
  QUIRE_ASSIGN_OR_RETURN(const SessionManager::AddedSequence added,
                         sessions.AddSequence(call.tenant, request.session_id(), args));
  reply->set_sequence(added.number);
  OpenedToProto(added.opened, reply->mutable_opened());
  return OkStatus();
}

Status RemoveSequence(SessionManager& sessions, const Call& call,
                      const v1::RemoveSequenceRequest& request, v1::RemoveSequenceReply*) {
  QUIRE_ASSIGN_OR_RETURN(const auto session, sessions.Find(call.tenant, request.session_id()));
  return session->RemoveSequence(request.sequence(), call.context.deadline);
}

/// Writes the parts of a recall to the caller.
class PartSink final : public RecallSink {
 public:
  /// Cuts each part into pieces of `piece_bytes`, in whole units; 0: one message per part.
  PartSink(const CallContext& context, const RecallArgs& args, uint64_t piece_bytes,
           PartWriter<v1::RecallReply>& out)
      : context_(context), args_(args), piece_bytes_(piece_bytes), out_(out) {
    for (const LayerWant& want : args.wants) lanes_ += want.lanes.num_layers();
  }

  Status CheckWanted() const override {
    if (context_.IsCancelled()) return Status(StatusCode::kCancelled, "the caller gave it up");
    if (SystemClock().Now() < context_.deadline) return OkStatus();
    return DeadlineExceeded("the recall was not answered in time");
  }
  Status Write(RecallPart part) override {
    v1::RecallReply reply;
    RecallPartToProto(args_, part, &reply);
    if (!MayCut(part.payload.size_bytes())) {
      ++written_;
      return out_.Write(reply, std::move(part.payload), std::move(part.places));
    }
    PayloadCutter cutter(part.payload);
    for (uint64_t left = part.payload.size_bytes(); left > 0; ++written_) {
      const uint64_t piece = std::min(left, piece_bytes_);
      QUIRE_RETURN_IF_ERROR(out_.Write(reply, cutter.Cut(piece)));
      reply.clear_lanes();
      left -= piece;
    }
    return OkStatus();
  }

 private:
  /// True when pieces leave room for the remaining parts.
  bool MayCut(uint64_t bytes) const {
    if (piece_bytes_ == 0 || args_.place || bytes <= piece_bytes_) return false;
    const uint64_t pieces = (bytes + piece_bytes_ - 1) / piece_bytes_;
    return written_ + pieces + lanes_ <= context_.max_parts;
  }

  const CallContext& context_;
  const RecallArgs& args_;
  const uint64_t piece_bytes_;
  PartWriter<v1::RecallReply>& out_;
  uint64_t lanes_ = 0;    ///< Lanes of the recall.
  uint64_t written_ = 0;  ///< Messages written.
};

/// Piece size of the request, rounded to whole units; 0 for no pieces.
uint64_t PieceBytes(const v1::RecallRequest& request, uint64_t unit_bytes) {
  if (request.piece_bytes() == 0) return 0;
  return std::max<uint64_t>(request.piece_bytes() / unit_bytes, 1) * unit_bytes;
}

Status Recall(SessionManager& sessions, const Call& call, const v1::RecallRequest& request,
              PartWriter<v1::RecallReply>& parts) {
  QUIRE_ASSIGN_OR_RETURN(const auto session, sessions.Find(call.tenant, request.session_id()));
  QUIRE_ASSIGN_OR_RETURN(
      RecallArgs args, RecallArgsFromProto(request, session->shape(), session->SlotsOfSequences()));
  args.priority = call.context.priority;
  if (call.context.landing != nullptr) {
    QUIRE_RETURN_IF_ERROR(session->UseLanding(call.context.landing));
  }
  const ReplyShape shape{.max_parts = call.context.max_parts,
                         .part_bytes = call.context.part_bytes,
                         .deadline = call.context.deadline};
  PartSink sink(call.context, args, PieceBytes(request, session->shape().unit_bytes()), parts);
  return session->Recall(args, shape, sink);
}

Status Resync(SessionManager& sessions, const Call& call, const v1::ResyncRequest& request,
              v1::ResyncReply*) {
  QUIRE_ASSIGN_OR_RETURN(const auto session, sessions.Find(call.tenant, request.session_id()));
  QUIRE_ASSIGN_OR_RETURN(const auto maps,
                         LaneMapsFromProto(request, session->shape(), session->SlotsOfSequences()));
  return session->Resync(request.epoch(), maps, call.context.deadline);
}

Status Digests(SessionManager& sessions, const Call& call, const v1::DigestsRequest& request,
               v1::DigestsReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const auto session, sessions.Find(call.tenant, request.session_id()));
  const std::vector<uint32_t> layers(request.layers().begin(), request.layers().end());
  QUIRE_ASSIGN_OR_RETURN(const DigestKind kind, DigestKindFromProto(request.kind()));
  QUIRE_ASSIGN_OR_RETURN(*call.reply_payload,
                         session->Digests(request.sequence(), request.member(), layers,
                                          request.first_page(), request.end_page(), kind));
  reply->set_payload_crc32c(PayloadCrc32c(*call.reply_payload));
  return OkStatus();
}

Status Close(SessionManager& sessions, const Call& call, const v1::CloseSessionRequest& request,
             v1::CloseSessionReply*) {
  if (sessions.Close(call.tenant, request.session_id())) return OkStatus();
  return NotFound("no session ", request.session_id(), ": it is closed already");
}

template <typename Request, typename Reply>
void Bind(SessionManager* sessions, const std::string& name,
          Status (*method)(SessionManager&, const Call&, const Request&, Reply*),
          Dispatcher* dispatcher) {
  dispatcher->Add<Request, Reply>(
      "quire.v1.Session/" + name,
      [sessions, method](const Call& call, const Request& request, Reply* reply) {
        return method(*sessions, call, request, reply);
      });
}

}  // namespace

void AddSessionMethods(SessionManager* sessions, Dispatcher* dispatcher) {
  Bind(sessions, "Open", &Open, dispatcher);
  Bind(sessions, "AddSequence", &AddSequence, dispatcher);
  Bind(sessions, "RemoveSequence", &RemoveSequence, dispatcher);
  dispatcher->AddStreaming<v1::RecallRequest, v1::RecallReply>(
      "quire.v1.Session/Recall", [sessions](const Call& call, const v1::RecallRequest& request,
                                            PartWriter<v1::RecallReply>& parts) {
        return Recall(*sessions, call, request, parts);
      });
  Bind(sessions, "Resync", &Resync, dispatcher);
  Bind(sessions, "Digests", &Digests, dispatcher);
  Bind(sessions, "Close", &Close, dispatcher);
}

}  // namespace quire::kvserver
