// SPDX-License-Identifier: Apache-2.0
#include "transport/otlp/otlp_convert.h"

#include <algorithm>

#include "common/base/utf8.h"
#include "quire/version.h"

namespace quire {
namespace {

template <typename Id>
std::string Bytes(const Id& id) {
  return {reinterpret_cast<const char*>(id.data()), id.size()};
}

void SpanToProto(const SpanRecord& span, otlp::Span* proto) {
  proto->set_trace_id(Bytes(span.context.trace_id));
  proto->set_span_id(Bytes(span.context.span_id));
  if (span.parent != SpanId{}) proto->set_parent_span_id(Bytes(span.parent));
  proto->set_name(span.name);
  proto->set_kind(static_cast<otlp::Span::SpanKind>(span.kind));
  proto->set_start_time_unix_nano(static_cast<uint64_t>(span.start_unix_nanos));
  proto->set_end_time_unix_nano(
      static_cast<uint64_t>(std::max(span.start_unix_nanos, span.end_unix_nanos)));
  for (const auto& [key, value] : span.counts) {
    otlp::KeyValue* const attribute = proto->add_attributes();
    attribute->set_key(std::string(key));
    attribute->mutable_value()->set_int_value(value);
  }
  if (span.code == StatusCode::kOk) return;
  proto->mutable_status()->set_code(otlp::Status::STATUS_CODE_ERROR);
  proto->mutable_status()->set_message(std::string(Name(span.code)));
}

}  // namespace

otlp::ExportTraceServiceRequest SpansToProto(std::span<const SpanRecord> spans,
                                             const OtlpSettings::Pairs& resource) {
  otlp::ExportTraceServiceRequest request;
  otlp::ResourceSpans* const of_process = request.add_resource_spans();
  for (const auto& [key, value] : resource) {
    otlp::KeyValue* const attribute = of_process->mutable_resource()->add_attributes();
    attribute->set_key(ReplaceInvalidUtf8(key));
    attribute->mutable_value()->set_string_value(ReplaceInvalidUtf8(value));
  }
  otlp::ScopeSpans* const of_library = of_process->add_scope_spans();
  of_library->mutable_scope()->set_name("quire");
  of_library->mutable_scope()->set_version(QUIRE_VERSION);
  for (const SpanRecord& span : spans) SpanToProto(span, of_library->add_spans());
  return request;
}

}  // namespace quire
