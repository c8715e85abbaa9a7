// SPDX-License-Identifier: Apache-2.0
#include "client/document_reply.h"

#include "client/reply.h"
#include "common/wire/convert_document.h"

namespace quire::internal {

StatusOr<Document> DocumentFromReply(std::string_view method, const v1::Document& proto) {
  auto document = wire::DocumentFromProto(proto);
  if (!document.ok()) return BadReply(method, Message(document.status()));
  if (document->name.version == 0) return BadReply(method, "a document without a version");
  return document;
}

StatusOr<Document> DocumentFromReply(std::string_view method, const DocumentName& asked,
                                     const v1::Document& proto) {
  QUIRE_ASSIGN_OR_RETURN(Document document, DocumentFromReply(method, proto));
  const DocumentName& got = document.name;
  if (asked.collection == got.collection && asked.name == got.name &&
      (asked.version == 0 || asked.version == got.version)) {
    return document;
  }
  return BadReply(method, "it is about ", got.collection, "/", got.name, " version ", got.version);
}

}  // namespace quire::internal
