// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes chat templates: parsing, and rendering within small limits. A template must end, print no
// more than its limit, and print whole text.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/base/utf8.h"
#include "gpuworker/text/chat/chat_template.h"
#include "gpuworker/text/chat/jinja/template.h"

namespace {

using quire::worker::jinja::Dictionary;
using quire::worker::jinja::Limits;
using quire::worker::jinja::List;
using quire::worker::jinja::Value;

constexpr Limits kLimits{.steps = 20'000, .bytes = 1 << 14};

Value Message(const char* role, const char* content) {
  Dictionary message;
  message.Set("role", Value::Of(std::string(role)));
  message.Set("content", Value::Of(std::string(content)));
  return Value::Of(std::move(message));
}

Dictionary Variables() {
  Dictionary variables;
  variables.Set("bos_token", Value::Of(std::string("<s>")));
  variables.Set("eos_token", Value::Of(std::string("</s>")));
  variables.Set("add_generation_prompt", Value::Of(true));
  variables.Set("tools", Value::None());
  variables.Set("messages", Value::Of(List{Message("system", " be\nbrief "), Message("user", "é数"),
                                           Message("assistant", "<think>a</think>b")}));
  return variables;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)quire::worker::ChatTemplate::Parse(text, "fuzz");
  const auto parsed = quire::worker::jinja::Template::Parse(text);
  if (!parsed.ok()) return 0;
  const auto rendered = parsed->Render(Variables(), /*now_seconds=*/1'721'952'000, kLimits);
  if (!rendered.ok()) return 0;
  if (rendered->size() > 4 * kLimits.bytes || quire::FirstInvalidUtf8(*rendered)) std::abort();
  return 0;
}
