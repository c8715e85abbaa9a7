// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/rows/latest_version.h"

#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/store/metadata/checked_record.h"

namespace quire::kvserver {
namespace {

constexpr uint8_t kLatestFormat = 1;
constexpr uint8_t kLatestFormatWithRevision = 2;

}  // namespace

std::string EncodeLatest(const LatestVersion& latest) {
  ByteWriter out;
  out.Number(latest.revision == 0 ? kLatestFormat : kLatestFormatWithRevision);
  out.Number(latest.latest);
  out.Number(latest.highest);
  if (latest.revision != 0) out.Number(latest.revision);
  return CloseRecord(out);
}

StatusOr<LatestVersion> DecodeLatest(const DocumentName& name, std::string_view encoded) {
  ByteReader in = OpenRecord(encoded);
  const auto format = in.Number<uint8_t>();
  LatestVersion latest;
  latest.latest = in.Number<uint64_t>();
  latest.highest = in.Number<uint64_t>();
  if (format == kLatestFormatWithRevision) latest.revision = in.Number<uint64_t>();
  // One encoding for each row.
  const bool known = format == (latest.revision == 0 ? kLatestFormat : kLatestFormatWithRevision);
  if (known && in.ok() && in.at_end() && latest.latest <= latest.highest) return latest;
  return DataLoss("the row of the latest version of ", Describe(name),
                  " is damaged; set the latest version again");
}

}  // namespace quire::kvserver
