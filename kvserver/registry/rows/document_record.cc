// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/rows/document_record.h"

#include <utility>
#include <variant>

#include "common/documents/document_rules.h"
#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/store/metadata/checked_record.h"

namespace quire::kvserver {
namespace {

constexpr uint8_t kVersionWithTags = 3;
constexpr uint8_t kVersionWithTtl = 2;
constexpr uint8_t kVersionWithoutTtl = 1;

uint8_t VersionFor(const Document& document) {
  if (document.state != DocumentState::kReady || !document.failure.empty() ||
      !document.source.empty() || !document.tags.empty()) {
    return kVersionWithTags;
  }
  return document.ttl_seconds ? kVersionWithTtl : kVersionWithoutTtl;
}

void WriteTag(const TagValue& value, ByteWriter& out) {
  out.Number(static_cast<uint8_t>(value.index()));
  if (const auto* text = std::get_if<std::string>(&value)) out.Text(*text);
  if (const auto* integer = std::get_if<int64_t>(&value)) out.Number(*integer);
  if (const auto* number = std::get_if<double>(&value)) out.Number(*number);
  if (const auto* truth = std::get_if<bool>(&value)) out.Number(uint8_t{*truth});
}

TagValue ReadTag(ByteReader& in) {
  switch (in.Number<uint8_t>()) {
    case 0:
      return in.Text();
    case 1:
      return in.Number<int64_t>();
    case 2:
      return in.Number<double>();
    case 3: {
      const auto truth = in.Number<uint8_t>();
      if (truth > 1) in.Fail();
      return truth != 0;
    }
    default:
      in.Fail();
      return false;
  }
}

void WriteExtension(const Document& document, ByteWriter& out) {
  out.Number(document.ttl_seconds.value_or(0));
  out.Number(static_cast<uint8_t>(document.state));
  out.Text(document.failure);
  out.Text(document.source);
  out.Number(static_cast<uint8_t>(document.tags.size()));
  for (const auto& [key, value] : document.tags) {
    out.ShortText(key);
    WriteTag(value, out);
  }
}

void ReadExtension(ByteReader& in, Document* document) {
  const auto ttl_seconds = in.Number<uint64_t>();
  if (ttl_seconds != 0) document->ttl_seconds = ttl_seconds;
  const auto state = in.Number<uint8_t>();
  if (state > static_cast<uint8_t>(DocumentState::kFailed)) in.Fail();
  document->state = static_cast<DocumentState>(state);
  document->failure = in.Text();
  document->source = in.Text();
  for (auto left = in.Number<uint8_t>(); left > 0 && in.ok(); --left) {
    std::string key = in.ShortText();
    if (!document->tags.empty() && key <= document->tags.rbegin()->first) in.Fail();
    document->tags[std::move(key)] = ReadTag(in);
  }
  if (!CheckTags(document->tags).ok() || !CheckSource(document->source).ok()) in.Fail();
}

}  // namespace

std::string EncodeDocument(const Document& document) {
  ByteWriter out;
  const uint8_t version = VersionFor(document);
  out.Number(version);
  out.Raw(document.chain_tip.view());
  out.Number(document.num_tokens);
  out.Number(document.bytes);
  out.Number(document.created_unix_micros);
  out.Text(document.model);
  out.ShortText(document.content_hash);
  if (version == kVersionWithTags) WriteExtension(document, out);
  if (version == kVersionWithTtl) out.Number(*document.ttl_seconds);
  return CloseRecord(out);
}

StatusOr<Document> DecodeDocument(const DocumentName& name, std::string_view encoded) {
  const auto damaged = [&] {
    return DataLoss("the record of document ", Describe(name),
                    " is damaged; delete and register it again");
  };
  ByteReader in = OpenRecord(encoded);
  const auto version = in.Number<uint8_t>();
  if (version > kVersionWithTags) {
    return FailedPrecondition("the record of document ", Describe(name), " has version ",
                              uint32_t{version}, "; upgrade the server");
  }
  Document document;
  document.name = name;
  document.chain_tip.bytes = in.Bytes<32>();
  document.num_tokens = in.Number<uint64_t>();
  document.bytes = in.Number<uint64_t>();
  document.created_unix_micros = in.Number<int64_t>();
  document.model = in.Text();
  document.content_hash = in.ShortText();
  if (version == kVersionWithTtl) document.ttl_seconds = in.Number<uint64_t>();
  if (version == kVersionWithTags) ReadExtension(in, &document);
  const size_t hash_bytes = document.content_hash.size();
  const bool hash_ok = hash_bytes == 0 || hash_bytes == kContentHashBytes;
  const bool ttl_ok = !document.ttl_seconds || CheckTtl(*document.ttl_seconds).ok();
  const bool version_ok = version == VersionFor(document);  // One encoding for each document.
  if (!version_ok || !in.ok() || !in.at_end() || !hash_ok || !ttl_ok) return damaged();
  return document;
}

std::string EncodeSegmentKeys(const std::vector<SegmentKey>& keys) {
  ByteWriter out;
  for (const SegmentKey& key : keys) out.Raw(key.view());
  return CloseRecord(out);
}

StatusOr<std::vector<SegmentKey>> DecodeSegmentKeys(std::string_view encoded) {
  const auto checked = VerifyTrailer(encoded);
  if (!checked || checked->bytes.size() % sizeof(SegmentKey::bytes) != 0) {
    return DataLoss("a document's list of segments is damaged; its segments stay stored");
  }
  ByteReader in(AsText(checked->bytes));
  std::vector<SegmentKey> keys(checked->bytes.size() / sizeof(SegmentKey::bytes));
  for (SegmentKey& key : keys) key.bytes = in.Bytes<32>();
  return keys;
}

}  // namespace quire::kvserver
