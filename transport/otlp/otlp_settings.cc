// SPDX-License-Identifier: Apache-2.0
#include "transport/otlp/otlp_settings.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "common/base/net_address.h"
#include "quire/version.h"

namespace quire {
namespace {

constexpr uint64_t kMostMillis = 3'600'000;
constexpr uint64_t kMostQueuedSpans = 1 << 20;

/// The variables, where an empty one is as one that is not set.
class Variables {
 public:
  explicit Variables(const ReadVariable& read) : read_(read) {}
  std::string operator[](const char* name) const {
    const char* const value = read_(name);
    return value == nullptr ? "" : value;
  }
  /// The first of two that is set: that of traces goes before that of all signals.
  std::pair<const char*, std::string> FirstOf(const char* of_traces, const char* of_all) const {
    std::string value = (*this)[of_traces];
    return value.empty() ? std::pair(of_all, (*this)[of_all])
                         : std::pair(of_traces, std::move(value));
  }

 private:
  const ReadVariable& read_;
};

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Replaces %XX by bytes.
std::optional<std::string> PercentDecoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    uint8_t byte = 0;
    if (i + 2 >= text.size()) return std::nullopt;
    const char* const digits = text.data() + i + 1;
    if (std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) return std::nullopt;
    out.push_back(static_cast<char>(byte));
    i += 2;
  }
  return out;
}

/// Parses "key=value,key=value".
StatusOr<OtlpSettings::Pairs> ParsePairs(const char* name, std::string_view text) {
  OtlpSettings::Pairs pairs;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view pair = Trim(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (pair.empty()) continue;
    const size_t equals = std::min(pair.find('='), pair.size());
    const std::string_view key = Trim(pair.substr(0, equals));
    const auto value = PercentDecoded(Trim(pair.substr(std::min(equals + 1, pair.size()))));
    if (key.empty() || equals == pair.size() || !value) {
      return InvalidArgument(name, ": write key=value,key=value, with %XX for special bytes");
    }
    pairs.emplace_back(key, *value);
  }
  return pairs;
}

bool IsHeader(const std::string& key, const std::string& value) {
  const auto of_key = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  return std::ranges::all_of(key, of_key) && !key.ends_with("-bin") &&
         std::ranges::all_of(value, [](char c) { return c >= 0x20 && c <= 0x7e; });
}

StatusOr<OtlpSettings::Pairs> ParseHeaders(const char* name, const std::string& text) {
  QUIRE_ASSIGN_OR_RETURN(OtlpSettings::Pairs headers, ParsePairs(name, text));
  for (auto& [key, value] : headers) {
    key = Lower(std::move(key));
    if (!IsHeader(key, value)) {
      return InvalidArgument(name, ": '", key, "' is no header of printable ASCII");
    }
  }
  return headers;
}

StatusOr<uint64_t> ParseCount(const char* name, const std::string& text, uint64_t otherwise,
                              uint64_t most) {
  if (text.empty()) return otherwise;
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && at == end && value >= 1 && value <= most) return value;
  return InvalidArgument(name, " is '", text, "': write a number of 1 to ", most);
}

/// The address in "http://host:port", or in "host:port".
StatusOr<std::string> ParseEndpoint(const char* name, const std::string& text) {
  std::string_view address = text;
  if (address.starts_with("https://")) {
    return Unimplemented(name, " is '", text,
                         "': Quire sends traces without TLS; name a collector on this host or in "
                         "a private network as http://HOST:4317, which may pass them on");
  }
  if (address.starts_with("http://")) address.remove_prefix(7);
  if (address.ends_with('/')) address.remove_suffix(1);
  const auto parsed = NetAddress::ParseServer(std::string(address));
  if (parsed.ok() && !parsed->is_unix()) return std::string(address);
  return InvalidArgument(name, " is '", text, "': write http://HOST:PORT, as in ",
                         "http://127.0.0.1:4317");
}

Status CheckProtocol(const char* name, const std::string& protocol) {
  if (protocol.empty() || protocol == "grpc") return OkStatus();
  return Unimplemented(name, " is '", protocol,
                       "': Quire sends traces over gRPC; set it to grpc, and the endpoint to the "
                       "collector's port for that (4317), or set OTEL_SDK_DISABLED=true");
}

StatusOr<TraceSampler> ParseSampler(const std::string& name, const std::string& argument) {
  constexpr std::string_view kParentBased = "parentbased_";
  TraceSampler sampler;
  std::string_view root = name.empty() ? std::string_view("parentbased_always_on") : name;
  sampler.parent_based = root.starts_with(kParentBased);
  if (sampler.parent_based) root.remove_prefix(kParentBased.size());
  if (root == "always_on") return sampler;
  if (root == "always_off") {
    sampler.ratio = 0;
    return sampler;
  }
  if (root != "traceidratio") {
    return InvalidArgument("OTEL_TRACES_SAMPLER is '", name,
                           "': write always_on, always_off or traceidratio, each also with "
                           "parentbased_ before it");
  }
  if (argument.empty()) return sampler;
  const char* const end = argument.data() + argument.size();
  const auto [at, error] = std::from_chars(argument.data(), end, sampler.ratio);
  if (error == std::errc() && at == end && sampler.ratio >= 0 && sampler.ratio <= 1) {
    return sampler;
  }
  return InvalidArgument("OTEL_TRACES_SAMPLER_ARG is '", argument,
                         "': write the share of traces, 0 to 1, as in 0.01");
}

/// Sets an attribute, unless it is there.
void AddResource(std::string_view key, std::string_view value, OtlpSettings::Pairs* resource) {
  const auto same = [&](const auto& pair) { return pair.first == key; };
  if (std::ranges::none_of(*resource, same)) resource->emplace_back(key, value);
}

StatusOr<OtlpSettings::Pairs> ParseResource(const Variables& variables, std::string_view service) {
  OtlpSettings::Pairs resource;
  if (const std::string name = variables["OTEL_SERVICE_NAME"]; !name.empty()) {
    AddResource("service.name", name, &resource);
  }
  QUIRE_ASSIGN_OR_RETURN(const auto others, ParsePairs("OTEL_RESOURCE_ATTRIBUTES",
                                                       variables["OTEL_RESOURCE_ATTRIBUTES"]));
  for (const auto& [key, value] : others) AddResource(key, value, &resource);
  AddResource("service.name", service, &resource);
  AddResource("service.version", QUIRE_VERSION, &resource);
  return resource;
}

Status ParseLimits(const Variables& variables, OtlpSettings* settings) {
  const auto [timeout_name, timeout] =
      variables.FirstOf("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT");
  QUIRE_ASSIGN_OR_RETURN(const uint64_t millis,
                         ParseCount(timeout_name, timeout, 10'000, kMostMillis));
  settings->timeout = std::chrono::milliseconds(millis);
  QUIRE_ASSIGN_OR_RETURN(const uint64_t delay,
                         ParseCount("OTEL_BSP_SCHEDULE_DELAY", variables["OTEL_BSP_SCHEDULE_DELAY"],
                                    5'000, kMostMillis));
  settings->delay = std::chrono::milliseconds(delay);
  QUIRE_ASSIGN_OR_RETURN(const uint64_t queue,
                         ParseCount("OTEL_BSP_MAX_QUEUE_SIZE", variables["OTEL_BSP_MAX_QUEUE_SIZE"],
                                    settings->queue_spans, kMostQueuedSpans));
  settings->queue_spans = static_cast<uint32_t>(queue);
  QUIRE_ASSIGN_OR_RETURN(
      const uint64_t batch,
      ParseCount("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", variables["OTEL_BSP_MAX_EXPORT_BATCH_SIZE"],
                 std::min<uint64_t>(settings->batch_spans, queue), queue));
  settings->batch_spans = static_cast<uint32_t>(batch);
  return OkStatus();
}

}  // namespace

StatusOr<std::optional<OtlpSettings>> ReadOtlpSettings(const ReadVariable& read,
                                                       std::string_view service) {
  const Variables variables(read);
  const auto [endpoint_name, endpoint] =
      variables.FirstOf("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT");
  const std::string exporter = variables["OTEL_TRACES_EXPORTER"];
  const bool off =
      Lower(variables["OTEL_SDK_DISABLED"]) == "true" || (!exporter.empty() && exporter != "otlp");
  if (endpoint.empty() || off) return std::optional<OtlpSettings>();
  const auto [protocol_name, protocol] =
      variables.FirstOf("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL");
  QUIRE_RETURN_IF_ERROR(CheckProtocol(protocol_name, protocol));
  OtlpSettings settings;
  QUIRE_ASSIGN_OR_RETURN(settings.address, ParseEndpoint(endpoint_name, endpoint));
  QUIRE_ASSIGN_OR_RETURN(settings.sampler, ParseSampler(variables["OTEL_TRACES_SAMPLER"],
                                                        variables["OTEL_TRACES_SAMPLER_ARG"]));
  QUIRE_ASSIGN_OR_RETURN(settings.resource, ParseResource(variables, service));
  const auto [headers_name, headers] =
      variables.FirstOf("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS");
  QUIRE_ASSIGN_OR_RETURN(settings.headers, ParseHeaders(headers_name, headers));
  QUIRE_RETURN_IF_ERROR(ParseLimits(variables, &settings));
  return std::optional<OtlpSettings>(std::move(settings));
}

}  // namespace quire
