// SPDX-License-Identifier: Apache-2.0
//
// Encodings: accepts UTF-8 text and refuses all other bytes by name and offset. Pure; thread-safe.
#ifndef QUIRE_APPS_READING_ENCODING_H_
#define QUIRE_APPS_READING_ENCODING_H_

#include <string_view>

#include "quire/status.h"

namespace quire::cli {

/// Text of a file, without its byte order mark. INVALID_ARGUMENT names the format or encoding that
/// was found, the offset of the offending byte, and a remedy.
StatusOr<std::string_view> TextOfBytes(std::string_view bytes);

}  // namespace quire::cli

#endif  // QUIRE_APPS_READING_ENCODING_H_
