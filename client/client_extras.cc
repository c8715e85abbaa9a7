// SPDX-License-Identifier: Apache-2.0
//
// Client's methods on what is stored beside a document's pages, and on the use of these.
#include <utility>

#include "client/caller.h"
#include "client/validate.h"
#include "common/base/memory/checksum.h"
#include "common/documents/document_rules.h"
#include "common/wire/convert.h"
#include "common/wire/convert_context.h"
#include "common/wire/convert_document.h"
#include "common/wire/limits.h"
#include "quire/client.h"
#include "quire/v1/registry.pb.h"

namespace quire {

using namespace internal;

namespace {

constexpr CallSpec kPutExtra = {"quire.v1.Registry/PutExtra", Repeat::kSafe};
constexpr CallSpec kGetExtra = {"quire.v1.Registry/GetExtra", Repeat::kSafe};
constexpr CallSpec kListExtras = {"quire.v1.Registry/ListExtras", Repeat::kSafe};
constexpr CallSpec kPageUses = {"quire.v1.Registry/PageUses", Repeat::kSafe};

StatusOr<Extra> ExtraFromReply(const CallSpec& spec, const v1::Extra& proto) {
  auto extra = wire::ExtraFromProto(proto);
  if (!extra.ok()) return BadReply(spec.method, Message(extra.status()));
  return extra;
}

}  // namespace

StatusOr<Extra> Client::PutExtra(const DocumentName& document, std::string_view name,
                                 uint32_t version, const Payload& payload,
                                 std::span<const SegmentKey> segments) {
  QUIRE_RETURN_IF_ERROR(CheckName(document));
  QUIRE_RETURN_IF_ERROR(CheckExtraName(name));
  v1::PutExtraRequest request;
  wire::DocumentNameToProto(document, request.mutable_document());
  request.set_name(std::string(name));
  request.set_version(version);
  request.set_payload_crc32c(PayloadCrc32c(payload));
  wire::KeysToProto(segments, request.mutable_segments());
  v1::PutExtraReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kPutExtra, request, payload, caller_->NewDeadline(), &reply, nullptr));
  return ExtraFromReply(kPutExtra, reply.extra());
}

StatusOr<ExtraBytes> Client::GetExtra(const DocumentName& document, std::string_view name) {
  QUIRE_RETURN_IF_ERROR(CheckName(document));
  QUIRE_RETURN_IF_ERROR(CheckExtraName(name));
  v1::GetExtraRequest request;
  wire::DocumentNameToProto(document, request.mutable_document());
  request.set_name(std::string(name));
  v1::GetExtraReply reply;
  ExtraBytes bytes;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kGetExtra, request, {}, caller_->NewDeadline(), &reply, &bytes.payload));
  QUIRE_ASSIGN_OR_RETURN(bytes.extra, ExtraFromReply(kGetExtra, reply.extra()));
  if (bytes.extra.name != name || bytes.extra.size != bytes.payload.size_bytes() ||
      bytes.extra.crc32c != PayloadCrc32c(bytes.payload)) {
    return BadReply(kGetExtra.method, "its bytes are not those of the extra");
  }
  return bytes;
}

StatusOr<std::vector<Extra>> Client::ListExtras(const DocumentName& document) {
  QUIRE_RETURN_IF_ERROR(CheckName(document));
  v1::ListExtrasRequest request;
  wire::DocumentNameToProto(document, request.mutable_document());
  v1::ListExtrasReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kListExtras, request, {}, caller_->NewDeadline(), &reply, nullptr));
  std::vector<Extra> extras;
  for (const v1::Extra& proto : reply.extras()) {
    QUIRE_ASSIGN_OR_RETURN(extras.emplace_back(), ExtraFromReply(kListExtras, proto));
  }
  return extras;
}

StatusOr<PageUses> Client::GetPageUses(const DocumentName& document) {
  QUIRE_RETURN_IF_ERROR(CheckName(document));
  v1::PageUsesRequest request;
  wire::DocumentNameToProto(document, request.mutable_document());
  v1::PageUsesReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kPageUses, request, {}, caller_->NewDeadline(), &reply, nullptr));
  if (reply.page_tokens() == 0) return BadReply(kPageUses.method, "pages have no tokens");
  return PageUses{.page_tokens = reply.page_tokens(),
                  .uses = {reply.uses().begin(), reply.uses().end()}};
}

}  // namespace quire
