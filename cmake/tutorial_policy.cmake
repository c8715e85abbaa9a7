# SPDX-License-Identifier: Apache-2.0
#
# cmake -DTUTORIAL=FILE -DREGISTRY=FILE -DOUT=DIR -P tutorial_policy.cmake: extracts the code of
# docs/tutorials/add-a-policy.md to its stated places under DIR: recent.h, recent.cc, and a copy of
# policy.cc with its lines. The tutorial's code is thereby compiled and tested unchanged.
file(READ "${TUTORIAL}" text)

# Extracts the C++ that follows `introduction`, an exact piece of the tutorial's text.
function(take_block introduction out)
  string(FIND "${text}" "${introduction}\n\n```cpp\n" begin)
  if(begin EQUAL -1)
    message(FATAL_ERROR "${TUTORIAL} has no C++ behind '${introduction}'")
  endif()
  string(LENGTH "${introduction}\n\n```cpp\n" skipped)
  math(EXPR begin "${begin} + ${skipped}")
  string(SUBSTRING "${text}" ${begin} -1 block)
  string(FIND "${block}" "```" end)
  string(SUBSTRING "${block}" 0 ${end} block)
  set(${out} "${block}" PARENT_SCOPE)
endfunction()

# Inserts `addition` before the first occurrence of `mark` in ${registry}.
function(insert_before mark addition)
  string(FIND "${registry}" "${mark}" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "${REGISTRY} has no '${mark}', before which the tutorial's lines go")
  endif()
  string(SUBSTRING "${registry}" 0 ${place} before)
  string(SUBSTRING "${registry}" ${place} -1 after)
  set(registry "${before}${addition}${after}" PARENT_SCOPE)
endfunction()

take_block("`gpuworker/retrieval/policies/recent.h`:" header)
take_block("`gpuworker/retrieval/policies/recent.cc`:" source)
take_block("In `gpuworker/retrieval/policy.cc` one `#include`, and one line in `kPolicies`, which is sorted by name:" entry)
file(READ "${REGISTRY}" registry)
insert_before("#include \"gpuworker/retrieval/policies/shadowkv.h\"" "#include \"gpuworker/retrieval/policies/recent.h\"\n")
insert_before("    {ShadowKvPolicy::kName" "${entry}")

file(WRITE "${OUT}/gpuworker/retrieval/policies/recent.h" "${header}")
file(WRITE "${OUT}/gpuworker/retrieval/policies/recent.cc" "${source}")
file(WRITE "${OUT}/gpuworker/retrieval/policy.cc" "${registry}")
