// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/ingest/stored_statistics.h"

#include <cstddef>
#include <string>
#include <vector>

#include "gpuworker/context/statistics_record.h"
#include "quire/payload.h"

namespace quire::worker {

Status PutStatistics(Client* client, const DocumentName& document,
                     const DocumentStatistics& statistics) {
  const std::string bytes = EncodeStatistics(statistics);
  const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
  Payload payload;
  payload.Append(std::vector<std::byte>(begin, begin + bytes.size()));
  return client->PutExtra(document, kStatisticsExtra, kStatisticsVersion, payload).status();
}

StatusOr<DocumentStatistics> GetStatistics(Client* client, const DocumentName& document,
                                           const SamKvShape& shape, uint64_t tokens) {
  QUIRE_ASSIGN_OR_RETURN(const auto extra, client->GetExtra(document, kStatisticsExtra));
  std::string bytes(extra.payload.size_bytes(), '\0');
  extra.payload.CopyTo(reinterpret_cast<std::byte*>(bytes.data()));
  return DecodeStatistics(bytes, shape, tokens);
}

}  // namespace quire::worker
