# SPDX-License-Identifier: Apache-2.0
# cmake -DLIBRARY=<archive> -DARCHITECTURES=<list> -P check_architectures.cmake
# Fails unless the archive has machine code for each of the architectures.
file(STRINGS ${LIBRARY} found REGEX "-arch sm_[0-9]+")
foreach(architecture IN LISTS ARCHITECTURES)
  if(NOT found MATCHES "-arch sm_${architecture}")
    message(FATAL_ERROR "${LIBRARY} has no code for sm_${architecture}; it has: ${found}")
  endif()
endforeach()
