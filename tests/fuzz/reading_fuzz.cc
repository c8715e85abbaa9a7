// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the readers of documents: what they accept is UTF-8 text, whatever the markup.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "apps/reading/document_text.h"
#include "common/base/utf8.h"

namespace {

using quire::cli::TextKind;

void Check(std::string_view bytes) {
  for (const TextKind kind : {TextKind::kText, TextKind::kMarkdown, TextKind::kHtml}) {
    const auto document = quire::cli::ReadDocument("fuzz", bytes, {.as = kind});
    if (document.ok() && quire::FirstInvalidUtf8(document->text)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  Check(bytes);
  // Most random bytes are no UTF-8. As ASCII they reach the parsers of markup.
  for (char& byte : bytes) byte = static_cast<char>((byte & 0x7F) != 0 ? byte & 0x7F : ' ');
  Check(bytes);
  return 0;
}
