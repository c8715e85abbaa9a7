// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/output/json_output.h"

#include <ostream>
#include <string>
#include <variant>

#include "apps/kit/target.h"
#include "common/documents/document_state.h"

namespace quire::cli {

void PrintJsonLine(std::ostream& out, const Json& value) {
  out << value.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
}

Json ToJson(const Status& error) {
  Json json;
  json["error"]["code"] = Name(error.code());
  json["error"]["message"] = std::string(Message(error));
  return json;
}

namespace {

/// null for never.
Json ExpiryJson(int64_t expires_unix_micros) {
  return expires_unix_micros == 0 ? Json(nullptr) : Json(expires_unix_micros);
}

}  // namespace

Json ToJson(const Collection& collection) {
  Json json;
  json["collection"] = collection.name;
  json["codec"] = collection.codec;
  json["codec_is_default"] = collection.codec_is_default;
  json["ttl_seconds"] = collection.ttl_seconds ? Json(*collection.ttl_seconds) : Json(nullptr);
  return json;
}

Json ToJson(const Tags& tags) {
  Json json = Json::object();
  for (const auto& [key, value] : tags) {
    json[key] = std::visit([](const auto& typed) { return Json(typed); }, value);
  }
  return json;
}

Json ToJson(const Document& document) {
  Json json;
  json["document"] = FormatName(document.name);
  json["collection"] = document.name.collection;
  json["name"] = document.name.name;
  json["version"] = document.name.version;
  json["tokens"] = document.num_tokens;
  json["bytes"] = document.bytes;
  json["model"] = document.model;
  json["created_unix_micros"] = document.created_unix_micros;
  json["expires_unix_micros"] = ExpiryJson(document.expires_unix_micros);
  json["segments_lost"] = document.segments_lost;
  json["chain_tip"] = document.chain_tip.Hex();
  json["state"] = StateName(document.state);
  json["failure"] = document.failure;
  json["latest"] = document.is_latest;
  json["pinned"] = document.pinned;
  json["source"] = document.source;
  json["tags"] = ToJson(document.tags);
  json["questions"] = document.statistics.questions;
  json["hits"] = document.statistics.hits;
  json["tokens_saved"] = document.statistics.tokens_saved;
  json["bytes_served"] = document.statistics.bytes_served;
  json["last_used_unix_micros"] = document.statistics.last_used_unix_micros;
  return json;
}

Json DocumentsJson(std::span<const Document> documents) {
  Json json;
  json["documents"] = Json::array();
  for (const Document& document : documents) json["documents"].push_back(ToJson(document));
  return json;
}

Json ToJson(const ContextStat& stat) {
  const ContextInfo& context = stat.context;
  Json json;
  json["tokens"] = context.num_tokens;
  json["pages"] = context.num_pages;
  json["segments"] = context.segment_keys.size();
  json["bytes"] = stat.bytes;
  json["segments_in_dram"] = stat.segments_in_dram;
  json["segments_on_ssd"] = stat.segments_on_ssd;
  json["segments_lost"] = stat.segments_lost;
  json["expires_unix_micros"] = ExpiryJson(stat.expires_unix_micros);
  json["model"] = context.spec.model;
  json["dtype"] = Name(context.spec.dtype);
  json["layers"] = context.spec.num_layers;
  json["kv_heads"] = context.spec.num_kv_heads;
  json["head_dim"] = context.spec.head_dim;
  json["page_tokens"] = context.spec.page_tokens;
  json["segment_pages"] = context.spec.segment_pages;
  json["chain_tip"] = context.chain_tip.Hex();
  json["segment_keys"] = Json::array();
  for (const SegmentKey& key : context.segment_keys) json["segment_keys"].push_back(key.Hex());
  return json;
}

Json ToJson(const ServerStats& stats) {
  Json json;
  json["version"] = stats.version;
  json["uptime_seconds"] = stats.uptime_seconds;
  json["degradations"] = Json::array();
  for (const Degradation& degradation : stats.degradations) {
    json["degradations"].push_back({{"reason", degradation.reason},
                                    {"detail", degradation.detail},
                                    {"since_unix_micros", degradation.since_unix_micros}});
  }
  json["counters"] = Json::object();
  for (const auto& [name, value] : stats.counters) json["counters"][name] = value;
  return json;
}

}  // namespace quire::cli
