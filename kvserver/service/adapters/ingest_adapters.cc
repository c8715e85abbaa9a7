// SPDX-License-Identifier: Apache-2.0
#include "common/wire/convert.h"
#include "common/wire/convert_context.h"
#include "common/wire/convert_document.h"
#include "kvserver/service/adapters/adapters.h"
#include "kvserver/service/adapters/registry_parts.h"
#include "quire/v1/registry.pb.h"

namespace quire::kvserver {
namespace {

Status BeginIngest(DocumentRegistry& registry, const ClusterPlace& place, const Call& call,
                   const v1::BeginIngestRequest& request, v1::BeginIngestReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const auto name, wire::DocumentNameFromProto(request.name()));
  QUIRE_RETURN_IF_ERROR(CheckMayName(place, registry, call.tenant, name));
  QUIRE_RETURN_IF_ERROR(wire::CheckContentHash(request.content_hash()));
  DocumentRegistry::IngestPlan plan{.content_hash = request.content_hash(),
                                    .source = request.source()};
  QUIRE_ASSIGN_OR_RETURN(plan.tags, wire::TagsFromProto(request.tags()));
  QUIRE_ASSIGN_OR_RETURN(plan.ttl_seconds, wire::TtlFromProto(request.ttl_seconds()));
  QUIRE_ASSIGN_OR_RETURN(const auto begun, registry.BeginIngest(call.tenant, name, plan));
  wire::DocumentToProto(begun.document, reply->mutable_document());
  reply->set_unchanged(begun.unchanged);
  reply->set_ingest_id(begun.id);
  reply->set_lease_seconds(LeaseSeconds(registry.ingest_lease()));
  return OkStatus();
}

Status FailIngest(DocumentRegistry& registry, const Call& call,
                  const v1::FailIngestRequest& request, v1::FailIngestReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const Document document,
                         registry.FailIngest(call.tenant, request.ingest_id(), request.reason()));
  wire::DocumentToProto(document, reply->mutable_document());
  return OkStatus();
}

}  // namespace

void AddIngestMethods(DocumentRegistry* registry, const ClusterPlace& place,
                      Dispatcher* dispatcher) {
  dispatcher->Add<v1::BeginIngestRequest, v1::BeginIngestReply>(
      "quire.v1.Registry/BeginIngest",
      [registry, place](const Call& call, const v1::BeginIngestRequest& request,
                        v1::BeginIngestReply* reply) {
        return BeginIngest(*registry, place, call, request, reply);
      });
  dispatcher->Add<v1::FailIngestRequest, v1::FailIngestReply>(
      "quire.v1.Registry/FailIngest",
      [registry](const Call& call, const v1::FailIngestRequest& request,
                 v1::FailIngestReply* reply) {
        return FailIngest(*registry, call, request, reply);
      });
}

}  // namespace quire::kvserver
