// SPDX-License-Identifier: Apache-2.0
//
// Token ids on the command line, for models whose tokenizer is somewhere else.
#ifndef QUIRE_APPS_KIT_TOKEN_IDS_H_
#define QUIRE_APPS_KIT_TOKEN_IDS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/page/key.h"

namespace quire::cli {

/// Ids of `text`, separated by commas, spaces or line ends. INVALID_ARGUMENT, naming the first word
/// that is no id, or when there is none; which ids exist is the model's to say.
StatusOr<std::vector<TokenId>> ParseTokenIds(std::string_view text);

/// The same for what an option was given: ids, or @FILE with ids in it. Errors name the file.
StatusOr<std::vector<TokenId>> ReadTokenIds(const std::string& argument);

/// "3 5 8".
std::string FormatTokenIds(std::span<const TokenId> ids);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_TOKEN_IDS_H_
