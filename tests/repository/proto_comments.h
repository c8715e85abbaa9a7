// SPDX-License-Identifier: Apache-2.0
//
// A check of proto files. Every service, rpc, message, enum, oneof, field and enum value has a
// comment on its line or the line above. Pure.
#ifndef QUIRE_TESTS_REPOSITORY_PROTO_COMMENTS_H_
#define QUIRE_TESTS_REPOSITORY_PROTO_COMMENTS_H_

#include <string>
#include <string_view>
#include <vector>

namespace quire::repository {

/// True if the line of a .proto file declares something that needs a comment.
bool IsDeclaration(const std::string& line);

/// The declarations without a comment, as "name:line: text".
std::vector<std::string> Undocumented(std::string_view name, const std::vector<std::string>& lines);

}  // namespace quire::repository

#endif  // QUIRE_TESTS_REPOSITORY_PROTO_COMMENTS_H_
