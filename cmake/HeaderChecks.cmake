# SPDX-License-Identifier: Apache-2.0
#
# header_checks: compiles each product header by itself, so that one which lacks an include fails. `./dev lint` builds
# it. Left out are headers of tests and of CUDA code, and what is included several times with other meanings.
set(folders include common transport cluster kernels kvserver client gpuworker apps bench)
if(TARGET quire_python)
  list(APPEND folders python)
endif()
list(TRANSFORM folders APPEND "/*.h" OUTPUT_VARIABLE patterns)
file(GLOB_RECURSE headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${patterns})
list(FILTER headers EXCLUDE REGEX "/testing/|^kernels/(cuda|simt)/|-inl\\.h$")

set(sources)
foreach(header IN LISTS headers)
  set(source ${PROJECT_BINARY_DIR}/header_checks/${header}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${PROJECT_SOURCE_DIR}/${header}\"\n")
  list(APPEND sources ${source})
endforeach()
add_library(header_checks OBJECT EXCLUDE_FROM_ALL ${sources})
set_target_properties(header_checks PROPERTIES UNITY_BUILD OFF)
target_include_directories(header_checks PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include
  ${PROJECT_BINARY_DIR}/gen)
target_link_libraries(header_checks PRIVATE quire::proto quire::view_proto quire::etcd_proto)
if(TARGET quire_python)
  target_include_directories(header_checks SYSTEM PRIVATE $<TARGET_PROPERTY:quire_python,INCLUDE_DIRECTORIES>)
endif()
set(QUIRE_LAYER apps)
_quire_precompile(header_checks core)
