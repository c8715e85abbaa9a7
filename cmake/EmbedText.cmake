# SPDX-License-Identifier: Apache-2.0
#
# cmake -DFROM=FILE -DTO=HEADER -DFUNCTION=NAME -P EmbedText.cmake: makes a header with a function that returns a
# text file. Compilers bound the length of one literal, so lines are literals of their own.
file(STRINGS ${FROM} ignored LIMIT_COUNT 1)  # Fails without the file.
file(READ ${FROM} text)
# Parts of at most 8 KiB, cut after lines.
set(parts "")
string(LENGTH "${text}" length)
set(begin 0)
while(begin LESS length)
  string(SUBSTRING "${text}" ${begin} 8192 part)
  math(EXPR end "${begin} + 8192")
  if(end LESS length)
    string(FIND "${part}" "\n" newline REVERSE)
    math(EXPR size "${newline} + 1")
    string(SUBSTRING "${part}" 0 ${size} part)
  endif()
  string(LENGTH "${part}" size)
  math(EXPR begin "${begin} + ${size}")
  string(APPEND parts "  text += R\"~~~(${part})~~~\";\n")
endwhile()
file(WRITE ${TO} "// Made of ${FROM}.
#pragma once
#include <string>

namespace quire::kvserver {

inline std::string ${FUNCTION}() {
  std::string text;
${parts}  return text;
}

}  // namespace quire::kvserver
")
