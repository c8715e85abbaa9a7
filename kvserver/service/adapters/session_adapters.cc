// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/adapters/adapters.h"
#include "kvserver/service/adapters/payload_check.h"
#include "kvserver/service/adapters/session_convert.h"
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

/// OK while the caller waits for an answer.
Status CheckWanted(const CallContext& context) {
  if (context.IsCancelled()) return Status(StatusCode::kCancelled, "the caller gave it up");
  if (SystemClock().Now() < context.deadline) return OkStatus();
  return DeadlineExceeded("the call was not answered in time");
}

/// Writes the parts of a recall to the caller.
class PartSink final : public RecallSink {
 public:
  PartSink(const CallContext& context, const RecallArgs& args, ReplyWriter& out)
      : context_(context), args_(args), out_(out) {}

  Status CheckWanted() const override { return kvserver::CheckWanted(context_); }
  Status Write(ReplyPart part) override {
    v1::RecallReply reply;
    RecallPartToProto(args_, part, &reply);
    return WritePart(out_, reply, std::move(part.payload), std::move(part.places));
  }

 private:
  const CallContext& context_;
  const RecallArgs& args_;
  ReplyWriter& out_;
};

Status Recall(SessionManager& sessions, const Call& call, const v1::RecallRequest& request,
              ReplyWriter& parts) {
  QUIRE_ASSIGN_OR_RETURN(const auto session, sessions.Find(call.tenant, request.session_id()));
  QUIRE_ASSIGN_OR_RETURN(
      RecallArgs args, RecallArgsFromProto(request, session->shape(), session->SlotsOfSequences()));
  args.priority = call.context.priority;
  args.waits = call.waits;
  if (call.context.landing != nullptr) {
    QUIRE_RETURN_IF_ERROR(session->UseLanding(call.context.landing));
  }
  const ReplyShape shape{.max_parts = call.context.max_parts,
                         .part_bytes = call.context.part_bytes,
                         .deadline = call.context.deadline};
  PartSink sink(call.context, args, parts);
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

Status ScorePages(SessionManager& sessions, const Call& call, const v1::ScorePagesRequest& request,
                  v1::ScorePagesReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const auto session, sessions.Find(call.tenant, request.session_id()));
  QUIRE_ASSIGN_OR_RETURN(ContentQuery query, ContentQueryFromProto(request, session->shape().spec));
  query.priority = call.context.priority;
  query.waits = call.waits;
  query.check_wanted = [&] { return CheckWanted(call.context); };
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> scores, session->ScorePages(query));
  reply->mutable_scores()->Add(scores.begin(), scores.end());
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
  dispatcher->AddStreaming<v1::RecallRequest>(
      "quire.v1.Session/Recall",
      [sessions](const Call& call, const v1::RecallRequest& request, ReplyWriter& parts) {
        return Recall(*sessions, call, request, parts);
      });
  Bind(sessions, "Resync", &Resync, dispatcher);
  Bind(sessions, "Digests", &Digests, dispatcher);
  Bind(sessions, "ScorePages", &ScorePages, dispatcher);
  Bind(sessions, "Close", &Close, dispatcher);
}

}  // namespace quire::kvserver
