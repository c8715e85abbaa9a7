// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/extras/extra_record.h"

#include "kvserver/store/metadata/checked_record.h"

namespace quire::kvserver {
namespace {

constexpr uint8_t kExtraFormat = 1;

Status DamagedExtra(std::string_view name) {
  return DataLoss("extra '", name, "' of the document is damaged; put it again");
}

}  // namespace

std::string EncodeExtra(const Extra& extra) {
  ByteWriter out;
  out.Number(kExtraFormat);
  out.Number(extra.version);
  out.Number(extra.size);
  out.Number(extra.crc32c);
  out.Number(extra.created_unix_micros);
  return CloseRecord(out);
}

StatusOr<Extra> DecodeExtra(std::string_view name, std::string_view encoded) {
  ByteReader in = OpenRecord(encoded);
  const bool known = in.Number<uint8_t>() == kExtraFormat;
  Extra extra{.name = std::string(name)};
  extra.version = in.Number<uint32_t>();
  extra.size = in.Number<uint64_t>();
  extra.crc32c = in.Number<uint32_t>();
  extra.created_unix_micros = in.Number<int64_t>();
  if (known && in.ok() && in.at_end()) return extra;
  return DamagedExtra(name);
}

std::string EncodeExtraBytes(std::string_view bytes) {
  ByteWriter out;
  out.Raw(bytes);
  return CloseRecord(out);
}

StatusOr<std::string> DecodeExtraBytes(std::string_view name, std::string_view encoded) {
  const auto checked = VerifyTrailer(encoded);
  if (!checked) return DamagedExtra(name);
  return std::string(AsText(checked->bytes));
}

}  // namespace quire::kvserver
