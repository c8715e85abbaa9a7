// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/document_record.h"

#include "kvserver/registry/document_keys.h"
#include "kvserver/store/byte_codec.h"
#include "kvserver/store/metadata/checked_value.h"

namespace quire::kvserver {
namespace {

constexpr uint8_t kVersionWithTtl = 2;
constexpr uint8_t kVersionWithoutTtl = 1;

std::string Seal(ByteWriter& out) {
  out.Raw(AsText(EncodeTrailer(Crc32c(AsBytes(out.bytes())))));
  return out.Take();
}

}  // namespace

std::string EncodeDocument(const Document& document) {
  ByteWriter out;
  out.Number(document.ttl_seconds ? kVersionWithTtl : kVersionWithoutTtl);
  out.Raw(document.chain_tip.view());
  out.Number(document.num_tokens);
  out.Number(document.bytes);
  out.Number(document.created_unix_micros);
  out.Text(document.model);
  out.ShortText(document.content_hash);
  if (document.ttl_seconds) out.Number(*document.ttl_seconds);
  return Seal(out);
}

StatusOr<Document> DecodeDocument(const DocumentName& name, std::string_view encoded) {
  const auto damaged = [&] {
    return DataLoss("the record of document ", Describe(name),
                    " is damaged; delete and register it again");
  };
  const auto checked = VerifyTrailer(encoded);
  if (!checked) return damaged();
  ByteReader in(AsText(checked->bytes));
  const auto version = in.Number<uint8_t>();
  if (version > kVersionWithTtl) {
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
  const size_t hash_bytes = document.content_hash.size();
  const bool hash_ok = hash_bytes == 0 || hash_bytes == kContentHashBytes;
  const bool ttl_ok = !document.ttl_seconds || CheckTtl(*document.ttl_seconds).ok();
  if (version == 0 || !in.ok() || !in.at_end() || !hash_ok || !ttl_ok) return damaged();
  return document;
}

std::string EncodeSegmentKeys(const std::vector<SegmentKey>& keys) {
  ByteWriter out;
  for (const SegmentKey& key : keys) out.Raw(key.view());
  return Seal(out);
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
