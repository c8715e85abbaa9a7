// SPDX-License-Identifier: Apache-2.0
//
// Names of kernels and of their static shared arrays, from the running program's symbol table. A
// stripped program has none, and kernels are then named by address.
#ifndef QUIRE_KERNELS_SIMT_SYMBOLS_H_
#define QUIRE_KERNELS_SIMT_SYMBOLS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace quire::simt {

/// The function that starts at this address.
std::string FunctionName(const void* function);

/// The address as addr2line takes it: "program+0x1234".
std::string CodeName(const void* address);
/// True if the address is in a part of the program that is read-only.
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
