# SPDX-License-Identifier: Apache-2.0
#
# quire_library(NAME <dir_name> [SRCS ...] [DEPS ...] [EXTERNAL ...])
# quire_test(NAME <name> SRCS ... [DEPS ...] [LABELS unit|integration|e2e] [TIMEOUT s])
# quire_binary(NAME <name> SRCS ... [DEPS ...] [EXTERNAL ...])
#
# DEPS names targets of ours, without the prefix; EXTERNAL names targets of libraries. A library's
# layer is the first folder of its path (for kvserver the first two). DEPS outside what
# cmake/Layers.cmake allows for that layer stop the configure step: the layering is a build error,
# not a convention.
include(Layers)

function(_quire_link target)
  cmake_parse_arguments(A "" "" "DEPS;EXTERNAL" ${ARGN})
  foreach(dep IN LISTS A_DEPS)
    quire_check_layer(${target} ${dep})
    list(APPEND libs quire::${dep})
  endforeach()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "INTERFACE_LIBRARY")
    target_link_libraries(${target} INTERFACE ${libs} ${A_EXTERNAL})
  else()
    target_link_libraries(${target} PUBLIC ${libs} ${A_EXTERNAL})
  endif()
endfunction()

function(quire_library)
  cmake_parse_arguments(A "" "NAME" "SRCS;DEPS;EXTERNAL" ${ARGN})
  set(target quire_${A_NAME})
  if(A_SRCS)
    add_library(${target} STATIC ${A_SRCS})
    target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
    # Optimising instrumented code takes twice the time of compiling it. What computes for long gives that back.
    if(QUIRE_SANITIZE AND QUIRE_LAYER MATCHES "^(kernels|gpuworker)$")
      target_compile_options(${target} PRIVATE -O1)
    endif()
  else()
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE ${PROJECT_SOURCE_DIR})
  endif()
  add_library(quire::${A_NAME} ALIAS ${target})
  set_property(GLOBAL PROPERTY QUIRE_LAYER_${A_NAME} ${QUIRE_LAYER})
  _quire_link(${target} DEPS ${A_DEPS} EXTERNAL ${A_EXTERNAL})
endfunction()

function(quire_binary)
  cmake_parse_arguments(A "" "NAME" "SRCS;DEPS;EXTERNAL" ${ARGN})
  add_executable(${A_NAME} ${A_SRCS})
  target_include_directories(${A_NAME} PRIVATE ${PROJECT_SOURCE_DIR})
  set_target_properties(${A_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  _quire_link(${A_NAME} DEPS ${A_DEPS} EXTERNAL ${A_EXTERNAL})
endfunction()

function(quire_test)
  cmake_parse_arguments(A "" "NAME;TIMEOUT" "SRCS;DEPS;EXTERNAL;LABELS" ${ARGN})
  if(NOT A_LABELS)
    set(A_LABELS unit)
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 300)
  endif()
  add_executable(${A_NAME} ${A_SRCS})
  # tests/kit/paths.h is generated.
  target_include_directories(${A_NAME} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/gen)
  set_target_properties(${A_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  # Optimising assertions takes most of the time of a build.
  target_compile_options(${A_NAME} PRIVATE $<$<CONFIG:Release>:-O1>)
  _quire_link(${A_NAME} DEPS ${A_DEPS} EXTERNAL ${A_EXTERNAL} GTest::gmock GTest::gtest_main)
  add_test(NAME ${A_NAME} COMMAND ${A_NAME})
  foreach(label ${A_LABELS})
    if(NOT TARGET ${label}_tests)
      add_custom_target(${label}_tests)
    endif()
    add_dependencies(${label}_tests ${A_NAME})
  endforeach()
  set_tests_properties(${A_NAME} PROPERTIES LABELS "${A_LABELS}" TIMEOUT ${A_TIMEOUT}
    ENVIRONMENT "TSAN_OPTIONS=ignore_noninstrumented_modules=1 halt_on_error=1 suppressions=${PROJECT_SOURCE_DIR}/cmake/tsan_suppressions.txt;LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/lsan_suppressions.txt:print_suppressions=0;OPENBLAS_NUM_THREADS=1")
endfunction()
