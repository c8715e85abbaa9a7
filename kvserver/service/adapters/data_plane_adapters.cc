// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/adapters/adapters.h"
#include "kvserver/service/data_plane/data_plane.h"
#include "quire/v1/data_plane.pb.h"

namespace quire::kvserver {
namespace {

/// Tickets and keys are only as safe as the proof of the caller's tenant. Data connections do not
/// ask for one.
Status CheckControl(const Call& call) {
  if (call.context.is_control) return OkStatus();
  return PermissionDenied(
      "tickets and keys are handed out over the control channel (gRPC) only, not over a data "
      "connection");
}

}  // namespace

void AddDataPlaneMethods(DataPlane* data_plane, Dispatcher* dispatcher) {
  dispatcher->Add<v1::OfferRequest, v1::OfferReply>(
      "quire.v1.DataPlane/Offer",
      [data_plane](const Call& call, const v1::OfferRequest&, v1::OfferReply* reply) {
        QUIRE_RETURN_IF_ERROR(CheckControl(call));
        QUIRE_ASSIGN_OR_RETURN(const auto offers, data_plane->Offers(call.tenant));
        for (const DataPlane::Offer& offer : offers) {
          v1::TransportOffer* const out = reply->add_offers();
          out->set_kind(offer.way.kind);
          out->set_address(offer.way.address);
          out->set_ticket(offer.ticket);
          out->set_host(offer.host);
          out->set_reads_traces(true);
        }
        return OkStatus();
      });
  dispatcher->Add<v1::AddLandingRequest, v1::AddLandingReply>(
      "quire.v1.DataPlane/AddLanding",
      [data_plane](const Call& call, const v1::AddLandingRequest& request, v1::AddLandingReply*) {
        QUIRE_RETURN_IF_ERROR(CheckControl(call));
        return data_plane->OpenLanding(call.tenant, request.connection_id(), request.landing_id(),
                                       request.key(), request.bytes());
      });
  dispatcher->Add<v1::RemoveLandingRequest, v1::RemoveLandingReply>(
      "quire.v1.DataPlane/RemoveLanding",
      [data_plane](const Call& call, const v1::RemoveLandingRequest& request,
                   v1::RemoveLandingReply*) {
        QUIRE_RETURN_IF_ERROR(CheckControl(call));
        return data_plane->CloseLanding(call.tenant, request.connection_id(), request.landing_id());
      });
}

}  // namespace quire::kvserver
