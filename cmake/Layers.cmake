# SPDX-License-Identifier: Apache-2.0
#
# Layers and the layers that each may see (ARCHITECTURE.md, "Layers"). A folder sets QUIRE_LAYER before it
# declares targets. quire_check_layer stops the configure step if a target names a forbidden layer.
set(QUIRE_SEES_common)
set(QUIRE_SEES_proto)
set(QUIRE_SEES_transport        common proto)
set(QUIRE_SEES_cluster          common proto transport)
set(QUIRE_SEES_kernels          common)
set(QUIRE_SEES_kvserver_store    common kernels)
set(QUIRE_SEES_kvserver_registry common kvserver_store)
set(QUIRE_SEES_kvserver_select   common kernels kvserver_store)
set(QUIRE_SEES_kvserver_session  common kernels kvserver_store kvserver_registry kvserver_select)
set(QUIRE_SEES_kvserver_service  common proto transport cluster kernels kvserver_store kvserver_registry kvserver_select kvserver_session)
set(QUIRE_SEES_client           common proto transport cluster kernels)
# The Python binding is a user of the client, and includes public headers alone.
set(QUIRE_SEES_python           common transport client)
set(QUIRE_SEES_gpuworker        common proto transport kernels client)
# `app` is what ships above the libraries: the embedded mode and the programs. It sees no benchmark and no test.
set(QUIRE_SEES_app              common proto transport cluster kernels kvserver_store kvserver_registry
                                kvserver_select kvserver_session kvserver_service client gpuworker)
set(QUIRE_SEES_bench            common proto transport cluster kernels kvserver_store kvserver_registry
                                kvserver_select kvserver_session kvserver_service client gpuworker app)
set(QUIRE_SEES_test             common proto transport cluster kernels kvserver_store kvserver_registry
                                kvserver_select kvserver_session kvserver_service client gpuworker app bench python)

function(quire_check_layer target dep)
  get_property(dep_layer GLOBAL PROPERTY QUIRE_LAYER_${dep})
  if(NOT dep_layer)
    message(FATAL_ERROR "${target}: unknown dependency '${dep}' (declare it first with quire_library)")
  endif()
  if(NOT QUIRE_LAYER STREQUAL dep_layer AND NOT dep_layer IN_LIST QUIRE_SEES_${QUIRE_LAYER})
    message(FATAL_ERROR "${target} (layer ${QUIRE_LAYER}) may not see ${dep} (layer ${dep_layer}); see cmake/Layers.cmake")
  endif()
endfunction()
