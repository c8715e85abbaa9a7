// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the directory's records: the first line is a key, and the rest is its value. A name that
// comes of it is written and read again as the same name.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cluster/directory/directory_records.h"
#include "common/documents/agreed_changes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;
  using namespace quire::cluster;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(input.find('\n'), input.size());
  const std::string_view record = input.substr(std::min(line + 1, input.size()));
  (void)ParseTenantRecord("t", record);
  (void)ParseCollectionRecord(input.substr(0, line), record);
  const auto key = ParseDirectoryKey(input.substr(0, line));
  if (!key) return 0;
  if (DirectoryKeyText(key->tenant, key->name) != input.substr(0, line)) std::abort();
  const auto name = ParseDirectoryRecord(*key, record);
  if (!name.ok()) return 0;
  const auto written = DirectoryRecord(*name);
  if (!written.ok()) return 0;  // Too long for etcd.
  const auto again = ParseDirectoryRecord(*key, *written);
  if (!again.ok() || !SaysTheSame(*name, *again)) std::abort();
  for (const Document& version : name->versions) {
    if (version.is_latest != (version.name.version == name->latest)) std::abort();
  }
  return 0;
}
