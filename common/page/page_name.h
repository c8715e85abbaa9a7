// SPDX-License-Identifier: Apache-2.0
//
// Names of pages in a sequence that reads several contexts (its members). A name is one number for
// member and page. Names order by member, then page. Header-only, plain C++.
#ifndef QUIRE_COMMON_PAGE_PAGE_NAME_H_
#define QUIRE_COMMON_PAGE_PAGE_NAME_H_

#include <cstdint>

namespace quire {

/// A name is member << kMemberShift | page of that member's context.
inline constexpr uint32_t kMemberShift = 24;

constexpr uint32_t PageName(uint32_t member, uint32_t page) {
  return member << kMemberShift | page;
}
constexpr uint32_t MemberOf(uint32_t name) { return name >> kMemberShift; }
/// The page within its member's context.
constexpr uint32_t PageOf(uint32_t name) { return name & ((1u << kMemberShift) - 1); }

}  // namespace quire

#endif  // QUIRE_COMMON_PAGE_PAGE_NAME_H_
