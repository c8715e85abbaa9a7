// SPDX-License-Identifier: Apache-2.0
#include "bench/trace/mooncake_trace.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/json/json.h"

namespace quire::bench {
namespace {

using nlohmann::json;
using worker::JsonFields;

constexpr size_t kMaxFileBytes = size_t{1} << 30;
constexpr uint32_t kMaxTokens = 1 << 24;
constexpr double kMaxMillis = 1e12;  // Thirty years.

StatusOr<std::vector<TraceBlock>> ReadBlocks(const JsonFields& fields, uint32_t input_tokens) {
  const json* ids = fields.Find("hash_ids");
  if (ids == nullptr) return fields.Error("hash_ids", "is missing");
  if (!ids->is_array()) return fields.Error("hash_ids", "must be a list of block ids");
  const uint32_t whole = input_tokens / kMooncakeBlockTokens;
  const uint32_t rest = input_tokens % kMooncakeBlockTokens;
  if (ids->size() != whole && ids->size() != whole + (rest > 0 ? 1u : 0u)) {
    return fields.Error("hash_ids", "has ", ids->size(), " blocks, but input_length ", input_tokens,
                        " is ", whole, " blocks of ", kMooncakeBlockTokens, " tokens and ", rest,
                        " tokens more");
  }
  std::vector<TraceBlock> blocks;
  blocks.reserve(ids->size());
  for (const json& id : *ids) {
    if (!id.is_number_unsigned()) {
      return fields.Error("hash_ids", "has an entry at index ", blocks.size(),
                          " that is no block id: must be an integer of 0 or more");
    }
    const uint32_t tokens = blocks.size() < whole ? kMooncakeBlockTokens : rest;
    blocks.push_back({.id = id.get<uint64_t>(), .tokens = tokens, .bytes = KvBytes(tokens)});
  }
  return blocks;
}

StatusOr<TraceRequest> ParseLine(std::string_view line, const std::string& name) {
  QUIRE_ASSIGN_OR_RETURN(const json object, worker::ParseJson(line, name));
  if (!object.is_object()) return InvalidArgument(name, ": a line must be one JSON object");
  const JsonFields fields(object, name);
  QUIRE_ASSIGN_OR_RETURN(const double millis, fields.Number("timestamp", 0, kMaxMillis));
  QUIRE_ASSIGN_OR_RETURN(const uint32_t input, fields.UInt("input_length", 1, kMaxTokens));
  QUIRE_RETURN_IF_ERROR(fields.UInt("output_length", 0, kMaxTokens).status());
  TraceRequest request{.arrival_micros = std::llround(millis * 1000)};
  QUIRE_ASSIGN_OR_RETURN(request.blocks, ReadBlocks(fields, input));
  const bool with_rest = request.blocks.size() * kMooncakeBlockTokens >= input;
  request.new_tokens = with_rest ? 0 : input % kMooncakeBlockTokens;
  return request;
}

bool IsBlank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

StatusOr<Trace> ParseMooncakeTrace(std::string_view text, const std::string& name) {
  Trace trace{.description = name};
  for (uint64_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (IsBlank(line)) continue;
    QUIRE_ASSIGN_OR_RETURN(TraceRequest request,
                           ParseLine(line, name + ":" + std::to_string(number)));
    trace.requests.push_back(std::move(request));
  }
  if (trace.requests.empty()) return InvalidArgument(name, ": has no requests");
  std::ranges::stable_sort(trace.requests, {}, &TraceRequest::arrival_micros);
  return trace;
}

StatusOr<Trace> ReadMooncakeTrace(const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(const std::string text, worker::ReadTextFile(path, kMaxFileBytes));
  return ParseMooncakeTrace(text, path);
}

}  // namespace quire::bench
