// SPDX-License-Identifier: Apache-2.0
//
// Checked records: fields of a ByteWriter in the frame of a checked value. Pure functions.
#ifndef QUIRE_KVSERVER_STORE_METADATA_CHECKED_RECORD_H_
#define QUIRE_KVSERVER_STORE_METADATA_CHECKED_RECORD_H_

#include <string>
#include <string_view>

#include "common/base/memory/checksum.h"
#include "kvserver/store/byte_codec.h"
#include "kvserver/store/metadata/checked_value.h"

namespace quire::kvserver {

/// The fields and their trailer. Leaves `fields` empty.
[[nodiscard]] inline std::string CloseRecord(ByteWriter& fields) {
  fields.Raw(AsText(EncodeTrailer(Crc32c(AsBytes(fields.bytes())))));
  return fields.Take();
}

/// A reader of the fields. It has failed when they do not match their trailer, and then reads only
/// zeros. `record` outlives it.
[[nodiscard]] inline ByteReader OpenRecord(std::string_view record) {
  const auto checked = VerifyTrailer(record);
  ByteReader fields(checked ? AsText(checked->bytes) : std::string_view());
  if (!checked) fields.Fail();
  return fields;
}

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_METADATA_CHECKED_RECORD_H_
