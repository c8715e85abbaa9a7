// SPDX-License-Identifier: Apache-2.0
#include "apps/quired/status/status_page.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <array>
#include <string>
#include <string_view>

#include "apps/quired/status/page_html.h"  // Made of page.html.

namespace quire::kvserver {
namespace {

/// The text of the only element `tag` of the page.
std::string_view InsideOf(std::string_view page, const std::string& tag) {
  const size_t begin = page.find('>', page.find("<" + tag)) + 1;
  return page.substr(begin, page.find("</" + tag + ">", begin) - begin);
}

/// How a policy names a text that may run: by its hash.
std::string HashSource(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data());
  std::array<unsigned char, 4 * ((SHA256_DIGEST_LENGTH + 2) / 3) + 1> base64{};
  const int size = EVP_EncodeBlock(base64.data(), hash.data(), hash.size());
  return "'sha256-" + std::string(base64.begin(), base64.begin() + size) + "'";
}

}  // namespace

HttpReply StatusPage() {
  const std::string page = PageHtml();
  const std::string policy = "default-src 'none'; connect-src 'self'; img-src data:; script-src " +
                             HashSource(InsideOf(page, "script")) + "; style-src " +
                             HashSource(InsideOf(page, "style")) +
                             "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
  return {.content_type = "text/html; charset=utf-8",
          .body = page,
          .headers = "Content-Security-Policy: " + policy +
                     "\r\nCross-Origin-Opener-Policy: same-origin\r\n"
                     "Cross-Origin-Resource-Policy: same-origin\r\nReferrer-Policy: no-referrer\r\n"
                     "X-Frame-Options: DENY\r\n"};
}

}  // namespace quire::kvserver
