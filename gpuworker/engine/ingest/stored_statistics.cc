// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/ingest/stored_statistics.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "gpuworker/context/statistics/statistics_record.h"
#include "quire/payload.h"

namespace quire::worker {

namespace {

Status Put(Client* client, const DocumentName& document, std::string_view extra, uint32_t version,
           const std::string& bytes) {
  const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
  Payload payload;
  payload.Append(std::vector<std::byte>(begin, begin + bytes.size()));
  return client->PutExtra(document, extra, version, payload).status();
}

StatusOr<std::string> Get(Client* client, const DocumentName& document, std::string_view name) {
  QUIRE_ASSIGN_OR_RETURN(const auto extra, client->GetExtra(document, name));
  std::string bytes(extra.payload.size_bytes(), '\0');
  extra.payload.CopyTo(reinterpret_cast<std::byte*>(bytes.data()));
  return bytes;
}

}  // namespace

Status PutStatistics(Client* client, const DocumentName& document,
                     const DocumentStatistics& statistics) {
  QUIRE_RETURN_IF_ERROR(Put(client, document, kRepresentativesExtra, kRepresentativesVersion,
                            EncodeRepresentatives(statistics)));
  return Put(client, document, kStatisticsExtra, kStatisticsVersion, EncodeStatistics(statistics));
}

StatusOr<DocumentStatistics> GetStatistics(Client* client, const DocumentName& document,
                                           const SamKvShape& shape, uint64_t tokens,
                                           bool representatives) {
  QUIRE_ASSIGN_OR_RETURN(const std::string bytes, Get(client, document, kStatisticsExtra));
  QUIRE_ASSIGN_OR_RETURN(DocumentStatistics statistics, DecodeStatistics(bytes, shape, tokens));
  if (!representatives) return statistics;
  QUIRE_ASSIGN_OR_RETURN(const std::string keys, Get(client, document, kRepresentativesExtra));
  QUIRE_RETURN_IF_ERROR(DecodeRepresentatives(keys, shape, &statistics));
  return statistics;
}

StatusOr<DocumentStatistics> AsStored(const DocumentStatistics& statistics,
                                      const SamKvShape& shape) {
  QUIRE_ASSIGN_OR_RETURN(
      DocumentStatistics stored,
      DecodeStatistics(EncodeStatistics(statistics), shape, statistics.split.tokens));
  QUIRE_RETURN_IF_ERROR(DecodeRepresentatives(EncodeRepresentatives(statistics), shape, &stored));
  return stored;
}

}  // namespace quire::worker
