// SPDX-License-Identifier: Apache-2.0
//
// Unit lists: the pages of each KV head, packed (docs/formats/unit-list.md). Thread-safety: pure
// functions.
#ifndef QUIRE_COMMON_WIRE_UNIT_LIST_H_
#define QUIRE_COMMON_WIRE_UNIT_LIST_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/page/page_lists.h"

namespace quire::wire {

/// Replaces `*out` by `lists`. REQUIRES: each list is ascending and distinct, with pages below
/// kEndOfUnitPages.
void EncodeUnitList(const PageLists& lists, std::string* out);

/// Decodes exactly `num_heads` lists into `*lists`. Each is ascending and distinct, with at most
/// `max_pages_per_head` pages below kEndOfUnitPages. Allocates only for the decoded pages.
/// INVALID_ARGUMENT naming the head for anything else; `*lists` has no heads then.
[[nodiscard]] Status DecodeUnitList(std::string_view bytes, uint32_t num_heads,
                                    uint32_t max_pages_per_head, PageLists* lists);

}  // namespace quire::wire

#endif  // QUIRE_COMMON_WIRE_UNIT_LIST_H_
