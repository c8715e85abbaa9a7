// SPDX-License-Identifier: Apache-2.0
//
// A strict parser of Prometheus' text format 0.0.4 as this server writes it. Every line must be
// valid, every family complete and in order, and no series repeated. Only tests use it.
#ifndef QUIRE_COMMON_METRICS_TESTING_PROMETHEUS_PARSER_H_
#define QUIRE_COMMON_METRICS_TESTING_PROMETHEUS_PARSER_H_

#include <cmath>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace quire::testing {

struct PrometheusSample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;
};

struct PrometheusFamily {
  std::string name, help, type;
  std::vector<PrometheusSample> samples;
};

class PrometheusParser {
 public:
  /// INVALID_ARGUMENT naming the first invalid line.
  static StatusOr<std::map<std::string, PrometheusFamily>> Parse(const std::string& text) {
    PrometheusParser parser;
    if (text.empty() || text.back() != '\n') return InvalidArgument("no newline at the end");
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (const std::string problem = parser.Take(line); !problem.empty()) {
        return InvalidArgument(problem, " in: ", line);
      }
    }
    for (const auto& [name, family] : parser.families_) {
      if (const std::string problem = Check(family); !problem.empty()) {
        return InvalidArgument(problem, " in family ", name);
      }
    }
    return parser.families_;
  }

 private:
  static bool IsName(const std::string& text, bool colons) {
    if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0]))) return false;
    for (const char c : text) {
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && !(colons && c == ':')) {
        return false;
      }
    }
    return true;
  }

  /// Parses a line. Returns an error text; empty when there is none.
  std::string Take(const std::string& line) {
    if (line.starts_with("# HELP ")) return TakeHelp(line.substr(7));
    if (line.starts_with("# TYPE ")) return TakeType(line.substr(7));
    if (line.starts_with('#') || line.empty()) return "neither HELP nor TYPE nor a sample";
    return TakeSample(line);
  }
  std::string TakeHelp(const std::string& rest) {
    const size_t space = rest.find(' ');
    if (space == std::string::npos || space + 1 == rest.size()) return "no help text";
    const std::string name = rest.substr(0, space);
    if (!IsName(name, true)) return "bad name";
    if (families_.contains(name)) return "a family twice";
    if (!current_.empty() && name <= current_) return "families are not sorted";
    current_ = name;
    families_[name] = {.name = name, .help = rest.substr(space + 1), .type = "", .samples = {}};
    return "";
  }
  std::string TakeType(const std::string& rest) {
    PrometheusFamily& family = families_[current_];
    if (!rest.starts_with(current_ + " ") || !family.type.empty()) return "TYPE without its HELP";
    family.type = rest.substr(current_.size() + 1);
    if (family.type != "counter" && family.type != "gauge" && family.type != "histogram") {
      return "unknown type";
    }
    return "";
  }
  std::string TakeSample(const std::string& line) {
    PrometheusSample sample;
    size_t at = line.find_first_of("{ ");
    if (at == std::string::npos) return "no value";
    sample.name = line.substr(0, at);
    if (!IsName(sample.name, true)) return "bad name";
    if (line[at] == '{') {
      if (const std::string problem = TakeLabels(line, &at, &sample); !problem.empty()) {
        return problem;
      }
    }
    if (at >= line.size() || line[at] != ' ') return "no space before the value";
    char* end = nullptr;
    sample.value = std::strtod(line.c_str() + at + 1, &end);
    if (end == line.c_str() + at + 1 || *end != '\0') return "bad value";
    PrometheusFamily& family = families_[current_];
    if (family.type.empty()) return "a sample before its TYPE";
    const bool histogram = family.type == "histogram";
    const bool own = !histogram ? sample.name == current_
                                : sample.name == current_ + "_bucket" ||
                                      sample.name == current_ + "_sum" ||
                                      sample.name == current_ + "_count";
    if (!own) return "a sample of another family";
    for (const PrometheusSample& other : family.samples) {
      if (other.name == sample.name && other.labels == sample.labels) return "a series twice";
    }
    family.samples.push_back(std::move(sample));
    return "";
  }
  /// Parses labels from the '{' at `*at`; leaves it after the '}'.
  static std::string TakeLabels(const std::string& line, size_t* at, PrometheusSample* sample) {
    for (size_t i = *at + 1; i < line.size();) {
      const size_t equals = line.find("=\"", i);
      if (equals == std::string::npos) return "a label without a value";
      const std::string name = line.substr(i, equals - i);
      if (!IsName(name, false)) return "bad label name";
      std::string value;
      for (i = equals + 2; i < line.size() && line[i] != '"'; ++i) {
        const bool escaped = line[i] == '\\';
        if (escaped && ++i == line.size()) break;
        if (escaped && line[i] != '\\' && line[i] != '"' && line[i] != 'n') return "unknown escape";
        value.push_back(escaped && line[i] == 'n' ? '\n' : line[i]);
      }
      if (i + 1 >= line.size()) return "a value without its end";
      if (!sample->labels.emplace(name, value).second) return "a label twice";
      ++i;
      if (line[i] == '}') {
        *at = i + 1;
        return "";
      }
      if (line[i] != ',') return "no comma between labels";
      ++i;
    }
    return "labels without their end";
  }

  static std::string Check(const PrometheusFamily& family) {
    if (family.type.empty() || family.samples.empty()) return "no type or no samples";
    const bool counter = family.type == "counter";
    if (counter != family.name.ends_with("_total")) return "counters, and no others, end in _total";
    return family.type == "histogram" ? CheckHistogram(family) : "";
  }
  /// Checks that the buckets of a series are together, followed by its sum and count.
  static std::string CheckHistogram(const PrometheusFamily& family) {
    double bound = -1, count = 0;
    for (const PrometheusSample& sample : family.samples) {
      if (sample.name.ends_with("_bucket")) {
        if (!sample.labels.contains("le")) return "a bucket without le";
        const double le = std::strtod(sample.labels.at("le").c_str(), nullptr);
        if (le <= bound || sample.value < count) return "buckets are not cumulative";
        bound = le;
        count = sample.value;
      } else if (sample.name.ends_with("_count")) {
        if (!std::isinf(bound) || sample.value != count) return "count is not the +Inf bucket";
        bound = -1;
        count = 0;
      }
    }
    return bound == -1 ? "" : "a histogram without its count";
  }

  std::map<std::string, PrometheusFamily> families_;
  std::string current_;
};

}  // namespace quire::testing

#endif  // QUIRE_COMMON_METRICS_TESTING_PROMETHEUS_PARSER_H_
