// SPDX-License-Identifier: Apache-2.0
//
// The version of the library that these headers belong to. CMake reads it from here.
#ifndef QUIRE_VERSION_H_
#define QUIRE_VERSION_H_

#define QUIRE_VERSION_MAJOR 0
#define QUIRE_VERSION_MINOR 1
#define QUIRE_VERSION_PATCH 0
#define QUIRE_VERSION "0.1.0"

#endif  // QUIRE_VERSION_H_
