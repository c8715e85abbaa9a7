// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/rows/latest_version.h"

#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/store/metadata/checked_record.h"

namespace quire::kvserver {
namespace {

constexpr uint8_t kLatestFormat = 1;

}  // namespace

std::string EncodeLatest(const LatestVersion& latest) {
  ByteWriter out;
  out.Number(kLatestFormat);
  out.Number(latest.latest);
  out.Number(latest.highest);
  return CloseRecord(out);
}

StatusOr<LatestVersion> DecodeLatest(const DocumentName& name, std::string_view encoded) {
  ByteReader in = OpenRecord(encoded);
  const bool known = in.Number<uint8_t>() == kLatestFormat;
  LatestVersion latest;
  latest.latest = in.Number<uint64_t>();
  latest.highest = in.Number<uint64_t>();
  if (known && in.ok() && in.at_end() && latest.latest <= latest.highest) return latest;
  return DataLoss("the row of the latest version of ", Describe(name),
                  " is damaged; set the latest version again");
}

}  // namespace quire::kvserver
