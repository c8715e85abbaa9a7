// SPDX-License-Identifier: Apache-2.0
//
// Effort: how much of a long test a build runs. Instrumented code is many times slower, and every
// path of a repeated test runs there, too.
#ifndef QUIRE_TESTS_KIT_EFFORT_H_
#define QUIRE_TESTS_KIT_EFFORT_H_

namespace quire::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

/// `plain`, or `sanitized` in a build with a sanitizer.
template <typename T>
constexpr T Effort(T plain, T sanitized) {
  return kSanitized ? sanitized : plain;
}

}  // namespace quire::testing

#endif  // QUIRE_TESTS_KIT_EFFORT_H_
