// SPDX-License-Identifier: Apache-2.0
//
// Names of kernels and of their static shared arrays, from the running program's symbol table.
// Without one (a stripped program) there are none, and kernels are named by address.
#ifndef QUIRE_KERNELS_SIMT_SYMBOLS_H_
#define QUIRE_KERNELS_SIMT_SYMBOLS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace quire::simt {

/// The function that starts at this address.
std::string FunctionName(const void* function);

/// "program+0x1234", as addr2line takes it.
std::string CodeName(const void* address);
/// Whether the address is in a part of the program that it may not write.
bool IsProgramConstant(uintptr_t address);

/// A static array within a function of quire::kernels::cuda.
struct SharedArray {
  uintptr_t begin;
  size_t bytes;
  std::string name;  ///< "BlockReduce<...>(...)::parts"
};
/// By address.
const std::vector<SharedArray>& SharedArrays();

}  // namespace quire::simt

#endif  // QUIRE_KERNELS_SIMT_SYMBOLS_H_
