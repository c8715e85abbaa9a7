// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/listing/page_token.h"

namespace quire::kvserver {
namespace {

constexpr uint32_t kDefaultPageSize = 100;
constexpr uint32_t kMaxPageSize = 1000;
constexpr std::string_view kDigits = "0123456789abcdef";

}  // namespace

std::string EncodePageToken(std::string_view key) {
  std::string out;
  for (const char c : key) {
    out.push_back(kDigits[static_cast<unsigned char>(c) >> 4]);
    out.push_back(kDigits[c & 15]);
  }
  return out;
}

StatusOr<std::string> DecodePageToken(std::string_view token, std::string_view prefix) {
  std::string key;
  for (size_t i = 0; i + 1 < token.size(); i += 2) {
    const size_t high = kDigits.find(token[i]), low = kDigits.find(token[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) break;
    key.push_back(static_cast<char>(high << 4 | low));
  }
  if (token.size() != 2 * key.size() || (!key.empty() && !key.starts_with(prefix))) {
    return InvalidArgument("the page token is not one of this listing; start without one");
  }
  return key;
}

StatusOr<uint32_t> CheckPageSize(uint32_t page_size) {
  if (page_size > kMaxPageSize) {
    return InvalidArgument("page_size is ", page_size, ", must be at most ", kMaxPageSize);
  }
  return page_size == 0 ? kDefaultPageSize : page_size;
}

}  // namespace quire::kvserver
