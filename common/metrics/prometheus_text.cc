// SPDX-License-Identifier: Apache-2.0
#include "common/metrics/prometheus_text.h"

#include <charconv>
#include <string_view>

namespace quire {
namespace {

constexpr uint32_t kFirstBoundBits = 8;
constexpr uint32_t kLastBoundBits = 35;

std::string_view TypeName(MetricKind kind) {
  switch (kind) {
    case MetricKind::kCounter:
      return "counter";
    case MetricKind::kGauge:
      return "gauge";
    case MetricKind::kHistogram:
      return "histogram";
  }
  return "untyped";
}

std::string Escaped(std::string_view text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || (quotes && c == '"')) out.push_back('\\');
    if (c == '\n') {
      out += "\\n";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

/// `a="x",b="y"`, without braces.
std::string Labels(std::span<const MetricLabel> labels) {
  std::string out;
  for (const MetricLabel& label : labels) {
    if (!out.empty()) out.push_back(',');
    out.append(label.name).append("=\"").append(Escaped(label.value, true)).append("\"");
  }
  return out;
}

std::string Line(const std::string& name, const std::string& labels, const std::string& value) {
  return name + (labels.empty() ? "" : "{" + labels + "}") + " " + value + "\n";
}

/// Shortest text that parses to the same number.
std::string Seconds(uint64_t nanos) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, static_cast<double>(nanos) / 1e9).ptr;
  return {text, end};
}

}  // namespace

PrometheusText::Family& PrometheusText::FamilyOf(const Metric& metric, const std::string& name) {
  Family& family = families_[name];
  family.kind = metric.kind;
  family.help = metric.help;
  return family;
}

void PrometheusText::OnValue(const Metric& metric, uint64_t value) {
  std::string name = "quire_" + std::string(metric.name);
  if (metric.kind == MetricKind::kCounter) name += "_total";
  const std::string labels = Labels(metric.labels);
  FamilyOf(metric, name).series[labels] = Line(name, labels, std::to_string(value));
}

void PrometheusText::OnHistogram(const Metric& metric, const LatencyHistogram::Snapshot& snapshot) {
  const std::string name = "quire_" + std::string(metric.name);
  const std::string labels = Labels(metric.labels);
  const std::string comma = labels.empty() ? "" : ",";
  std::string lines;
  const auto add_bucket = [&](const std::string& bound, uint64_t count) {
    lines += Line(name + "_bucket", labels + comma + "le=\"" + bound + "\"", std::to_string(count));
  };
  for (uint32_t bits = kFirstBoundBits; bits <= kLastBoundBits; ++bits) {
    const uint64_t bound = uint64_t{1} << bits;
    add_bucket(Seconds(bound), snapshot.CountUpTo(bound));
  }
  add_bucket("+Inf", snapshot.count());
  lines += Line(name + "_sum", labels, Seconds(snapshot.sum_nanos));
  lines += Line(name + "_count", labels, std::to_string(snapshot.count()));
  FamilyOf(metric, name).series[labels] = std::move(lines);
}

std::string PrometheusText::Text() const {
  std::string text;
  for (const auto& [name, family] : families_) {
    text += "# HELP " + name + " " + Escaped(family.help, false) + "\n";
    text += "# TYPE " + name + " " + std::string(TypeName(family.kind)) + "\n";
    for (const auto& [labels, lines] : family.series) text += lines;
  }
  return text;
}

}  // namespace quire
