// SPDX-License-Identifier: Apache-2.0
#include "apps/quire/docs/add_report.h"

#include "apps/kit/output/json_output.h"
#include "apps/kit/output/table.h"
#include "apps/kit/target.h"

namespace quire::cli {
namespace {

Json AddedJson(const std::vector<worker::IngestedDocument>& documents) {
  Json json = Json::array();
  for (const worker::IngestedDocument& one : documents) {
    Json document = ToJson(one.document);
    document["reused_tokens"] = one.reused_tokens;
    document["bytes_sent"] = one.bytes_sent;
    document["warning"] = one.warning;
    json.push_back(std::move(document));
  }
  return json;
}

Json ReportJson(const AddReport& report) {
  Json json;
  json["added"] = AddedJson(report.added);
  json["unchanged"] = AddedJson(report.unchanged);
  json["refused"] = Json::array();
  for (const RefusedFile& file : report.refused) {
    json["refused"].push_back({{"path", file.path},
                               {"code", Name(file.reason.code())},
                               {"message", std::string(Message(file.reason))}});
  }
  json["pruned"] = report.pruned;
  json["left"] = report.left;
  json["seconds"] = report.seconds;
  if (!report.ended.ok()) json["error"] = ToJson(report.ended)["error"];
  return json;
}

void PrintTable(const AddReport& report, std::ostream& out) {
  if (report.added.empty()) return;
  Table table({{"DOCUMENT"},
               {"TOKENS", Table::kRight},
               {"REUSED", Table::kRight},
               {"SENT", Table::kRight}});
  for (const worker::IngestedDocument& one : report.added) {
    table.AddRow({FormatName(one.document.name), FormatCount(one.document.num_tokens),
                  FormatCount(one.reused_tokens), FormatBytes(one.bytes_sent)});
  }
  table.Print(out);
}

void PrintRemarks(const AddReport& report, std::ostream& err) {
  for (const worker::IngestedDocument& one : report.added) {
    if (one.warning.empty()) continue;
    err << "warning: " << FormatName(one.document.name) << ": " << one.warning << '\n';
  }
  for (const RefusedFile& file : report.refused) {
    err << "refused: " << file.path << ": " << Message(file.reason) << '\n';
  }
}

Status Outcome(const AddReport& report) {
  if (report.ended.code() == StatusCode::kCancelled) {
    return Annotate(report.ended, "stopped with ", report.left,
                    " files left; the same command goes on from here");
  }
  QUIRE_RETURN_IF_ERROR(report.ended);
  if (report.refused.empty()) return OkStatus();
  return InvalidArgument(report.refused.size(), " of the files were refused");
}

}  // namespace

Status PrintReport(const AddReport& report, const CommandContext& context) {
  if (context.options.json) {
    PrintJsonLine(context.out, ReportJson(report));
  } else {
    PrintTable(report, context.out);
    context.out << "added " << report.added.size() << ", unchanged " << report.unchanged.size()
                << ", refused " << report.refused.size() << ", pruned " << report.pruned.size()
                << '\n';
  }
  PrintRemarks(report, context.err);
  const Status outcome = Outcome(report);
  return outcome.ok() ? outcome : Reported(outcome);
}

}  // namespace quire::cli
