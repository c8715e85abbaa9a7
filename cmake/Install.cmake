# SPDX-License-Identifier: Apache-2.0
#
# quire_install(NAME): installs a library of ours with all that it links, their public headers, the CMake package
# `quire` (find_package(quire), target quire::NAME) and quire.pc, as the component `client`:
#   cmake --install BUILD --component client --prefix PREFIX
# The libraries are archives; a program that links them links gRPC and the rest as find_package or pkg-config find them.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# _quire_link_order(NAME RESULT): NAME and what it links, each before what it links itself.
function(_quire_link_order name result)
  set(seen ${${result}})
  if(NOT name IN_LIST seen)
    get_property(deps GLOBAL PROPERTY QUIRE_DEPS_${name})
    foreach(dep IN LISTS deps)
      _quire_link_order(${dep} seen)
    endforeach()
    list(PREPEND seen ${name})
  endif()
  set(${result} ${seen} PARENT_SCOPE)
endfunction()

function(quire_install name)
  set(names)
  _quire_link_order(${name} names)
  set(targets ${names})
  list(TRANSFORM targets PREPEND quire_)
  install(TARGETS ${targets} EXPORT quire-targets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT client
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT client
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/quire)
  set(made ${CMAKE_CURRENT_BINARY_DIR}/package)
  install(EXPORT quire-targets NAMESPACE quire:: DESTINATION ${package} COMPONENT client)
  configure_package_config_file(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/quire-config.cmake.in ${made}/quire-config.cmake
    INSTALL_DESTINATION ${package} NO_SET_AND_CHECK_MACRO)
  write_basic_package_version_file(${made}/quire-config-version.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${made}/quire-config.cmake ${made}/quire-config-version.cmake DESTINATION ${package} COMPONENT client)

  list(TRANSFORM targets PREPEND -l OUTPUT_VARIABLE libraries)
  list(JOIN libraries " " QUIRE_PC_LIBRARIES)
  set(QUIRE_PC_UCX)
  if(QUIRE_HAVE_UCX)
    set(QUIRE_PC_UCX ", ucx")
  endif()
  file(RELATIVE_PATH QUIRE_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  configure_file(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/quire.pc.in ${made}/quire.pc @ONLY)
  install(FILES ${made}/quire.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT client)
endfunction()
