// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/server_options.h"

#include <algorithm>

#include "common/wire/convert.h"
#include "kvserver/store/codec/codec.h"
#include "kvserver/store/policy/eviction/eviction_factory.h"

namespace quire::kvserver {
namespace {

constexpr uint64_t kFewestMessageBytes = uint64_t{64} << 10;

Status CheckRange(std::string_view option, uint64_t value, uint64_t low, uint64_t high) {
  if (value >= low && value <= high) return OkStatus();
  return InvalidArgument(option, " is ", value, ": must be ", low, "..", high);
}

Status CheckQuotas(std::string_view option, const TenantBytes& quotas,
                   const std::vector<std::string>& tenants) {
  for (const auto& [tenant, bytes] : quotas) {
    if (std::ranges::find(tenants, tenant) == tenants.end()) {
      return InvalidArgument(option, ": no tenant '", tenant, "'; add it to --tenants");
    }
    if (bytes == 0) {
      return InvalidArgument(option, " ", tenant, "=0: must be 1 byte or more; a tenant that may ",
                             "have nothing is left out of --tenants");
    }
  }
  return OkStatus();
}

}  // namespace

uint64_t ServerOptions::max_memory_bytes() const {
  const PageStore::Options store;
  double bytes = static_cast<double>(dram_bytes) + static_cast<double>(digest_bytes) +
                 static_cast<double>(context_bytes) * static_cast<double>(tenants.size());
  bytes += static_cast<double>(store.catalog_cache_bytes + store.digest_cache_bytes +
                               store.extent_cache_bytes);
  constexpr auto kMost = static_cast<double>(uint64_t{1} << 63);
  return static_cast<uint64_t>(std::min(bytes, kMost));
}

Status ServerOptions::Validate() const {
  if (data_dir.empty()) {
    return InvalidArgument("no data directory: name one with --data-dir PATH");
  }
  if (tenants.empty()) return InvalidArgument("no tenants: name at least one with --tenants");
  for (const std::string& tenant : tenants) {
    QUIRE_RETURN_IF_ERROR(Annotate(wire::CheckTenantName(tenant), "--tenants '", tenant, "'"));
  }
  QUIRE_RETURN_IF_ERROR(Annotate(CodecByName(default_codec).status(), "--default-codec"));
  QUIRE_RETURN_IF_ERROR(CheckQuotas("--tenant-dram-quota", tenant_dram_quota_bytes, tenants));
  QUIRE_RETURN_IF_ERROR(CheckQuotas("--tenant-ssd-quota", tenant_ssd_quota_bytes, tenants));
  QUIRE_RETURN_IF_ERROR(CheckRange("--max-message-bytes", max_message_bytes, kFewestMessageBytes,
                                   wire::kLargestMaxMessageBytes));
  QUIRE_RETURN_IF_ERROR(Annotate(MakeEvictionPolicy(eviction_policy).status(), "--eviction"));
  QUIRE_RETURN_IF_ERROR(CheckRange("--promote-after-touches", promote_after_touches, 1, 1000000));
  if (!(dram_low_watermark > 0 && dram_low_watermark <= dram_high_watermark &&
        dram_high_watermark <= 1)) {
    return InvalidArgument("--dram-low-watermark is ", dram_low_watermark,
                           " and --dram-high-watermark ", dram_high_watermark,
                           ": must be 0 < low <= high <= 1");
  }
  if (tenant_digest_bytes > digest_bytes) {
    return InvalidArgument("--tenant-digest-bytes is ", tenant_digest_bytes,
                           ": must be at most --digest-bytes, ", digest_bytes);
  }
  QUIRE_RETURN_IF_ERROR(CheckRange("--cached-ttl", cached_ttl_seconds, 0, 10ull * 365 * 24 * 3600));
  QUIRE_RETURN_IF_ERROR(CheckRange("--max-sessions", max_sessions, 1, 1000000));
  QUIRE_RETURN_IF_ERROR(CheckRange("--max-contexts", max_contexts, 1, 1000000));
  QUIRE_RETURN_IF_ERROR(CheckRange("--max-concurrent-calls", max_concurrent_calls, 16, 4096));
  QUIRE_RETURN_IF_ERROR(
      CheckRange("--max-queued-calls-per-tenant", max_queued_calls_per_tenant, 1, 4096));
  QUIRE_RETURN_IF_ERROR(CheckRange("--max-connections", max_connections, 1, 100000));
  QUIRE_RETURN_IF_ERROR(
      CheckRange("--max-connections-per-tenant", max_connections_per_tenant, 1, 100000));
  QUIRE_RETURN_IF_ERROR(CheckRange("--stall-seconds", stall_seconds, 1, 3600));
  QUIRE_RETURN_IF_ERROR(CheckRange("--lease-seconds", lease_seconds, 1, 24 * 3600));
  return CheckRange("--idle-seconds", idle_seconds, 1, 30 * 24 * 3600);
}

}  // namespace quire::kvserver
