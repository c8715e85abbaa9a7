# SPDX-License-Identifier: Apache-2.0
# Build options and the warning and sanitizer flags that every target of ours gets.
# The parts that are built. The client library always is. A project that adds Quire as a subdirectory gets no more
# unless it asks for more.
foreach(part SERVER WORKER APPS BENCH TESTS)
  option(QUIRE_BUILD_${part} "Build this part, too (cmake/Options.cmake)" ${PROJECT_IS_TOP_LEVEL})
endforeach()
# quire_needs(PART OTHER...): PART is built with all of the others or not at all.
function(quire_needs part)
  foreach(other IN LISTS ARGN)
    if(QUIRE_BUILD_${part} AND NOT QUIRE_BUILD_${other})
      message(FATAL_ERROR "QUIRE_BUILD_${part} needs QUIRE_BUILD_${other}: set both ON, or both OFF")
    endif()
  endforeach()
endfunction()
quire_needs(APPS SERVER WORKER)
quire_needs(BENCH APPS)
quire_needs(TESTS BENCH)

set(QUIRE_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them (address,undefined or thread)")
option(QUIRE_FUZZ "With QUIRE_SANITIZE: build the libFuzzer targets too (clang only)" OFF)
set(QUIRE_CUDA AUTO CACHE STRING "Compile the CUDA kernels: AUTO (when nvcc is found), ON or OFF")
set(python AUTO)
if(NOT PROJECT_IS_TOP_LEVEL)
  set(python OFF)
endif()
set(QUIRE_PYTHON ${python} CACHE STRING "Build the Python package: AUTO (when nanobind is found), ON or OFF")
set(QUIRE_WITH_UCX AUTO CACHE STRING "Build the UCX pipe: AUTO (when UCX is found), ON or OFF")

find_program(QUIRE_CCACHE ccache)
if(QUIRE_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${QUIRE_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${QUIRE_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${QUIRE_CCACHE})
endif()

option(QUIRE_UNITY "Compile the files of a target together, which takes a fifth less time" ON)
if(QUIRE_UNITY)
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 40)
endif()
option(QUIRE_PCH "Read libraries' headers in compiled form (cmake/QuireTargets.cmake)" ON)
# Compiles executables as libraries, so that both use the same precompiled headers.
set(CMAKE_CXX_COMPILE_OPTIONS_PIE ${CMAKE_CXX_COMPILE_OPTIONS_PIC})
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-pthread>)
if(QUIRE_PCH AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess;-Winvalid-pch>")  # ccache requires the first.
elseif(QUIRE_PCH)
  # A header from the cache has a new time stamp.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
endif()

find_program(QUIRE_LLD ld.lld)  # Links eight times as fast as GNU ld.
if(QUIRE_LLD)
  add_link_options(-fuse-ld=lld)
endif()

option(QUIRE_WERROR "Warnings are errors; OFF for compilers that this was not tried with" ${PROJECT_IS_TOP_LEVEL})
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra>)
if(QUIRE_WERROR)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wthread-safety>)
else()
  if(QUIRE_UNITY)
    # Silences warnings on types in unnamed namespaces. GCC attributes them to a header in files that are
    # compiled together.
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  endif()
  # GCC 12 reports overlapping copies in std::string's operator+ that do not exist (GCC bug 105651). With
  # precompiled headers it also reports excessive sizes in its resize and append. It does not see that intrinsics of
  # AVX-512 initialize an array.
  add_compile_options(
    "$<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict;-Wno-stringop-overflow;-Wno-array-bounds;-Wno-maybe-uninitialized>")
endif()
if(QUIRE_SANITIZE)
  add_compile_options(-fsanitize=${QUIRE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  # Programs at a fixed address need no relocations, which are a fifth of their size and half of the time to start.
  add_link_options(-fsanitize=${QUIRE_SANITIZE} -no-pie)
  if(QUIRE_SANITIZE MATCHES "undefined")
    # A null pointer ends a program without a check before each use, and the others are dear to compile.
    add_compile_options(-fno-sanitize=null,object-size,vptr)
  endif()
endif()
