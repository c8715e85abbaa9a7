// SPDX-License-Identifier: Apache-2.0
//
// WaitToLookAgain: what a test does between two looks at what it waits for. A yield would keep a
// processor busy, which the other side, or another test, needs.
#ifndef QUIRE_TESTS_KIT_LOOK_AGAIN_H_
#define QUIRE_TESTS_KIT_LOOK_AGAIN_H_

#include <chrono>
#include <thread>

namespace quire::testing {

inline void WaitToLookAgain() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

}  // namespace quire::testing

#endif  // QUIRE_TESTS_KIT_LOOK_AGAIN_H_
