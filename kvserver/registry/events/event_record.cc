// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/events/event_record.h"

#include "kvserver/store/metadata/checked_record.h"

namespace quire::kvserver {
namespace {

constexpr uint8_t kEventFormat = 1;

}  // namespace

std::string EncodeEvent(const DocumentEvent& event) {
  ByteWriter out;
  out.Number(kEventFormat);
  out.Number(static_cast<uint8_t>(event.kind));
  out.Number(event.time_unix_micros);
  out.ShortText(event.document.collection);
  out.ShortText(event.document.name);
  out.Number(event.document.version);
  out.Text(event.detail);
  return CloseRecord(out);
}

StatusOr<DocumentEvent> DecodeEvent(uint64_t position, std::string_view encoded) {
  ByteReader in = OpenRecord(encoded);
  const auto format = in.Number<uint8_t>();
  if (format > kEventFormat) {
    return FailedPrecondition("event ", position, " has version ", uint32_t{format},
                              "; upgrade the server");
  }
  DocumentEvent event{.position = position};
  event.kind = static_cast<DocumentEventKind>(in.Number<uint8_t>());
  event.time_unix_micros = in.Number<int64_t>();
  event.document.collection = in.ShortText();
  event.document.name = in.ShortText();
  event.document.version = in.Number<uint64_t>();
  event.detail = in.Text();
  if (format != 0 && in.ok() && in.at_end() && !Name(event.kind).empty()) return event;
  return DataLoss("event ", position, " of the registry is damaged; watch from ", position,
                  " on, and list the documents for what it changed");
}

}  // namespace quire::kvserver
