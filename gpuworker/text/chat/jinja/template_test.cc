// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/chat/jinja/template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace quire::worker::jinja {
namespace {

using ::testing::HasSubstr;

StatusOr<std::string> Render(const std::string& text, const Limits& limits = {}) {
  const auto parsed = Template::Parse(text);
  QUIRE_RETURN_IF_ERROR(parsed.status());
  return parsed->Render({}, /*now_seconds=*/86'400, limits);
}

void ExpectError(const std::string& text, const std::string& message) {
  const auto rendered = Render(text);
  EXPECT_EQ(rendered.status().code(), StatusCode::kInvalidArgument) << text;
  EXPECT_THAT(std::string(rendered.status().message()), HasSubstr(message)) << text;
}

// The test chat_template_test.cc compares templates and their meaning with Jinja.

TEST(TemplateTest, AnErrorNamesLineAndColumn) {
  ExpectError("a\n b {{ x | sort }}", "line 2, column 11: the filter 'sort' is not known");
  ExpectError("é {{ 1 is odd }}", "line 1, column 11: the test 'odd' is not known");
  ExpectError("{% include 'x' %}", "line 1, column 4: the block 'include' is not known here");
  ExpectError("\n{% if 1 %}\n", "line 2, column 4: this block does not end in {% endif %}");
  ExpectError("{{ 1", "line 1, column 1: this tag does not end in }}");
  ExpectError("{# x", "line 1, column 1: this comment does not end in #}");
  ExpectError("{{ 'x }}", "line 1, column 4: this string does not end");
  ExpectError("{{ '\\q' }}", "line 1, column 5: the escape \\q is not known");
  ExpectError("{{ '\\u12' }}", "\\u needs 4 digits of a character");
  ExpectError("{{ 1 ^ 2 }}", "line 1, column 6: '^' is not known in a tag");
  ExpectError("{{ 1 < 2 < 3 }}", "line 1, column 10: a comparison of a comparison");
  ExpectError("{{ 99999999999999999999 }}", "is past 64 bits");
  ExpectError("{{ (1 }}", "this tag does not end in }}");
  ExpectError("{{ }}", "line 1, column 4: an expression is missing before '}}'");
  ExpectError("{% endfor %}", "line 1, column 4: the block 'endfor' is not known here");
  ExpectError("\xFF", "byte 0: not UTF-8");
}

TEST(TemplateTest, AnErrorOfRenderingNamesItsPlace) {
  ExpectError("ab\n{{ x.y }}", "line 2, column 6: 'y' of an undefined value");
  ExpectError("{{ 1 +\n 'a' }}", "line 1, column 6: cannot compute an integer + text");
  ExpectError("{% set x.y = 1 %}", "line 1, column 4: 'x' is undefined, not a namespace");
  ExpectError("{% for a, b in [1] %}{% endfor %}", "line 1, column 4: an integer has no items");
  ExpectError("{{ raise_exception('turns ' ~ 2) }}",
              "line 1, column 19: the template refuses: turns 2");
  ExpectError("{{ 'x'.format(1) }}", "text has no method 'format' here");
  ExpectError("{{ 'x'(1) }}", "a call of text, where a function is needed");
  ExpectError("{{ [1] | map('upper') }}", "map() is known with attribute='NAME' only");
  ExpectError("{{ range(1, 2, 0) }}", "the step of a range() is 0");
  ExpectError("{{ (9223372036854775807 + 1) }}", "a number grows past 64 bits");
}

TEST(TemplateTest, TheTimeIsTheOneGiven) {
  EXPECT_EQ(*Render("{{ strftime_now('%d %b %Y') }}"), "02 Jan 1970");
}

TEST(TemplateTest, WhatATemplateMayDoIsBounded) {
  const auto expect_exhausted = [](const std::string& text, const std::string& message) {
    const auto rendered = Render(text, {.steps = 100'000, .bytes = 1 << 16});
    EXPECT_EQ(rendered.status().code(), StatusCode::kResourceExhausted) << text;
    EXPECT_THAT(std::string(rendered.status().message()), HasSubstr(message)) << text;
  };
  const std::string loop = "{% for a in range(9999) %}";
  expect_exhausted(loop + loop + "{% endfor %}{% endfor %}", "more than 100000 steps");
  expect_exhausted("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nests too deep");
  expect_exhausted(
      "{% set n = namespace(x='ab') %}" + loop + "{% set n.x = n.x ~ n.x %}{% endfor %}",
      "grows too large");
  expect_exhausted("{% set n = namespace(x=[]) %}" + loop + "{% set n.x = [n.x] %}{% endfor %}",
                   "grows too large");
  expect_exhausted(
      "{% set n = namespace(x=[1]) %}" + loop + "{% set n.x = [n.x, n.x] %}{% endfor %}",
      "grows too large");
  expect_exhausted(loop + std::string(1000, 'x') + "{% endfor %}", "prints more than");
  expect_exhausted("{{ range(99999999) }}", "more than 65536 numbers");
}

TEST(TemplateTest, WhatATemplateMayNestIsBounded) {
  const auto repeated = [](const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  };
  ExpectError("{{ " + repeated("(", 60) + "1" + repeated(")", 60) + " }}", "brackets nest more");
  ExpectError(repeated("{% if 1 %}", 40) + repeated("{% endif %}", 40), "blocks nest more");
  ExpectError("{{ 1" + repeated("+1", 600) + " }}", "a tag has more than 1000 words");
}

TEST(TemplateTest, LineEndsAreReadAsJinjaReadsThem) {
  EXPECT_EQ(*Render("a\r\nb\rc\n"), "a\nb\nc");
  EXPECT_EQ(*Render(""), "");
}

}  // namespace
}  // namespace quire::worker::jinja
