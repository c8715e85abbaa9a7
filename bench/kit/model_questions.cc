// SPDX-License-Identifier: Apache-2.0
#include "bench/kit/model_questions.h"

#include <algorithm>

namespace quire::bench {
Status VisitQuestions(const std::string& model_directory, uint32_t questions,
                      const std::function<Status(const cli::DemoDocument&,
                                                 std::span<const cli::DemoQuestion>)>& visit) {
  QUIRE_ASSIGN_OR_RETURN(const cli::DemoCorpus corpus,
                         cli::LoadDemoCorpus(model_directory + "/documents"));
  const size_t count = std::min<size_t>(questions, corpus.questions.size());
  const std::span<const cli::DemoQuestion> asked = std::span(corpus.questions).first(count);
  for (size_t first = 0; first < count;) {
    const size_t document = asked[first].document;
    size_t end = first;
    while (end < count && asked[end].document == document) ++end;
    QUIRE_RETURN_IF_ERROR(visit(corpus.documents[document], asked.subspan(first, end - first)));
    first = end;
  }
  return OkStatus();
}

}  // namespace quire::bench
