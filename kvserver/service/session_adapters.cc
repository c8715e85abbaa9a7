// SPDX-License-Identifier: Apache-2.0
#include "common/wire/convert_context.h"
#include "kvserver/service/adapters.h"
#include "kvserver/service/context_info.h"
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
  wire::ContextInfoToProto(InfoOf(*opened.view), reply->mutable_context());
  reply->mutable_tail_tokens()->Add(opened.tail_tokens.begin(), opened.tail_tokens.end());
  return OkStatus();
}

Status Recall(SessionManager& sessions, const Call& call, const v1::RecallRequest& request,
              v1::RecallReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const auto session, sessions.Find(call.tenant, request.session_id()));
  QUIRE_ASSIGN_OR_RETURN(const RecallArgs args, RecallArgsFromProto(request));
  QUIRE_ASSIGN_OR_RETURN(const RecallAnswer answer, session->Recall(args));
  RecallAnswerToProto(args, answer, reply);
  AppendUnits(answer.units, reply->mutable_unit_crc32c(), call.reply_payload);
  return OkStatus();
}

Status Ack(SessionManager& sessions, const Call& call, const v1::AckRequest& request,
           v1::AckReply*) {
  QUIRE_ASSIGN_OR_RETURN(const auto session, sessions.Find(call.tenant, request.session_id()));
  return session->Ack(request.epoch(), request.sequence());
}

Status Resync(SessionManager& sessions, const Call& call, const v1::ResyncRequest& request,
              v1::ResyncReply*) {
  QUIRE_ASSIGN_OR_RETURN(const auto session, sessions.Find(call.tenant, request.session_id()));
  QUIRE_ASSIGN_OR_RETURN(const auto layers, LayerSlotsFromProto(request));
  return session->Resync(request.epoch(), request.sequence(), layers);
}

Status Digests(SessionManager& sessions, const Call& call, const v1::DigestsRequest& request,
               v1::DigestsReply*) {
  QUIRE_ASSIGN_OR_RETURN(const auto session, sessions.Find(call.tenant, request.session_id()));
  const std::vector<uint32_t> layers(request.layers().begin(), request.layers().end());
  QUIRE_ASSIGN_OR_RETURN(*call.reply_payload,
                         session->Digests(layers, request.first_page(), request.end_page()));
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
  Bind(sessions, "Recall", &Recall, dispatcher);
  Bind(sessions, "Ack", &Ack, dispatcher);
  Bind(sessions, "Resync", &Resync, dispatcher);
  Bind(sessions, "Digests", &Digests, dispatcher);
  Bind(sessions, "Close", &Close, dispatcher);
}

}  // namespace quire::kvserver
