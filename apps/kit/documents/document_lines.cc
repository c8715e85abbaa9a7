// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/documents/document_lines.h"

#include "apps/kit/output/table.h"
#include "apps/kit/target.h"
#include "common/documents/document_state.h"

namespace quire::cli {

std::string StateText(const Document& document) {
  std::string text(StateName(document.state));
  if (!document.failure.empty()) text.append(": ").append(document.failure);
  if (document.segments_lost == 0) return text;
  return text + ", " + FormatCount(document.segments_lost) + " segments lost: add it again";
}

std::string FormatEvent(const DocumentEvent& event) {
  std::string text = std::to_string(event.position) + "  " + FormatTime(event.time_unix_micros);
  text.append("  ").append(Name(event.kind)).append("  ").append(FormatName(event.document));
  if (!event.detail.empty()) text.append(": ").append(event.detail);
  return text;
}

Json ToJson(const DocumentEvent& event) {
  return {{"position", event.position},
          {"time_unix_micros", event.time_unix_micros},
          {"kind", Name(event.kind)},
          {"document", FormatName(event.document)},
          {"collection", event.document.collection},
          {"name", event.document.name},
          {"version", event.document.version},
          {"detail", event.detail}};
}

}  // namespace quire::cli
