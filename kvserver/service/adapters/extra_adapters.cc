// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cluster/replica/replicated_put.h"
#include "common/wire/convert.h"
#include "common/wire/convert_context.h"
#include "common/wire/convert_document.h"
#include "kvserver/registry/extras/extra_record.h"
#include "kvserver/service/adapters/payload_check.h"
#include "kvserver/service/adapters/registry_parts.h"
#include "kvserver/store/metadata/checked_value.h"
#include "quire/v1/registry.pb.h"

namespace quire::kvserver {
namespace {

/// Gives the other owners of the document its extras.
void ShareExtras(const ClusterPlace& place, DocumentRegistry& registry, const Call& call,
                 const DocumentName& document) {
  if (!place.keeps_replicas()) return;
  const auto found = registry.Get(call.tenant, document);
  if (!found.ok()) return;  // Deleted meanwhile.
  cluster::ReplicatedPut(place.peers, place.membership, place.node)
      .ShareExtras(call.tenant, found->name, call.context.deadline);
}

Status PutExtra(DocumentRegistry& registry, const ClusterPlace& place, const Call& call,
                const v1::PutExtraRequest& request, v1::PutExtraReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const auto document, wire::DocumentNameFromProto(request.document()));
  QUIRE_RETURN_IF_ERROR(CheckPayload(call.payload, request.payload_crc32c()));
  const Slice bytes = Contiguous(call.payload);
  QUIRE_ASSIGN_OR_RETURN(const std::vector<SegmentKey> segments,
                         wire::KeysFromProto(request.segments(), kMostExtraSegments, "segments"));
  QUIRE_ASSIGN_OR_RETURN(const Extra extra,
                         registry.PutExtra(call.tenant, document, request.name(), request.version(),
                                           AsText(bytes.bytes), segments));
  ShareExtras(place, registry, call, document);
  wire::ExtraToProto(extra, reply->mutable_extra());
  return OkStatus();
}

Status GetExtra(DocumentRegistry& registry, const Call& call, const v1::GetExtraRequest& request,
                v1::GetExtraReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const auto document, wire::DocumentNameFromProto(request.document()));
  QUIRE_ASSIGN_OR_RETURN(auto value, registry.GetExtra(call.tenant, document, request.name()));
  wire::ExtraToProto(value.extra, reply->mutable_extra());
  wire::KeysToProto(value.segments, reply->mutable_segments());
  const auto bytes = std::make_shared<const std::string>(std::move(value.bytes));
  if (!bytes->empty()) call.reply_payload->Append({AsBytes(*bytes), bytes});
  return OkStatus();
}

Status ListExtras(DocumentRegistry& registry, const Call& call,
                  const v1::ListExtrasRequest& request, v1::ListExtrasReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const auto document, wire::DocumentNameFromProto(request.document()));
  QUIRE_ASSIGN_OR_RETURN(const auto extras, registry.ListExtras(call.tenant, document));
  for (const Extra& extra : extras) wire::ExtraToProto(extra, reply->add_extras());
  return OkStatus();
}

}  // namespace

void AddExtraMethods(DocumentRegistry* registry, const ClusterPlace& place,
                     Dispatcher* dispatcher) {
  dispatcher->Add<v1::PutExtraRequest, v1::PutExtraReply>(
      "quire.v1.Registry/PutExtra",
      [registry, place](const Call& call, const v1::PutExtraRequest& request,
                        v1::PutExtraReply* reply) {
        return PutExtra(*registry, place, call, request, reply);
      });
  dispatcher->Add<v1::GetExtraRequest, v1::GetExtraReply>(
      "quire.v1.Registry/GetExtra",
      [registry](const Call& call, const v1::GetExtraRequest& request, v1::GetExtraReply* reply) {
        return GetExtra(*registry, call, request, reply);
      });
  dispatcher->Add<v1::ListExtrasRequest, v1::ListExtrasReply>(
      "quire.v1.Registry/ListExtras",
      [registry](const Call& call, const v1::ListExtrasRequest& request,
                 v1::ListExtrasReply* reply) {
        return ListExtras(*registry, call, request, reply);
      });
}

}  // namespace quire::kvserver
