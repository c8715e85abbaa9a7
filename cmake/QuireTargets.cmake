# SPDX-License-Identifier: Apache-2.0
#
# quire_library(NAME <dir_name> [SRCS ...] [DEPS ...] [EXTERNAL ...] [PUBLIC_HEADERS ...])
# quire_test([ONE_THREAD] [WAITS] NAME <name> SRCS ... [DEPS ...] [STARTS program ...] [TIMEOUT s]
#            [LABELS unit|integration|process|e2e] [SHARDS n])
# quire_proto_library(NAME <name> PROTOS ...): generated messages (X.pb.h) and services (X.grpc.pb.h), which are
# included by their paths below the calling folder
# quire_test_library(NAME <name> SRCS ... [DEPS ...]): fakes and suites of several tests, compiled once
# quire_binary([FOR_TESTS] NAME <name> SRCS ... [DEPS ...] [EXTERNAL ...])
#
# PUBLIC_HEADERS are files of include/quire that the library implements; they are installed with it.
# FOR_TESTS marks programs that only tests start; STARTS names them. Without QUIRE_BUILD_TESTS neither is built.
# GLUE marks what only parses arguments and prints: it is optimised little, since optimising CLI11, whose objects
# every file that reads the header defines anew, takes most of the time of compiling one.
#
# ONE_THREAD marks tests of code with one thread: ThreadSanitizer skips them.
# WAITS marks tests that mostly wait for deadlines and other processes: two of them run in the place of one.
# SHARDS splits the cases of a test over that many processes, <name>_1 and so on.
#
# DEPS names targets of ours, without the prefix; EXTERNAL names targets of libraries. A library's layer
# is the first folder of its path (for kvserver the first two). DEPS that cmake/Layers.cmake forbids for
# that layer stop the configure step: the layering is a build error, not a convention.
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

# _quire_precompile(TARGET KIND [OPTION...]): precompiles the headers that nearly all targets of a kind
# include. KIND is `core` (libraries and programs), `glue` or `test`. OPTIONs are those of TARGET that the
# compiler must see again. Each combination is compiled once for the whole build. Our own headers are
# excluded: each change of one would recompile everything. Headers with few users are too. Each file pays
# for the templates and objects of a precompiled header, for CLI11 two to five seconds.
set(QUIRE_PRECOMPILED_core
  <algorithm> <array> <atomic> <chrono> <cstddef> <cstdint> <functional> <map> <memory> <optional> <span>
  <sstream> <string> <string_view> <tuple> <unordered_map> <utility> <vector>)
set(QUIRE_PRECOMPILED_glue ${QUIRE_PRECOMPILED_core} <iostream> <CLI/CLI.hpp> <nlohmann/json.hpp>)
set(QUIRE_PRECOMPILED_test ${QUIRE_PRECOMPILED_core} <gmock/gmock.h> <gtest/gtest.h>)

function(_quire_precompile target kind)
  if(NOT QUIRE_PCH OR QUIRE_LAYER STREQUAL "kernels")  # Kernels need only a compiler.
    return()
  endif()
  string(MAKE_C_IDENTIFIER "quire_precompiled_${kind}${ARGN}" precompiled)
  if(NOT TARGET ${precompiled})
    file(WRITE ${PROJECT_BINARY_DIR}/gen/precompiled.cc "// Gives the compiled headers a target.\n")
    add_library(${precompiled} OBJECT ${PROJECT_BINARY_DIR}/gen/precompiled.cc)
    set(libraries Threads::Threads)
    if(kind STREQUAL "test")
      list(APPEND libraries GTest::gmock GTest::gtest)
    endif()
    target_link_libraries(${precompiled} PRIVATE ${libraries})
    target_compile_options(${precompiled} PRIVATE ${ARGN})
    target_precompile_headers(${precompiled} PRIVATE ${QUIRE_PRECOMPILED_${kind}})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${precompiled})
endfunction()

# Options of code that is not worth optimising. Glue is optimised a little: the linker may take its copy
# of an inline function for other code, too.
set(QUIRE_TEST_OPTIMISATION)
set(QUIRE_GLUE_OPTIMISATION)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(QUIRE_TEST_OPTIMISATION -O0)
  set(QUIRE_GLUE_OPTIMISATION -O1)
endif()

# Flags and include directories of test code. Optimising and instrumenting assertions takes most of the
# build time. Tests are therefore checked for memory and thread errors only. Undefined behaviour and line tables
# are limited to the tested code.
function(_quire_compile_as_test target)
  # tests/kit/paths.h is generated.
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/gen)
  set(options ${QUIRE_TEST_OPTIMISATION})
  if(QUIRE_SANITIZE)
    list(APPEND options -fno-sanitize=undefined -g0)
  endif()
  target_compile_options(${target} PRIVATE ${options})
  _quire_precompile(${target} test ${options})
endfunction()

# GLUE: code that is not worth optimising. COMPUTES: tests spend their time in it, so that instrumented builds optimise it.
function(quire_library)
  cmake_parse_arguments(A "GLUE;COMPUTES" "NAME" "SRCS;DEPS;EXTERNAL;PUBLIC_HEADERS" ${ARGN})
  set(target quire_${A_NAME})
  if(A_SRCS)
    add_library(${target} STATIC ${A_SRCS})
    set(visibility PUBLIC)
    set(options)
    # Optimising instrumented code doubles its compile time. Only long computations regain that.
    if(QUIRE_SANITIZE AND (A_COMPUTES OR QUIRE_LAYER STREQUAL "kernels"))
      set(options -O1)
    endif()
    set(kind core)
    if(A_GLUE)
      set(kind glue)
      list(APPEND options ${QUIRE_GLUE_OPTIMISATION})
    endif()
    target_compile_options(${target} PRIVATE ${options})
    _quire_precompile(${target} ${kind} ${options})
  else()
    add_library(${target} INTERFACE)
    set(visibility INTERFACE)
  endif()
  target_include_directories(${target} ${visibility}
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  target_compile_features(${target} ${visibility} cxx_std_20)
  if(A_PUBLIC_HEADERS)
    list(TRANSFORM A_PUBLIC_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/include/quire/)
    target_sources(${target} ${visibility} FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include
      FILES ${A_PUBLIC_HEADERS})
  endif()
  add_library(quire::${A_NAME} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${A_NAME})
  set_property(GLOBAL PROPERTY QUIRE_DEPS_${A_NAME} ${A_DEPS})
  set_property(GLOBAL PROPERTY QUIRE_LAYER_${A_NAME} ${QUIRE_LAYER})
  _quire_link(${target} DEPS ${A_DEPS} EXTERNAL ${A_EXTERNAL})
endfunction()

function(quire_proto_library)
  cmake_parse_arguments(A "" "NAME" "PROTOS" ${ARGN})
  set(target quire_${A_NAME})
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/gen)
  file(MAKE_DIRECTORY ${generated})
  add_library(${target} STATIC ${A_PROTOS})
  add_library(quire::${A_NAME} ALIAS ${target})
  set_property(GLOBAL PROPERTY QUIRE_LAYER_${A_NAME} ${QUIRE_LAYER})
  set_property(GLOBAL PROPERTY QUIRE_DEPS_${A_NAME} "")
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${A_NAME})
  target_include_directories(${target} SYSTEM PUBLIC $<BUILD_INTERFACE:${generated}>)
  # Generated code is not instrumented, as in the libraries that it calls. All sanitizers thus share its objects in the
  # compiler's cache.
  get_target_property(options ${target} COMPILE_OPTIONS)
  list(FILTER options EXCLUDE REGEX sanitize)
  set_target_properties(${target} PROPERTIES COMPILE_OPTIONS "${options}")
  target_compile_options(${target} PRIVATE -w -g0)
  target_link_libraries(${target} PUBLIC gRPC::grpc++ protobuf::libprotobuf)
  protobuf_generate(TARGET ${target} LANGUAGE cpp PROTOC_OUT_DIR ${generated}
    IMPORT_DIRS ${CMAKE_CURRENT_SOURCE_DIR})
  protobuf_generate(TARGET ${target} LANGUAGE grpc PROTOC_OUT_DIR ${generated} IMPORT_DIRS ${CMAKE_CURRENT_SOURCE_DIR}
    GENERATE_EXTENSIONS .grpc.pb.h .grpc.pb.cc
    PLUGIN "protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin>")
  set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)  # Generated files have names in common.
endfunction()

function(quire_binary)
  cmake_parse_arguments(A "GLUE;FOR_TESTS" "NAME" "SRCS;DEPS;EXTERNAL" ${ARGN})
  if(A_FOR_TESTS AND NOT QUIRE_BUILD_TESTS)
    return()
  endif()
  add_executable(${A_NAME} ${A_SRCS})
  target_include_directories(${A_NAME} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  set_target_properties(${A_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  if(A_GLUE)
    target_compile_options(${A_NAME} PRIVATE ${QUIRE_GLUE_OPTIMISATION})
    _quire_precompile(${A_NAME} glue ${QUIRE_GLUE_OPTIMISATION})
  else()
    _quire_precompile(${A_NAME} core)
  endif()
  _quire_link(${A_NAME} DEPS ${A_DEPS} EXTERNAL ${A_EXTERNAL})
endfunction()

function(quire_test_library)
  cmake_parse_arguments(A "" "NAME" "SRCS;DEPS" ${ARGN})
  if(NOT QUIRE_BUILD_TESTS)
    return()
  endif()
  # Object files: a static library would leave out those that only register tests.
  add_library(quire_${A_NAME} OBJECT ${A_SRCS})
  _quire_compile_as_test(quire_${A_NAME})
  add_library(quire::${A_NAME} ALIAS quire_${A_NAME})
  set_property(GLOBAL PROPERTY QUIRE_LAYER_${A_NAME} ${QUIRE_LAYER})
  _quire_link(quire_${A_NAME} DEPS ${A_DEPS} EXTERNAL GTest::gmock)
endfunction()

# _quire_add_test(NAME ENVIRONMENT): a run of the program of the calling quire_test.
function(_quire_add_test name environment)
  add_test(NAME ${name} COMMAND ${A_NAME})
  set(processors 2)  # Out of twice the number of cores, which is how many places dev runs tests in.
  if(A_WAITS)
    set(processors 1)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${A_LABELS}" TIMEOUT ${A_TIMEOUT} PROCESSORS ${processors}
    ENVIRONMENT "ASAN_OPTIONS=handle_abort=1:quarantine_size_mb=64;TSAN_OPTIONS=ignore_noninstrumented_modules=1 halt_on_error=1 suppressions=${PROJECT_SOURCE_DIR}/cmake/tsan_suppressions.txt;LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/lsan_suppressions.txt:print_suppressions=0;OPENBLAS_NUM_THREADS=1;${environment}")
endfunction()

function(quire_test)
  cmake_parse_arguments(A "ONE_THREAD;WAITS" "NAME;TIMEOUT;SHARDS" "SRCS;DEPS;EXTERNAL;LABELS;STARTS" ${ARGN})
  if(NOT QUIRE_BUILD_TESTS OR (A_ONE_THREAD AND QUIRE_SANITIZE MATCHES "thread"))
    return()
  endif()
  if(NOT A_LABELS)
    set(A_LABELS unit)
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 300)
  endif()
  add_executable(${A_NAME} ${A_SRCS})
  set_target_properties(${A_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  _quire_compile_as_test(${A_NAME})
  _quire_link(${A_NAME} DEPS ${A_DEPS} EXTERNAL ${A_EXTERNAL} GTest::gmock GTest::gtest_main)
  if(A_STARTS)
    add_dependencies(${A_NAME} ${A_STARTS})
  endif()
  foreach(label ${A_LABELS})
    if(NOT TARGET ${label}_tests)
      add_custom_target(${label}_tests)
    endif()
    add_dependencies(${label}_tests ${A_NAME})
  endforeach()
  if(A_SHARDS)
    foreach(shard RANGE 1 ${A_SHARDS})
      math(EXPR index "${shard} - 1")
      _quire_add_test(${A_NAME}_${shard} "GTEST_TOTAL_SHARDS=${A_SHARDS};GTEST_SHARD_INDEX=${index}")
    endforeach()
  else()
    _quire_add_test(${A_NAME} "")
  endif()
endfunction()
